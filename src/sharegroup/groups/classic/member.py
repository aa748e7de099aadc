"""A member of a classic group (Kafka class ClassicGroupMember)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sharegroup.groups.classic.records import ClassicMemberRecord
from sharegroup.groups.classic.requests import DescribedClassicMember, Join, Protocol


class Member:
    """What the group knows of one member. ``joining`` and ``syncing`` are the tokens of its
    requests that wait for an answer.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "joining",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Sequence[Protocol],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = tuple(protocols)
        self.assignment = assignment
        self.joining: int | None = None
        self.syncing: int | None = None
        self.is_new = False
        """Whether its first join is not answered yet."""

    @classmethod
    def joined(cls, request: Join, member_id: str) -> Member:
        """The member that a join makes."""
        return cls(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
        )

    @classmethod
    def replayed(cls, record: ClassicMemberRecord, protocol_name: str) -> Member:
        """The member of a record. Only the chosen protocol is known."""
        return cls(
            member_id=record.member_id,
            instance_id=record.instance_id,
            client_id=record.client_id,
            client_host=record.client_host,
            rebalance_timeout_ms=record.rebalance_timeout_ms,
            session_timeout_ms=record.session_timeout_ms,
            protocols=(Protocol(protocol_name, record.subscription),),
            assignment=record.assignment,
        )

    def renamed(self, member_id: str) -> Member:
        """A copy with another id and no waiting request."""
        return Member(
            member_id=member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            protocols=self.protocols,
            assignment=self.assignment,
        )

    @property
    def excused(self) -> bool:
        """Whether the member need not send heartbeats, because it waits for an answer. A new member
        waits for a bounded time only: otherwise nobody would notice that it has gone."""
        return not self.is_new and self.waits

    @property
    def waits(self) -> bool:
        """Whether a request of it has not been answered yet."""
        return self.joining is not None or self.syncing is not None

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its metadata for a protocol that it supports."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        raise AssertionError(f"{self.member_id} does not support {protocol_name}")

    def vote(self, candidates: Collection[str]) -> str:
        """The candidate that the member likes best."""
        for protocol in self.protocols:
            if protocol.name in candidates:
                return protocol.name
        raise AssertionError(f"{self.member_id} supports none of {candidates}")

    def record(self, protocol_name: str | None, assignment: bytes) -> ClassicMemberRecord:
        """Its part of the group's record."""
        return ClassicMemberRecord(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol_name),
            assignment=assignment,
        )

    def describe(self, protocol_name: str | None) -> DescribedClassicMember:
        """Its description; without a protocol it has no metadata."""
        return DescribedClassicMember(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.metadata(protocol_name) if protocol_name is not None else b"",
            self.assignment,
        )
