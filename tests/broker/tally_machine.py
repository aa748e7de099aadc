"""A small machine for tests of the coordinator runtime: numbers by name, some with an end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sharegroup.broker.coordination.log import KeyValue
from sharegroup.model.errors import MalformedMessage

KEY_TYPE = (999).to_bytes(2, "big")


class Total(NamedTuple):
    """The number of a name, and when it ends; None: it has ended."""

    name: str
    number: int | None
    ends_ms: int = 0


class TallyMachine:
    """Implements ``machine.Machine``."""

    def __init__(self) -> None:
        self.totals: dict[str, Total] = {}
        self.offsets: dict[str, int] = {}
        """Where the durable record of each name is."""

    def add(self, name: str, ends_ms: int = 0) -> tuple[int, list[Total]]:
        """Count ``name``; its number."""
        before = self.totals.get(name)
        number = 1 + (before.number or 0 if before else 0)
        self.totals[name] = Total(name, number, ends_ms)
        return number, [self.totals[name]]

    def look(self, name: str) -> tuple[int | None, list[Total]]:
        """The number of ``name``, without a record."""
        return self.numbers().get(name), []

    def numbers(self) -> dict[str, int | None]:
        """All numbers."""
        return {name: total.number for name, total in self.totals.items()}

    def replay(self, offset: int, key: bytes, value: bytes | None) -> bool:
        if not key.startswith(KEY_TYPE):
            return False
        name = key[2:].decode()
        if value is None:
            self.totals.pop(name, None)
            return True
        number, _, ends_ms = value.decode().partition(" ")
        if not number.isdigit():
            raise MalformedMessage(f"{number} is no number")
        self.totals[name] = Total(name, int(number), int(ends_ms))
        self.offsets[name] = offset
        return True

    def replayed(self, now_ms: int) -> None:
        self.check_invariants()

    def next_deadline_ms(self) -> int | None:
        return min((total.ends_ms for total in self.totals.values() if total.ends_ms), default=None)

    def tick(self, now_ms: int) -> Sequence[Total]:
        ended = [name for name, total in self.totals.items() if 0 < total.ends_ms <= now_ms]
        for name in ended:
            del self.totals[name]
        return [Total(name, None) for name in ended]

    def encode(self, record: Total) -> KeyValue:
        name, number, ends_ms = record
        value = None if number is None else f"{number} {ends_ms}".encode()
        return KEY_TYPE + name.encode(), value

    def durable(self, records: Sequence[Total], first_offset: int) -> None:
        for offset, record in enumerate(records, start=first_offset):
            self.offsets[record.name] = offset

    def lowest_needed(self, end_offset: int) -> int | None:
        return min((self.offsets.get(name, 0) for name in self.totals), default=end_offset)

    def size(self) -> int:
        return len(self.totals)

    def live_records(self) -> Iterator[Sequence[Total]]:
        for name in list(self.totals):
            yield [self.totals[name]] if name in self.totals else []

    def check_invariants(self) -> None:
        if not all(total.number for total in self.totals.values()):
            raise AssertionError("a name that was never counted")
