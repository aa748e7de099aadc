"""Records of ``__sharegroup_security``: SCRAM credentials, ACLs and quotas.

The values are records of Kafka's metadata log: UserScramCredentialRecord, AccessControlEntryRecord
and ClientQuotaRecord, framed as there (class MetadataRecordSerde), so that ``kafka-dump-log
--cluster-metadata-decoder`` reads them. Kafka's metadata log has no keys; here the key says what a
record is about, and a null value deletes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from sharegroup.model.errors import MalformedMessage
from sharegroup.quotas.entity import Entity
from sharegroup.sasl.scram_keys import ScramCredential, ScramMechanism
from sharegroup.wire.codec import decode, encode_bytes
from sharegroup.wire.schema import (
    Message,
    array,
    boolean,
    data,
    f64,
    i8,
    i32,
    message,
    string,
    uuid,
)

_QUOTA: Final = 14
_SCRAM: Final = 11
_ACL: Final = 18
"""Kafka's numbers of the metadata records."""
_FRAME: Final = 1
"""Kafka's frame version; it, a type below 128 and a version are one byte each."""
_NOT_FLEXIBLE: Final = 32_768


class AclRow(NamedTuple):
    """One ACL as the protocol has it, by Kafka's numbers."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class ScramChange(NamedTuple):
    """A user's credential of one mechanism; None: deleted."""

    user: str
    mechanism: ScramMechanism
    credential: ScramCredential | None


class AclChange(NamedTuple):
    """An ACL by its id; None: deleted."""

    id: UUID
    acl: AclRow | None


class QuotaChange(NamedTuple):
    """A quota of an entity; None: deleted."""

    entity: Entity
    key: str
    value: float | None


SecurityRecord: TypeAlias = ScramChange | AclChange | QuotaChange


@message
class EntityPart(Message):
    """A part of a quota's entity, as ClientQuotaKey has it: its type and name."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@message
class ScramKey(Message):
    """The key of a credential."""

    FLEXIBLE = _NOT_FLEXIBLE

    name: str = string()
    mechanism: int = i8()


@message
class AclKey(Message):
    """The key of an ACL."""

    FLEXIBLE = _NOT_FLEXIBLE

    id: UUID = uuid()


@message
class QuotaKey(Message):
    """The key of a quota."""

    FLEXIBLE = _NOT_FLEXIBLE

    entity: Sequence[EntityPart] = array(EntityPart)
    key: str = string()


@message
class UserScramCredentialRecord(Message):
    """Kafka's UserScramCredentialRecord.json."""

    FLEXIBLE = 0

    name: str = string()
    mechanism: int = i8()
    salt: bytes = data()
    stored_key: bytes = data()
    server_key: bytes = data()
    iterations: int = i32()

    def __repr__(self) -> str:
        """Without the keys."""
        return f"UserScramCredentialRecord(name={self.name!r}, mechanism={self.mechanism})"


@message
class AccessControlEntryRecord(Message):
    """Kafka's AccessControlEntryRecord.json."""

    FLEXIBLE = 0

    id: UUID = uuid()
    resource_type: int = i8()
    resource_name: str = string()
    pattern_type: int = i8()
    principal: str = string()
    host: str = string()
    operation: int = i8()
    permission_type: int = i8()


@message
class ClientQuotaRecord(Message):
    """Kafka's ClientQuotaRecord.json."""

    FLEXIBLE = 0

    entity: Sequence[EntityPart] = array(EntityPart)
    key: str = string()
    value: float = f64()
    remove: bool = boolean()


def encode_record(record: SecurityRecord) -> tuple[bytes, bytes | None]:
    """(key, value) of a record; without value for a deletion."""
    match record:
        case ScramChange(user, mechanism, credential):
            key = _bytes(_SCRAM, ScramKey(user, mechanism))
            if credential is None:
                return key, None
            return key, _framed(
                _SCRAM,
                UserScramCredentialRecord(
                    name=user,
                    mechanism=mechanism,
                    salt=credential.salt,
                    stored_key=credential.stored_key,
                    server_key=credential.server_key,
                    iterations=credential.iterations,
                ),
            )
        case AclChange(acl_id, acl):
            key = _bytes(_ACL, AclKey(acl_id))
            if acl is None:
                return key, None
            return key, _framed(_ACL, AccessControlEntryRecord(acl_id, *acl))
        case QuotaChange(entity, name, value):
            parts = [EntityPart(*part) for part in entity]
            key = _bytes(_QUOTA, QuotaKey(parts, name))
            if value is None:
                return key, None
            return key, _framed(_QUOTA, ClientQuotaRecord(parts, name, value))


def decode_record(key: bytes, value: bytes | None) -> SecurityRecord:
    """The record that :func:`encode_record` wrote.

    Raises:
        MalformedMessage: the bytes are not such a record.
    """
    kind = int.from_bytes(key[:2], "big")
    if value is not None and value[:3] != bytes((_FRAME, kind & 0xFF, 0)):
        raise MalformedMessage(f"a security record with the frame {value[:3].hex()}")
    if kind == _SCRAM:
        name = decode(ScramKey, 0, key, 2)
        return ScramChange(name.name, _mechanism(name.mechanism), _credential(value))
    if kind == _ACL:
        return AclChange(decode(AclKey, 0, key, 2).id, None) if value is None else _acl(key, value)
    if kind == _QUOTA:
        quota = decode(QuotaKey, 0, key, 2)
        entity = tuple((part.entity_type, part.entity_name) for part in quota.entity)
        kept = None if value is None else decode(ClientQuotaRecord, 0, value, 3).value
        return QuotaChange(entity, quota.key, kept)
    raise MalformedMessage(f"a security record of type {kind}")


def _mechanism(number: int) -> ScramMechanism:
    try:
        return ScramMechanism(number)
    except ValueError:
        raise MalformedMessage(f"a credential of mechanism {number}") from None


def _credential(value: bytes | None) -> ScramCredential | None:
    if value is None:
        return None
    read = decode(UserScramCredentialRecord, 0, value, 3)
    return ScramCredential(
        salt=read.salt,
        stored_key=read.stored_key,
        server_key=read.server_key,
        iterations=read.iterations,
    )


def _acl(key: bytes, value: bytes) -> AclChange:
    """An ACL. A start reads very many: the id, which stands in key and value, is read once."""
    read = decode(AccessControlEntryRecord, 0, value, 3)
    if key[2:] != value[3 : 3 + 16]:
        raise MalformedMessage("an ACL whose id is not that of its key")
    row = AclRow(
        read.resource_type,
        read.resource_name,
        read.pattern_type,
        read.principal,
        read.host,
        read.operation,
        read.permission_type,
    )
    return AclChange(read.id, row)


def _bytes(kind: int, key: Message) -> bytes:
    return kind.to_bytes(2, "big") + encode_bytes(key, 0)


def _framed(kind: int, value: Message) -> bytes:
    return bytes((_FRAME, kind, 0)) + encode_bytes(value, 0)
