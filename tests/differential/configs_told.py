"""What a server says of its configs, one line for each fact, and the differences that are meant.

The table is `tests/differential/config_differences.csv`: whose config (topic, broker, cluster,
group), a pattern for its name, the fact, what Kafka and this broker say (`*`: anything), and why.
A fact is a column of DescribeConfigs, `shown` (whether it is told of at all), or `takes VALUE`
(what AlterConfigs says to the value).
"""

from __future__ import annotations

import asyncio
import csv
import re
from dataclasses import dataclass
from pathlib import Path

from sharegroup.wire import apis
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import request_frame, response_body
from sharegroup.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from sharegroup.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.broker.greedy import Greedy

TABLE = Path(__file__).with_name("config_differences.csv")
TOPIC, BROKER, GROUP = 2, 4, 32
TOLD_OF = {
    "topic": (TOPIC, "t"),
    "broker": (BROKER, "1"),
    "cluster": (BROKER, ""),
    "group": (32, "g"),
}
VALUES = (
    "x",
    "",
    "-3",
    "-2",
    "-1",
    "0",
    "1",
    "8",
    "18",
    "true",
    "2147483640",
    "99999999999999999999",
)

Facts = dict[tuple[str, str, str], str]
"""Whose config, its name, which fact → what is said."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One row of the table."""

    whose: str
    name: str
    fact: str
    kafka: str
    ours: str
    why: str

    def explains(self, fact: tuple[str, str, str], kafka: str, ours: str) -> bool:
        """Whether this is why the two do not say the same."""
        mine = (self.whose, self.name, self.fact)
        return (
            all(re.fullmatch(own, found) for own, found in zip(mine, fact, strict=True))
            and self.kafka in ("*", kafka)
            and self.ours in ("*", ours)
        )


def differences() -> list[Difference]:
    """The table."""
    with TABLE.open(newline="", encoding="utf-8") as rows:
        return [Difference(**row) for row in csv.DictReader(rows)]


async def told(port: int) -> Facts:
    """All that a server tells of the configs of the topic t, of itself and of the group g."""
    request = DescribeConfigsRequest(
        [DescribeConfigsResource(kind, name, None) for kind, name in TOLD_OF.values()], True, True
    )
    (frame,) = await _ask(port, apis.DESCRIBE_CONFIGS, 4, [request])
    answer = decode(
        DescribeConfigsResponse, 4, frame, response_body(apis.DESCRIBE_CONFIGS, 4, frame)[1]
    )
    facts: Facts = {}
    for whose, result in zip(TOLD_OF, answer.results, strict=True):
        assert result.error_code == 0
        for config in result.configs:
            facts |= {(whose, config.name, fact): said for fact, said in _facts(config)}
    return facts


def _facts(config: DescribeConfigsResourceResult) -> list[tuple[str, str]]:
    synonyms = " ".join(f"{s.name}={s.value}:{s.source}" for s in config.synonyms)
    return [
        ("shown", "yes"),
        ("value", str(config.value)),
        ("source", str(int(config.config_source))),
        ("type", str(int(config.config_type))),
        ("read_only", str(config.read_only)),
        ("sensitive", str(config.is_sensitive)),
        ("synonyms", synonyms),
        ("documented", str(bool(config.documentation))),
    ]


async def taken(port: int, whose: str, names: list[str]) -> Facts:
    """What a server says to odd values of these configs, which it only checks."""
    kind, resource = TOLD_OF[whose]
    questions = [(name, value) for name in names for value in VALUES]
    requests = [
        IncrementalAlterConfigsRequest(
            [AlterConfigsResource(kind, resource, [AlterableConfig(name, 0, value)])], True
        )
        for name, value in questions
    ]
    api = apis.INCREMENTAL_ALTER_CONFIGS
    facts: Facts = {}
    for (name, value), frame in zip(questions, await _ask(port, api, 1, requests), strict=True):
        answer = decode(IncrementalAlterConfigsResponse, 1, frame, response_body(api, 1, frame)[1])
        (response,) = answer.responses
        code = str(response.error_code)
        facts[whose, name, f"takes {value}"] = f"{code} {response.error_message or ''}".strip()
    return facts


async def _ask(port: int, api: apis.Api, version: int, requests: list[object]) -> list[bytes]:
    """The answers to pipelined requests, in order."""
    peer = await Greedy.connect(port)
    for number, request in enumerate(requests):
        peer.send(b"".join(request_frame(api, version, number, "configs", request)))
    answers = [await asyncio.wait_for(peer.answer(), 120) for _ in requests]
    peer.close()
    return answers
