"""``ShareConsumer.run``: the usual loop around a queue, written once."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sharegroup.client.core.record import K, Record, V
from sharegroup.client.errors import IllegalState
from sharegroup.client.worker.settings import SIGNALS, WorkerSettings

if TYPE_CHECKING:
    import asyncio

    from sharegroup.client.core.held_deliveries import Holdings
    from sharegroup.client.network.cluster import Cluster
    from sharegroup.client.records.decode import Decoding
    from sharegroup.client.share.commit_callback import CommitCallback
    from sharegroup.client.share.committer import Committer
    from sharegroup.client.share.fetcher import Fetcher
    from sharegroup.client.share.share_member import ShareMember
    from sharegroup.client.worker.retry import Backoff
    from sharegroup.client.worker.worker import Worker

T = TypeVar("T")


class Running(ABC, Generic[K, V]):
    """The part of a share consumer that calls a handler for each record."""

    _callback: CommitCallback
    _cluster: Cluster
    _committer: Committer
    _decoding: Decoding
    _fetcher: Fetcher
    _form: str | None
    _group_id: str
    _holdings: Holdings
    _lock_keeper: asyncio.Task[None] | None
    _member: ShareMember
    _worker: Worker | None = None

    @property
    @abstractmethod
    def subscription(self) -> tuple[str, ...]:
        """The subscribed topics."""

    @abstractmethod
    async def start(self) -> None:
        """Connect and join the group."""

    @abstractmethod
    async def close(self, *, timeout_ms: int = 30_000) -> None:
        """Release the records that are left, leave the group."""

    @abstractmethod
    def _check_usable(self) -> None:
        """Raises IllegalState: the consumer is closed, or this is its callback."""

    @abstractmethod
    async def _poll(self, wait_s: float, take: Callable[[], T]) -> T | None:
        """The result of ``take``, after as many fetches as ``wait_s`` allows."""

    async def run(
        self,
        handler: Callable[[Record[K, V]], Awaitable[object]],
        *,
        concurrency: int = 10,
        prefetch: int | None = None,
        retry: Backoff | None = None,
        dead_letter: str | None = None,
        create_dead_letter: bool = False,
        fatal: Sequence[type[Exception]] = (),
        timeout_s: float | None = None,
        drain_s: float = 30.0,
        signals: Sequence[signal.Signals] = SIGNALS,
    ) -> None:
        """Call ``handler`` with each record, up to ``concurrency`` at once, until SIGTERM, SIGINT,
        :meth:`stop` or cancellation. Then close the consumer.

        If the handler returns, the record is accepted. If it raises, the record is released after a
        pause and delivered again, to any member. If it raises in the last attempt, or raises
        :class:`Reject`, the record goes to the dead-letter topic and is rejected. The lock is
        renewed while the handler runs; if the lock is lost, the handler is cancelled.
        ``docs/worker.md`` has all cases.

        Args:
            handler: a coroutine function of one :class:`Record`.
            concurrency: how many handlers run at once.
            prefetch: how many more records to hold, waiting for a slot; None: as many as there are
                slots.
            retry: the pauses, and the number of failed deliveries after which the worker gives up
                on a record; None: ``Backoff()``.
            dead_letter: the topic for records that the worker gives up on; None: they are only
                rejected and logged.
            create_dead_letter: create the dead-letter topic if it is missing.
            fatal: exceptions that end the attempts at once, as :class:`Reject` does.
            timeout_s: a handler that takes longer has failed; None: no limit.
            drain_s: how long handlers may continue after the worker is stopped.
            signals: signals that stop the worker, if this runs in the main thread. A second signal
                ends it at once.

        Raises:
            ConfigError: an argument is invalid, the dead-letter topic does not exist, or the
                handler is not a coroutine function.
            IllegalState: the consumer is closed, or has polled before.
            BootstrapError, KafkaError: no broker could be reached, or the group or the topic was
                refused with a permanent error.
        """
        settings = WorkerSettings(
            concurrency=concurrency,
            prefetch=prefetch,
            retry=retry,
            dead_letter=dead_letter,
            create_dead_letter=create_dead_letter,
            fatal=fatal,
            timeout_s=timeout_s,
            drain_s=drain_s,
            signals=signals,
        )
        await self._new_worker(handler, settings).run()

    def stop(self) -> None:
        """End :meth:`run`: running handlers may continue for ``drain_s``, all other records are
        released. Call it only on the event loop's thread; the synchronous consumer's ``stop`` may
        be called from any thread.

        Raises:
            IllegalState: :meth:`run` is not running.
        """
        if self._worker is None:
            raise IllegalState("run() was not called, so there is nothing to stop")
        self._worker.stop()

    def _new_worker(
        self,
        handler: Callable[[Record[K, V]], Awaitable[object]],
        settings: WorkerSettings,
        **threads: Any,
    ) -> Worker:
        """The worker of :meth:`run`; a consumer has at most one in its life."""
        self._check_usable()
        if self._form is not None:
            raise IllegalState(
                "run() needs a consumer that has polled nothing, and runs once: make another one"
            )
        self._form = "records to run()"
        module = import_module("sharegroup.client.worker.worker")  # loads producer and admin client
        worker: Worker = module.Worker(self, handler, settings, **threads)
        self._worker = worker
        return worker
