"""Frames and headers: a frame is a 4-byte length and that many bytes; a request or response header
comes first in it.

Sans-IO: bytes in, frames out; the broker's and the client's connections use the same code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from sharegroup.model.errors import MalformedMessage
from sharegroup.model.limits import FRAME_BYTES_MAX, TAGGED_FIELDS_MAX
from sharegroup.wire.apis import APIS, Api
from sharegroup.wire.codec import encode, read_uvarint
from sharegroup.wire.schema import Message

_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">hhih")
_REQUEST_FIXED = struct.Struct(">hhi")
_KIND = struct.Struct(">hh")
_NULL_STRING = struct.pack(">h", -1)
_CHUNK_BYTES = 65_536
_TLS_HANDSHAKE = 0x1603
"""How TLS begins, taken for the beginning of a length."""


class FrameSplitter:
    """Cuts a byte stream into frames, one at a time, on request.

    Args:
        frame_bytes_max: a frame that claims to be longer is refused; it may be changed between
            frames.
        check: called with API key, version and length of a request frame that has begun and is not
            complete yet; it raises MalformedMessage to refuse the frame.
    """

    def __init__(
        self,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        check: Callable[[int, int, int], None] | None = None,
    ) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._check = check
        self._data = b""  # bytes received; the bytes from `_at` on are not cut yet
        self._at = 0
        self.pending = False
        """Whether there may be a frame to cut."""
        self._chunks: list[bytes] = []  # the beginning of a frame
        self.missing = 0
        """Bytes of a begun frame that have not come yet; 0 while its length is not known."""

    @property
    def begun(self) -> bool:
        """Whether there are bytes of a frame that is not cut yet."""
        return bool(self._chunks) or self._at < len(self._data)

    @property
    def wanted(self) -> int:
        """How many bytes complete the length or frame that has begun, when no frame can be cut and
        there is no ``check``. A long frame that is added in this way is not copied.
        """
        return self.missing or max(1, _LENGTH.size - (len(self._data) - self._at))

    def feed(self, data: bytes) -> Iterator[bytes]:
        """:meth:`add`, then each whole frame."""
        self.add(data)
        while (frame := self.next_frame()) is not None:
            yield frame

    def add(self, data: bytes) -> None:
        """Add bytes that the socket received."""
        if self.missing:
            part = data[: self.missing]
            self.missing -= len(part)
            if len(self._chunks[-1]) + len(part) <= _CHUNK_BYTES:
                self._chunks[-1] += part  # a small piece of its own costs more than its bytes
            else:
                self._chunks.append(part)
            data = data[len(part) :]
        rest = self._data[self._at :] if self._at < len(self._data) else b""
        self._data, self._at = rest + data if rest else data, 0
        self.pending = not self.missing

    def clear(self) -> None:
        """Forget all that was received: nobody will ask for it."""
        self._data, self._at = b"", 0
        self._chunks.clear()
        self.pending, self.missing = False, 0

    def next_frame(self) -> bytes | None:
        """The next frame (without its length); None when it is not whole yet.

        Raises:
            MalformedMessage: a length is negative or over the limit, or ``check`` refuses the
                frame; the caller must close the connection.
        """
        if self._chunks:
            return self._whole()
        if self._at == len(self._data):
            self.pending = False
            return None
        data, at = self._data, self._at
        left = len(data) - at - _LENGTH.size
        if left < 0:
            self.pending = False
            return None
        (length,) = _LENGTH.unpack_from(data, at)
        if not 0 <= length <= self.frame_bytes_max:
            if length >> 16 == _TLS_HANDSHAKE:
                raise MalformedMessage("it speaks TLS to a plaintext listener")
            raise MalformedMessage(
                f"a frame of {length} bytes; the limit is {self.frame_bytes_max}"
            )
        if left < length:
            self.pending = False
            self._begin(length, left)
            return None
        at += _LENGTH.size
        end = at + length
        self.pending = end < len(data)
        # A connection that waits for its answer must not keep the bytes that it has received.
        self._data, self._at = (data, end) if self.pending else (b"", 0)
        return data[at:end]

    def _begin(self, length: int, left: int) -> None:
        """Begin a frame that is not whole. ``check`` waits for its API key and version."""
        start = len(self._data) - left
        if self._check is not None:
            if left < min(length, _KIND.size):
                return
            if length >= _KIND.size:
                key, version = _KIND.unpack_from(self._data, start)
                self._check(key, version, length)
        self._chunks.append(self._data[start:])
        self.missing = length - left
        self._data, self._at = b"", 0

    def _whole(self) -> bytes | None:
        if self.missing:
            return None
        if len(self._chunks) == 2 and not self._chunks[0]:
            frame = self._chunks[1]  # all of it came at once
        else:
            frame = b"".join(self._chunks)  # the one copy of a long frame
        self._chunks.clear()
        self.pending = self._at < len(self._data)
        return frame


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
    if count > TAGGED_FIELDS_MAX:
        raise MalformedMessage(f"{count} tagged fields; the limit is {TAGGED_FIELDS_MAX}")
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
        if position > len(frame):
            raise MalformedMessage("a tagged field points past the end of the request")
    return position


def first_string(data: bytes, position: int) -> str:
    """The string in the newer (compact) encoding at ``position``; empty where it is null.

    Raises:
        MalformedMessage: the bytes there are no string.
    """
    try:
        size, position = read_uvarint(data, position)
        end = position + max(size - 1, 0)
        if end > len(data):
            raise MalformedMessage("a name points past the end of the request")
        return str(data[position:end], "utf-8")
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"a name cannot be read: {error}") from error


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


def bare_frame(content: bytes) -> bytes:
    """A frame without a header: a SASL token after SaslHandshake version 0."""
    return _LENGTH.pack(len(content)) + content


_SMALL_BYTES: Final = 4096
"""Chunks of fewer bytes are joined: each chunk costs work on its way out. An answer of a thousand
names is many thousand chunks."""
_TINY_BYTES: Final = 512
"""If they have fewer bytes than this on average, all are joined without a look at each."""


def _framed(head: bytes, body: list[bytes]) -> list[bytes]:
    size = sum(map(len, body))
    chunks = [_LENGTH.pack(len(head) + size) + head, *body]
    if size < len(body) * _TINY_BYTES and set(map(type, body)) == {bytes}:
        return [b"".join(chunks)]
    joined, start = [], 0
    for at, chunk in enumerate(chunks):
        if type(chunk) is not bytes or len(chunk) > _SMALL_BYTES:
            if start < at:
                joined.append(b"".join(chunks[start:at]))
            joined.append(chunk)
            start = at + 1
    if start < len(chunks):
        joined.append(b"".join(chunks[start:]))
    return joined


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
