"""Broken platform files: each mutation of a shipped one gets a message with file, entry, value and remedy."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from graphsched.errors import FileFormatError, GraphschedError, PlatformError
from graphsched.platform import Device, Dispatch, Link, Platform
from graphsched.platform.capacity import CapacityTable
from graphsched.platform.consistency import check_consistent, reconciled
from graphsched.platform.reading import RETIRED

Data = dict[str, Any]
SHIPPED = Platform.load("h200-x2").to_dict()
PINNED = next(i for i, k in enumerate(SHIPPED["links"]) if (k["source"], k["memory"]) == ("cpu", "pinned"))
PEER = next(i for i, k in enumerate(SHIPPED["links"]) if k["memory"] == "peer")


def link(number: int, **entries: Any) -> Callable[[Data], object]:
    return lambda d: d["links"][number].update(entries)


def drop(part: str, number: int, name: str) -> Callable[[Data], object]:
    return lambda d: d[part][number].pop(name)


def put(*path: Any) -> Callable[[Data], object]:
    """Sets the entry at all but the last of `path` to the last."""

    def change(data: Any) -> None:
        for step in path[:-2]:
            data = data[step]
        data[path[-2]] = path[-1]

    return change


BROKEN: list[tuple[Callable[[Data], object], str]] = [
    # missing
    *((lambda d, n=name: d.pop(n), f"it lacks '{name}': add it") for name in ("devices", "links", "dispatch", "costs")),
    (drop("devices", 0, "kind"), r"devices\[0\] lacks 'kind': add it"),
    (drop("links", PINNED, "source"), rf"links\[{PINNED}\] lacks 'source': add it"),
    (drop("links", PINNED, "latency_s"), rf"links\[{PINNED}\] lacks 'latency_s'"),
    # of another type
    (put("links", {}), "'links' is {}: a list of objects is needed"),
    (put("devices", "cpu"), "'devices' is 'cpu': a list of objects"),
    (put("links", 0, "cpu>cuda:0"), r"links\[0\] is 'cpu>cuda:0': an object is needed"),
    (put("dispatch", [1.0]), r"dispatch is \[1.0\]: an object is needed"),
    (put("cores", 2.5), "'cores' is 2.5: a whole number is needed"),
    (put("cores", "64"), "'cores' is '64': a whole number is needed"),
    (put("devices", 1, "name", 5), r"'name' of devices\[1\] is 5: text is needed"),
    (link(0, source=["cpu"] * 20), r"'source' of links\[0\] is \['cpu'.*\.\.\.: text is needed"),
    (link(0, sizes_bytes=3), r"'sizes_bytes' of links\[0\] is 3: a list of numbers is needed"),
    (put("capacities", 7), "not a platform"),
    (put("name", None), "'name' is None: text is needed"),
    (link(0, blocking="no"), r"'blocking' of links\[0\] is 'no': true or false is needed"),
    (put("costs", 0, "signature", None), "'signature' is None, text is needed"),
    (put("provenance", "spread", [0.1]), "'spread' in it if given, must be objects"),
    (put("provenance", ["today"]), "'provenance', and 'spread' in it if given, must be objects"),
    (put("provenance", "spread", "memory", "small"), "spread of 'memory' is 'small': a finite number"),
    (put("provenance", "spread", "memory", math.inf), "spread of 'memory' is inf: a finite number"),
    (put("provenance", "spread", "memory", -0.1), "spread of 'memory' is -0.1: it must be at least 0"),
    (put("provenance", "patterns", 5), "'patterns' of provenance is 5: a list is needed"),
    (put("provenance", "patterns", 0, 5), r"provenance.patterns\[0\] is 5: an object is needed"),
    (put("provenance", "patterns", 1, {}), r"provenance.patterns\[1\] lacks 'flows': add it, or leave out the pattern"),
    (put("provenance", "patterns", 0, "flows", [["cpu"]]), r"'flows' of .*\[0\] is \[\['cpu'\]\]: a list of pairs"),
    (put("provenance", "patterns", 0, "flows", []), r"'flows' of .*\[0\] is \[\]: a list of pairs of device names"),
    (put("provenance", "patterns", 0, "flows", 0, [1, 2]), r"'flows' of .*\[0\] is \[\[1, 2\].*: a list of pairs"),
    (put("provenance", "patterns", 0, "fitted", "yes"), r"'fitted' of .*\[0\] is 'yes': true or false is needed"),
    *(
        (put("provenance", "patterns", 0, name, 0), rf"{name} of provenance.patterns\[0\] is 0: it must be above 0")
        for name in ("measured_bytes_per_s", "predicted_bytes_per_s")
    ),
    (put("costs", 0, "launches", math.nan), "launches is nan: a whole number from 0 to 2..53 is needed"),
    (put("costs", 0, "workspace_bytes", -1), "workspace_bytes is -1: a whole number"),
    (put("costs", 0, "source", "guessed"), "source is 'guessed': one of measured, given, estimated"),
    # beyond a float
    (link(0, latency_s=10**400), r"links\[0\]: latency_s of link .* is 1000000000.*: a finite number"),
    (put("capacities", "host/h2d", 10**400), "capacity 'host/h2d' is 1000000000.*: a finite number"),
    (put("costs", 0, "concurrency", [[10**400, 1e400]]), "not a table of costs"),
    # unknown
    (put("devices", 1, "colour", "red"), r"devices\[1\] has 'colour': leave it out, or spell it as one of name, kind"),
    (link(PINNED, bandwidth=5e10), rf"links\[{PINNED}\] has 'bandwidth': .*bandwidth_bytes_per_s"),
    (put("dispatch", "runs_s", 1.0), "dispatch has 'runs_s': .*run_s"),
    (put("devices", 1, "kind", "tpu"), r"devices\[1\]: device 'cuda:0' has kind 'tpu': one of cuda, worker, cpu"),
    (link(0, memory="pined"), r"links\[0\]: link .* has memory 'pined': one of pinned, pageable"),
    # negative, not finite, nought
    (link(0, latency_s=-1e-6), r"links\[0\]: latency_s of link .* is -1e-06: it must be at least 0"),
    (link(0, latency_s=math.nan), r"links\[0\]: latency_s of link .* is nan: a finite number is needed"),
    (link(0, bandwidth_bytes_per_s=math.inf), r"links\[0\]: bandwidth_bytes_per_s .* is inf: a finite number"),
    (link(0, bandwidth_bytes_per_s=0), r"links\[0\]: bandwidth_bytes_per_s .* is 0: it must be above 0"),
    (link(0, bandwidth_bytes_per_s=None), r"links\[0\]: bandwidth_bytes_per_s .* is None: a finite number"),
    (put("devices", 1, "memory_bytes", -5), r"devices\[1\]: memory_bytes of cuda:0 is -5"),
    (put("devices", 0, "threads", 0), r"devices\[0\]: threads of cpu is 0: it must be above 0"),
    (put("devices", 1, "lanes_in", -0.1), r"devices\[1\]: lanes_in of cuda:0 is -0.1: it must be at least 0"),
    (put("devices", 1, "lanes_out", "0.2"), r"devices\[1\]: lanes_out of cuda:0 is '0.2': a finite number is needed"),
    (link(0, written_busy=math.nan), r"links\[0\]: written_busy of link .* is nan: a finite number is needed"),
    (link(0, busy_fades_s=-1.0), r"links\[0\]: busy_fades_s of link .* is -1.0: it must be at least 0"),
    (link(0, written_back="0.5"), r"links\[0\]: written_back of link .* is '0.5': a finite number is needed"),
    (put("capacities", "host/h2d", -1.0), "capacity 'host/h2d' is -1.0"),
    (put("capacities", "host/h2d", math.nan), "capacity 'host/h2d' is nan"),
    (put("dispatch", "wait_s", -1.0), "dispatch: dispatch wait_s is -1.0"),
    (put("dispatch", "queue_depth", 0), "dispatch: dispatch queue_depth is 0"),
    (put("cores", 0), "cores is 0"),
    (put("costs", 0, "device_s", -1.0), "-1"),
    # longer than anything lasts
    (link(0, latency_s=1e308), r"links\[0\]: latency_s of link .* is 1e.308: at most 1e.09 s are needed"),
    (link(0, sizes_bytes=[1], seconds=[2e9]), r"links\[0\]: seconds of link .* is 2000000000.0: at most 1e.09 s"),
    (put("dispatch", "call_s", 1e308), r"dispatch: dispatch call_s is 1e.308: at most 1e.09 s are needed"),
    (put("dispatch", "graph_look_s", 1e10), r"dispatch: dispatch graph_look_s is 10000000000.0: at most 1e.09 s"),
    (put("dispatch", "changes", [[1, 1e308]]), r"dispatch: dispatch changes is 1e.308: at most 1e.09 s are needed"),
    # contradictory
    (lambda d: d["devices"].append(d["devices"][1]), "has two devices 'cuda:0': leave one out"),
    (lambda d: d["links"].append(d["links"][0]), "has two links .*: leave one out"),
    (link(0, sizes_bytes=[4096]), r"links\[0\]: link .*: 1 sizes and \d+ times"),
    (link(0, sizes_bytes=list(range(20, 10, -1)), seconds=[1.0] * 10), "sizes_bytes must ascend"),
    (link(0, target="cuda:9"), "leads to 'cuda:9', which is no device: cpu, cuda:0, cuda:1: add it, or leave out"),
    (lambda d: d["devices"].pop(), "leads to 'cuda:1', which is no device"),
    (link(0, crosses=5), r"'crosses' of links\[0\] is 5: a list of texts is needed"),
    (link(0, crosses=[["bus"]]), r"'crosses' of links\[0\] is .*: a list of texts is needed"),
    (link(0, sizes_bytes=None), r"'sizes_bytes' of links\[0\] is None: a list of numbers is needed"),
    (link(0, seconds="abc"), r"'seconds' of links\[0\] is 'abc': a list of numbers is needed"),
    (link(0, written_s=3.0), r"'written_s' of links\[0\] is 3.0: a list of numbers is needed"),
    (link(0, crosses=["bus"]), "crosses capacity 'bus', which has no entry: add it"),
    (lambda d: d["capacities"].pop("host/h2d"), "crosses capacity 'host/h2d', which has no entry"),
    (
        lambda d: d.update(devices=d["devices"][1:], links=[k for k in d["links"] if k["memory"] == "peer"]),
        r"devices are cuda:0, cuda:1: 'cpu', .* is not among them: add .\"name\": \"cpu\", \"kind\": \"cpu\".",
    ),
    (lambda d: d.update(devices=[], links=[]), "devices are none: 'cpu', .* is not among them"),
    (link(PEER, target="cuda:0"), r"link cuda:0>cuda:0 \(peer\) joins cuda:0 to itself: make its memory 'local'"),
    (
        lambda d: (d["tables"].pop("cuda:0/h2d"), d["capacities"].update({"cuda:0/h2d": 4e10})),
        r"bandwidth_bytes_per_s of link cpu>cuda:0 \(pinned\) is .*, above the 4e\+10 of capacity 'cuda:0/h2d'",
    ),
    (link(PEER, bandwidth_bytes_per_s=6e11, sizes_bytes=[], seconds=[]), "lower the one or raise the other"),
    (link(PINNED, bandwidth_bytes_per_s=2.5e10), "by its measured points: change both, or leave out sizes_bytes"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN)
def test_what_is_wrong_is_named_with_its_file(change: Callable[[Data], object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    data = json.loads(json.dumps(SHIPPED))
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(GraphschedError) as caught:
        Platform.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_shipped_file_itself_is_fine(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(SHIPPED))
    assert Platform.load(tmp_path / "mine.json") == Platform.load("h200-x2")


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["capacities"].update(unused=1.0),
        lambda d: d["links"].pop(PEER),  # an uneven topology
        lambda d: d.update(links=[k for k in d["links"] if k["memory"] != "peer"]),
        lambda d: d.update(links=[], capacities={}, tables={}),
        lambda d: d["links"][PINNED].update(bandwidth_bytes_per_s=2.5e10, sizes_bytes=[], seconds=[]),
        lambda d: d.update(comment="mine"),
    ],
)
def test_what_is_unusual_but_not_wrong(change: Callable[[Data], object], tmp_path: Path) -> None:
    data = json.loads(json.dumps(SHIPPED))
    change(data)
    (tmp_path / "mine.json").write_text(json.dumps(data))
    assert len(Platform.load(tmp_path / "mine.json").devices) == len(data["devices"])


def test_entries_of_terms_that_are_gone_are_dropped() -> None:
    """Files written while there were `crowded_in`, `crowded_out` and `item_s` read as if these were not there."""
    data = json.loads(json.dumps(SHIPPED))
    data["dispatch"]["item_s"] = 4e-6
    for device in data["devices"]:
        device.update(crowded_in=0.0003, crowded_out=0.002)
    found = Platform.from_dict(data)
    assert found.to_dict() == SHIPPED
    assert found.digest() == Platform.load("h200-x2").digest()


@pytest.mark.parametrize("name", RETIRED)
def test_a_retired_entry_is_no_field(name: str) -> None:
    assert name not in {field.name for kind in (Device, Link, Dispatch) for field in fields(kind)}


def test_kinds_of_errors() -> None:
    """What is no platform is a matter of the file's format; figures that make no sense are the platform's."""
    for change, kind in ((drop("links", 0, "memory"), FileFormatError), (link(0, latency_s=-1), PlatformError)):
        data = json.loads(json.dumps(SHIPPED))
        change(data)
        with pytest.raises(kind):
            Platform.from_dict(data)


def noisy(table: dict[str, CapacityTable] | None = None) -> Platform:
    """Measured one after the other: 9 B/s through what carried 8."""
    cpu = Link("cpu", "cpu", "local", 0.0, 9.0, ("memory",))
    return Platform("noisy", (Device("cpu", "cpu"),), (cpu,), {"memory": 8.0, "other": 1.0}, tables=table or {})


def test_measured_figures_are_made_to_agree() -> None:
    with pytest.raises(PlatformError, match="above the 8 of capacity 'memory'"):
        check_consistent(noisy())
    assert reconciled(noisy()).capacities == {"memory": 9.0, "other": 1.0}
    check_consistent(reconciled(noisy()))
    small = replace(noisy(), capacities={"memory": 8.9, "other": 1.0})
    check_consistent(small)  # as near as two measurements of one thing are


def test_a_measured_rate_is_that_of_its_last_points_however_noisy_they_are() -> None:
    """2000 bytes took hardly longer than 1000: the rate between them is far above what each shows."""
    link = Link("cpu", "cpu", "local", 0.0, 1e6, sizes_bytes=(1000, 2000), seconds=(10.0, 10.001))
    check_consistent(replace(noisy(), links=(link,)))
    for other in (replace(link, bandwidth_bytes_per_s=2e6), replace(link, seconds=(10.0, 9.0))):
        with pytest.raises(PlatformError, match="by its measured points"):
            check_consistent(replace(noisy(), links=(other,)))
    alone = replace(link, sizes_bytes=(2000,), seconds=(0.0021,))
    check_consistent(replace(noisy(), links=(alone,)))


def test_a_table_is_asked_for_the_link_alone() -> None:
    table = CapacityTable(("memory", "other"), ((1, 2), (0, 1)), (9.0, 1.0, 2.0, 1.0))
    check_consistent(replace(noisy({"memory": table}), capacities={"memory": 9.0, "other": 1.0}))
    lone = CapacityTable(("memory", "other"), ((1, 2), (0, 1)), (1.0, 9.0, 9.0, 9.0))
    slow = replace(noisy({"memory": lone}), capacities={"memory": 9.0, "other": 1.0})
    with pytest.raises(PlatformError, match="above the 1 of capacity 'memory'"):
        check_consistent(slow)
    check_consistent(reconciled(slow))  # what was measured can be read again, whatever it is
