"""What pages say of APIs is what the broker's table says."""

from __future__ import annotations

import re
from pathlib import Path

from sharegroup.broker.network.api_table import API_TABLE

DOCS = Path(__file__).parents[2] / "docs"


def test_no_page_says_that_an_api_is_not_served_which_is() -> None:
    served = {row.api.name for row in API_TABLE.values()}
    assert "CreateAcls" in served
    wrong = [
        f"{path.name}:{number}: {name}"
        for path in sorted(DOCS.glob("*.md"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if line.startswith("|") and "not served" in line and "version" not in line
        for name in served & set(re.findall(r"\w+", line))
    ]
    assert wrong == []
