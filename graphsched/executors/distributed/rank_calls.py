"""The list of a rank as calls that its thread makes in order: eager mode, with messages and barriers."""

from __future__ import annotations

from graphsched.errors import ScheduleError
from graphsched.executors.buffers import Buffers
from graphsched.executors.calls import Call
from graphsched.executors.distributed.messages import Messages
from graphsched.executors.eager import EagerCompiler
from graphsched.executors.lane_cores import lane_cores
from graphsched.executors.lanes import STREAMS_PER_DEVICE, CpuLane, CudaLane, device_index, is_cuda, stream_pool
from graphsched.executors.watch import Watch
from graphsched.plan import Plan


class RankCompiler(EagerCompiler):
    """Turns the plan of one rank into `Calls`."""

    def __init__(
        self,
        plan: Plan,
        buffers: Buffers,
        cpu: dict[int, CpuLane],
        cuda: dict[int, CudaLane],
        watch: Watch,
        messages: Messages,
    ) -> None:
        self._messages = messages
        super().__init__(plan, buffers, cpu, cuda, watch)

    def _body(self, i: int) -> Call:
        return self._messages.call(i) if self.plan.kinds[i] == "collective" else super()._body(i)

    def _host_waits(self, i: int) -> list[Call]:
        return [*super()._host_waits(i), self._messages.barrier(i)]

    def unfinished(self, issued: int) -> list[str]:
        """As of any eager run, and what each stream is at."""
        at = [f"{self.plan.names[i]!r} or what follows it on lane {lane}" for lane, i in self._at(issued).items()]
        return self.under_way(issued) + at

    def waits_for(self, issued: int) -> int | None:
        """A message or collective, among the first `issued` rows, that a lane is at: it waits for another rank."""
        for i in (*self._at(issued).values(), *self._begun(issued)):
            if self.plan.kinds[i] == "collective" and all(self._over(j) for j in self.plan.waits[i]):
                return i
        return None

    def _at(self, issued: int) -> dict[str, int]:
        """By the name of a stream's lane that is not done: the first row there that is not known to be over."""
        found = {}
        for number, lane in self.cuda.items():
            rows = [i for i in range(issued) if self.plan.lane_of[i] == number]
            over = [k for k, i in enumerate(rows) if i in self.events and self._over(i)]
            rows = rows[over[-1] + 1 :] if over else rows
            if rows and not lane.stream.query():
                found[lane.name] = rows[0]
        return found


def threads_of_lanes(local: Plan, whole: Plan) -> dict[int, CpuLane]:
    """Threads for the CPU lanes of a rank's plan, by lane number, on the cores that the `whole` plan gives them.

    Each rank alone would put its first lane on the first core.
    """
    import torch

    cores = {whole.lanes[number].name: core for number, core in lane_cores(whole).items()}
    threads = torch.get_num_threads()
    lanes = {
        number: CpuLane(lane.name, local.platform.device(lane.device).threads, cores.get(lane.name))
        for number, lane in enumerate(local.lanes)
        if lane.kind != "host" and not is_cuda(lane.device)
    }
    for lane in lanes.values():
        lane.drain(10.0)
    torch.set_num_threads(threads)  # the number that new threads begin with is the last one set
    return lanes


def streams_of_lanes(local: Plan) -> dict[int, CudaLane]:
    """Streams for the CUDA lanes of a rank's plan, by lane number; its GPU becomes the current one.

    Raises:
        ExecutionError: The rank's GPU is not there.
        ScheduleError: There are more lanes than the stream pool holds.
    """
    import torch

    lanes = {number: lane for number, lane in enumerate(local.lanes) if is_cuda(lane.device)}
    if len(lanes) > STREAMS_PER_DEVICE:
        raise ScheduleError(
            f"the plan needs {len(lanes)} streams on one GPU, torch's pool holds {STREAMS_PER_DEVICE}: use fewer lanes "
            "(each compute lane, copy lane and way to or from another GPU takes one)"
        )
    for device in dict.fromkeys(lane.device for lane in lanes.values()):
        torch.cuda.set_device(device_index(device))
    return {
        number: CudaLane(lane.name, stream_pool(device_index(lane.device))[place])
        for place, (number, lane) in enumerate(lanes.items())
    }
