"""What tests and benchmarks ask of a server, ours or Apache Kafka, without knowing which it is."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tests.servers.process import ServerProcess, Usage


class Killed(Protocol):
    """What a recorder of histories asks of a server."""

    bootstrap: str

    @property
    def process(self) -> ServerProcess: ...

    def start(self) -> None: ...

    def kill(self) -> None: ...


class RunningServer(Protocol):
    """A Kafka server on this machine. `start` returns when it answers requests."""

    name: str
    bootstrap: str
    data: Path

    def prepare(self) -> None:
        """Do once what must be done before the first start."""
        ...

    def start(self) -> None: ...

    def start_and_probe(self) -> None:
        """Start and return as soon as an ApiVersions request is answered."""
        ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...

    def usage(self) -> Usage: ...

    def output(self) -> str: ...
