"""The running store on GPUs: values are read when the streams that make them are there, not before."""

from __future__ import annotations

import pytest
import torch

from graphsched.kvstore import Store
from tests.kvstore.model import expected, value

TENSORS = [value("fc", worker, 1) for worker in range(2)]


@pytest.mark.gpu
@pytest.mark.parametrize("server", ["cuda:0", "cpu"])
def test_values_come_and_go_by_the_current_streams(server: str) -> None:
    """Each worker has a stream that is far behind, changes its value at once, and reads what it pulls at once."""
    given = [tensor.to("cuda:0") for tensor in TENSORS]
    streams = [torch.cuda.Stream("cuda:0") for _ in TENSORS]
    torch.cuda.synchronize()
    with Store(servers=[server], workers=2, timeout_s=10) as store:
        for worker, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(100_000_000)
                made = given[worker] * 1.0
                store.push("fc", made, worker=worker)
                made.zero_()
        for worker, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                found = store.pull("fc", worker=worker, device="cuda:0")
                read = found * 1.0
                found.zero_()
                assert torch.equal(read.cpu(), expected("sum", TENSORS))


@pytest.mark.multigpu
@pytest.mark.parametrize("shard", ["keys", "elements"])
def test_workers_and_servers_on_two_gpus(shard: str) -> None:
    """Every worker pushes and pulls on a GPU of its own; both GPUs add."""
    servers = ["cuda:0", "cuda:1"]
    with Store(servers=servers, workers=2, shard=shard, cut_from_bytes=0, timeout_s=10) as store:
        for worker, device in enumerate(servers):
            store.push("fc", TENSORS[worker].to(device), worker=worker)
        for worker, device in enumerate(servers):
            found = store.pull("fc", worker=worker, device=device)
            assert str(found.device) == device
            assert torch.equal(found.cpu(), expected("sum", TENSORS))
