"""``commit`` and ``commit_async`` of a share consumer."""

from __future__ import annotations

from sharegroup.client.share.commit_callback import AckCallback
from sharegroup.client.share.life import ShareLife
from sharegroup.client.share.parts import ShareParts
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition


class ShareCommits:
    """Sends the application's acknowledgements when it says so. A loop's record in work counts as
    done only if the task or thread that works on it commits: ``asker``.
    """

    def __init__(self, parts: ShareParts, life: ShareLife) -> None:
        self._parts = parts
        self._life = life

    async def commit(
        self, timeout_ms: int | None, asker: object
    ) -> dict[TopicPartition, KafkaError | None]:
        """Send pending acknowledgements, and await the outcome of each partition; as
        ``ShareConsumer.commit``."""
        parts = self._parts
        self._life.check_usable()
        parts.callback.run()
        async with parts.wakeup.answering():
            wait_s = None if timeout_ms is None else timeout_ms / 1000
            await parts.leaving.generators_closed()
            in_work = parts.leaving.may_accept_work(asker)
            outcomes = await parts.committer.commit(wait_s, in_work=in_work)
        parts.callback.run()
        return {parts.names.of(partition): error for partition, error in outcomes.items()}

    def commit_async(self, asker: object) -> None:
        """As :meth:`commit`, without waiting."""
        parts = self._parts
        self._life.check_usable()
        parts.callback.run()
        parts.committer.queue_decided(in_work=parts.leaving.may_accept_work(asker))
        parts.committer.begin_renewals()
        parts.committer.flush()

    def replace_callback(self, callback: AckCallback | None) -> None:
        """Replace the callback that gets the outcomes; None removes it."""
        self._life.check_usable()
        self._parts.callback.replace(callback)
