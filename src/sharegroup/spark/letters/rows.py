"""Dead letters as rows: the columns, and the Arrow batches that Spark gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sharegroup.arrow.schema import HEADERS
from sharegroup.client.core.dead_letter import DeadLetter
from sharegroup.model.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

LETTER_COLUMNS: Final = {
    "key": "binary",
    "value": "binary",
    HEADERS: "array<struct<key:string,value:binary>>",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "cause": "string",
    "reason": "string",
    "member_id": "string",
    "delivery_count": "int",
    "failed_at": "timestamp",
    "group_id": "string",
    "has_record": "boolean",
    "letter_topic": "string",
    "letter_partition": "int",
    "letter_offset": "bigint",
}
"""Column → type, as Spark writes it."""
OF_RECORD: Final = frozenset(("key", "value", HEADERS, "has_record"))
"""Columns for which a letter without a copy needs its record."""
INT_MAX: Final = 2**31 - 1
DATE_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999: what Spark shows."""


def letters_ddl() -> str:
    """The schema as DDL text."""
    return ", ".join(f"{name} {kind}" for name, kind in LETTER_COLUMNS.items())


def check_letter_columns(fields: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The names of a user's own ``.schema(…)``, which may leave columns out and reorder them.

    Raises:
        ConfigError: a column is not ours or has another type.
    """
    for name, kind in fields:
        if LETTER_COLUMNS.get(name) != kind:
            raise ConfigError(
                f"dead letters have no column {name} {kind}: leave .schema(…) out, or choose from "
                f"{letters_ddl()}"
            )
    return tuple(name for name, _ in fields)


def letter_rows(letters: Sequence[DeadLetter], columns: Sequence[str]) -> pa.RecordBatch:
    """The letters as a record batch with these columns."""
    import pyarrow as pa

    headers = pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
    types: dict[str, Any] = {
        "key": pa.binary(),
        "value": pa.binary(),
        HEADERS: pa.list_(headers),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "delivery_count": pa.int32(),
        "failed_at": pa.timestamp("us", tz="UTC"),
        "has_record": pa.bool_(),
        "letter_partition": pa.int32(),
        "letter_offset": pa.int64(),
    }
    schema = pa.schema([(name, types.get(name, pa.string())) for name in columns])
    arrays = [
        pa.array([_VALUES[name](one) for one in letters], schema.field(name).type)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _at_most(number: int | None, most: int) -> int | None:
    """The number; None: it is larger than a column can show. A letter may say what it likes."""
    return number if number is not None and number <= most else None


def _failed_us(letter: DeadLetter) -> int | None:
    failed_ms = _at_most(letter.failed_ms, DATE_MS_MAX)
    return None if failed_ms is None or failed_ms < 0 else failed_ms * 1_000


_VALUES: Final[Mapping[str, Callable[[DeadLetter], Any]]] = {
    "key": lambda one: one.key,
    "value": lambda one: one.value,
    HEADERS: lambda one: [{"key": key, "value": value} for key, value in one.headers] or None,
    "topic": lambda one: one.topic,
    "partition": lambda one: _at_most(one.partition, INT_MAX),
    "offset": lambda one: one.offset,
    "cause": lambda one: one.cause,
    "reason": lambda one: one.message,
    "member_id": lambda one: one.member,
    "delivery_count": lambda one: _at_most(one.deliveries, INT_MAX),
    "failed_at": _failed_us,
    "group_id": lambda one: one.group,
    "has_record": lambda one: one.has_copy,
    "letter_topic": lambda one: one.place.topic,
    "letter_partition": lambda one: one.place.partition,
    "letter_offset": lambda one: one.place_offset,
}
