"""Determines what the columns of a DataFrame mean to the sink, before anything runs.

With a column ``ack`` the sink acknowledges: ``topic``, ``partition`` and ``offset`` name the record
as the source gave it, ``delay_ms`` is the delay, and ``reason`` the text for its dead letter. The
sink also writes results, if it knows their topic: from the option ``topic``, or from the column
``result_topic`` (null: no result in this row).
Without ``ack`` it works like Spark's own Kafka sink, with ``value``, and ``key``, ``headers``,
``topic``, ``partition``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from sharegroup.arrow.schema import COLUMNS
from sharegroup.model.errors import ConfigError
from sharegroup.spark.options.sink import SinkOptions
from sharegroup.spark.options.stream import SERVERS

_TEXT: Final = ("string",)
_BYTES: Final = ("binary", "string")
_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
_HEADERS: Final = ("array<struct<key:string,value:binary>>",)
_ACK_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "topic": _TEXT,
    "partition": _WHOLE,
    "offset": _WHOLE,
    "ack": (*_TEXT, *_WHOLE),
}
_RESULT_COLUMNS: Final = frozenset(("value", "key", "headers", "topic", "partition"))
_BESIDE_ACK: Final = _RESULT_COLUMNS | frozenset(
    ("offset", "ack", "delay_ms", "reason", "result_topic")
)
_SELECT: Final = 'df.select("topic", "partition", "offset", "ack")'


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """What a sink does with each row, as names of columns; None: there is no such column."""

    acknowledges: bool
    produces: bool
    topic: str | None
    """The column with the topic of a row's result; None: all results go to the option's topic."""
    partition: str | None
    key: str | None
    headers: str | None


def check_sink(
    options: SinkOptions, fields: Sequence[tuple[str, str]], *, complete: bool
) -> SinkColumns:
    """What the sink does with a DataFrame of these columns (name and Spark type).

    Raises:
        ConfigError: columns or options are missing, or conflict.
    """
    types = dict(fields)
    _check_known(types)
    if "ack" in types:
        _check_acknowledging(options, types, complete=complete)
        produces = options.topic is not None or "result_topic" in types
        target = "result_topic" if "result_topic" in types else None
        _check_results_beside_decisions(options, types, produces=produces)
        if not produces:
            return SinkColumns(True, False, None, None, None, None)
    else:
        target = "topic" if options.topic is None else None
        _check_plain(options, types)
    _check_results(options, types)
    return SinkColumns(
        acknowledges="ack" in types,
        produces=True,
        topic=target,
        partition="partition" if "partition" in types and "ack" not in types else None,
        key="key" if "key" in types else None,
        headers="headers" if "headers" in types and options.include_headers else None,
    )


def _check_known(types: Mapping[str, str]) -> None:
    """Raises ConfigError: a column is unknown. So a misspelt column is not left out in silence. The
    columns of the source are known, and may stay in the DataFrame."""
    known = _BESIDE_ACK if "ack" in types else _RESULT_COLUMNS
    for name in types:
        if name in known or name in COLUMNS:
            continue
        if name in _BESIDE_ACK:
            raise ConfigError(
                f"the column {name} goes with the column ack: leave it out, or add it"
            )
        near = get_close_matches(name.lower(), known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(
            f"the sink has no column {name}: {hint}It has {', '.join(sorted(known))}; leave others "
            f'out: .drop("{name}")'
        )


def _check_acknowledging(options: SinkOptions, types: Mapping[str, str], *, complete: bool) -> None:
    wanted = {
        **_ACK_COLUMNS,
        **_optional(types, "delay_ms", _WHOLE),
        **_optional(types, "reason", _TEXT),
    }
    for name, allowed in wanted.items():
        if name not in types:
            raise ConfigError(f"the column {name} is missing beside ack: write {_SELECT}")
        _check_type(name, types[name], allowed)
    if complete:
        raise ConfigError(
            "output mode complete gives old rows again with every batch: acknowledge in append mode"
        )
    if options.ack_location is None:
        raise ConfigError(
            'ackLocation is missing: write .option("ackLocation", "a folder") here and in '
            "spark.readStream"
        )


def _check_results_beside_decisions(
    options: SinkOptions, types: Mapping[str, str], *, produces: bool
) -> None:
    if options.topic is not None and "result_topic" in types:
        raise ConfigError("the option topic and the column result_topic exclude each other")
    if "value" in types and not produces:
        raise ConfigError(
            "there is a column value beside ack, and no topic to write it to: add the option topic "
            f"or the column result_topic, or only acknowledge: {_SELECT}"
        )


def _check_plain(options: SinkOptions, types: Mapping[str, str]) -> None:
    if "value" not in types:
        raise ConfigError(
            f"there is neither a column ack nor a column value: to acknowledge write {_SELECT}; to "
            "write records give them a column value"
        )
    if options.ack_location is not None:
        raise ConfigError(f"ackLocation needs the column ack: write {_SELECT}")
    if options.topic is None and "topic" not in types:
        raise ConfigError("no topic is named for the records: add the option or the column topic")
    for name, allowed in (("topic", _TEXT), ("partition", _WHOLE)):
        if name in types:
            _check_type(name, types[name], allowed)


def _check_results(options: SinkOptions, types: Mapping[str, str]) -> None:
    if "value" not in types:
        raise ConfigError("the column value is missing: it is what is written to the topic")
    if options.bootstrap_servers is None:
        raise ConfigError(f'{SERVERS} is missing: write .option("{SERVERS}", "localhost:9092")')
    wanted = {
        "value": _BYTES,
        **_optional(types, "key", _BYTES),
        **_optional(types, "headers", _HEADERS),
        **_optional(types, "result_topic", _TEXT),
    }
    for name, allowed in wanted.items():
        _check_type(name, types[name], allowed)


def _optional(
    types: Mapping[str, str], name: str, allowed: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    return {name: allowed} if name in types else {}


def _check_type(name: str, kind: str, allowed: tuple[str, ...]) -> None:
    if kind not in allowed:
        raise ConfigError(f"the column {name} is {kind}: cast it to {' or '.join(allowed)}")
