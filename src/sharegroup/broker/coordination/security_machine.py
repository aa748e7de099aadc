"""SCRAM credentials, ACLs and quotas as a machine of the runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from sharegroup.broker.coordination.log import KeyValue
from sharegroup.quotas.entity import Entity
from sharegroup.sasl.scram_keys import ScramCredential, ScramMechanism
from sharegroup.wire.internal.security import (
    AclChange,
    AclRow,
    QuotaChange,
    ScramChange,
    SecurityRecord,
    decode_record,
    encode_record,
)


class EncodedAcl(NamedTuple):
    """A change of an ACL with its bytes, which were made in advance."""

    change: AclChange
    encoded: KeyValue


class SecurityMachine:
    """Implements ``machine.Machine``. The last record of a key counts."""

    def __init__(self) -> None:
        self._scram: dict[tuple[str, ScramMechanism], ScramCredential] = {}
        self._acls: dict[UUID, AclRow] = {}
        self._acl_ids: dict[AclRow, UUID] = {}
        self._quotas: dict[tuple[Entity, str], float] = {}
        self._acls_changed: dict[AclRow, None] = {}
        self.users_lost = 0
        """Grows with each credential that is deleted."""

    @property
    def credentials(self) -> Mapping[tuple[str, ScramMechanism], ScramCredential]:
        """(user, mechanism) → the credential that is stored in place of the password."""
        return MappingProxyType(self._scram)

    @property
    def acls(self) -> Mapping[UUID, AclRow]:
        """The ACLs made by CreateAcls, by id."""
        return MappingProxyType(self._acls)

    @property
    def acl_ids(self) -> Mapping[AclRow, UUID]:
        """The ids of the ACLs made by CreateAcls."""
        return MappingProxyType(self._acl_ids)

    def take_changed_acls(self) -> list[AclRow]:
        """The ACLs that were made or deleted since the last call."""
        changed = list(self._acls_changed)
        self._acls_changed.clear()
        return changed

    @property
    def quotas(self) -> Mapping[tuple[Entity, str], float]:
        """(entity, name of the quota) → value."""
        return MappingProxyType(self._quotas)

    def apply(self, record: SecurityRecord | EncodedAcl) -> None:
        """Let a change take effect."""
        if isinstance(record, EncodedAcl):
            record = record.change
        match record:
            case AclChange(acl_id, acl):
                before = self._acls.get(acl_id)
                if before is not None:
                    self._acl_ids.pop(before, None)
                    self._acls_changed[before] = None
                if acl is not None:
                    self._acl_ids[acl] = acl_id
                    self._acls_changed[acl] = None
                _set(self._acls, acl_id, acl)
            case ScramChange(user, mechanism, credential):
                _set(self._scram, (user, mechanism), credential)
                self.users_lost += credential is None
            case QuotaChange(entity, name, value):
                _set(self._quotas, (entity, name), value)

    def replay(self, offset: int, key: bytes, value: bytes | None) -> bool:
        """Apply a record; True, because the log holds no others."""
        self.apply(decode_record(key, value))
        return True

    def replayed(self, now_ms: int) -> None:
        """Nothing."""

    def next_deadline_ms(self) -> int | None:
        """None: nothing expires."""
        return None

    def tick(self, now_ms: int) -> Sequence[SecurityRecord]:
        """Nothing."""
        return ()

    def encode(self, record: SecurityRecord | EncodedAcl) -> KeyValue:
        """The bytes of a record."""
        return record.encoded if isinstance(record, EncodedAcl) else encode_record(record)

    def durable(self, records: Sequence[SecurityRecord | EncodedAcl], first_offset: int) -> None:
        """Nothing."""

    def lowest_needed(self, end_offset: int) -> int | None:
        """None: the offset is unknown without a rewrite."""
        return None

    def size(self) -> int:
        """The number of records that a new log needs."""
        return len(self._scram) + len(self._acls) + len(self._quotas)

    def live_records(self) -> Iterator[Sequence[SecurityRecord]]:
        """One record for each key."""
        for user, mechanism in list(self._scram):
            credential = self._scram.get((user, mechanism))
            if credential is not None:
                yield (ScramChange(user, mechanism, credential),)
        for acl_id in list(self._acls):
            acl = self._acls.get(acl_id)
            if acl is not None:
                yield (AclChange(acl_id, acl),)
        for entity, name in list(self._quotas):
            value = self._quotas.get((entity, name))
            if value is not None:
                yield (QuotaChange(entity, name, value),)

    def check_invariants(self) -> None:
        """Raise AssertionError if an entity of a quota is not in its canonical form."""
        for entity, _ in self._quotas:
            assert list(entity) == sorted(entity), entity


def _set(table: dict, key: object, value: object) -> None:  # type: ignore[type-arg]
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
