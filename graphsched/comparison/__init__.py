"""Two timelines of one plan, side by side: how far prediction and measurement are apart, where, and why.

::

    model ─▶ bound          what most of the critical path runs through
          ─▶ attribution    the error, class by class
          ─▶ span_ends      where spans end, the stamps behind them left out
          ─▶ text           the table of all of it
"""

from graphsched.comparison.attribution import Attribution, Part, attribute
from graphsched.comparison.bound import GPU_SHARE, Bound
from graphsched.comparison.errors import NOISY_SPREAD, noisy
from graphsched.comparison.model import Comparison, Row, check_same_plan, compare

__all__ = [
    "GPU_SHARE",
    "NOISY_SPREAD",
    "Attribution",
    "Bound",
    "Comparison",
    "Part",
    "Row",
    "attribute",
    "check_same_plan",
    "compare",
    "noisy",
]
