"""What reads bytes that others have written, each with what it may raise, and what must hold.

A target takes any bytes. It returns, or raises nothing but what its function promises; whatever
else it raises is a fault.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.broker.network.tls.records import TlsRecords
from sharegroup.groups.classic.embedded import decode_assignment, decode_subscription
from sharegroup.model.errors import (
    CorruptMessage,
    InvalidRecord,
    MalformedMessage,
    UnsupportedCompressionType,
)
from sharegroup.records import pure, record_codec, walk
from sharegroup.records.batches import bounds_of
from sharegroup.records.check import check_records
from sharegroup.records.pure_codec import PURE
from sharegroup.storage import id_journal, producer_snapshot
from sharegroup.storage.indexes.sparse_index import OffsetIndex, TimeIndex
from sharegroup.storage.indexes.transaction_index import TransactionIndex
from sharegroup.wire import batch as batches
from sharegroup.wire.apis import APIS
from sharegroup.wire.codec import decode, encode_bytes
from sharegroup.wire.compression import decompress
from sharegroup.wire.framing import FrameSplitter, parse_request_header, response_body
from sharegroup.wire.internal import (
    classic_groups,
    consumer_groups,
    consumer_protocol,
    groups,
    offsets,
    range_commits,
    security,
    share_state,
    transaction_log,
)
from sharegroup.wire.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from sharegroup.wire.markers import decode_marker, is_control

FRAME_BYTES_MAX: Final = 1 << 20
UNPACKED_BYTES_MAX: Final = 1 << 20
BAD_RECORDS: Final = CorruptMessage, InvalidRecord, UnsupportedCompressionType


class Target(NamedTuple):
    """A reader.

    Attributes:
        run: reads the bytes.
        refuses: what it may raise.
    """

    name: str
    run: Callable[[bytes], object]
    refuses: tuple[type[Exception], ...]


def attempt(target: Target, data: bytes) -> None:
    """Read these bytes. Raises what the target does not promise."""
    with suppress(*target.refuses):
        target.run(data)


def frames(data: bytes) -> None:
    """The same frames come out however a stream is cut, and each header is read or refused."""
    whole = _frames_of([data])
    step = _step(data)
    assert _frames_of([data[at : at + step] for at in range(0, len(data), step)]) == whole
    for frame in whole[0]:
        with suppress(MalformedMessage):
            parse_request_header(frame)


def _step(data: bytes) -> int:
    """How many bytes come at once: few, but not one by one if there are many."""
    return 1 + len(data) // 500 + (data[-1] if data else 0)


def _frames_of(chunks: list[bytes]) -> tuple[list[bytes], bool]:
    """The frames, and whether the stream was refused behind them."""
    splitter, found = FrameSplitter(FRAME_BYTES_MAX), []
    try:
        for chunk in chunks:
            found += splitter.feed(chunk)
    except MalformedMessage:
        return found, True
    return found, False


def request(frame: bytes) -> None:
    """A request frame: what is read is written again, and read as the same."""
    header = parse_request_header(frame)
    served = API_TABLE.get(header.api_key)
    if served is None or not served.versions.first <= header.version <= served.versions.last:
        return
    kind = served.api.request
    message = decode(kind, header.version, frame, header.body)
    again = encode_bytes(message, header.version)
    assert encode_bytes(decode(kind, header.version, again), header.version) == again


def response(data: bytes) -> None:
    """A response, behind its API key and its version, a byte each."""
    if len(data) < 2 or data[0] not in APIS:
        return
    api, version = APIS[data[0]], data[1] & 31
    _, at = response_body(api, version, data[2:])
    decode(api.response, version, data[2:], at)


def log(data: bytes) -> None:
    """Batches as a log or a Fetch response has them."""
    with suppress(CorruptMessage):
        list(bounds_of(memoryview(data)))
    with suppress(CorruptMessage):
        batches.walk(data)
    position = 0
    for header in batches.parse_headers(data):
        whole = data[position : position + header.length]
        position += header.length
        if is_control(header):
            with suppress(CorruptMessage):
                decode_marker(whole)
        for dense in (True, False):
            with suppress(*BAD_RECORDS):
                check_records(header, whole, dense=dense)
        with suppress(*BAD_RECORDS):
            record_codec.records_in(header, whole)


def plain(data: bytes) -> None:
    """Records: both walks and both codecs say the same of them."""
    if len(data) < 4:
        return
    count, last, dense, body = data[0] | data[1] << 8, data[2], bool(data[3] & 1), data[4:]
    words: dict[str, Any] = {"dense": dense, "base_timestamp": 1_000}
    ours = pure.walk(body, 0, len(body), count, last, **words)
    assert walk.walk(body, 0, len(body), count, last, **words) == ours
    read = body, 0, len(body), count, last, 7, 1_000, dense
    assert record_codec.IN_USE.read_records(*read) == PURE.read_records(*read)


def compressed(data: bytes) -> None:
    """A compressed block, behind its codec."""
    if data:
        decompress(data[0] & 7, data[1:], UNPACKED_BYTES_MAX)


def coordinator_records(data: bytes) -> None:
    """A record of a coordinator's log: two bytes for the length of the key, key, value."""
    size = int.from_bytes(data[:2], "big")
    key, value = data[2 : 2 + size], data[2 + size :] or None
    readers: list[Callable[[bytes, bytes | None], object]] = [
        classic_groups.decode_record,
        consumer_groups.decode_record,
        groups.decode_record,
        offsets.decode_record,
        range_commits.decode_record,
        security.decode_record,
        share_state.decode_record,
        transaction_log.decode_record,
    ]
    for read in readers:
        with suppress(MalformedMessage):
            read(key, value)


def embedded(data: bytes) -> None:
    """What consumers put into the requests of classic groups."""
    for read in (decode_subscription, decode_assignment):
        with suppress(MalformedMessage):
            read(data)
    with suppress(MalformedMessage):
        consumer_protocol.from_bytes(ConsumerProtocolSubscription, data)
    with suppress(MalformedMessage):
        consumer_protocol.from_bytes(ConsumerProtocolAssignment, data)


def side_files(data: bytes) -> None:
    """The small files beside a log."""
    readers: list[Callable[[bytes], object]] = [
        producer_snapshot.decode,
        producer_snapshot.begins_segment,
        id_journal.decode,
        lambda content: OffsetIndex.from_bytes(content, len(content)),
        lambda content: TimeIndex.from_bytes(content, len(content)),
        TransactionIndex.from_bytes,
    ]
    for read in readers:
        with suppress(ValueError):
            read(data)


def tls_records(data: bytes) -> None:
    """Pieces of a TLS stream are the stream, however it comes."""
    step = _step(data)
    cutter = TlsRecords()
    pieces = [
        piece for at in range(0, len(data), step) for piece, _ in cutter.cut(data[at : at + step])
    ]
    assert b"".join(pieces) == data


TARGETS: Final = {
    one.name: one
    for one in (
        Target("frames", frames, ()),
        Target("request", request, (MalformedMessage,)),
        Target("response", response, (MalformedMessage,)),
        Target("log", log, (CorruptMessage,)),
        Target("plain", plain, ()),
        Target("compressed", compressed, (CorruptMessage, UnsupportedCompressionType)),
        Target("coordinator_records", coordinator_records, ()),
        Target("embedded", embedded, ()),
        Target("side_files", side_files, ()),
        Target("tls_records", tls_records, ()),
    )
}
