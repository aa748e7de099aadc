"""Write ``docs/configuration.md`` from the tables of settings: ``python scripts/docs_config.py
[--check]``.

``--check`` writes nothing and fails if the page differs from the tables.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from sharegroup.broker.configs.access import ACCESS_CONFIGS
from sharegroup.broker.configs.classic import CLASSIC_CONFIGS
from sharegroup.broker.configs.foreign import KAFKA_NAMES, REMOVED_NAMES, why_meaningless
from sharegroup.broker.configs.groups import CONSUMER_CONFIGS
from sharegroup.broker.configs.log import LOG_CONFIGS
from sharegroup.broker.configs.node import NODE_CONFIGS
from sharegroup.broker.configs.quotas import QUOTA_CONFIGS
from sharegroup.broker.configs.security import SECURITY_CONFIGS
from sharegroup.broker.configs.share import SHARE_CONFIGS
from sharegroup.broker.configs.topic import TOPIC_CONFIGS
from sharegroup.broker.configs.transactions import TRANSACTION_CONFIGS
from sharegroup.groups.config import GROUP_CONFIGS
from sharegroup.model.config import INT_MAX, LONG_MAX, ConfigDef, format_value

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "configuration.md"
DIFFERENCES = ROOT / "tests" / "differential" / "config_differences.csv"

INTRODUCTION = """\
# Configuration

This page is written by `scripts/docs_config.py` from the tables that the broker reads; edit those.

Names, types, bounds and error messages are Apache Kafka's. The broker takes a Kafka
`server.properties` (`sharegroup serve --config FILE`) and `-o key=value` options, which win. A
setting of Kafka's that means nothing here is accepted with one warning; a misspelt one is refused
with the nearest name. Where a default is not Kafka's the table says why. Settings marked *altered
while running* may be changed with `kafka-configs --alter`.
"""

TOPICS = """\
Set when a topic is created or with `kafka-configs --entity-type topics`; the broker's apply where a
topic has none. All may be altered while running."""

GROUPS = """\
Set with `sharegroup groups set` or `kafka-configs --entity-type groups`, also before the group
exists. A value out of the broker's bounds is refused, and clamped when the bounds shrink later. All
may be altered while running."""

ACCEPTED = """\
## Accepted, and without effect

Kafka's other settings. Those of the broker are read with one warning that says why they do nothing.
"""

TOLD = """\
## What DescribeConfigs tells otherwise than Kafka

`tests/differential/test_configs.py` compares names, values, sources, synonyms, types and what both
answer to odd values with Apache Kafka 4.4. These differences are meant (from
`tests/differential/config_differences.csv`); `*` stands for anything, `-` for not there.

| Config of | Name | Fact | Kafka | Here | Why |
| --- | --- | --- | --- | --- | --- |
"""

SECURITY = (
    "How clients prove who they are. For one listener write `listener.name.<lower-case name>."
    "<setting>`, which wins over the setting alone; `listener.name.<name>.<lower-case mechanism>."
    "connections.max.reauth.ms` for one mechanism of it. Passwords and keys are never shown."
)

SECTIONS: tuple[tuple[str, str, Iterable[ConfigDef]], ...] = (
    ("Broker: the node", "Who it is, where it listens, what it accepts.", NODE_CONFIGS),
    (
        "Broker: authorisation",
        "Who a client is taken for, and what it may do.",
        ACCESS_CONFIGS,
    ),
    (
        "Broker: TLS and SASL",
        SECURITY,
        SECURITY_CONFIGS,
    ),
    (
        "Broker: quotas",
        "How rates are taken; AlterClientQuotas sets the quotas themselves.",
        QUOTA_CONFIGS,
    ),
    ("Broker: logs", "Defaults of topics that set none of their own.", LOG_CONFIGS),
    (
        "Broker: share groups",
        "Defaults of groups that set none of their own, their bounds, and durable state.",
        SHARE_CONFIGS,
    ),
    ("Broker: classic consumer groups", "Bounds of what members may ask for.", CLASSIC_CONFIGS),
    (
        "Broker: consumer groups",
        "The consumer protocol (KIP-848): defaults of groups, their bounds, and assignors.",
        CONSUMER_CONFIGS,
    ),
    (
        "Broker: transactions",
        "Their limits, and the log of their coordinator.",
        TRANSACTION_CONFIGS,
    ),
    ("Topics", TOPICS, TOPIC_CONFIGS.values()),
    ("Groups", GROUPS, GROUP_CONFIGS.values()),
)


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for title, text, definitions in SECTIONS:
        table = _table(definitions, altered=title.startswith("Broker"))
        parts.append(f"## {title}\n\n{text}\n\n{table}")
    parts.append(f"{ACCEPTED}\n{_without_effect()}\n")
    parts.append(f"Settings that Kafka 4 itself has dropped:\n\n{_names(REMOVED_NAMES)}\n")
    parts.append(TOLD + _differences())
    return "\n".join(parts)


def _without_effect() -> str:
    """The settings by the reason why they do nothing."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for entry in TOPIC_CONFIGS.values():
        if entry.no_effect:
            reasons[entry.no_effect].append(f"{entry.name} (topic)")
    for name in KAFKA_NAMES:
        reasons[why_meaningless(name) or ""].append(name)
    rows = [f"| {reason} | {_names(names)[:-1]} |" for reason, names in reasons.items()]
    return "\n".join(["| Why | Settings |", "| --- | --- |", *rows]) + "\n"


def _differences() -> str:
    with DIFFERENCES.open(newline="", encoding="utf-8") as rows:
        cells = [[_cell(text) for text in row] for row in list(csv.reader(rows))[1:]]
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def _cell(text: str) -> str:
    plain = text.replace("\\.", ".")
    if plain.isidentifier() or " " in plain.strip(" "):
        return plain.replace("|", "\\|")
    return _code(plain.replace("|", "\\|"))


def _table(definitions: Iterable[ConfigDef], *, altered: bool) -> str:
    rows = ["| Name | Type | Default | Values | What it does |", "| --- | --- | --- | --- | --- |"]
    rows.extend(
        f"| `{entry.name}` | {entry.type.name.lower()} | {_code(format_value(entry.default))} "
        f"| {_values(entry)} | {_text(entry, altered=altered)} |"
        for entry in definitions
    )
    return "\n".join(rows) + "\n"


def _text(entry: ConfigDef, *, altered: bool) -> str:
    parts = [entry.doc]
    if entry.departs:
        parts.append(f"**Default:** {entry.departs}.")
    if entry.synonyms and entry.synonyms != (entry.name,):
        parts.append(f"Broker: {', '.join(_code(name) for name in entry.synonyms)}.")
    if entry.aliases:
        parts.append(f"Once {', '.join(_code(name) for name in entry.aliases)}.")
    if altered and entry.dynamic:
        parts.append("*Altered while running.*")
    return " ".join(parts).replace("|", "\\|")


def _values(entry: ConfigDef) -> str:
    if entry.choices:
        return ", ".join(_code(value) for value in entry.choices)
    lowest = "" if entry.minimum is None else str(entry.minimum)
    bounded = entry.maximum is not None and entry.maximum not in (INT_MAX, LONG_MAX)
    highest = str(entry.maximum) if bounded else ""
    return f"{lowest} … {highest}".strip() if lowest or highest else ""


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) + "."


def main(arguments: list[str]) -> int:
    """Write the page, or check it; the exit status."""
    text = page()
    if "--check" in arguments:
        fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        if not fresh:
            print(f"{PAGE.name} is not what the tables say: run scripts/docs_config.py")
        return 0 if fresh else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
