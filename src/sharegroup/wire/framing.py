"""Frames and headers: a frame is a 4-byte length and that many bytes; a request or response header
comes first in it.

Sans-IO: bytes in, frames out; the broker's and the client's connections use the same code.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from sharegroup.model.errors import MalformedMessage
from sharegroup.model.limits import FRAME_BYTES_MAX
from sharegroup.wire.apis import APIS, Api
from sharegroup.wire.codec import encode, read_uvarint
from sharegroup.wire.schema import Message

_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">hhih")
_REQUEST_FIXED = struct.Struct(">hhi")
_NULL_STRING = struct.pack(">h", -1)


class FrameSplitter:
    """Cuts a byte stream into frames.

    Args:
        frame_bytes_max: a frame that claims to be longer is refused.
    """

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._head = b""  # the beginning of a length
        self._chunks: list[bytes] = []  # the beginning of a frame, and how much of it is missing
        self._missing = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take what the socket gave; yield each whole frame (without its length).

        Raises:
            MalformedMessage: a length is negative or over the limit; the caller must close the
                connection.
        """
        position = 0
        if self._missing:
            if len(data) < self._missing:
                self._chunks.append(data)
                self._missing -= len(data)
                return
            position, self._missing = self._missing, 0
            self._chunks.append(data[:position])
            frame = b"".join(self._chunks)  # the one copy of a long frame
            self._chunks.clear()
            yield frame
        elif self._head:
            data = self._head + data
        size = len(data)
        while size - position >= 4:
            (length,) = _LENGTH.unpack_from(data, position)
            if not 0 <= length <= self._frame_bytes_max:
                raise MalformedMessage(
                    f"a frame of {length} bytes; the limit is {self._frame_bytes_max}"
                )
            position += 4
            if size - position < length:
                self._chunks.append(data[position:])
                self._missing = length - (size - position)
                position = size
                break
            yield data[position : position + length]
            position += length
        self._head = data[position:]


class RequestHeader(NamedTuple):
    """The head of a request; ``body`` is where the message starts in the frame."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: int


def parse_request_header(frame: bytes) -> RequestHeader:
    """The header of a request frame (header versions 1 and 2).

    Raises:
        MalformedMessage: the frame is too short, or its client id is not text.
    """
    try:
        key, version, correlation_id, length = _REQUEST.unpack_from(frame, 0)
        position = _REQUEST.size
        client_id = None
        if length >= 0:
            if position + length > len(frame):
                raise MalformedMessage("the client id points past the end of the request")
            client_id = str(frame[position : position + length], "utf-8")
            position += length
        api = APIS.get(key)
        if api is not None and api.request_flexible(version):
            position = _skip_tags(frame, position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"request header: {error}") from error
    return RequestHeader(key, version, correlation_id, client_id, position)


def _skip_tags(frame: bytes, position: int) -> int:
    count, position = read_uvarint(frame, position)
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
        if position > len(frame):
            raise MalformedMessage("a tagged field points past the end of the request")
    return position


def request_frame(
    api: Api, version: int, correlation_id: int, client_id: str | None, request: Message
) -> list[bytes]:
    """A whole request frame, as chunks."""
    text = None if client_id is None else client_id.encode()
    head = _REQUEST_FIXED.pack(api.key, version, correlation_id)
    head += _NULL_STRING if text is None else struct.pack(">h", len(text)) + text
    if api.request_flexible(version):
        head += b"\0"
    return _framed(head, encode(request, version))


def response_frame(api: Api, version: int, correlation_id: int, response: Message) -> list[bytes]:
    """A whole response frame, as chunks; record data stays a chunk of its own."""
    head = _LENGTH.pack(correlation_id)
    if api.response_header_flexible(version):
        head += b"\0"
    return _framed(head, encode(response, version))


def _framed(head: bytes, body: list[bytes]) -> list[bytes]:
    size = len(head) + sum(map(len, body))
    return [_LENGTH.pack(size) + head, *body]


def response_body(api: Api, version: int, frame: bytes) -> tuple[int, int]:
    """(correlation id, position of the message) of a response frame."""
    if len(frame) < 4:
        raise MalformedMessage("a response is shorter than its header")
    (correlation_id,) = _LENGTH.unpack_from(frame, 0)
    if not api.response_header_flexible(version):
        return correlation_id, 4
    try:
        return correlation_id, _skip_tags(frame, 4)
    except IndexError as error:
        raise MalformedMessage("a response ends inside its header") from error
