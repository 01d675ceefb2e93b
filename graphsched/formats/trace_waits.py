"""Who waited for which work of a GPU in a trace of torch's profiler: streams for events, and the host.

What a wait was for is told by the profiler's records of synchronisation (``cuda_sync``), which it keeps if asked to:
``profile(experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True))``. Without them a
wait of the host is taken to be for what was over last when it returned, and waits of streams are not known.

Source: libkineto's ``CuptiActivity.cpp`` (github.com/pytorch/kineto) for the records' entries.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from graphsched.errors import FileFormatError, GraphschedWarning
from graphsched.formats.profiler_trace import RESOLUTION_S, HostSpan, ProfilerTrace

Stream = tuple[int, int]
"""A GPU's number, and its stream's."""

_WHOLE_DEVICE = ("cudaDeviceSynchronize", "cuCtxSynchronize")
_ONE_STREAM = ("cudaStreamSynchronize", "cuStreamSynchronize", "cudaEventSynchronize", "cuEventSynchronize")
_OF_STREAMS = ("cudaStreamWaitEvent", "cuStreamWaitEvent")


class Waits:
    """Answers about one trace; works are numbers of its `work`."""

    def __init__(self, trace: ProfilerTrace, events: Sequence[Mapping[str, Any]]) -> None:
        """`events` are those of the file, of all categories."""
        self._trace = trace
        self._records = _records(events)
        known = [call for call in trace.calls if call.correlation is not None]
        self._call_at: dict[int | None, float] = {call.correlation: call.start_s for call in known}
        self._queues: dict[Stream, tuple[list[float], list[int]]] = {}  # by stream: when launched, and which
        for k, work in enumerate(trace.work):
            launched, which = self._queues.setdefault((work.device, work.stream), ([], []))
            at = self._call_at.get(work.correlation, work.start_s)
            launched.append(max([at, *launched[-1:]]))
            which.append(k)
        self._of_streams = self._find_waits_of_streams()

    @staticmethod
    def is_wait(call: HostSpan) -> bool:
        """Whether a call holds up its thread for work of a GPU."""
        return call.name in _WHOLE_DEVICE or call.name in _ONE_STREAM

    def of_host(self, call: HostSpan) -> list[int]:
        """The works that a waiting call waited for: the last of each stream that it is about."""
        record = self._records.get(call.correlation)
        if record is not None and "wait_on_stream" in record:
            found = self._before_event(record, call.start_s)
            return [] if found is None else [found]
        streams = [s for s in self._queues if record is None or record.get("device", s[0]) == s[0]]
        if call.name in _WHOLE_DEVICE:
            return [k for s in streams if (k := self._last(s, call.start_s)) is not None]
        if record is not None and "stream" in record:
            streams = [s for s in streams if s[1] == record["stream"]]
        over = [k for s in streams if (k := self._last_over(s, call)) is not None]
        return sorted(over, key=lambda k: (self._trace.work[k].end_s, k))[-1:]

    def of_work(self, k: int) -> Sequence[int]:
        """The works on other streams that a work's stream waited for before it."""
        return self._of_streams.get(k, ())

    # -- inside ------------------------------------------------------------------------------

    def _find_waits_of_streams(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        unknown = 0
        for call in self._trace.calls:
            if call.name not in _OF_STREAMS:
                continue
            record = self._records.get(call.correlation)
            if record is None:
                unknown += 1
                continue
            after = self._first_after((record.get("device", 0), record.get("stream", -1)), call.start_s)
            before = self._before_event(record, call.start_s)
            if after is not None and before is not None:
                found.setdefault(after, []).append(before)
        if unknown and not self._records:  # where it keeps records, it leaves out events that were over before
            warnings.warn(
                f"the trace has {unknown} waits of streams and does not tell for what: they are left out; record it "
                "with experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)",
                GraphschedWarning,
                stacklevel=2,
            )
        return found

    def _before_event(self, record: Mapping[str, int], asked_at: float) -> int | None:
        """The last work before an event on its stream; of the waiting stream's GPU, if that has such a stream."""
        number = record.get("wait_on_stream")
        recorded_at = self._call_at.get(record.get("wait_on_cuda_event_record_corr_id"), asked_at)
        streams = sorted((s[0] != record.get("device"), s) for s in self._queues if s[1] == number)
        found = (self._last(stream, recorded_at) for _, stream in streams)
        return next((k for k in found if k is not None), None)

    def _last(self, stream: Stream, before_s: float) -> int | None:
        """The last work launched on a stream before a time."""
        launched, which = self._queues[stream]
        place = bisect_left(launched, before_s)
        return which[place - 1] if place else None

    def _last_over(self, stream: Stream, call: HostSpan) -> int | None:
        """The last work launched on a stream before a call that was over when the call returned."""
        launched, which = self._queues[stream]
        for k in reversed(which[: bisect_left(launched, call.start_s)]):
            if self._trace.work[k].end_s <= call.end_s + RESOLUTION_S:
                return k
        return None

    def _first_after(self, stream: Stream, after_s: float) -> int | None:
        """The first work launched on a stream after a time."""
        launched, which = self._queues.get(stream, ([], []))
        place = bisect_left(launched, after_s)
        return which[place] if place < len(which) else None


def _records(events: Sequence[Mapping[str, Any]]) -> dict[int | None, Mapping[str, int]]:
    """The profiler's records of synchronisation by the number of the call."""
    found: dict[int | None, Mapping[str, int]] = {}
    for k, event in enumerate(events):
        if event.get("cat") == "cuda_sync":
            try:
                args = {key: int(value) for key, value in event["args"].items() if key != "cuda_sync_kind"}
                found[args["correlation"]] = args
            except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
                raise FileFormatError(
                    f"traceEvents[{k}], a record of synchronisation, has no correlation, or entries that are no "
                    f"numbers ({error})"
                ) from error
    return found
