"""What classic consumers say to each other inside JoinGroup and SyncGroup: the embedded protocol of
the protocol type "consumer".

Source: Kafka's message definitions ConsumerProtocolSubscription.json and
ConsumerProtocolAssignment.json, versions 0 to 3, and its class ConsumerProtocol: a later version is
read as version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar

from sharegroup.model.errors import MalformedMessage

VERSION_MAX: Final = 3
OWNED_FROM: Final = 1
GENERATION_FROM: Final = 2
RACK_FROM: Final = 3
NO_GENERATION: Final = -1

Partitions: TypeAlias = Mapping[str, Sequence[int]]
"""Partitions by the name of their topic."""

_T = TypeVar("_T")


class EmbeddedSubscription(NamedTuple):
    """The topics that a consumer wants, and the partitions that it has."""

    version: int
    topics: tuple[str, ...]
    owned: Partitions
    generation: int
    rack_id: str | None


class Assignment(NamedTuple):
    """What the leader gives a consumer."""

    partitions: Partitions
    user_data: bytes
    """What a custom assignor adds."""


def decode_subscription(metadata: bytes) -> EmbeddedSubscription:
    """The subscription in a consumer's metadata.

    Raises:
        MalformedMessage: the bytes are no subscription.
    """
    reader = _Reader(metadata)
    version = reader.version()
    topics = tuple(reader.array(reader.text))
    reader.data()
    owned = reader.partitions() if version >= OWNED_FROM else {}
    generation = reader.number(">i") if version >= GENERATION_FROM else NO_GENERATION
    rack_id = reader.nullable_text() if version >= RACK_FROM else None
    return EmbeddedSubscription(version, topics, owned, generation, rack_id)


def decode_assignment(data: bytes) -> Assignment:
    """The assignment that a leader has sent. No bytes are an empty assignment.

    Raises:
        MalformedMessage: the bytes are no assignment.
    """
    if not data:
        return Assignment({}, b"")
    reader = _Reader(data)
    reader.version()
    return Assignment(reader.partitions(), reader.data())


def encode_assignment(partitions: Partitions, metadata: bytes) -> bytes:
    """An assignment for the consumer that has sent ``metadata``, in the metadata's version."""
    version = min(max(int.from_bytes(metadata[:2], "big", signed=True), 0), VERSION_MAX)
    parts = [struct.pack(">hi", version, len(partitions))]
    for topic, held in partitions.items():
        name = topic.encode()
        parts.append(struct.pack(f">h{len(name)}si{len(held)}i", len(name), name, len(held), *held))
    parts.append(struct.pack(">i", -1))
    return b"".join(parts)


class _Reader:
    """Reads the fields of a message one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def version(self) -> int:
        version = self.number(">h")
        if version < 0:
            raise MalformedMessage(f"version {version} of the consumer protocol")
        return min(version, VERSION_MAX)

    def number(self, layout: str) -> int:
        try:
            (number,) = struct.unpack_from(layout, self._data, self._position)
        except struct.error as error:
            raise MalformedMessage(f"the consumer protocol: {error}") from error
        self._position += struct.calcsize(layout)
        return int(number)

    def text(self) -> str:
        text = self.nullable_text()
        if text is None:
            raise MalformedMessage("the consumer protocol: null in place of a name")
        return text

    def nullable_text(self) -> str | None:
        length = self.number(">h")
        if length < 0:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise MalformedMessage(f"the consumer protocol: {error}") from error

    def data(self) -> bytes:
        """Bytes; null is empty."""
        return self._take(max(self.number(">i"), 0))

    def array(self, item: Callable[[], _T]) -> list[_T]:
        count = self.number(">i")
        if count < 0 or count > len(self._data) - self._position:
            raise MalformedMessage(f"the consumer protocol: an array of {count}")
        return [item() for _ in range(count)]

    def partitions(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for topic, held in self.array(self._topic_partitions):
            found.setdefault(topic, []).extend(held)
        return found

    def _topic_partitions(self) -> tuple[str, list[int]]:
        return self.text(), self.array(lambda: self.number(">i"))

    def _take(self, length: int) -> bytes:
        end = self._position + length
        if end > len(self._data):
            raise MalformedMessage(f"the consumer protocol: {length} bytes are missing")
        taken = self._data[self._position : end]
        self._position = end
        return bytes(taken)
