"""docs/client.md names all there is; tests/documents runs its examples."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sharegroup.client import ShareConsumer
from sharegroup.client.share.metrics import ShareConsumerMetrics

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text()


def test_every_public_name_is_on_the_page() -> None:
    names = [name for name in dir(ShareConsumer) if not name.startswith("_")]
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_every_metric_is_on_the_page() -> None:
    async def read() -> list[tuple[str, str]]:
        return list(ShareConsumerMetrics(asyncio.get_running_loop().time).read())

    for group, name in asyncio.run(read()):
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{group}`"))
        assert f"`{name}`" in row
