"""Experiments: Python functions that yield labelled cases, found the way pytest finds tests."""

from graphsched.cases.discovery import Found, discover, find, load_file
from graphsched.cases.experiments import Case, Experiment, experiment
from graphsched.cases.parameters import Parameter

__all__ = ["Case", "Experiment", "Found", "Parameter", "discover", "experiment", "find", "load_file"]
