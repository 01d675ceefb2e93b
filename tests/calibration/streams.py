"""Streams and events that only keep the time."""

from __future__ import annotations

from types import SimpleNamespace


class Stream:
    def __init__(self, device: int) -> None:
        self.device, self.time_s = SimpleNamespace(index=device), 0.0

    def wait_event(self, event: Event) -> None:
        self.time_s = max(self.time_s, event.time_s)


class Event:
    time_s = -1.0

    def record(self, stream: Stream) -> None:
        self.time_s = stream.time_s
