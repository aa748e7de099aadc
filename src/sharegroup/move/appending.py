"""Appends batches to a partition, each once: as an idempotent producer, so that a request that is
sent again is not written again."""

from __future__ import annotations

from typing import Final

from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.retrying import retrying
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.move.side import MoveRefused, lane_of
from sharegroup.upstream.raw_log import RawLog
from sharegroup.wire import apis
from sharegroup.wire.batch import HEADER_BYTES, parse_header, with_records
from sharegroup.wire.messages.init_producer_id import InitProducerIdRequest

SEQUENCES: Final = 2**31


class Appending:
    """Of one partition; one batch at a time.

    Attributes:
        end: the offset after the batches that were appended.
    """

    def __init__(self, cluster: Cluster, where: TopicPartition, end: int) -> None:
        self.end = end
        self._cluster = cluster
        self._where = where
        self._log = RawLog(cluster, where, lane_of(where))
        self._producer: tuple[int, int] | None = None
        self._sequence = 0

    async def append(self, batch: bytes) -> None:
        """Append a batch, durably.

        Raises:
            KafkaError: it may be there all the same.
            MoveRefused: somebody else writes to the partition, or the batch is too large.
        """
        if self._producer is None:
            self._producer = await self._identify()
        header = parse_header(batch)
        producer_id, epoch = self._producer
        header = header._replace(
            producer_id=producer_id, producer_epoch=epoch, base_sequence=self._sequence
        )
        ours = with_records(header, batch[HEADER_BYTES:])
        timeout_ms = self._cluster.request_timeout_ms

        async def attempt() -> int:
            return await self._log.append(ours, timeout_ms)

        try:
            at = await retrying(self._cluster, attempt, timeout_ms)
        except errors.DuplicateSequenceNumber:
            at = self.end  # written by an earlier attempt, so long ago that its offset is forgotten
        except errors.MessageTooLarge:
            raise MoveRefused(
                f"a record of {self._where} takes a batch of {len(ours)} bytes, which is more than "
                "max.message.bytes of the topic, or message.max.bytes of the broker, at the target "
                "allows: raise it, and run this again"
            ) from None
        if at != self.end:
            raise MoveRefused(
                f"somebody else writes to {self._where}: its end was {self.end}, and is {at}"
            )
        self.end += header.record_count
        self._sequence = (self._sequence + header.record_count) % SEQUENCES

    async def _identify(self) -> tuple[int, int]:
        async def attempt() -> tuple[int, int]:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            answer = await self._cluster.send_to_any(apis.INIT_PRODUCER_ID, request)
            if answer.error_code:
                raise errors.error_from_code(answer.error_code)
            return answer.producer_id, answer.producer_epoch

        return await retrying(self._cluster, attempt, self._cluster.request_timeout_ms)
