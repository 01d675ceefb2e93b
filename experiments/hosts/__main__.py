"""Hosts made of network namespaces on this machine (Linux, root), the network between them measured, and runs on them::

    python -m experiments.hosts measure --ranks 1,1,1 --gbit 1 --delay-ms 0.1 --out build/hosts.json
    python -m experiments.hosts run --ranks 1,1,1 --gbit 1 --delay-ms 0.1 -- \\
        -m graphsched run multi_machine --mode distributed --platform build/hosts.json
    python -m experiments.hosts clean

``--ranks`` says how many ranks each host has, one number a host. What stands behind ``--`` is what ``python`` is called
with for each rank. All is removed at the end, after Ctrl-C or an error too.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from experiments.hosts.namespaces import made, remove_stale, why_not
from experiments.hosts.network import Network
from experiments.hosts.ranks import check_counts, ended, started
from graphsched.errors import ExecutionError, GraphschedError, PlatformError
from graphsched.files import check_folder

if TYPE_CHECKING:
    from experiments.hosts.measuring import Measured


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; the exit code, as of ``graphsched``."""
    given, rest = _parser().parse_known_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        return int(given.command(given, rest))
    except ExecutionError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except GraphschedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: the hosts are removed", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.hosts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    network = argparse.ArgumentParser(add_help=False)
    network.add_argument("--ranks", type=_numbers, required=True, help="ranks of each host, as 2,2,1")
    network.add_argument("--gbit", type=float, default=1.0, help="rate of a host's card, Gbit/s")
    network.add_argument("--delay-ms", type=float, default=0.0, help="delay between two hosts, one way")
    network.add_argument("--loss", type=float, default=0.0, help="share of packets that are lost, 0.01 for 1 %%")
    measure = commands.add_parser("measure", parents=[network], help="measure the network; write a platform file")
    measure.add_argument("--out", type=Path, required=True, help="the platform file")
    measure.set_defaults(command=_measure)
    run = commands.add_parser("run", parents=[network], help="run a Python program on all ranks")
    run.set_defaults(command=_run)
    clean = commands.add_parser("clean", help="remove what a killed run has left")
    clean.set_defaults(command=_clean)
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: whole numbers between commas are needed, as 2,2,1") from None


def _network(given: argparse.Namespace) -> Network:
    """The network that is asked for.

    Raises:
        PlatformError: It is out of range, or cannot be made here.
    """
    found = Network(len(given.ranks), given.gbit * 1e9, given.delay_ms * 1e-3, given.loss)
    check_counts(given.ranks, found.hosts)
    if (reason := why_not(found)) is not None:
        raise PlatformError(f"no hosts can be made here: {reason}")
    return found


def _measure(given: argparse.Namespace, _: Sequence[str]) -> int:
    from experiments.hosts.measuring import read
    from experiments.hosts.platforms import platform_of
    from graphsched.calibration import local_platform

    if len(given.ranks) < 2:
        raise PlatformError("one host has no network to measure: give --ranks a number for each of two hosts or more")
    if given.out.is_dir():
        raise PlatformError(f"cannot write {given.out}: it is a folder, name a file in it")
    network = _network(given)
    check_folder(given.out.parent)
    here = local_platform()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "network.json"
        code = _on_hosts(network, given.ranks, ["-m", "experiments.hosts.measuring", str(file)])
        if code:
            return code
        found = read(file)
    platform_of(here, network, given.ranks, found).save(given.out)
    print(f"{network}: {_told(found)}\nwritten: {given.out}")
    return 0


def _told(found: Measured) -> str:
    rates = {
        "one card receives": found.into_one,
        "sends": found.out_of_one,
        "both": found.both_ways,
        "all carry": found.of_all,
        "inside hosts": found.in_hosts,
    }
    return ", ".join(f"{what} {rate / 1e6:.1f} MB/s" for what, rate in rates.items())


def _run(given: argparse.Namespace, rest: Sequence[str]) -> int:
    program = list(rest[1:] if rest[:1] == ["--"] else rest)
    if not program:
        raise PlatformError("nothing to run: give what python is called with behind --, as -- -m graphsched run ...")
    return _on_hosts(_network(given), given.ranks, program)


def _on_hosts(network: Network, ranks: Sequence[int], arguments: Sequence[str]) -> int:
    with made(network) as hosts, started(hosts, ranks, arguments) as processes:
        return ended(processes)


def _clean(_: argparse.Namespace, __: Sequence[str]) -> int:
    for name in remove_stale():
        print(f"removed: {name}")
    return 0


def _interrupt(number: int, _: object) -> NoReturn:
    raise KeyboardInterrupt(signal.Signals(number).name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
