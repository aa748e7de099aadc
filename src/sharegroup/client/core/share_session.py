"""One member's share session with one broker (KIP-932, "Share sessions"): the next epoch, the
partitions that the broker already knows, and what each request must therefore contain.

Requests of a session go one after another. A session begins with a fetch at epoch 0, which may
carry no acknowledgements; epochs then count from 1; -1 ends it. Any error of the session makes it
begin anew, and the locks that it held are gone. Sans-IO: the caller sends what
:meth:`fetch_request` and :meth:`acknowledge_request` return, and then calls :meth:`answered` or
:meth:`lost`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sharegroup.client.core.acknowledgements import AcknowledgedRange, AckType
from sharegroup.client.core.offset_notes import OffsetNotes
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.limits import DEATH_REASON_LENGTH_MAX
from sharegroup.model.printable import encodable
from sharegroup.wire.messages import share_acknowledge, share_fetch
from sharegroup.wire.messages.acknowledgement_notes import Pause, Reason
from sharegroup.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from sharegroup.wire.messages.share_fetch import ShareFetchRequest

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1

Acknowledgements = Mapping[TopicIdPartition, Sequence[AcknowledgedRange]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """How much one fetch may bring, and how long it may wait for ``min_bytes``.

    ``strict``: never more than ``max_records`` (KIP-1206, record_limit); otherwise record batches
    are acquired whole.
    ``without_records``: acquire only, no bytes (our extension).
    """

    max_records: int
    max_bytes: int
    max_wait_ms: int
    min_bytes: int = 1
    batch_size: int | None = None
    strict: bool = False
    without_records: bool = False


class ShareSession:
    """See the module. ``partitions`` is what the broker has in the session."""

    def __init__(
        self,
        group_id: str,
        member_id: str,
        reasons: OffsetNotes[str],
        pauses: OffsetNotes[int],
    ) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self._reasons = reasons
        self._pauses = pauses
        self._epoch = INITIAL_EPOCH
        self._partitions: frozenset[TopicIdPartition] = frozenset()
        self._next_partitions: frozenset[TopicIdPartition] = frozenset()

    @property
    def open(self) -> bool:
        """The broker has this session, as far as we know: acknowledgements may be sent."""
        return self._epoch != INITIAL_EPOCH

    def fetch_request(
        self,
        wanted: Collection[TopicIdPartition],
        acknowledgements: Acknowledgements,
        limits: FetchLimits,
    ) -> ShareFetchRequest:
        """A fetch from exactly the partitions ``wanted``; ``acknowledgements`` are for these
        partitions only.
        """
        if acknowledgements and not self.open:
            raise AssertionError("a session begins without acknowledgements")
        self._next_partitions = frozenset(wanted)
        told = self._next_partitions - self._partitions
        batches = {p: acknowledgements.get(p, ()) for p in (*told, *acknowledgements)}
        return ShareFetchRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            max_records=limits.max_records,
            batch_size=limits.batch_size or limits.max_records,
            share_acquire_mode=1 if limits.strict else 0,
            topics=self._fetch_topics(batches),
            forgotten_topics_data=_forgotten(self._partitions - self._next_partitions),
            without_records=limits.without_records,
        )

    def acknowledge_request(
        self, acknowledgements: Acknowledgements, *, final: bool = False
    ) -> ShareAcknowledgeRequest:
        """Acknowledgements alone; ``final`` also ends the session, and the broker releases the
        records that are left.
        """
        if not self.open:
            raise AssertionError("there is no session to acknowledge in")
        self._next_partitions = self._partitions
        renews = any(
            AckType.RENEW in one.types for ranges in acknowledgements.values() for one in ranges
        )
        return ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=FINAL_EPOCH if final else self._epoch,
            is_renew_ack=renews,
            topics=self._acknowledge_topics(acknowledgements),
        )

    def answered(self) -> None:
        """The last request was answered without an error of the session: the next epoch."""
        self._partitions = self._next_partitions
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def lost(self) -> None:
        """The session is gone, or may be: begin a new one. Its locks may be gone as well."""
        self._epoch = INITIAL_EPOCH
        self._partitions = frozenset()

    # -- what a request says of the records of its partitions -------------------------------

    def _said(
        self, batches: Acknowledgements, topic_id: UUID, index: int
    ) -> tuple[list[share_acknowledge.AcknowledgementBatch], list[Reason], list[Pause]]:
        """What is said of the records of one partition, why, and for how long they are to rest."""
        partition = TopicIdPartition(topic_id, index)
        ranges = batches[partition]
        return (
            [share_acknowledge.AcknowledgementBatch(*one) for one in ranges],
            [
                Reason(first, last, encodable(text)[:DEATH_REASON_LENGTH_MAX])
                for first, last, text in self._reasons.of(partition, ranges)
            ],
            [Pause(*one) for one in self._pauses.of(partition, ranges)],
        )

    def _fetch_topics(self, batches: Acknowledgements) -> list[share_fetch.FetchTopic]:
        return [
            share_fetch.FetchTopic(
                topic_id,
                [
                    share_fetch.FetchPartition(index, *self._said(batches, topic_id, index))
                    for index in indexes
                ],
            )
            for topic_id, indexes in _by_topic(batches.keys()).items()
        ]

    def _acknowledge_topics(
        self, batches: Acknowledgements
    ) -> list[share_acknowledge.AcknowledgeTopic]:
        return [
            share_acknowledge.AcknowledgeTopic(
                topic_id,
                [
                    share_acknowledge.AcknowledgePartition(
                        index, *self._said(batches, topic_id, index)
                    )
                    for index in indexes
                ],
            )
            for topic_id, indexes in _by_topic(batches.keys()).items()
        ]


def _by_topic(partitions: Collection[TopicIdPartition]) -> dict[UUID, list[int]]:
    topics: dict[UUID, list[int]] = {}
    for partition in sorted(partitions):
        topics.setdefault(partition.topic_id, []).append(partition.partition)
    return topics


def _forgotten(partitions: Collection[TopicIdPartition]) -> list[share_fetch.ForgottenTopic]:
    return [
        share_fetch.ForgottenTopic(topic_id, indexes)
        for topic_id, indexes in _by_topic(partitions).items()
    ]
