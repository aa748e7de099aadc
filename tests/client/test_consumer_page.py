"""docs/consumer.md names all there is; tests/documents runs its examples."""

from __future__ import annotations

from pathlib import Path

from sharegroup.client import Consumer

PAGE = (Path(__file__).parents[2] / "docs" / "consumer.md").read_text()


def test_every_public_name_is_on_the_page() -> None:
    names = [name for name in dir(Consumer) if not name.startswith("_")]
    assert [name for name in names if f"`{name}`" not in PAGE] == []
