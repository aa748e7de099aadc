"""The blocking share consumer."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sharegroup.client import consumer
from sharegroup.client.commit_callback import AckCallback
from sharegroup.client.consumer_metrics import Metrics
from sharegroup.client.core.acknowledgements import AckType
from sharegroup.client.core.holdings import Iteration
from sharegroup.client.record import Record, Records
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition
from sharegroup.sync.front import Front

if TYPE_CHECKING:
    from sharegroup.client.arrow_batches import Answers, ArrowRows
    from sharegroup.client.arrow_decode import RecordBatch


class ShareConsumer(Front):
    """:class:`sharegroup.client.ShareConsumer`, blocking; it takes the same arguments.

    The acknowledgement callback runs on the thread that calls :meth:`poll`, :meth:`commit` or
    :meth:`close`; deserializers run on the background thread.
    """

    def __init__(self, *topics: str, group_id: str, **settings: Any) -> None:
        self._inner = consumer.ShareConsumer(*topics, group_id=group_id, **settings)
        self._inner._callback.elsewhere = True
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

    def start(self) -> None:
        """Connect and join the group."""
        self._run(self._inner.start())

    def close(self, *, timeout_ms: int = 30_000) -> None:
        """Send what is acknowledged, release the rest, leave the group."""
        self._inner._callback.check_outside()
        self._close(self._inner.close(timeout_ms=timeout_ms))
        self._tell()

    @property
    def subscription(self) -> tuple[str, ...]:
        """The topics."""
        return self._inner.subscription

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that the group has given to this consumer now, sorted."""
        return self._inner.assignment

    @property
    def member_id(self) -> str:
        """This consumer's name in the group."""
        return self._inner.member_id

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a lock lasts; None before the first fetch."""
        return self._inner.acquisition_lock_timeout_ms

    def metrics(self) -> Metrics:
        """Kafka's share consumer metrics: (group, name) → value."""
        return self._call(self._inner.metrics)

    def subscribe(self, *topics: str) -> None:
        """Replace the subscription."""
        self._call(lambda: self._inner.subscribe(*topics))

    def unsubscribe(self) -> None:
        """Send what is acknowledged, release the rest, leave the group."""
        self._run(self._inner.unsubscribe())
        self._tell()

    def poll(self, timeout_ms: int = 1_000) -> Records:
        """The next records; empty when there were none within ``timeout_ms``."""
        self._tell()
        return self._run(self._inner.poll(timeout_ms))

    def __iter__(self) -> Iterator[Record]:
        """Records without end, one by one; ends when the consumer is closed."""
        # A record that is at hand costs no way to the other thread and back; nothing there touches
        # what the application holds while it is not waiting in a call.
        inner = self._inner
        while self._thread is not None:
            now = self._thread.loop.time
            iteration = inner._holdings.iteration
            if iteration is None or iteration.exhausted:
                iteration = self._next_iteration()
            for record in iteration.records[iteration.given :]:
                if iteration is not inner._holdings.iteration:
                    break  # a poll in the loop's body has taken the rest
                if now() > inner._flush_at:
                    self._run(inner._give_way())
                iteration.given += 1
                yield record

    def batches(self, timeout_ms: int = 1_000) -> Iterator[Records]:
        """What :meth:`poll` returns, without end, and without the empty ones."""
        while self._thread is not None:
            records = self.poll(timeout_ms)
            if records:
                yield records

    def arrow_batches(
        self,
        *,
        max_records: int = 50_000,
        include_headers: bool = False,
        idle_timeout_ms: int | None = None,
    ) -> Iterator[RecordBatch]:
        """Arrow record batches without end, or until nothing has come for ``idle_timeout_ms``."""
        inner = self._inner
        form = inner._arrow_form(max_records, include_headers)
        wait_s = consumer.GIVE_UP_S if idle_timeout_ms is None else idle_timeout_ms / 1000
        while self._thread is not None:
            self._tell()
            batch = self._run(inner._poll_arrow(form, wait_s))
            if batch is not None:
                yield batch
            elif inner.assignment:
                return

    def _next_iteration(self) -> Iteration:
        self._tell()
        return self._run(self._inner._next_iteration())

    def wakeup(self) -> None:
        """End the :meth:`poll` or :meth:`commit` that waits, or else the next one, with ``Wakeup``.
        From any thread.
        """
        if self._thread is not None:
            self._thread.loop.call_soon_threadsafe(self._inner.wakeup)

    def accept(self, *records: Record | ArrowRows) -> None:
        """Explicit mode: processed."""
        self._inner.accept(*records)

    def release(self, *records: Record | ArrowRows) -> None:
        """Explicit mode: deliver them again."""
        self._inner.release(*records)

    def reject(self, *records: Record | ArrowRows) -> None:
        """Explicit mode: they cannot be processed."""
        self._inner.reject(*records)

    def renew(self, *records: Record | ArrowRows) -> None:
        """Explicit mode: still at work."""
        self._inner.renew(*records)

    def acknowledge(
        self, record: Record | ArrowRows, kind: AckType | Answers = AckType.ACCEPT
    ) -> None:
        """Any of the four; of Arrow rows also one for each."""
        self._inner.acknowledge(record, kind)

    def acknowledge_offset(self, topic: str, partition: int, offset: int, kind: AckType) -> None:
        """Any of the four, by place: for a record that could not be read."""
        self._inner.acknowledge_offset(topic, partition, offset, kind)

    def commit(self, *, timeout_ms: int | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Send what is acknowledged and wait for the outcome per partition."""
        self._tell()
        try:
            return self._run(self._inner.commit(timeout_ms=timeout_ms))
        finally:
            self._tell()

    def commit_async(self) -> None:
        """Send what is acknowledged; the outcome goes to the callback."""
        self._tell()
        self._call(self._inner.commit_async)

    def set_acknowledgement_commit_callback(self, callback: AckCallback | None) -> None:
        """Replace the callback; None: there is none."""
        self._call(lambda: self._inner.set_acknowledgement_commit_callback(callback))

    def _tell(self) -> None:
        self._inner._callback.run(elsewhere=True)
