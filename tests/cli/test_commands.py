"""The command line as a whole: help, errors, exit codes, what starts how fast."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

COMMANDS = ("list", "measure", "predict", "run", "compare", "plot", "export", "accuracy", "bench", "demo")


@pytest.mark.parametrize("words", [("-h",), ("--help",), *((command, "-h") for command in COMMANDS)])
def test_help_is_answered(call, words):
    called = call(*words)
    assert called.code == 0
    assert "Usage" in called.out


def test_without_words_help_is_all_that_is_printed(call):
    called = call()
    assert called.code == 2
    assert "Usage" in called.out
    assert called.err == ""


def test_help_names_every_command(call):
    out = call("-h").out
    assert all(f" {command} " in out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_json(call, command):
    assert "--json" in call(command, "-h").out


def test_help_needs_no_heavy_library():
    code = (
        "import sys\nfrom graphsched.cli import main\nmain(['run', '-h'])\n"
        "heavy = {'torch', 'simpy', 'matplotlib', 'networkx', 'numpy'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_package_runs_as_a_module(here):
    done = subprocess.run([sys.executable, "-m", "graphsched", "list", "nowhere"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: there is no folder 'nowhere'")


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("prdict",), "No such command 'prdict'"),
        (("predict",), "EXPERIMENT"),
        (("predict", "pair", "--platfrom", "x"), "--platfrom"),
        (("predict", "pari"), "did you mean pair?"),
        (("predict", "pair", "--platform", "no-such"), "no platform 'no-such'"),
        (("predict", "pair", "--platform", "two.json", "-p", "size"), "'size': NAME=VALUE"),
        (("predict", "pair", "--platform", "two.json", "-p", "size=big"), "'big': a whole number"),
        (("predict", "pair", "--platform", "two.json", "-p", "sise=1"), "size=8"),
        (("predict", "pair", "--platform", "two.json", "-p", "size=1", "-p", "size=2"), "given twice"),
        (("predict", "pair", "--platform", "two.json", "--mode", "fast"), "eager, graph, distributed"),
        (("predict", "pair", "--platform", "two.json", "--cases", "GPU"), "heft, 2 workers"),
        (("predict", "pair", "--platform", "two.json", "--out", "two.json"), "cannot write"),
        (("run", "pair", "--platform", "two.json", "--out", "two.json"), "cannot write"),
        (("run", "pair", "--platform", "two.json", "--repeats", "0"), "--repeats"),
        (("plot", "two.json"), "two.json is no recorded run but a platform"),
        (("export", "nothing.json"), "nothing.json"),
        (("export", "two.json", "--format", "gif"), "perfetto, dot, plan"),
        (("accuracy", "nowhere"), "no file or folder nowhere"),
    ],
)
def test_a_wrong_request_says_so_in_a_few_lines(call, here, words, wrong):
    called = call(*words)
    assert called.code == 2
    assert called.out == ""
    assert called.err.startswith("error: ")
    assert wrong in called.err
    assert len(called.err.splitlines()) <= 6
    assert "Traceback" not in called.err


def test_devices_that_are_not_there_are_a_wrong_request(call, here):
    (here / "experiments" / "many.py").write_text(
        "import graphsched as gs\n@gs.experiment()\ndef many(platform):\n    platform.accelerators(7)\n    yield\n"
    )
    called = call("predict", "many", "--platform", "two.json", "--json")
    assert called.code == 2
    assert called.out == ""
    assert "7 accelerators asked for, platform 'two' has 2 (worker:0, worker:1)" in called.err


def test_an_interrupt_is_one_line_and_130(call, here):
    (here / "experiments" / "endless.py").write_text(
        "import graphsched as gs\n@gs.experiment()\ndef endless(platform):\n    raise KeyboardInterrupt\n    yield\n"
    )
    called = call("predict", "endless", "--platform", "two.json")
    assert (called.code, called.out, called.err) == (130, "", "interrupted\n")


def test_a_traceback_is_there_when_asked_for(call, here, monkeypatch):
    monkeypatch.setenv("GRAPHSCHED_DEBUG", "1")
    called = call("predict", "pari")
    assert called.code == 2
    assert "Traceback" in called.err
    assert "ExperimentError" in called.err


def test_a_reader_that_stops_early_is_no_error(here):
    done = subprocess.run(
        f"{sys.executable} -m graphsched list --json | true", shell=True, capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["list"], ["list", "--json"]])
def test_nor_is_one_that_is_gone_before_anything_is_written(here, words, unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "graphsched", *words]
    env = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, env=env)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["list"], ["list", "--json"], ["--help"]])
def test_what_cannot_be_printed_is_an_error_in_one_line(here, words, unbuffered):
    command = [sys.executable, "-m", "graphsched", *words]
    env = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=env)
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot print the result: No space left on device:")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["list"], ["list", "--json"]])
def test_without_a_place_to_print_nothing_is_printed(here, words, unbuffered):
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "graphsched", *words]
    env = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, env=env)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_libraries_and_child_processes_write_does_not_get_into_json(here):
    """They know of no `sys.stdout`: NCCL_DEBUG=INFO, or an experiment that calls another program."""
    code = "import os\nos.write(1, b'a library\\n')\nos.system('echo a child')\nprint('Python')\n"
    (here / "experiments" / "talking.py").write_text(code)
    command = [sys.executable, "-m", "graphsched", "list", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (json.loads(done.stdout)["experiments"][0]["name"], done.returncode) == ("pair", 0)
    assert {"a library", "a child", "Python"} <= set(done.stderr.splitlines())


def test_signs_that_a_terminal_lacks_are_no_error(here):
    command = [sys.executable, "-m", "graphsched", "predict", "pair", "--platform", "two.json"]
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert " ?s " in done.stdout


def test_warnings_are_one_line(call, here):
    (here / "experiments" / "warned.py").write_text(
        "import warnings\nimport graphsched as gs\nfrom graphsched.errors import PlatformWarning\n"
        "warnings.warn('the driver has changed', PlatformWarning)\n"
        "@gs.experiment()\ndef warned(platform):\n    yield gs.Case('x', baseline=list)\n"
    )
    called = call("predict", "warned", "--platform", "two.json")
    assert (called.code, called.err) == (0, "warning: the driver has changed\n")


def test_nothing_is_left_of_the_environment(call):
    before = dict(os.environ)
    call("-h")
    assert dict(os.environ) == before
