"""Writes docs/apis.md from the broker's table of APIs. ``--check`` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from sharegroup.broker.features import FEATURES
from sharegroup.broker.network.api_table import API_TABLE

PAGE = Path(__file__).parents[1] / "docs" / "apis.md"


def page() -> str:
    """The page's text."""
    lines = [
        "# APIs served",
        "",
        "Generated from `broker/network/api_table.py`. All else closes the connection.",
        "",
        "Transactions are not served yet.",
        "A transactional producer is refused at once with TRANSACTIONAL_ID_AUTHORIZATION_FAILED,",
        "the one error that librdkafka, Java and aiokafka all take as final, and the message",
        "`transactions are not served yet`. The broker's log says so too, since Java does not show",
        "the message.",
        "",
        "| Key | API | Versions | Largest request | What for |",
        "| --- | --- | --- | --- | --- |",
    ]
    for key, row in sorted(API_TABLE.items()):
        versions = f"{row.versions.first}-{row.versions.last}"
        size = f"{row.request_bytes_max >> 20} MiB"
        lines.append(f"| {key} | {row.api.name} | {versions} | {size} | {row.doc} |")
    lines += ["", "## Features", "", "| Name | Levels |", "| --- | --- |"]
    lines += [f"| `{name}` | {low}-{high} |" for name, (low, high) in FEATURES.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write or check."""
    if "--check" in sys.argv:
        return int(PAGE.read_text() != page())
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
