"""Cases and experiments."""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import Any

from graphsched.cases.loading import import_paths
from graphsched.cases.parameters import Parameter, read_signature, read_values
from graphsched.errors import ExperimentError, GraphschedError, error_text
from graphsched.plan import MODES, Plan
from graphsched.platform import Platform
from graphsched.workload import Workload

_FIELDS: tuple[tuple[str, Any, str], ...] = (
    ("work", Workload, "a gs.Workload"),
    ("scheduler", str, "the name of a scheduler"),
    ("options", Mapping, "a dict of a scheduler's options"),
    ("baseline", Callable, "a function without arguments"),
    ("reported_s", Real, "a number of seconds"),
    ("metrics", Callable, "a function without arguments"),
    ("on_ranks", Callable, "a function of the plan"),
    ("group", str, "a text"),
)
"""Types of a case's fields, and what to say of another."""

_HALF = re.compile("[\ud800-\udfff]")  # a surrogate, which no UTF-8 has


@dataclass(frozen=True, eq=False)
class Case:
    """One labelled measurement of an experiment: a workload under a scheduler, or a baseline.

    Attributes:
        label: What a reader must know, the number of devices included ("data parallel, 4 GPUs").
        work: What is scheduled, predicted and run; None for a baseline.
        scheduler: Name of the scheduler.
        options: Its options.
        mode: ``eager``, ``graph`` or ``distributed``; None: the mode that is asked for.
        baseline: Code of others (plain PyTorch, DDP) without arguments, timed beside ours; it has no
            prediction and the mode ``baseline``.
        reported_s: The figure that the source printed, in seconds.
        metrics: Called by a real run only: further measured figures, the unit in each name.
        on_ranks: The same in mode ``distributed``, called by every rank with the plan; rank 0's figures are kept.
        group: Name of what this and other cases do in different ways: the fastest of them is named.
        optional: Whether it is left out with a note whatever keeps it from being planned, instead of ending the request
            where that is no failure of the scheduler: an unknown name or option, the platform, costs.

    Raises:
        ExperimentError: It has neither or both of `work` and `baseline`, an empty label or an unknown mode, or a field
            is of another type; the figure of the source is negative or not finite; a text cannot be written as UTF-8.
    """

    label: str
    work: Workload | None = None
    _: KW_ONLY
    scheduler: str = "heft"
    options: Mapping[str, Any] = field(default_factory=dict)
    mode: str | None = None
    baseline: Callable[[], Any] | None = None
    reported_s: float | None = None
    metrics: Callable[[], Mapping[str, float]] | None = None
    on_ranks: Callable[[Plan], Mapping[str, float]] | None = None
    group: str = ""
    optional: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.label, str) or not self.label.strip():
            raise ExperimentError(f"a case needs a label that says what a reader must know, got {self.label!r}")
        if (self.work is None) == (self.baseline is None):
            found = "neither" if self.work is None else "both"
            raise ExperimentError(f"case {self.label!r} has {found} of work and baseline: give one of them")
        self._check_types()
        if self.baseline is not None:
            if self.mode not in (None, "baseline"):
                raise ExperimentError(f"case {self.label!r} is a baseline and cannot have mode {self.mode!r}")
            object.__setattr__(self, "mode", "baseline")
        elif self.mode not in (None, *MODES):
            raise ExperimentError(f"case {self.label!r} has mode {self.mode!r}: one of {', '.join(MODES)}")

    def _check_types(self) -> None:
        for name, needed, words in _FIELDS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, needed):
                raise ExperimentError(f"case {self.label!r} has {name} {value!r}: {words} is needed")
        for name in ("label", "scheduler", "group"):
            if half := _HALF.search(getattr(self, name) or ""):
                text = f"case {self.label!r} has {half[0]!r} in its {name}"
                raise ExperimentError(f"{text}, half of a character, which no file takes: leave it out")
        if self.reported_s is not None:
            object.__setattr__(self, "reported_s", float(self.reported_s))
            if not 0 <= self.reported_s < math.inf:
                raise ExperimentError(
                    f"case {self.label!r} has reported_s {self.reported_s!r}: seconds, 0 or more, are needed"
                )

    @property
    def is_baseline(self) -> bool:
        """Whether code of others is timed instead of a plan."""
        return self.baseline is not None

    @property
    def key(self) -> tuple[str, str | None, str | None]:
        """What a recorded run knows it by; the scheduler of a baseline is nobody's."""
        return (self.label, None if self.is_baseline else self.scheduler, self.mode)

    def in_mode(self, mode: str) -> Case:
        """This case in `mode`, unless it has a mode of its own."""
        return self if self.mode is not None else replace(self, mode=mode)


@dataclass(frozen=True, eq=False)
class Experiment:
    """A Python function that yields cases; made by `experiment`.

    Attributes:
        name: The function's.
        function: Called with the platform and the parameters.
        source: Where the system and its figures come from.
        needs: What it needs to be worth running ("2 GPUs"); empty: nothing.
        title: First line of the docstring.
        parameters: From the signature.
        path: The file that it was read from, if any.
        pictures: Draws the platform into a folder and returns the files written; called once a run.
    """

    name: str
    function: Callable[..., Iterable[Case]]
    source: str = ""
    needs: str = ""
    title: str = ""
    parameters: tuple[Parameter, ...] = ()
    path: Path | None = None
    pictures: Callable[[Platform, Path], Iterable[Path]] | None = None

    def __call__(self, platform: Platform, *args: Any, **params: Any) -> Iterable[Case]:
        return self.function(platform, *args, **params)

    def values(self, **params: Any) -> dict[str, Any]:
        """Values of all parameters: those given (as text or values), else defaults.

        Raises:
            ExperimentError: A parameter does not exist or is of the wrong type.
        """
        return read_values(f"experiment {self.name!r}", self.parameters, params)

    def cases(self, platform: Platform, **params: Any) -> list[Case]:
        """The cases of this experiment on `platform`.

        Raises:
            ExperimentError: A parameter is wrong, the experiment's code fails, or two cases of one
                scheduler and mode bear the same label.
        """
        values = self.values(**params)
        cases: list[Case] = []
        seen: set[tuple[str, str | None, str | None]] = set()
        for case in self._call(platform, values):
            check_new(self.name, case, seen)
            cases.append(case)
        if not cases:
            here = platform.accelerators()
            raise ExperimentError(
                f"experiment {self.name!r} yields no case with {values} on platform {platform.name!r}, which has "
                f"{len(here)} device{'s' * (len(here) != 1)} besides the host: ask for what is there with -p, or name "
                "another platform with --platform"
            )
        return cases

    def _call(self, platform: Platform, values: Mapping[str, Any]) -> Iterator[Case]:
        try:
            with import_paths(self.path):
                for case in self.function(platform, **values):
                    if not isinstance(case, Case):
                        raise ExperimentError(f"experiment {self.name!r} yields {case!r}: gs.Case(...) is needed")
                    yield case
        except (GraphschedError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # a script's own ``exit`` too, and what ends the loops of frameworks
            where = _line_in(self.function, error)
            raise ExperimentError(f"experiment {self.name!r}{where}: {error_text(error)}") from error


def check_new(experiment: str, case: Case, seen: set[tuple[str, str | None, str | None]]) -> None:
    """Put the key of `case` among those `seen`, so that no case takes the place of another in a recorded run.

    Raises:
        ExperimentError: It is there.
    """
    if case.key in seen:
        label, scheduler, mode = case.key
        way = ("" if scheduler is None else f" with scheduler {scheduler!r}") + (f" in {mode} mode" if mode else "")
        raise ExperimentError(f"experiment {experiment!r} has two cases {label!r}{way}: labels must differ")
    seen.add(case.key)


def _line_in(function: Callable[..., Any], error: BaseException) -> str:
    file = function.__code__.co_filename if hasattr(function, "__code__") else ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f" ({file}:{lines[-1]})" if lines else ""


def experiment(
    *, source: str = "", needs: str = "", pictures: Callable[[Platform, Path], Iterable[Path]] | None = None
) -> Callable[[Callable[..., Iterable[Case]]], Experiment]:
    """Make a generator function ``(platform, **parameters) -> cases`` an experiment.

    Args:
        source: Where the system and its figures come from ("d2l.ai 12.3.2").
        needs: What it needs to be worth running ("2 GPUs").
        pictures: Draws the platform into a folder and returns the files written; called once a run.

    Raises:
        ExperimentError: A parameter has no default, or a type that the command line cannot give.

    Example:
        >>> @experiment(source="d2l.ai 12.3.1")
        ... def nothing(platform, size: int = 4, lanes: tuple[int, ...] = (1, 2)):
        ...     '''Do nothing.'''
        ...     yield Case("idle", baseline=lambda: None)
        >>> nothing.title, [str(p) for p in nothing.parameters]
        ('Do nothing.', ['size=4', 'lanes=1,2'])
        >>> nothing.values(lanes="4")
        {'size': 4, 'lanes': (4,)}
    """

    def decorate(function: Callable[..., Iterable[Case]]) -> Experiment:
        title = (function.__doc__ or "").strip().partition("\n")[0]
        parameters = read_signature(function)
        return Experiment(function.__name__, function, source, needs, title, parameters, pictures=pictures)

    return decorate
