"""Frames come out whole however the stream is cut; headers are read as they were written."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.errors import MalformedMessage
from sharegroup.wire.apis import API_VERSIONS, METADATA, SHARE_FETCH
from sharegroup.wire.framing import (
    FrameSplitter,
    parse_request_header,
    request_frame,
    response_body,
    response_frame,
)

FRAMES = st.lists(st.binary(max_size=40), max_size=6)


@given(frames=FRAMES, cuts=st.lists(st.integers(0, 300), max_size=8))
def test_any_cut_of_the_stream_gives_the_same_frames(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
    splitter = FrameSplitter()
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    found = [
        frame
        for start, end in pairwise(edges)
        if start < end
        for frame in splitter.feed(stream[start:end])
    ]
    assert found == frames


@pytest.mark.parametrize("length", [-1, 101])
def test_an_invalid_frame_length_is_refused(length: int) -> None:
    with pytest.raises(MalformedMessage, match="the limit is 100"):
        list(FrameSplitter(100).feed(struct.pack(">i", length)))


@pytest.mark.parametrize(
    ("api", "version"), [(METADATA, 4), (METADATA, 12), (SHARE_FETCH, 2), (API_VERSIONS, 3)]
)
def test_request_headers_round_trip(api: object, version: int) -> None:
    for client_id in ("me", None, ""):
        frame = b"".join(request_frame(api, version, 7, client_id, api.request()))[4:]  # type: ignore[arg-type,attr-defined]
        header = parse_request_header(frame)
        assert (header.version, header.correlation_id, header.client_id) == (version, 7, client_id)


@pytest.mark.parametrize(("api", "version"), [(METADATA, 4), (METADATA, 12), (API_VERSIONS, 3)])
def test_response_headers_round_trip(api: object, version: int) -> None:
    frame = b"".join(response_frame(api, version, 9, api.response()))[4:]  # type: ignore[arg-type,attr-defined]
    correlation_id, position = response_body(api, version, frame)  # type: ignore[arg-type]
    assert correlation_id == 9
    # Only ApiVersions keeps the old header in flexible versions (KIP-511).
    assert position == (5 if api is METADATA and version == 12 else 4)


@given(st.binary(max_size=30))
def test_no_bytes_break_the_header(data: bytes) -> None:
    try:
        parse_request_header(data)
    except MalformedMessage:
        return


def test_a_long_frame_is_announced_by_its_first_bytes() -> None:
    seen: list[tuple[int, int, int]] = []
    splitter = FrameSplitter(1_000_000, lambda *kind: seen.append(kind))
    splitter.add(struct.pack(">ih", 100_000, 78))
    assert splitter.next_frame() is None
    assert (seen, splitter.missing, splitter.pending) == ([], 0, False)
    splitter.add(struct.pack(">h", 2))
    assert splitter.next_frame() is None
    assert (seen, splitter.missing) == ([(78, 2, 100_000)], 99_996)
    splitter.add(bytes(99_996) + b"\0\0\0\1x")
    assert splitter.pending
    assert splitter.next_frame() == struct.pack(">hh", 78, 2) + bytes(99_996)
    assert splitter.next_frame() == b"x"
    assert not splitter.pending
    assert len(seen) == 1


def test_a_frame_in_tiny_pieces_costs_its_bytes() -> None:
    """Not an object for each piece."""
    splitter = FrameSplitter()
    splitter.add(struct.pack(">i", 200_000) + bytes(10))
    for _ in range(50_000):
        assert splitter.next_frame() is None
        splitter.add(b"ab")
    assert len(splitter._chunks) < 10
    splitter.add(b"ab" * 50_000)
    assert splitter.next_frame() == (bytes(10) + b"ab" * 100_000)[:200_000]
