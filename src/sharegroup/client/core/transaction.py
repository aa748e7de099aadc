"""The transactions of one producer, without its sockets (KIP-98 and KIP-890; Kafka class
TransactionManager).

::

    NEW ──identify──▶ IDLE ──begin──▶ OPEN ──finish──▶ FINISHING ──end──▶ ENDING ──ended──▶ IDLE
                                                           ▲                │
    any ──▶ FENCED                                         └─── refused ────┘

A transaction that is OPEN or FINISHING and has failed can only be aborted. When it is FINISHING, no
more records join it, and those that it has are sent: all of them before the coordinator is told of
the end. In no other state are records sent; they would belong to no transaction, or to the next.

In transaction version 1 a partition is added to the transaction by a request of its own before the
first record goes there. In version 2 the broker adds it with the first record, and each end of a
transaction brings a new epoch, so that a late record belongs to no transaction.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from sharegroup.client.core.outbox import ProducerIdentity
from sharegroup.client.errors import IllegalState
from sharegroup.model.errors import SharegroupError
from sharegroup.model.ids import TopicPartition


class ProducerTransactionState(Enum):
    """See the module."""

    NEW = "new"
    IDLE = "idle"
    OPEN = "open"
    FINISHING = "finishing"
    ENDING = "ending"
    FENCED = "fenced"


_UNDER_WAY: Final = (ProducerTransactionState.OPEN, ProducerTransactionState.FINISHING)
_CLOSED: Final = (ProducerTransactionState.FINISHING, ProducerTransactionState.ENDING)


class ProducerTransactions:
    """See the module.

    Attributes:
        identity: the producer's; None: :meth:`identify` must come first.
        error: why the open transaction can only be aborted; or, when FENCED, why this producer
            cannot go on.
    """

    def __init__(self) -> None:
        self.state = ProducerTransactionState.NEW
        self.identity: ProducerIdentity | None = None
        self.error: SharegroupError | None = None
        self.version = 1
        self._added: set[TopicPartition] = set()
        self._to_add: set[TopicPartition] = set()
        self._touched = False

    @property
    def adds_by_request(self) -> bool:
        """Partitions and groups are added by requests of their own."""
        return self.version < 2

    @property
    def drops_records(self) -> bool:
        """Records that are not sent yet will not be sent: the transaction cannot be committed."""
        return self.error is not None

    @property
    def repeats_requests(self) -> bool:
        """A request that failed for a moment is worth another attempt. A transaction that can only
        be aborted needs nothing more but its end."""
        return self.error is None or self.state is ProducerTransactionState.ENDING

    @property
    def must_identify(self) -> bool:
        """The producer needs an epoch before it goes on."""
        return self.identity is None

    def identify(self, identity: ProducerIdentity, version: int) -> None:
        """The coordinator gave this identity."""
        self.identity, self.version = identity, version
        if self.state is ProducerTransactionState.NEW:
            self.state = ProducerTransactionState.IDLE

    @property
    def under_way(self) -> bool:
        """A transaction has begun, and the coordinator was not told to end it."""
        return self.state in _UNDER_WAY

    def check_idle(self) -> None:
        """Raises IllegalState: a transaction is open; or the error that fences this producer."""
        self.check_not_fenced()
        if self.state is not ProducerTransactionState.IDLE:
            raise IllegalState("a transaction is open: end it first")

    def begin(self) -> None:
        """Begin a transaction. Raises as :meth:`check_idle`."""
        self.check_idle()
        self.state = ProducerTransactionState.OPEN

    def check_open(self) -> None:
        """More may join the transaction. Raises IllegalState: no transaction is open, or it is
        being ended; or the error because of which it can only be aborted."""
        self.check_not_fenced()
        if self.state in _CLOSED:
            raise IllegalState(
                "the transaction is being committed or aborted: nothing more can join it; send "
                "before the end of its block, or in the next one"
            )
        if self.state is not ProducerTransactionState.OPEN:
            raise IllegalState(
                "a producer with a transactional_id sends within a transaction: write "
                "`async with producer.transaction():`"
            )
        if self.error is not None:
            raise self.error

    def check_under_way(self) -> None:
        """The coordinator may be told of what has joined the transaction. Raises IllegalState: no
        transaction is under way; or the error because of which it can only be aborted."""
        self.check_not_fenced()
        if not self.under_way:
            raise IllegalState("no transaction is open")
        if self.error is not None:
            raise self.error

    def check_not_fenced(self) -> None:
        """Raises the error that fences this producer, if it is fenced."""
        if self.state is ProducerTransactionState.FENCED and self.error is not None:
            raise self.error

    # --- what belongs to it -----------------------------------------------------------------------

    def may_send(self, where: TopicPartition) -> bool:
        """Records may go to this partition now. If it must be added first, :meth:`to_add` has it
        from now on."""
        if not self.under_way or self.drops_records or self.identity is None:
            return False
        if not self.adds_by_request:
            self._touched = True
            return True
        if where not in self._added:
            self._to_add.add(where)
        return where in self._added

    def to_add(self) -> frozenset[TopicPartition]:
        """The partitions that must be added by a request."""
        return frozenset(self._to_add)

    def added(self, wheres: frozenset[TopicPartition]) -> None:
        """These partitions belong to the transaction now."""
        self._touched = True
        self._added |= wheres
        self._to_add -= wheres

    def touch(self) -> None:
        """The coordinator may know of the transaction: it must be told of the end."""
        self._touched = True

    # --- the end ----------------------------------------------------------------------------------

    def failed(self, error: SharegroupError) -> None:
        """The open transaction can only be aborted, because of this error."""
        if self.under_way and self.error is None:
            self.error = error

    def refused(self, error: SharegroupError) -> None:
        """The transaction was not committed and can only be aborted, because of this error."""
        if self.state is ProducerTransactionState.ENDING:
            self.state = ProducerTransactionState.FINISHING
        self.failed(error)

    def fenced(self, error: SharegroupError) -> None:
        """This producer cannot go on."""
        self.state, self.error = ProducerTransactionState.FENCED, error

    def finish(self) -> None:
        """From now on nothing more joins the transaction. Its records must be through before
        :meth:`end`. Raises IllegalState: no transaction is open."""
        self.check_not_fenced()
        if not self.under_way:
            raise IllegalState("no transaction is open")
        self.state = ProducerTransactionState.FINISHING

    def end(self, *, commit: bool) -> bool:
        """End the transaction. Returns whether the coordinator must be told.

        Raises:
            IllegalState: no transaction is finishing.
            SharegroupError: with ``commit``, why the transaction can only be aborted.
        """
        self.check_not_fenced()
        if self.state is not ProducerTransactionState.FINISHING:
            raise IllegalState("no transaction is open")
        if commit and self.error is not None:
            raise self.error
        self.state = ProducerTransactionState.ENDING
        return self._touched

    def ended(self, identity: ProducerIdentity | None, *, committed: bool) -> None:
        """The coordinator has ended the transaction.

        Args:
            identity: the producer's next identity; None: after a commit it keeps the one it has.
                After an abort it needs another one, because the sequence numbers are not known.
        """
        if identity is not None:
            self.identity = identity
        elif not committed:
            self.identity = None
        self.error = None
        self._added, self._to_add = set(), set()
        self._touched = False
        self.state = ProducerTransactionState.IDLE

    def check_invariants(self) -> None:
        """Raises AssertionError: the state contradicts itself."""
        assert not self._added & self._to_add, "a partition is added and waits for that"
        if self.state in (ProducerTransactionState.NEW, ProducerTransactionState.IDLE):
            assert self.error is None, "an error outlived its transaction"
            assert not self._added | self._to_add, "partitions outlived their transaction"
            assert not self._touched, "the coordinator knows of a transaction that nobody began"
        if self.state is ProducerTransactionState.FENCED:
            assert self.error is not None, "fenced for no reason"
