"""Batches of a state partition as bytes: the first record names the owner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from sharegroup.fleet.terms import Owner
from sharegroup.model.errors import MalformedMessage
from sharegroup.wire.batch import Value, decode_batch, encode_batch, parse_headers
from sharegroup.wire.markers import is_control

OWNER_KEY: Final = b"\x7f\xff"
"""Where coordinators' records have their type: the largest one, which Kafka does not use."""
RELEASE_KEY: Final = b"\x7f\xfe"
"""The owner needs the log no more."""
_OWNER: Final = Struct(">Bqi16s")
_VERSION: Final = 1

KeyValue = tuple[bytes, Value | None]


class Writer(NamedTuple):
    """An idempotent producer, as the cluster knows it."""

    producer_id: int
    epoch: int


class OwnedBatch(NamedTuple):
    """A batch of the log.

    Attributes:
        owner: None: it does not begin with an owner's record, so nobody of ours has written it.
        records: the others, with their offsets.
        released: with this batch the owner needs the log no more.
    """

    base_offset: int
    end_offset: int
    owner: Owner | None
    records: Sequence[tuple[int, bytes, bytes | None]]
    released: bool = False


def encode(
    owner: Owner, records: Sequence[KeyValue], writer: Writer, sequence: int, timestamp_ms: int
) -> bytes:
    """A batch of this owner; without records it is a claim."""
    return encode_batch(
        [(OWNER_KEY, _OWNER.pack(_VERSION, *owner)), *records],
        timestamp_ms=timestamp_ms,
        producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
        base_sequence=sequence,
    )


def batches_in(data: bytes) -> Iterator[OwnedBatch]:
    """The batches of a Fetch response.

    Raises:
        CorruptMessage: a batch is damaged.
    """
    view = memoryview(data)
    position = 0
    for header in parse_headers(data):
        whole = view[position : position + header.length]
        position += header.length
        records: list[tuple[int, bytes, bytes | None]] = []
        owner = None
        released = False
        if not is_control(header):
            for place, (offset, _, key, value) in enumerate(decode_batch(whole)):
                if place == 0 and key == OWNER_KEY:
                    owner = _decoded(value)
                elif key == RELEASE_KEY:
                    released = True
                elif key is not None:
                    records.append((offset, key, value))
        yield OwnedBatch(header.base_offset, header.last_offset + 1, owner, records, released)


def _decoded(value: bytes | None) -> Owner | None:
    """The owner; None: a later version of ours has written it, or it is none."""
    if value is None or len(value) != _OWNER.size or value[0] != _VERSION:
        raise MalformedMessage("the record that names the owner cannot be read")
    _, term, node_id, incarnation = _OWNER.unpack(value)
    return Owner(term, node_id, incarnation)
