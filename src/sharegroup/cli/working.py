"""Runs the worker of ``sharegroup work``, until a signal, or until it is idle."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, cast

from sharegroup.cli.broker_check import admin_of, reach
from sharegroup.cli.connecting import BrokerAddress
from sharegroup.cli.outcome import ExitCode, complain
from sharegroup.cli.stopping import SIGNALS, Stopping
from sharegroup.client.errors import RecordDeserializationError
from sharegroup.client.share.calls import ShareCalls, share_calls
from sharegroup.client.share.settings import ShareConsumerSettings
from sharegroup.client.worker.handler_kinds import is_coroutine_function
from sharegroup.client.worker.settings import WorkerSettings
from sharegroup.client.worker.worker import Worker
from sharegroup.sync.worker_threads import HandlerThreads

_LOOK_S: Final = 0.2
"""The most seconds between two looks at what the worker has to do."""
_TO_DO: Final = ("in-flight", "waiting", "resting", "resting-at-broker", "kept")
"""Figures of records that the worker holds, or that are expected back."""


class Decode(StrEnum):
    """What a record's value is for the handler; null stays None."""

    BYTES = "bytes"
    TEXT = "text"
    JSON = "json"


_DECODERS: Final[dict[Decode, Callable[[bytes], Any] | None]] = {
    Decode.BYTES: None,
    Decode.TEXT: bytes.decode,
    Decode.JSON: json.loads,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOptions:
    """The user's options."""

    handler: Callable[[Any], Any]
    topics: list[str]
    group: str
    settings: WorkerSettings
    decode: Decode
    from_beginning: bool
    idle_s: float | None
    broker: BrokerAddress


async def run_worker(wanted: WorkOptions) -> int:
    """Work until a signal, or until there was nothing to do for ``idle_s``. Returns the exit
    status.

    Raises:
        SharegroupError: no broker can be reached, or the broker refuses the group.
    """
    with Stopping() as stopping:
        await stopping.unless_stopped(_prepare(wanted))
    if stopping.exit_code is not None:
        return stopping.exit_code
    settings: dict[str, Any] = {
        "bootstrap_servers": wanted.broker.servers,
        "value_deserializer": _DECODERS[wanted.decode],
        "client_id": f"work-{socket.gethostname()}-{os.getpid()}",  # whom to look for
        **wanted.broker.arguments,
    }
    calls = share_calls(
        wanted.topics, wanted.group, cast(ShareConsumerSettings[Any, Any], settings)
    )
    with _worker(calls, wanted) as worker, _stopped_by_signals(worker) as heard:
        watching = asyncio.create_task(_stop_when_idle(worker, calls, wanted.idle_s))
        try:
            await worker.run()
        finally:
            watching.cancel()
            await asyncio.wait([watching])
    return heard[0] if heard else ExitCode.DONE


async def _prepare(wanted: WorkOptions) -> None:
    """Wait for a broker that is starting, and set where a new group begins."""
    if not wanted.from_beginning:
        await reach(wanted.broker)
        return
    async with admin_of(wanted.broker) as admin:
        if not await admin.begin_group_at(wanted.group, "earliest"):
            complain(f"group {wanted.group} is not new: --from-beginning has no effect")


@contextmanager
def _worker(calls: ShareCalls, wanted: WorkOptions) -> Iterator[Worker]:
    """A worker whose handlers are coroutines, or run in threads. A value that cannot be decoded
    will never be: it is given up at once."""
    settings = replace(wanted.settings, fatal=(RecordDeserializationError,))
    if is_coroutine_function(wanted.handler):
        yield Worker(calls, wanted.handler, settings)
        return
    threads = HandlerThreads(wanted.handler, settings.concurrency, asyncio.get_running_loop())
    try:
        worker = Worker(
            calls,
            threads.handle,
            settings,
            interruptible=False,
            overdue=lambda: threads.overdue,
        )
        threads.on_freed = worker.slot_freed
        yield worker
    finally:
        threads.close()


@contextmanager
def _stopped_by_signals(worker: Worker) -> Iterator[list[ExitCode]]:
    """Ctrl-C and SIGTERM drain the worker, and the second one ends it at once. Yields the exit
    statuses of the signals that came."""
    loop = asyncio.get_running_loop()
    heard: list[ExitCode] = []

    def hear(code: ExitCode) -> None:
        heard.append(code)
        worker.interrupt()

    for number, code in SIGNALS.items():
        loop.add_signal_handler(number, hear, code)
    try:
        yield heard
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def _stop_when_idle(worker: Worker, calls: ShareCalls, idle_s: float | None) -> None:
    """Stop the worker when it has held nothing for ``idle_s``, and none of its failed records
    rests: these come again when they are due, here or elsewhere. The time begins with the first
    assignment; there is none while none of the topics exists. None: never."""
    if idle_s is None:
        return
    now = asyncio.get_running_loop().time
    last_s, handled = now(), 0.0
    while now() - last_s < idle_s:
        await asyncio.sleep(min(_LOOK_S, idle_s))
        figures = {name: value for (_, name), value in worker.read_metrics().items()}
        ended = sum(figures[name] for name in ("handled-total", "failed-total", "lost-locks-total"))
        waits = not calls.life.assignment and not calls.parts.cluster.lacks(
            calls.parts.member.topics
        )
        if any(figures[name] for name in _TO_DO) or ended != handled or waits:
            last_s, handled = now(), ended
    worker.stop()
