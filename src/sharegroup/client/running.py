"""``ShareConsumer.run``: the loop that people write around a queue, written once."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sharegroup.client.errors import IllegalState
from sharegroup.client.record import K, Record, V
from sharegroup.client.worker_settings import SIGNALS, WorkerSettings

if TYPE_CHECKING:
    import asyncio

    from sharegroup.client.cluster import Cluster
    from sharegroup.client.commit_callback import CommitCallback
    from sharegroup.client.committer import Committer
    from sharegroup.client.core.holdings import Holdings
    from sharegroup.client.decode import Decoding
    from sharegroup.client.fetcher import Fetcher
    from sharegroup.client.share_member import ShareMember
    from sharegroup.client.worker import Worker
    from sharegroup.client.worker_retry import Backoff

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
        """The topics."""

    @abstractmethod
    async def start(self) -> None:
        """Connect and join the group."""

    @abstractmethod
    async def close(self, *, timeout_ms: int = 30_000) -> None:
        """Release what is left, leave the group."""

    @abstractmethod
    def _check_usable(self) -> None:
        """Raises IllegalState: the consumer is closed, or this is its callback."""

    @abstractmethod
    async def _poll(self, wait_s: float, take: Callable[[], T]) -> T | None:
        """What ``take`` gets, after as many fetches as ``wait_s`` allows."""

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
        """Call ``handler`` with each record, for up to ``concurrency`` of them at once, until
        SIGTERM, SIGINT, :meth:`stop`, or until this is cancelled. The consumer is closed then.

        The handler returns: the record is accepted. It raises: the record is released after a
        pause, and comes again, to anybody. It raises for the last time, or raises
        :class:`Reject`: the record goes to the dead-letter topic and is rejected. Locks are
        renewed as long as the handler runs; when one is lost all the same, the handler is
        cancelled. ``docs/worker.md`` says what happens when.

        Args:
            handler: a coroutine function of one :class:`Record`.
            concurrency: how many handlers run at once.
            prefetch: how many more records may be held, waiting for a slot; None: as many as there
                are slots.
            retry: pauses, and after how many failed deliveries a record is given up; None:
                ``Backoff()``.
            dead_letter: the topic for records that are given up; None: they are rejected, and the
                log is all that tells of them.
            create_dead_letter: make that topic when it is missing.
            fatal: exceptions after which a record is given up at once, as with :class:`Reject`.
            timeout_s: a handler that takes longer has failed; None: it may take for ever.
            drain_s: how long handlers may go on when the worker is stopped.
            signals: those that stop the worker, when this runs in the main thread. A second one
                ends it at once.

        Raises:
            ConfigError: an argument cannot be; there is no dead-letter topic; or the handler is no
                coroutine function.
            IllegalState: the consumer is closed, or something was polled before.
            BootstrapError, KafkaError: no broker could be reached, or the group or the topic is
                refused for good.
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
        """End :meth:`run`: handlers that run may go on for ``drain_s``, all other records are
        released. From the loop's thread only; the synchronous consumer's may be called from any.

        Raises:
            IllegalState: nothing runs.
        """
        if self._worker is None:
            raise IllegalState("there is nothing to stop: run() was not called")
        self._worker.stop()

    def _new_worker(
        self,
        handler: Callable[[Record[K, V]], Awaitable[object]],
        settings: WorkerSettings,
        **threads: Any,
    ) -> Worker:
        """The worker of :meth:`run`; there is one in a consumer's life."""
        self._check_usable()
        if self._form is not None:
            raise IllegalState(
                "run() needs a consumer that has polled nothing, and runs once: make another one"
            )
        self._form = "records to run()"
        module = import_module("sharegroup.client.worker")  # with producer and admin client
        worker: Worker = module.Worker(self, handler, settings, **threads)
        self._worker = worker
        return worker
