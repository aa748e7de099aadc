"""What members of a classic consumer group tell each other through the coordinator: what each
member subscribes to and owns, and what the leader assigns to it.

Source: ``ConsumerProtocolSubscription.json`` and ``ConsumerProtocolAssignment.json`` of Apache
Kafka 4.4. Both begin with a version of 16 bits. A newer version is read as the newest that is known
(class ConsumerProtocol).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, TypeVar

from sharegroup.model.errors import MalformedMessage
from sharegroup.wire.codec import decode, encode_bytes
from sharegroup.wire.schema import Message, array, data, i32, message, string

NEWEST: Final = 3
_VERSION = struct.Struct(">h")

M = TypeVar("M", bound=Message)


@message
class TopicPartitions(Message):
    """Partitions of one topic."""

    topic: str = string()
    partitions: Sequence[int] = array("i32")


@message
class ConsumerProtocolSubscription(Message):
    """A member's metadata in JoinGroup."""

    FLEXIBLE = 32_768

    topics: Sequence[str] = array("string")
    user_data: bytes | None = data(nullable="0+")
    owned_partitions: Sequence[TopicPartitions] = array(TopicPartitions, "1+")
    generation_id: int = i32("2+", default=-1)
    rack_id: str | None = string("3+", default=None, nullable="3+")


@message
class ConsumerProtocolAssignment(Message):
    """A member's assignment in SyncGroup."""

    FLEXIBLE = 32_768

    assigned_partitions: Sequence[TopicPartitions] = array(TopicPartitions)
    user_data: bytes | None = data(nullable="0+")


def to_bytes(message: Message, version: int = NEWEST) -> bytes:
    """The version, then the message."""
    return _VERSION.pack(version) + encode_bytes(message, version)


def from_bytes(kind: type[M], content: bytes) -> M:
    """The message in ``content``, after its version.

    Raises:
        MalformedMessage: the bytes are not such a message.
    """
    if len(content) < _VERSION.size:
        raise MalformedMessage(f"{kind.__name__}: the version is missing")
    [version] = _VERSION.unpack_from(content)
    if version < 0:
        raise MalformedMessage(f"{kind.__name__}: the version is {version}")
    return decode(kind, min(version, NEWEST), content, _VERSION.size)
