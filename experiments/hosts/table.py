"""The table of docs/multi-machine.md: every network measured, `multi_machine` predicted and run on it, and the errors::

    python -m experiments.hosts.table --out build/multi-machine
    python -m experiments.hosts.table --out build/multi-machine --only 1gbit-1ms --repeats 11

takes some twenty minutes on two cores that nothing else uses; what else runs shows in the load, the average number of
processes that compute or wait for a core over the last minute (the ranks themselves are among them). A network that
fails is told and left out, and the exit code is then 1. What was recorded stays in the folder.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphsched.errors import GraphschedError
from graphsched.files import check_folder
from graphsched.quantities import seconds_text
from graphsched.records import CaseRecord, load_run

EXPERIMENT, MBYTES, REPEATS = "multi_machine", 30, 5


@dataclass(frozen=True)
class Row:
    """A network and who works on it.

    Attributes:
        ranks: Of each host.
        gbit, delay_ms: Of the network.
        machines: Hosts that work; the others may serve.
    """

    ranks: tuple[int, ...]
    gbit: float
    delay_ms: float
    machines: int

    def __str__(self) -> str:
        """What `--only` knows it by.

        Example:
            >>> str(Row((2, 2, 1, 1), 1, 0.1, 2))
            '1gbit-0.1ms-2x2'
        """
        return f"{self.gbit:g}gbit-{self.delay_ms:g}ms-{self.machines}x{self.ranks[0]}"

    def network(self) -> tuple[str, ...]:
        """As arguments of ``experiments.hosts``."""
        ranks = ",".join(map(str, self.ranks))
        return "--ranks", ranks, "--gbit", f"{self.gbit:g}", "--delay-ms", f"{self.delay_ms:g}"


ROWS = (
    *(Row((2, 2, 2, 1, 1, 1), 1, delay_ms, 3) for delay_ms in (0.1, 1, 5)),
    Row((1,) * 8, 1, 0.1, 4),
    *(Row((1,) * 4, 10, delay_ms, 2) for delay_ms in (0.1, 1, 5)),
)


def commands(row: Row, folder: Path, repeats: int) -> Iterator[tuple[str, ...]]:
    """What ``python`` is called with to measure the network and to run the experiment on it."""
    hosts, platform = ("-m", "experiments.hosts"), str(folder / "platform.json")
    yield *hosts, "measure", *row.network(), "--out", platform
    run = ("-m", "graphsched", "run", EXPERIMENT, "--mode", "distributed", "--platform", platform, "--no-pictures")
    sizes = ("-p", f"machines={row.machines}", "-p", f"mbytes={MBYTES}", "--repeats", str(repeats))
    yield *hosts, "run", *row.network(), "--", *run, *sizes, "--out", str(folder)


def line(row: Row, case: CaseRecord, load: float) -> str:
    """A case as a line of a table."""
    label = case.label.partition(",")[0]
    assert case.predicted_s is not None
    assert case.measured_s is not None
    assert case.error is not None
    times = [seconds_text(seconds) for seconds in (case.predicted_s, case.measured_s, min(case.samples_s))]
    shares = f"{case.error:+.1%}", "–" if case.spread is None else f"{case.spread:.1%}"
    return f"| {' | '.join([str(row), label, *times, *shares, f'{load:.1f}'])} |"


def made(row: Row, folder: Path, repeats: int) -> list[str]:
    """Measure and run; a line for each case.

    Raises:
        GraphschedError: A command failed; quotes what it said last.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for command in commands(row, folder, repeats):
        done = subprocess.run((sys.executable, *command), capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            told = f"{row}: python {' '.join(command)} ended with {done.returncode}"
            raise GraphschedError(": ".join([told, *said[-3:]]))
    load = os.getloadavg()[0]
    return [line(row, case, load) for case in load_run(folder / f"{EXPERIMENT}.json").cases]


def main(arguments: Sequence[str]) -> int:
    """Print the table as it comes."""
    prog, words = "python -m experiments.hosts.table", (__doc__ or "").partition("::")[0]
    parser = argparse.ArgumentParser(prog=prog, description=words)
    parser.add_argument("--out", type=Path, required=True, help="a folder for platforms and recorded runs")
    parser.add_argument("--only", default="", help="networks whose name has this in it, as 1gbit")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="runs of each case")
    given = parser.parse_args(arguments)
    rows = [row for row in ROWS if given.only in str(row)]
    if not rows:
        parser.error(f"no network has {given.only!r} in its name: there are {', '.join(map(str, ROWS))}")
    try:
        check_folder(given.out)
    except GraphschedError as error:
        parser.error(str(error))
    print("| network | case | predicted | measured | fastest | error | spread | load |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    failed = False
    for row in rows:
        try:
            print("\n".join(made(row, given.out / str(row), given.repeats)), flush=True)
        except GraphschedError as error:
            print(f"error: {error}", file=sys.stderr)
            failed = True
        except KeyboardInterrupt:
            return 130
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
