"""Each message that the page of symptoms quotes is a message of ours."""

from __future__ import annotations

import re
from functools import cache

import pytest

from sharegroup.model.errors import ERRORS
from tests.documents.pages import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
ROWS_MIN = 25


@cache
def source() -> str:
    """All of src/, with the parts of each message joined."""
    paths = sorted((ROOT / "src").rglob("*.py"))
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    return re.sub(r'"\s*\n\s*f?"', "", text)


def symptoms() -> list[str]:
    """The first cell of each row."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [line.strip("|").split(" | ")[0].strip() for line in lines if line.startswith("| ")]
    return [cell for cell in cells if cell not in {"What you see", "---"}]


def messages() -> list[str]:
    """What the first cells quote."""
    return [found for cell in symptoms() for found in re.findall(r"`([^`]+)`", cell)]


def test_there_are_enough_symptoms() -> None:
    assert len(symptoms()) >= ROWS_MIN


@pytest.mark.parametrize("message", messages())
def test_each_message_is_ours(message: str) -> None:
    errors = {error.name for error in ERRORS.values() if error is not None}
    if message in errors:
        return
    for part in filter(None, (part.strip() for part in message.split("…"))):
        assert part in source(), f"no message has {part!r}"
