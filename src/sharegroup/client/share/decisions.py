"""The application's answers in explicit mode: for single records, or for whole Arrow batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.client.core.record import Record
from sharegroup.client.records.arrow_modules import arrow
from sharegroup.client.share.life import ShareLife
from sharegroup.client.share.parts import ShareParts
from sharegroup.model.ids import TopicPartition

if TYPE_CHECKING:
    from sharegroup.client.share.arrow_batches import Answers, ArrowRows


ARROW_BATCHES: Final = "sharegroup.client.share.arrow_batches"


class ConsumerDecisions:
    """See the module. Errors are as in ``ShareConsumer.accept``."""

    def __init__(self, parts: ShareParts, life: ShareLife) -> None:
        self._holdings = parts.holdings
        self._life = life

    def decide(self, records: Sequence[Record[Any, Any] | ArrowRows], kind: AckType) -> None:
        """One answer for all these records."""
        self._life.check_usable()
        tables = [one for one in records if not isinstance(one, Record)]
        if not tables:
            self._holdings.decide(records, kind)
            return
        self._holdings.decide((one for one in records if isinstance(one, Record)), kind)
        for one in tables:
            arrow(ARROW_BATCHES).answer_rows(self._holdings, one, kind)

    def acknowledge(self, record: Record[Any, Any] | ArrowRows, kind: AckType | Answers) -> None:
        """The answer for a record, or the answers for Arrow rows."""
        self._life.check_usable()
        if isinstance(record, Record):
            self._holdings.decide((record,), AckType(kind))
        else:
            arrow(ARROW_BATCHES).answer_rows(self._holdings, record, kind)

    def decide_offset(self, where: TopicPartition, offset: int, kind: AckType) -> None:
        """The answer for the record with this offset."""
        self._life.check_usable()
        self._holdings.decide_offset(where, offset, kind)
