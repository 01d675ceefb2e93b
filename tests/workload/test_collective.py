"""Collectives as tasks: what they make, what is refused, and that files hold them."""

from __future__ import annotations

import pytest

from graphsched.errors import FileFormatError, WorkloadError
from graphsched.workload import TensorSpec, Value, Workload


def given(work: Workload, count: int, *shape: int, dtype: str = "float32") -> list[Value]:
    return [work.input(f"x{k}", TensorSpec(shape, dtype), device=f"cuda:{k}") for k in range(count)]


GPUS = ("cuda:0", "cuda:1", "cuda:2")


@pytest.mark.parametrize(
    ("operation", "shape"), [("all_reduce", (6, 4)), ("all_gather", (18, 4)), ("reduce_scatter", (2, 4))]
)
def test_every_device_gets_a_value(operation: str, shape: tuple[int, ...]) -> None:
    """x0, x1, x2 ──▶ op ──▶ op.0, op.1, op.2, each on its device."""
    work = Workload()
    made = work.collective(operation, given(work, 3, 6, 4), devices=GPUS, name="op")  # type: ignore[arg-type]
    assert [(value.name, value.device) for value in made] == [(f"op.{k}", gpu) for k, gpu in enumerate(GPUS)]
    assert {value.spec for value in made} == {TensorSpec(shape)}
    task = work["op"]
    assert (task.kind, task.devices, work.collectives) == ("collective", GPUS, ["op"])
    assert [(read.value.name, device) for read, device in task.reads_on("")] == [
        (f"x{k}", gpu) for k, gpu in enumerate(GPUS)
    ]


def test_it_stands_between_what_makes_its_values_and_what_reads_its_results() -> None:
    """a ──▶ sum ──▶ b, and the update of w, which sum reads, comes after it."""
    work = Workload()
    w, x = work.state("w", TensorSpec((4,)), device="cuda:0"), work.input("x", TensorSpec((4,)), device="cuda:1")
    a = work.task(abs, x, name="a", outputs=[TensorSpec((4,))])
    first, _ = work.collective("all_reduce", [w, a], devices=GPUS[:2], name="sum")
    work.task(abs, first, name="b", outputs=[])
    work.task(abs, w, name="change", updates=w, outputs=[])
    assert set(work.graph.edges) == {("a", "sum"), ("sum", "b"), ("sum", "change")}


@pytest.mark.parametrize(
    ("operation", "specs", "devices", "words"),
    [
        ("all_sum", [(4,), (4,)], GPUS[:2], "no collective 'all_sum': there are all_reduce"),
        ("all_reduce", [(4,)], GPUS[:1], "name two devices or more"),
        ("all_reduce", [(4,), (4,)], ("cuda:0", "cuda:0"), "each once"),
        ("all_reduce", [(4,), (4,)], None, "is on None: name two devices or more"),
        ("all_reduce", [(4,), (4,)], (0, 1), "name two devices or more"),
        ("all_reduce", [(4,), (4,)], GPUS, "has 2 values for 3 devices"),
        ("all_reduce", [(4,), (5,)], GPUS[:2], "'x1' is float32[5], 'x0' is float32[4]"),
        ("all_gather", [(), ()], GPUS[:2], "without rows"),
        ("reduce_scatter", [(5,), (5,)], GPUS[:2], "multiple of 2"),
    ],
)
def test_refusals_say_what_and_add_nothing(
    operation: str, specs: list[tuple[int, ...]], devices: tuple[str, ...], words: str
) -> None:
    work = Workload()
    values = [work.input(f"x{k}", TensorSpec(shape), device=f"cuda:{k}") for k, shape in enumerate(specs)]
    with pytest.raises(WorkloadError, match=words.replace("[", r"\[")):
        work.collective(operation, values, devices=devices, name="op")  # type: ignore[arg-type]
    assert not len(work)


@pytest.mark.parametrize("spec", [TensorSpec((4, 4), stride=(1, 4)), TensorSpec((4,), "complex64")])
def test_what_libraries_do_not_carry_is_refused(spec: TensorSpec) -> None:
    work = Workload()
    values = [work.input(f"x{k}", spec, device=f"cuda:{k}") for k in range(2)]
    with pytest.raises(WorkloadError, match=r"contiguous|convert it"):
        work.collective("all_reduce", values, devices=GPUS[:2])


def test_a_file_holds_it() -> None:
    work = Workload()
    work.collective("all_reduce", given(work, 3, 8), devices=GPUS, duration_s=1e-3)
    again = Workload.from_dict(work.to_dict())
    assert again.digest() == work.digest()
    assert again.collectives == work.collectives
    damaged = work.to_dict()
    damaged["tasks"][0]["devices"].pop()
    with pytest.raises(FileFormatError, match="as many reads, outputs and devices"):
        Workload.from_dict(damaged)
