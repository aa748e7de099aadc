"""The application's acknowledgements: of single records, or of whole Arrow batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.client.core.held_deliveries import Holdings
from sharegroup.client.core.record import Record
from sharegroup.client.records.arrow_modules import arrow
from sharegroup.model.ids import TopicPartition

if TYPE_CHECKING:
    from sharegroup.client.share.arrow_batches import Answers, ArrowRows


ARROW_BATCHES: Final = "sharegroup.client.share.arrow_batches"


class Answering(ABC):
    """The part of a share consumer that acknowledges records in explicit mode."""

    _holdings: Holdings

    @abstractmethod
    def _check_usable(self) -> None:
        """Raises IllegalState: the consumer is closed, or this is its callback."""

    def accept(self, *records: Record[Any, Any] | ArrowRows) -> None:
        """Explicit mode: the records were processed and are not delivered again. Sent by the next
        :meth:`poll` or :meth:`commit`.

        Args:
            records: records, Arrow batches, or data frames made from Arrow batches that still have
                the columns topic, partition and offset.

        Raises:
            IllegalState: the mode is implicit, or a record's acknowledgement was already sent.
            TypeError, ValueError: an argument is neither a record nor rows that name records.
        """
        self._decide(records, AckType.ACCEPT)

    def release(self, *records: Record[Any, Any] | ArrowRows) -> None:
        """Explicit mode: the records were not processed; deliver them again, if the delivery count
        allows. Raises as :meth:`accept`.
        """
        self._decide(records, AckType.RELEASE)

    def reject(self, *records: Record[Any, Any] | ArrowRows) -> None:
        """Explicit mode: the records cannot be processed and are not delivered again. Raises as
        :meth:`accept`.
        """
        self._decide(records, AckType.REJECT)

    def renew(self, *records: Record[Any, Any] | ArrowRows) -> None:
        """Explicit mode: processing goes on; the next :meth:`poll` or :meth:`commit` renews the
        acquisition locks. The poll after that returns the records once more, and they must then be
        acknowledged. Raises as :meth:`accept`.
        """
        self._decide(records, AckType.RENEW)

    def acknowledge(
        self, record: Record[Any, Any] | ArrowRows, kind: AckType | Answers = AckType.ACCEPT
    ) -> None:
        """Accept, release, reject or renew. A record may be acknowledged again until its
        acknowledgement is sent; the last one wins. Raises as :meth:`accept`; if it raises, nothing
        is acknowledged.

        Args:
            kind: for Arrow rows also one answer per row, in a list or an Arrow, NumPy, Polars or
                pandas column: true (accept) or false (release), or ``accept``, ``release``,
                ``reject``, ``renew``, or their codes. Rows with null stay unacknowledged.
        """
        self._check_usable()
        if isinstance(record, Record):
            self._holdings.decide((record,), AckType(kind))
        else:
            arrow(ARROW_BATCHES).answer_rows(self._holdings, record, kind)

    def _decide(self, records: Sequence[Record[Any, Any] | ArrowRows], kind: AckType) -> None:
        self._check_usable()
        tables = [one for one in records if not isinstance(one, Record)]
        if not tables:
            self._holdings.decide(records, kind)
            return
        self._holdings.decide((one for one in records if isinstance(one, Record)), kind)
        for one in tables:
            arrow(ARROW_BATCHES).answer_rows(self._holdings, one, kind)

    def acknowledge_offset(self, topic: str, partition: int, offset: int, kind: AckType) -> None:
        """As :meth:`acknowledge`, by offset: for a record that could not be read. The error that
        :meth:`poll` raised names its partition and offset.
        """
        self._check_usable()
        self._holdings.decide_offset(TopicPartition(topic, partition), offset, kind)
