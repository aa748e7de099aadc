"""Write ``docs/spark-options.md`` from the tables of options: ``python
scripts/docs_spark_options.py [--check]``.

``--check`` writes nothing and fails if the page differs from the tables.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, dataclass, fields
from pathlib import Path

from sharegroup.spark.options.letters import LETTERS, LetterOptions
from sharegroup.spark.options.option_table import Option, OptionTable
from sharegroup.spark.options.sink import SINK, SinkOptions
from sharegroup.spark.options.snapshot import PEEK, PeekOptions
from sharegroup.spark.options.stream import STREAM, ShareOptions

PAGE = Path(__file__).parent.parent / "docs" / "spark-options.md"

INTRODUCTION = """\
# Options of the format kafka-share

This page is written by `scripts/docs_spark_options.py` from the tables that check the options; edit
those. What they are for, with examples, stands in [the page on Spark](spark.md).

All options are checked at `load()`: one that is unknown, refused or wrong fails there with a
sentence that says what to write. "Spark's own" is the name of the same option in Spark's own Kafka
source or sink. Times are in milliseconds. Names are compared without case.

TLS and SASL are set on each of them by `kafka.security.protocol`, `kafka.sasl.…` and
`kafka.ssl.…`, with the names of Kafka's clients or of librdkafka: see
[Security](spark.md#security).
"""


@dataclass(frozen=True)
class Section:
    """One way to use the format: its table, and the class that holds the defaults."""

    title: str
    table: OptionTable
    values: type


SECTIONS = (
    Section("Streaming queries: `spark.readStream`", STREAM, ShareOptions),
    Section("A look at a queue: `spark.read`", PEEK, PeekOptions),
    Section("Dead letters: `spark.read` with `deadLettersOf`", LETTERS, LetterOptions),
    Section("Sinks: `df.writeStream` and `df.write`", SINK, SinkOptions),
)


def page() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *(_section(section) for section in SECTIONS)])


def _section(section: Section) -> str:
    defaults = {field.name: _default(field.default) for field in fields(section.values)}
    rows = ["| Option | Default | Meaning | Spark's own |", "| --- | --- | --- | --- |"]
    rows += [_row(option, defaults[option.field]) for option in section.table.options]
    refused = ["| Refused | Why, and what to use |", "| --- | --- |"]
    refused += [f"| `{name}` | {reason} |" for name, reason in section.table.refused.items()]
    return "\n".join([f"## {section.title}", "", *rows, "", *refused, ""])


def _row(option: Option, default: str) -> str:
    default = "*must be given*" if option.advised else default
    spark = f"`{option.spark}`" if option.spark else ""
    return f"| `{option.name}` | {default} | {option.meaning} | {spark} |"


def _default(value: object) -> str:
    if value is MISSING or value is None or value == ():
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else str(value)


def main(arguments: list[str]) -> int:
    """Write the page, or check it; the exit status."""
    text = page()
    if "--check" in arguments:
        fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        if not fresh:
            print(f"{PAGE.name} is not what the tables say: run scripts/docs_spark_options.py")
        return 0 if fresh else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
