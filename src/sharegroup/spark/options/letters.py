"""The options of ``spark.read.format("kafka-share").option("deadLettersOf", GROUP)``, which shows
the dead letters of a share group. The option tells such a read from a look at a queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sharegroup.client.core.letter_expression import BadExpression, LetterExpression
from sharegroup.client.network.cluster import Cluster
from sharegroup.client.security.settings import NO_SECURITY, Security
from sharegroup.model.errors import ConfigError
from sharegroup.spark.options import option_table
from sharegroup.spark.options.option_table import Option, OptionTable
from sharegroup.spark.options.refused import REFUSED_KAFKA
from sharegroup.spark.options.security import split_security
from sharegroup.spark.options.stream import GROUP, STREAM

LETTERS_OF: Final = "deadLettersOf"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterOptions:
    """The options of such a read; :data:`LETTERS` says what each means."""

    bootstrap_servers: str
    group_id: str
    topic: str | None = None
    where: LetterExpression | None = None
    max_records_per_partition: int | None = None
    client_id: str = "sharegroup-spark"
    request_timeout_ms: int = 30_000
    security: Security = NO_SECURITY

    def cluster(self) -> Cluster:
        """The cluster, not connected yet."""
        return Cluster(
            self.bootstrap_servers,
            client_id=self.client_id,
            request_timeout_ms=self.request_timeout_ms,
            allow_auto_create_topics=False,
            security=self.security,
        )


def are_letters(options: Mapping[str, str]) -> bool:
    """Whether these are options of a read of dead letters."""
    return any(name.lower() == LETTERS_OF.lower() for name in options)


def parse_letter_options(options: Mapping[str, str]) -> LetterOptions:
    """The options as values.

    Raises:
        ConfigError: an option is missing, unknown, not available here, or has an invalid value.
    """
    rest, security = split_security(options)
    return LetterOptions(**LETTERS.values(rest), security=security)


def _where(name: str, text: str) -> LetterExpression:
    try:
        return LetterExpression(text)
    except BadExpression as error:
        raise ConfigError(f"{name}: {error}") from None


_OF_STREAM: Final = frozenset(
    ("bootstrap_servers", "max_records_per_partition", "client_id", "request_timeout_ms")
)
_GROUP = f"the group is named by {LETTERS_OF}"
_TOPIC = (
    "the group's setting errors.deadletterqueue.topic.name says which topic is read; where it has "
    "none, deadLetterTopic"
)
_ALL = "this reads dead letters, all that are not done; choose with where, or from the DataFrame"

LETTERS: Final = OptionTable(
    (
        Option(
            LETTERS_OF,
            "group_id",
            option_table.group,
            "The share group whose dead letters are shown: those that are neither redriven nor "
            "purged.",
            advised="my-share-group",
        ),
        *(option for option in STREAM.options if option.field in _OF_STREAM),
        Option(
            "deadLetterTopic",
            "topic",
            option_table.text,
            "The topic with the letters, if the group does not name it "
            "(`errors.deadletterqueue.topic.name`).",
        ),
        Option(
            "where",
            "where",
            _where,
            "Which letters, as in `sharegroup dead list --where`. It chooses before rows are made.",
        ),
    ),
    {
        **{
            option.name: _ALL
            for option in STREAM.options
            if option.field not in _OF_STREAM and option.field not in ("topics", "topic_pattern")
        },
        GROUP: _GROUP,
        "kafka.share.group.id": _GROUP,
        "subscribe": _TOPIC,
        "subscribePattern": _TOPIC,
        "states": "states shows the records of a queue; leave one of the two options out",
        "assign": _TOPIC,
        "path": "call .load() without a path",
        **REFUSED_KAFKA,
    },
)
