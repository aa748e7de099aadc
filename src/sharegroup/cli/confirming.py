"""``consume --confirmed-by PIPE | produce --confirm-to PIPE``: acknowledges exactly the records
that have arrived.

A reader of ``consume --format json`` writes to a named pipe the place of each record that it is
done with, as a line of JSON: ``{"topic": "t", "partition": 0, "offset": 7}``. Other fields do not
matter, so the reader may write the line of the record itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from typing import Final, NamedTuple

from sharegroup.cli.input_records import LineSplitter
from sharegroup.cli.outcome import UsageError
from sharegroup.client.core.record import Record
from sharegroup.model.errors import SharegroupError

READ_BYTES: Final = 64 * 1024


class RecordPlace(NamedTuple):
    """Where a record was read."""

    topic: str
    partition: int
    offset: int


def place_in(document: object) -> RecordPlace | None:
    """The place that a decoded line of JSON names."""
    if not isinstance(document, dict):
        return None
    topic, partition, offset = (document.get(name) for name in RecordPlace._fields)
    if isinstance(topic, str) and type(partition) is int and type(offset) is int:
        return RecordPlace(topic, partition, offset)
    return None


def _place_of(record: Record) -> RecordPlace:
    return RecordPlace(record.topic, record.partition, record.offset)


class Confirmations:
    """``with Confirmations(path) as confirmations:`` inside a task: the reader's confirmations.

    Raises:
        UsageError: there is no such named pipe.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = _open(path, os.O_RDONLY)
        self._lines = LineSplitter()
        self._expected: dict[RecordPlace, Record] = {}
        self._confirmed: list[Record] = []
        self._news = asyncio.Event()
        self._error: UsageError | None = None
        self.closed = False  # the writer of confirmations has left

    def __enter__(self) -> Confirmations:
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)

    def expect(self, record: Record) -> None:
        """The reader is about to be given this record, and may confirm it before the command knows
        that it has read it."""
        self._expected[_place_of(record)] = record

    def is_without(self, record: Record) -> bool:
        """The reader was not given the whole record: do not expect its confirmation any more.
        False: it was confirmed already."""
        return self._expected.pop(_place_of(record), None) is not None

    @property
    def expected(self) -> list[Record]:
        """Records that were given to the reader, and that it has not confirmed."""
        return list(self._expected.values())

    async def wait(self, seconds: float) -> None:
        """Return when a record was confirmed, when the reader has left, or after this time."""
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return

    async def until_closed(self, seconds: float, while_open_s: float) -> None:
        """Return when the reader has left, or when it has confirmed nothing for so many seconds;
        for ``while_open_s`` more, if it still has the pipe open. The reader sees the end of its
        input meanwhile.
        """
        for patience_s in (seconds, while_open_s):
            while not self.closed and await self._heard(patience_s):
                continue
            if not self.closed:
                self._read()

    async def _heard(self, seconds: float) -> bool:
        """Whether a record was confirmed, or the reader has left, within this time."""
        self._news.clear()
        await self.wait(seconds)
        return self._news.is_set()

    def take(self, *, left: bool) -> list[Record]:
        """The records that were confirmed since the last call.

        Args:
            left: the reader has closed the pipe with the records. From then on it has left as soon
                as nobody has the pipe with the confirmations open; earlier, somebody may still open
                that pipe.

        Raises:
            UsageError: the reader wrote something else.
        """
        if left and not self.closed:
            self._read()
        if self._error is not None:
            raise self._error
        self._news.clear()
        confirmed, self._confirmed = self._confirmed, []
        return confirmed

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return
        try:
            for line in self._lines.feed(data) if data else self._lines.end():
                self._confirm(line)
        except UsageError as error:
            self._error = error
        if self._confirmed or self._error:
            self._news.set()
        if not data:
            self.closed = True
            self._news.set()
            asyncio.get_running_loop().remove_reader(self._descriptor)

    def _confirm(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            place = place_in(json.loads(line))
        except (ValueError, RecursionError):
            place = None
        if place is None:
            raise UsageError(
                f"{self._path}: expected lines with topic, partition and offset of a record, "
                f"not {line[:80].decode(errors='replace')!r}"
            )
        record = self._expected.pop(place, None)  # None: it was confirmed before
        if record is not None:
            self._confirmed.append(record)


class Confirming:
    """Writes to a named pipe which records have arrived. :meth:`close` it.

    The pipe is held open from the start, so that the other side can tell that somebody will write.
    It is opened anew by the first write, when the other side has it open too: so a write after the
    other side has left fails, and does not fill a pipe that nobody reads.

    Raises:
        UsageError: there is no such named pipe.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = _open(path, os.O_RDWR)
        self._begun = False

    def close(self) -> None:
        """Close the pipe: no more records are confirmed."""
        os.close(self._descriptor)

    async def confirm(self, place: RecordPlace) -> None:
        """Write one place; waits while the pipe is full.

        Raises:
            SharegroupError: nobody reads the pipe any more.
        """
        if not self._begun:
            self._begun = True
            held, self._descriptor = self._descriptor, _open(self._path, os.O_WRONLY)
            os.close(held)
        line = json.dumps(place._asdict()).encode() + b"\n"  # < PIPE_BUF: all of it or nothing
        while True:
            try:
                os.write(self._descriptor, line)
                return
            except BlockingIOError:
                await self._writable()
            except BrokenPipeError:
                raise SharegroupError(
                    f"nobody reads {self._path} any more: records that have arrived may come again"
                ) from None

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_writer(self._descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_writer(self._descriptor)


def _open(path: str, mode: int) -> int:
    try:
        descriptor = os.open(path, mode | os.O_NONBLOCK)
    except OSError as error:
        why = f"{error.strerror or error}: make a named pipe first, by mkfifo"
        raise UsageError(f"cannot open {path}: {why}") from None
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise UsageError(f"{path} is no named pipe: make one by mkfifo")
