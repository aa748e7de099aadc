"""Writes docs/apis.md from the broker's table of APIs. ``--check`` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from sharegroup.broker.features import FEATURES
from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.broker.passing.ways import WAYS

PAGE = Path(__file__).parents[1] / "docs" / "apis.md"


def page() -> str:
    """The page's text."""
    lines = [
        "# APIs served",
        "",
        "Generated from `broker/network/api_table.py`. All else closes the connection.",
        "",
        "[Compatibility](compatibility.md) has Kafka's versions beside these, and says why",
        "some are missing and which clients are tried.",
        "",
        "[In front of a cluster](cluster.md) some requests are passed on: then the last version is",
        "the cluster's, if that is lower.",
        "",
        "| Key | API | Versions | Largest request | What for | In front of a cluster |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for key, row in sorted(API_TABLE.items()):
        versions = f"{row.versions.first}-{row.versions.last}"
        size = f"{row.request_bytes_max >> 20} MiB"
        where = "passed on" if key in WAYS else "here"
        lines.append(f"| {key} | {row.api.name} | {versions} | {size} | {row.doc} | {where} |")
    lines += ["", "## Features", "", "| Name | Levels |", "| --- | --- |"]
    lines += [f"| `{name}` | {low}-{high} |" for name, (low, high) in sorted(FEATURES.items())]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write or check."""
    if "--check" in sys.argv:
        return int(PAGE.read_text() != page())
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
