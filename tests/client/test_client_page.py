"""docs/client.md tells the truth: its examples print what it says, its names are all there is."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from sharegroup.client import ShareConsumer
from sharegroup.client.consumer_metrics import ConsumerMetrics
from tests.servers.running import RunningServer

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


def test_every_example_is_found() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 5


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example(number: int, broker: RunningServer, capsys: pytest.CaptureFixture[str]) -> None:
    program, printed = EXAMPLES[number]
    exec(program.replace("127.0.0.1:9092", broker.bootstrap), {"__name__": "__main__"})
    assert capsys.readouterr().out == printed


def test_every_public_name_is_on_the_page() -> None:
    names = [name for name in dir(ShareConsumer) if not name.startswith("_")]
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_every_metric_is_on_the_page() -> None:
    async def read() -> list[tuple[str, str]]:
        return list(ConsumerMetrics(asyncio.get_running_loop().time).read())

    for group, name in asyncio.run(read()):
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{group}`"))
        assert f"`{name}`" in row
