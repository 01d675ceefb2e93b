"""Timelines that explain themselves: critical path, lower bounds, use of lanes, why two actions did not overlap."""

from graphsched.explanation.actions import ActionReport, Beside
from graphsched.explanation.limits import Limit
from graphsched.explanation.losses import Loss
from graphsched.explanation.pairs import WhyNot, why_not
from graphsched.explanation.path import Step
from graphsched.explanation.report import Explanation, explain
from graphsched.explanation.starts import Cause
from graphsched.explanation.usage import Use

__all__ = [
    "ActionReport",
    "Beside",
    "Cause",
    "Explanation",
    "Limit",
    "Loss",
    "Step",
    "Use",
    "WhyNot",
    "explain",
    "why_not",
]
