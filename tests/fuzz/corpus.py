"""What inputs begin with: what our own code writes, what clients of others have sent
(``frames/CLIENT.bin``, by ``scripts/client_frames.py``), and what was a fault
(``faults/TARGET``)."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.storage import id_journal, producer_snapshot
from sharegroup.transactions.producers import ProducedBatch, ProducerEntry
from sharegroup.wire.batch import HEADER_BYTES, encode_batch, parse_header, with_records
from sharegroup.wire.compression import GZIP, LZ4, SNAPPY, ZSTD, compress
from sharegroup.wire.markers import MarkerType, encode_marker
from tests.broker.hostile import Maker

HERE: Final = Path(__file__).parent
FAULTS: Final = HERE / "faults"
FRAMES: Final = HERE / "frames"
CODECS: Final = GZIP, SNAPPY, LZ4, ZSTD


def inputs(target: str) -> list[bytes]:
    """The inputs of a target, at least one."""
    made = _MADE.get(target, _nothing)()
    return [*_files(FAULTS / target), *made]


def _files(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted(folder.glob("*.bin"))]


def _nothing() -> list[bytes]:
    return [b""]


def recorded() -> list[bytes]:
    """The requests of clients that others wrote, without their lengths."""
    found: list[bytes] = []
    for data in _files(FRAMES):
        at = 0
        while at < len(data):
            [size] = struct.unpack_from(">i", data, at)
            found.append(data[at + 4 : at + 4 + size])
            at += 4 + size
    return found


def _requests() -> list[bytes]:
    return [*recorded(), *_made_up()]


def _made_up() -> list[bytes]:
    maker = Maker("corpus", ())
    return [
        maker.request(served.api, version, number)[4:]
        for served in API_TABLE.values()
        for version in range(served.versions.first, served.versions.last + 1)
        for number in range(2)
    ]


def _frames() -> list[bytes]:
    whole = [struct.pack(">i", len(frame)) + frame for frame in [*recorded(), *_made_up()[::20]]]
    return [*whole, b"".join(whole[:5])]


def _batches() -> list[bytes]:
    records = [(b"k%d" % one, b"value" * one) for one in range(5)]
    plain = encode_batch(records, timestamp_ms=1_000)
    marker = encode_marker(MarkerType.ABORT, producer_id=7, producer_epoch=1, timestamp_ms=5)
    header, body = parse_header(plain), plain[HEADER_BYTES:]
    packed = [
        with_records(header._replace(attributes=codec), compress(codec, body)) for codec in CODECS
    ]
    return [plain, marker, plain + marker + plain, *packed]


def _plain() -> list[bytes]:
    records = _batches()[0][HEADER_BYTES:]
    return [bytes((5, 0, 4, dense)) + records for dense in (0, 1)]


def _compressed() -> list[bytes]:
    return [bytes((codec,)) + bytes(compress(codec, b"some records " * 9)) for codec in CODECS]


def _side_files() -> list[bytes]:
    batch = ProducedBatch(1, 2, 3, 4)
    entry = ProducerEntry(7, 1, 5, 9, 1, 1_000, -1, -1)._replace(earlier=(batch,))
    chunk = id_journal.Chunk(bytes(16), 0, 9, bytes(id_journal.ROW_BYTES * 2))
    return [producer_snapshot.encode([entry]), id_journal.encode(chunk), bytes(24)]


def _tls() -> list[bytes]:
    record = b"\x17\x03\x03\x00\x05hello"
    return [record * 20, b"\x16\x03\x01\x40\x00" + bytes(16_384), record[:-1]]


_MADE: Final = {
    "frames": _frames,
    "request": _requests,
    "log": _batches,
    "plain": _plain,
    "compressed": _compressed,
    "side_files": _side_files,
    "tls_records": _tls,
}
