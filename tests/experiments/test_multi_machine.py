"""Steps over several machines: who works and who serves, results, and what is predicted."""

from __future__ import annotations

import pytest
import torch

import graphsched as gs
from experiments._machines import Machines, machines_of, plain_step, ring_step, served_step
from graphsched.errors import ExperimentError
from graphsched.platform import topologies
from tests.experiments.hosts.jobs import hosts_of
from tests.experiments.small import cases, hand_written

TWO = Machines((("worker:0", "worker:1"), ("worker:2", "worker:3")), ("worker:4", "worker:5"))
MBYTES, ROWS = 0.04, 3


@pytest.mark.parametrize(
    "servers", [("worker:4",), ("worker:4", "worker:5"), ("worker:0",), ("worker:0", "worker:2"), ()]
)
def test_every_way_gives_the_weight_of_plain_pytorch_on_every_device(servers: tuple[str, ...]) -> None:
    """Two machines of two workers; servers of their own, one that works too, both, and a ring for none.

    ::

        worker:0, worker:1 ─ sum ─┐                    ┌─ worker:0, worker:1
                                  ├─ servers, or ring ─┤
        worker:2, worker:3 ─ sum ─┘                    └─ worker:2, worker:3
    """
    platform = hosts_of((2, 2, 1, 1))
    work = served_step(TWO, servers, MBYTES, ROWS) if servers else ring_step(TWO, MBYTES, ROWS)
    with gs.Program(gs.schedule(work, platform, scheduler="one_stream")) as program:
        before = {name: tensor.clone() for name, tensor in program.state().items()}
        program.run()
        after = program.state()
    weights = [tensor for name, tensor in after.items() if name.startswith("weight/")]
    assert len(weights) == 4
    expected = plain_step(TWO, MBYTES, ROWS)
    for weight in weights:
        assert torch.equal(weight, weights[0])
        assert torch.allclose(weight.double(), expected, atol=1e-6)
    assert not torch.allclose(before["weight/worker:0"].double(), expected, atol=1e-6)


def test_a_second_step_goes_on_from_the_first() -> None:
    """The weight on servers and workers stays the same thing."""
    platform, steps = hosts_of((2, 2, 1, 1)), []
    for work in (served_step(TWO, ("worker:4", "worker:5"), MBYTES, ROWS), ring_step(TWO, MBYTES, ROWS)):
        with gs.Program(gs.schedule(work, platform, scheduler="one_stream")) as program:
            for _ in range(3):
                program.run()
            steps.append(program.state()["weight/worker:3"])
    assert torch.allclose(*steps, atol=1e-6)


def test_hosts_that_work_come_first_and_others_serve() -> None:
    platform = hosts_of((2, 2, 2, 1, 1, 1))
    assert machines_of(platform, 3) == machines_of(platform)
    assert machines_of(platform, 3).firsts == ("worker:0", "worker:2", "worker:4")
    assert machines_of(platform, 3).others == ("worker:6", "worker:7", "worker:8")
    assert machines_of(platform, 2).others == ("worker:4", "worker:6", "worker:7", "worker:8")


def test_accelerators_of_one_host_stand_for_machines() -> None:
    found = machines_of(hand_written("cuda", 4), 3)
    assert str(found) == "3 machines of 1 GPU"
    assert found.others == ("cuda:3",)


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (7, "parameter 'machines' is 7, platform '.*' has 6: name a platform of more hosts with --platform"),
        (-1, "parameter 'machines' is -1: 0 or more are needed"),
        (4, "the first 4 hosts of platform '.*' have different numbers of devices"),
    ],
)
def test_more_machines_than_hosts_or_unlike_ones_are_refused(count: int, words: str) -> None:
    with pytest.raises(ExperimentError, match=words):
        machines_of(hosts_of((2, 2, 2, 1, 1, 1)), count)


def test_servers_that_are_not_there_are_left_out() -> None:
    labels = list(cases("multi_machine", hosts_of((1, 1, 1)), machines=2, servers=(1, 2)))
    assert [label.partition(",")[0] for label in labels] == [
        "1 server of its own",
        "one machine serves too",
        "all machines serve too",
        "ring of machines",
    ]


def test_it_is_predicted_on_hosts_that_are_described() -> None:
    """Eight hosts of two GPUs by 1 Gbit/s: one server takes four times as long as four, up to the latencies."""
    network = {"nics": 1, "nic_bytes_per_s": 125e6, "nic_latency_s": 1e-3, "hosts_per_leaf": 8}
    platform = topologies.two_level(hosts=8, gpus=2, **network)
    took = {
        label.partition(",")[0]: gs.predict(
            gs.schedule(case.work, platform, scheduler="one_stream", mode="distributed")
        ).makespan_s
        for label, case in cases("multi_machine", platform, mbytes=(40.0,), servers=(1, 4), machines=4).items()
        if case.work is not None
    }
    assert took["1 server of its own"] / took["4 servers of their own"] == pytest.approx(4, rel=0.05)
    assert took["ring of machines"] == pytest.approx(took["4 servers of their own"] * 3 / 4, rel=0.05)
