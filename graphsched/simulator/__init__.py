"""The simulator: from a plan to the timeline that is expected of it."""

from graphsched.simulator.model import Model
from graphsched.simulator.predict import predict

__all__ = ["Model", "predict"]
