"""The blocking share consumer."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.client.core.handed_over import HandedOver
from sharegroup.client.core.record import K, Record, Records, V
from sharegroup.client.core.shown_settings import shows
from sharegroup.client.errors import IllegalState
from sharegroup.client.share.calls import share_calls
from sharegroup.client.share.commit_callback import AckCallback
from sharegroup.client.share.metrics import Metrics
from sharegroup.client.share.settings import CheckedShareConsumerSettings, ShareConsumerSettings
from sharegroup.client.worker.settings import SIGNALS, WorkerSettings
from sharegroup.client.worker.worker import Worker
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition
from sharegroup.sync.front import Front
from sharegroup.sync.loops import ArrowLoop, BatchLoop, LoopCalls, RecordLoop
from sharegroup.sync.worker_threads import HandlerThreads, signals_call

if TYPE_CHECKING:
    from sharegroup.client.share.arrow_batches import Answers, ArrowRows
    from sharegroup.client.worker.retry import Backoff


class ShareConsumer(Front, Generic[K, V]):
    """:class:`sharegroup.client.ShareConsumer`, blocking; it takes the same arguments.

    The acknowledgement callback runs on the thread that calls :meth:`poll`, :meth:`commit` or
    :meth:`close`; deserializers run on the background thread.
    """

    @shows(CheckedShareConsumerSettings)
    def __init__(
        self,
        *topics: str,
        group_id: str,
        **settings: Unpack[ShareConsumerSettings[K, V]],
    ) -> None:
        self._calls = calls = share_calls(topics, group_id, settings)
        self._parts, self._life, self._polling = calls.parts, calls.life, calls.polling
        self._decisions, self._commits = calls.decisions, calls.commits
        self._parts.callback.elsewhere = True
        self._worker: Worker | None = None
        super().__init__()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        unclosed = self._thread is not None
        super().__del__()  # warns
        if unclosed:
            self._life.forsake()

    def start(self) -> None:
        """Connect and join the group."""
        self._run(self._life.start())

    def close(self, *, timeout_ms: int = 30_000) -> None:
        """Send pending acknowledgements, release all other records, leave the group."""
        self._parts.callback.check_outside()
        self._close(self._life.close(timeout_ms))
        self._tell()

    @property
    def subscription(self) -> tuple[str, ...]:
        """The subscribed topics."""
        return self._parts.member.topics

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that the group has given to this consumer now, sorted."""
        return self._life.assignment

    @property
    def member_id(self) -> str:
        """This consumer's name in the group."""
        return self._parts.member.member_id

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a lock lasts; None before the first fetch."""
        return self._parts.member.lock_timeout_ms

    def metrics(self) -> Metrics:
        """Kafka's share consumer metrics: (group, name) → value."""
        return self._call(self._read_metrics)

    def _read_metrics(self) -> Metrics:
        worker = {} if self._worker is None else self._worker.read_metrics()
        return self._parts.member.metrics.read() | worker

    def subscribe(self, *topics: str) -> None:
        """Replace the subscription."""
        self._call(lambda: self._life.subscribe(topics))

    def unsubscribe(self) -> None:
        """Send pending acknowledgements, release all other records, leave the group."""
        self._run(self._life.unsubscribe())
        self._tell()

    def poll(self, timeout_ms: int = 1_000) -> Records[K, V]:
        """The next records; empty when there were none within ``timeout_ms``."""
        self._tell()
        return self._run(self._polling.poll_records(timeout_ms / 1000))

    def __iter__(self) -> RecordLoop[K, V]:
        """An endless loop over records; ends when the consumer is closed."""
        return RecordLoop(self._polling, self._for_loops())

    def batches(self, timeout_ms: int = 1_000) -> BatchLoop[K, V]:
        """An endless loop over the results of :meth:`poll`, without the empty ones."""
        return BatchLoop(self._polling, self._for_loops(), timeout_ms / 1000)

    def arrow_batches(
        self,
        *,
        max_records: int = 50_000,
        include_headers: bool = False,
        idle_timeout_ms: int | None = None,
    ) -> ArrowLoop:
        """A loop over Arrow record batches: endless, or until no batch came for
        ``idle_timeout_ms``."""
        return ArrowLoop(
            self._polling, self._for_loops(), max_records, include_headers, idle_timeout_ms
        )

    def run(
        self,
        handler: Callable[[Record[K, V]], object],
        *,
        concurrency: int = 10,
        prefetch: int | None = None,
        retry: Backoff | None = None,
        dead_letter: str | None = None,
        create_dead_letter: bool = False,
        dead_letter_traceback: bool = False,
        fatal: Sequence[type[Exception]] = (),
        timeout_s: float | None = None,
        drain_s: float = 30.0,
        cancel_when_lost: bool | None = None,
        signals: Sequence[signal.Signals] = SIGNALS,
    ) -> None:
        """Call ``handler`` with each record, in up to ``concurrency`` threads, until SIGTERM,
        SIGINT or :meth:`stop`. Then close the consumer.

        Arguments and errors are as in :meth:`sharegroup.client.ShareConsumer.run`, with one
        difference: a thread cannot be interrupted. A handler that takes longer than ``timeout_s``
        has failed, but keeps its slot until it ends. If it still runs after ``drain_s``, its record
        is released, and the thread ends with the program. The acknowledgement callback runs on the
        background thread.
        """
        settings = WorkerSettings(
            concurrency=concurrency,
            prefetch=prefetch,
            retry=retry,
            dead_letter=dead_letter,
            create_dead_letter=create_dead_letter,
            dead_letter_traceback=dead_letter_traceback,
            fatal=fatal,
            timeout_s=timeout_s,
            drain_s=drain_s,
            cancel_when_lost=cancel_when_lost,
            signals=(),  # handled here, on the main thread
        )
        if self._thread is None:
            raise IllegalState("the ShareConsumer is closed")
        loop = self._thread.loop
        threads = HandlerThreads(handler, concurrency, loop)
        worker = self._worker = self._call(
            lambda: Worker(
                self._calls,
                threads.handle,
                settings,
                interruptible=False,
                overdue=lambda: threads.overdue,
            )
        )
        threads.on_freed = worker.slot_freed
        self._parts.callback.elsewhere = False
        try:
            with signals_call(signals, lambda: loop.call_soon_threadsafe(worker.interrupt)):
                self._run(worker.run())
        finally:
            threads.close()
            self.close()

    def stop(self) -> None:
        """End :meth:`run`, from any thread: running handlers may continue for ``drain_s``, all
        other records are released. After :meth:`run` it does nothing.

        Raises:
            IllegalState: :meth:`run` was not called.
        """
        worker, thread = self._worker, self._thread
        if worker is None:
            raise IllegalState("run() was not called, so there is nothing to stop")
        if thread is not None:
            thread.loop.call_soon_threadsafe(worker.stop)

    def wakeup(self) -> None:
        """End the waiting :meth:`poll` or :meth:`commit`, or else the next one, with ``Wakeup``.
        Any thread may call it.
        """
        if self._thread is not None:
            self._thread.loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._worker is None:
            self._parts.wakeup.ring()
        else:
            self._worker.stop()

    def accept(self, *records: Record[Any, Any] | ArrowRows) -> None:
        """Explicit mode: the records were processed."""
        self._decisions.decide(records, AckType.ACCEPT)

    def release(
        self,
        *records: Record[Any, Any] | ArrowRows,
        delay_ms: int | None = None,
        reason: str | None = None,
    ) -> None:
        """Explicit mode: deliver the records again, not before ``delay_ms``. ``reason``: why, for a
        dead letter."""
        self._decisions.decide(records, AckType.RELEASE, reason, delay_ms)

    def reject(self, *records: Record[Any, Any] | ArrowRows, reason: str | None = None) -> None:
        """Explicit mode: the records cannot be processed. ``reason``: why, for their dead
        letters."""
        self._decisions.decide(records, AckType.REJECT, reason)

    def renew(self, *records: Record[Any, Any] | ArrowRows) -> None:
        """Explicit mode: processing goes on; renew the acquisition locks."""
        self._decisions.decide(records, AckType.RENEW)

    def acknowledge(
        self, record: Record[Any, Any] | ArrowRows, kind: AckType | Answers = AckType.ACCEPT
    ) -> None:
        """Accept, release, reject or renew; for Arrow rows also one answer per row."""
        self._decisions.acknowledge(record, kind)

    def hand_over(
        self,
        *records: Record[Any, Any],
        kind: AckType = AckType.ACCEPT,
        reason: str | None = None,
    ) -> HandedOver:
        """Explicit mode: hand records to a transaction, which calls this."""
        return self._decisions.hand_over(records, kind, reason)

    def acknowledge_offset(self, topic: str, partition: int, offset: int, kind: AckType) -> None:
        """As :meth:`acknowledge`, by offset: for a record that could not be read."""
        self._decisions.decide_offset(TopicPartition(topic, partition), offset, kind)

    def commit(self, *, timeout_ms: int | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Send pending acknowledgements and wait for the outcome of each partition."""
        self._tell()
        try:
            return self._run(self._commits.commit(timeout_ms, get_ident()))
        finally:
            self._tell()

    def commit_async(self) -> None:
        """Send pending acknowledgements without waiting. The callback gets the outcome."""
        self._tell()
        asker = get_ident()
        self._call(lambda: self._commits.commit_async(asker))

    def set_acknowledgement_commit_callback(self, callback: AckCallback | None) -> None:
        """Replace the callback; None removes it."""
        self._call(lambda: self._commits.replace_callback(callback))

    def _tell(self) -> None:
        self._parts.callback.run(elsewhere=True)

    def _for_loops(self) -> LoopCalls:
        return LoopCalls(self._run, self._tell)
