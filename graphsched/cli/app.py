"""``graphsched``: its commands, and what their errors look like."""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import typer

from graphsched.cli import bench, compare, demo, experiments, explain, measure, recorded, schedule, sweep, verify
from graphsched.cli.interrupts import remembered
from graphsched.cli.output import only_json, show_warning
from graphsched.errors import EstimateWarning, ExecutionError, GraphschedError, GraphschedWarning, OutputError

DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # files that we write say so themselves

app = typer.Typer(
    name="graphsched",
    help="Schedule task graphs on CPUs and GPUs, predict how long they take, run them, and compare.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

for module in (experiments, sweep, schedule, verify, recorded, compare, explain, measure, bench, demo):
    for name, command in module.COMMANDS.items():
        app.command(name)(command)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command in `args` (default: of this process) and return its exit code.

    0: done; 1: the work failed; 2: the request was wrong; 130: interrupted. With
    ``GRAPHSCHED_DEBUG=1`` errors come with their traceback.
    """
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # it is closed: nobody reads
    try:
        code = _called(args)
        sys.stdout.flush()  # what cannot be printed is known now, not when Python ends
    except BrokenPipeError:
        code = DONE  # the reader has seen enough
    except OSError as error:
        if error.errno not in FULL:
            raise
        code = _fail(OutputError(f"cannot print the result: {error.strerror}: make room, or name another file"), WRONG)
    else:
        return code
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to be printed
    return code


def _called(args: Sequence[str] | None) -> int:
    """The exit code of the command in `args`.

    Raises:
        OSError: What it prints cannot be written.
    """
    asked = sys.argv[1:] if args is None else args
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # µ and × are question marks where the terminal has none
    with warnings.catch_warnings(), only_json("--json" in asked), remembered():
        warnings.simplefilter("always", GraphschedWarning)
        warnings.simplefilter("ignore", EstimateWarning)  # tables and JSON mark what is an estimate
        warnings.showwarning = show_warning
        try:
            code = typer.main.get_command(app).main(
                args=None if args is None else list(args), prog_name="graphsched", standalone_mode=False
            )
        except GraphschedError as error:
            return _fail(error, FAILED if isinstance(error, ExecutionError) else WRONG)
        except SystemExit as stop:
            if not isinstance(stop.__context__, BrokenPipeError):
                raise
            return DONE  # typer's way out when the reader has seen enough
        except (KeyboardInterrupt, typer.Abort):
            code = INTERRUPTED
        except Exception as error:
            return _usage(error)
    if code == INTERRUPTED:
        print("interrupted", file=sys.stderr)
    return int(code or DONE)


def _fail(error: BaseException, code: int) -> int:
    if os.environ.get("GRAPHSCHED_DEBUG"):
        traceback.print_exception(error)
    print(f"error: {error}", file=sys.stderr)
    return code


def _usage(error: Any) -> int:
    """A wrong option or argument, as the command-line library words it; anything else is a bug of ours."""
    if not hasattr(error, "format_message"):
        raise error
    if not error.format_message():
        return WRONG  # a command without arguments: its help has been printed
    context = getattr(error, "ctx", None)
    print(f"error: {error.format_message()}{_got(error)}", file=sys.stderr)
    if context is not None:
        print(f"{context.get_usage()}\nTry '{context.command_path} -h' for help.", file=sys.stderr)
    return WRONG


def _got(error: BaseException) -> str:
    """The value that was wrong, where only the library that typer checks it with knows."""
    told = getattr(error.__cause__, "errors", None)
    return f", got {told()[0]['input']!r}" if callable(told) else ""
