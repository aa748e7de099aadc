"""The options of ``spark.read.format("kafka-share")``, which looks at a queue. A batch read cannot
report that it succeeded, so it acquires nothing.

Spark asks for the schema before it says whether it wants a batch or a stream. Only a look has the
option ``states``, which tells them apart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sharegroup.client.security.settings import NO_SECURITY, Security
from sharegroup.model.errors import ConfigError
from sharegroup.share.record_state import RecordState
from sharegroup.spark.options.option_table import INT_MAX, Option, OptionTable, Parse, count
from sharegroup.spark.options.refused import REFUSED_KAFKA
from sharegroup.spark.options.security import split_security
from sharegroup.spark.options.stream import STREAM

STATES: Final = "states"
STATE_NAMES: Final = tuple(state.name.lower() for state in RecordState)
EARLIEST: Final = -2
LATEST: Final = -1

Positions = Mapping[str, Mapping[int, int]]
"""Topic → partition → offset, :data:`EARLIEST` or :data:`LATEST`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekOptions:
    """The options of a look; :data:`PEEK` says what each means."""

    bootstrap_servers: str
    group_id: str
    states: frozenset[str]
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    starting_offsets: str | Positions | None = None
    ending_offsets: str | Positions | None = None
    records_per_topic_partition: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    include_timestamp_type: bool = False
    fail_on_data_loss: bool = True
    executor_poll_timeout_ms: int = 120_000
    client_id: str = "sharegroup-spark"
    request_timeout_ms: int = 30_000
    security: Security = NO_SECURITY


def is_peek(options: Mapping[str, str]) -> bool:
    """Whether these are options of a look."""
    return any(name.lower() == STATES for name in options)


def parse_peek_options(options: Mapping[str, str]) -> PeekOptions:
    """The options as values.

    Raises:
        ConfigError: an option is missing, unknown, not available here, has an invalid value, or
            conflicts with another.
    """
    rest, security = split_security(options)
    parsed = PeekOptions(**PEEK.values(rest), security=security)
    if bool(parsed.topics) == (parsed.topic_pattern is not None):
        raise ConfigError(
            'write either .option("subscribe", "my-topic") or a pattern in subscribePattern'
        )
    for name, positions in (
        ("startingOffsets", parsed.starting_offsets),
        ("endingOffsets", parsed.ending_offsets),
    ):
        if parsed.topics and isinstance(positions, Mapping):
            for topic in positions.keys() - set(parsed.topics):
                raise ConfigError(f"{name} names {topic}, which is not in subscribe")
    return parsed


def _states(name: str, text: str) -> frozenset[str]:
    words = {word.strip().lower() for word in text.split(",") if word.strip()}
    if words == {"all"}:
        return frozenset(STATE_NAMES)
    if not words or words - set(STATE_NAMES):
        raise ConfigError(
            f"{name} is {text!r}: write all, or some of {', '.join(STATE_NAMES)} with commas "
            "between them"
        )
    return frozenset(words)


def _positions(word: str, *, negatives: Mapping[int, str]) -> Parse:
    """``word``, or JSON in the format of Spark's own Kafka source."""

    def parse(name: str, text: str) -> str | Positions:
        if text.strip().lower() == word:
            return word
        wrong = ConfigError(
            f"{name} is {text!r}: write {word}, or offsets by topic and partition such as "
            f'{{"my-topic": {{"0": 23, "1": {next(iter(negatives))}}}}} '
            f"({', '.join(f'{number}: {what}' for number, what in negatives.items())})"
        )
        try:
            read = json.loads(text)
            found = {
                topic: {int(partition): offset for partition, offset in partitions.items()}
                for topic, partitions in read.items()
            }
        except (ValueError, AttributeError):
            raise wrong from None
        for partitions in found.values():
            for offset in partitions.values():
                if type(offset) is not int or (offset < 0 and offset not in negatives):
                    raise wrong
        return found

    return parse


_OF_STREAM: Final = frozenset(
    (
        "bootstrap_servers",
        "group_id",
        "topics",
        "topic_pattern",
        "min_partitions",
        "max_records_per_partition",
        "include_headers",
        "include_timestamp_type",
        "fail_on_data_loss",
        "executor_poll_timeout_ms",
        "client_id",
        "request_timeout_ms",
    )
)
_LOOK = "spark.read looks at a queue and holds nothing; use it with spark.readStream"
_OFFSETS = "use startingOffsets and endingOffsets"

PEEK: Final = OptionTable(
    (
        Option(
            STATES,
            "states",
            _states,
            "Which records are shown: `all`, or some of `available`, `acquired`, `delayed`, "
            "`acknowledged`, `archived`. Adds the columns `state`, `member_id` and `lock_ms`.",
            advised="all",
        ),
        *(option for option in STREAM.options if option.field in _OF_STREAM),
        Option(
            "startingOffsets",
            "starting_offsets",
            _positions("earliest", negatives={EARLIEST: "earliest"}),
            "Where the look begins: `earliest`, or offsets by topic and partition as JSON. Without "
            "it, at the group's start offset: all before it is finished.",
            spark="startingOffsets",
        ),
        Option(
            "endingOffsets",
            "ending_offsets",
            _positions("latest", negatives={LATEST: "latest"}),
            "Where it ends (exclusive): `latest`, or offsets by topic and partition as JSON.",
            spark="endingOffsets",
        ),
        Option(
            "maxRecordsPerTopicPartition",
            "records_per_topic_partition",
            count(1, INT_MAX),
            "Show no more records of a Kafka partition than this: those with the lowest offsets.",
        ),
    ),
    {
        **{
            option.name: _LOOK
            for option in STREAM.options
            if option.field not in _OF_STREAM and option.name != "startingOffsets"
        },
        "assign": "name the topics in subscribe, and partitions in startingOffsets",
        "startingOffsetsByTimestamp": _OFFSETS,
        "startingTimestamp": _OFFSETS,
        "endingOffsetsByTimestamp": _OFFSETS,
        "endingTimestamp": _OFFSETS,
        "kafka.auto.offset.reset": _OFFSETS,
        "kafka.isolation.level": "records of aborted transactions show in the state they are in",
        "path": 'name the topics in .option("subscribe", …) and call .load() without a path',
        **REFUSED_KAFKA,
    },
)
