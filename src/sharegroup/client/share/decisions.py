"""The application's answers in explicit mode: for single records, or for whole Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.client.core.handed_over import HandedOver, hand_over
from sharegroup.client.core.record import Record, delivery_of
from sharegroup.client.records.arrow_modules import arrow
from sharegroup.client.share.life import ShareLife
from sharegroup.client.share.parts import ShareParts
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.limits import PAUSE_MS_MAX

if TYPE_CHECKING:
    from sharegroup.client.share.arrow_batches import Answers, ArrowRows


ARROW_BATCHES: Final = "sharegroup.client.share.arrow_batches"


class ConsumerDecisions:
    """See the module. Errors are as in ``ShareConsumer.accept``."""

    def __init__(self, parts: ShareParts, life: ShareLife) -> None:
        self._holdings = parts.holdings
        self._member = parts.member
        self._reasons = parts.member.reasons
        self._pauses = parts.member.pauses
        self._life = life

    def decide(
        self,
        records: Sequence[Record[Any, Any] | ArrowRows],
        kind: AckType,
        reason: str | None = None,
        delay_ms: int | None = None,
    ) -> None:
        """One answer for all these records, why, and how long they are to rest.

        Raises:
            ValueError: ``delay_ms`` is below 0, or over PAUSE_MS_MAX.
        """
        self._life.check_usable()
        _check_records(records)
        _check_notes(reason, delay_ms)
        if delay_ms is not None and not 0 <= delay_ms <= PAUSE_MS_MAX:
            raise ValueError(f"delay_ms is {delay_ms}: 0 to {PAUSE_MS_MAX} is possible")
        single = [one for one in records if isinstance(one, Record)]
        tables = [one for one in records if not isinstance(one, Record)]
        self._holdings.decide(single, kind)
        self._note(((delivery_of(one).partition, one.offset) for one in single), reason, delay_ms)
        for table in tables:
            self._answer_rows(table, kind, reason, delay_ms)

    def acknowledge(self, record: Record[Any, Any] | ArrowRows, kind: AckType | Answers) -> None:
        """The answer for a record, or the answers for Arrow rows."""
        self._life.check_usable()
        _check_records((record,))
        if isinstance(record, Record):
            self.decide((record,), AckType(kind))
        else:
            self._answer_rows(record, kind)

    def hand_over(
        self, records: Sequence[Record[Any, Any]], kind: AckType, reason: str | None
    ) -> HandedOver:
        """As ``ShareConsumer.hand_over``."""
        self._life.check_usable()
        _check_records(records)
        _check_notes(reason)
        if kind not in (AckType.ACCEPT, AckType.REJECT):
            raise ValueError("in a transaction, records are accepted or rejected")
        self._holdings.check_explicit()
        handed = hand_over(self._holdings, records)
        self._note((one.delivery.partition, one.offset) for one in handed)
        return HandedOver(self._member.group_id, self._member.member_id, handed, kind, reason)

    def decide_offset(self, where: TopicPartition, offset: int, kind: AckType) -> None:
        """The answer for the record with this offset."""
        self._life.check_usable()
        partition = self._holdings.decide_offset(where, offset, kind)
        self._note([(partition, offset)])

    def _answer_rows(
        self,
        table: ArrowRows,
        answers: Answers,
        reason: str | None = None,
        delay_ms: int | None = None,
    ) -> None:
        for partition, offsets in arrow(ARROW_BATCHES).answer_rows(self._holdings, table, answers):
            self._note(((partition, one) for one in offsets.tolist()), reason, delay_ms)

    def _note(
        self,
        answered: Iterable[tuple[TopicIdPartition, int]],
        reason: str | None = None,
        delay_ms: int | None = None,
    ) -> None:
        """What is said beside the answers for these records. What was said beside earlier answers
        for them goes with those."""
        if reason is not None or self._reasons or delay_ms is not None or self._pauses:
            for partition, offset in answered:
                self._reasons.note(partition, offset, reason)
                self._pauses.note(partition, offset, delay_ms)


def _check_records(given: Iterable[object]) -> None:
    """Raises TypeError: one is a list of records, such as a poll returns."""
    for one in given:
        if isinstance(one, list | tuple):
            raise TypeError(f"a {type(one).__name__} is no record: pass its records, by *records")


def _check_notes(reason: object, delay_ms: object = None) -> None:
    """Raises TypeError: one is of the wrong kind. Found only when it is sent, it would take all
    acknowledgements of its request with it."""
    if not isinstance(reason, str | None):
        right = "str(error)" if isinstance(reason, BaseException) else "a str"
        raise TypeError(f"reason is {reason!r}, no text: write reason={right}")
    if not isinstance(delay_ms, Integral | None) or isinstance(delay_ms, bool):
        raise TypeError(f"delay_ms is {delay_ms!r}: write an int, the milliseconds")
