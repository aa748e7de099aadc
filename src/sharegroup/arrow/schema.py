"""The columns of the source, once for Spark and once for Arrow.

Spark compares the first Arrow batch of a task with the schema it derives itself, exactly: order,
nullability, unit, time zone and the name ``element`` inside lists (spark.sql's
``to_arrow_schema``). Both forms come from one table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from sharegroup.model.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

HEADERS: Final = "headers"
TIMESTAMP_TYPE: Final = "timestampType"
COLUMNS: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    TIMESTAMP_TYPE: "int",
    HEADERS: "array<struct<key:string,value:binary>>",
    "delivery_count": "smallint",
}
"""Column → type, as Spark writes it; ``timestampType`` and ``headers`` only if asked for."""


def column_names(include_headers: bool, include_timestamp_type: bool = False) -> tuple[str, ...]:
    """The columns of a stream, in order."""
    asked = {HEADERS: include_headers, TIMESTAMP_TYPE: include_timestamp_type}
    return tuple(name for name in COLUMNS if asked.get(name, True))


def ddl(include_headers: bool, include_timestamp_type: bool = False) -> str:
    """The schema as DDL text. Spark keeps the case of a struct's field names, and compares them
    with the names in the Arrow batch."""
    names = column_names(include_headers, include_timestamp_type)
    return ", ".join(f"{name} {COLUMNS[name]}" for name in names)


def check_columns(fields: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The names of a user's own ``.schema(…)``, which may leave columns out and reorder them.

    Args:
        fields: (name, type as Spark's ``simpleString``) of each field.

    Raises:
        ConfigError: a column is not ours or has another type.
    """
    for name, kind in fields:
        if COLUMNS.get(name) != kind:
            known = ", ".join(f"{column} {COLUMNS[column]}" for column in COLUMNS)
            raise ConfigError(
                f"kafka-share has no column {name} {kind}: "
                f"leave .schema(…) out, or choose from {known}"
            )
    return tuple(name for name, _ in fields)


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """The Arrow schema that Spark expects for ``columns``."""
    import pyarrow as pa

    types: dict[str, Any] = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        TIMESTAMP_TYPE: pa.int32(),
        HEADERS: pa.list_(
            pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
        ),
        "delivery_count": pa.int16(),
    }
    return pa.schema([(name, types[name]) for name in columns])
