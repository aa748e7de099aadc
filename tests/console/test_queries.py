"""What the listener writes of queries, and the page of queries, without Spark; with Spark see
``tests/spark/test_progress.py``."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sharegroup import Admin
from sharegroup.client.core.query_report import QUERY_TOPIC, QueryReport, report_of
from sharegroup.model.errors import ConfigError
from sharegroup.spark import progress_listener
from tests.console.running import console
from tests.servers.process import HOST, free_port
from tests.servers.query_reports import reports
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = [pytest.mark.spark, pytest.mark.process]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path_factory.mktemp("listener")) as running:
        yield running


def event(name: str | None = "jobs", exception: str | None = None) -> Any:
    return SimpleNamespace(id="query-1", runId="run-1", name=name, exception=exception)


def progress(batch: int, latest: str | None) -> Any:
    return SimpleNamespace(
        progress=SimpleNamespace(
            id="query-1", runId="run-1", name="jobs", batchId=batch, numInputRows=100,
            processedRowsPerSecond=50.5, batchDuration=2_000,
            sources=[SimpleNamespace(latestOffset=latest)],
        )
    )  # fmt: skip


def run(bootstrap: str, topic: str, exception: str | None = None) -> None:
    listener = progress_listener({"kafka.bootstrap.servers": bootstrap}, topic)
    listener.onQueryStarted(event())
    told = {"group": "workers", "lag": 7, "accepted": 100, "lagByPartition": {"jobs-0": 7}}
    listener.onQueryProgress(progress(0, json.dumps(told)))
    listener.onQueryProgress(progress(1, "an offset of another source"))
    listener.onQueryProgress(progress(2, json.dumps(told)))
    listener.onQueryTerminated(event(exception=exception))


def test_each_step_of_a_query_is_told(server: SharegroupServer, tmp_path: Path) -> None:
    run(server.bootstrap, QUERY_TOPIC, "it broke\nat a line")
    told = asyncio.run(reports(server.bootstrap))
    assert [one.state for one in told] == ["running"] * 4 + ["failed"]
    assert [one.batch for one in told] == [None, 0, 1, 2, 2]
    assert [[*one.groups] for one in told] == [[], ["workers"], [], ["workers"], ["workers"]]
    assert told[1].groups["workers"] == {"lag": 7, "accepted": 100}
    assert (told[4].error, told[4].rows, told[4].batch_ms) == ("it broke\nat a line", 100, 2_000)
    with console(server.bootstrap, tmp_path) as page:
        shown = page.json("spark")
        assert (shown["missing"], shown["members"]) == (None, [])
        [query] = shown["queries"]
        assert (query["name"], query["state"], query["rows_per_s"]) == ("jobs", "failed", 50.5)
        with page.events(of="spark") as events:
            assert next(events)["queries"] == [query]
            run(server.bootstrap, QUERY_TOPIC)
            while next(events)["queries"][0]["state"] != "ended":
                continue


def test_the_topic_keeps_the_last_report_of_each_query(server: SharegroupServer) -> None:
    async def settings() -> dict[str, str | None]:
        async with Admin(server.bootstrap) as admin:
            found = await admin.describe_configs("topic", "another")
            return {name: one.value for name, one in found.items()}

    run(server.bootstrap, "another")
    assert asyncio.run(settings())["cleanup.policy"] == "compact,delete"


def test_a_broker_that_is_away_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "sharegroup.spark"):
        run(f"{HOST}:{free_port()}", QUERY_TOPIC)
    assert [one.message[:35] for one in caplog.records] == ["no report of queries to spark-progr"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "kafka.bootstrap.servers is missing"),
        ({"kafka.bootstrap.servers": "x:1", "subscribe": "jobs"}, "subscribe means nothing"),
    ],
)
def test_wrong_options_are_said(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        progress_listener(options)


@pytest.mark.parametrize(
    "value",
    [None, b"", b"\xff", b"[]", b"{}", b'{"at_ms": 1}', b"[" * 100_000,
     b'{"query_id": "q", "run_id": "r", "state": "running", "at_ms": 1, "groups": {"g": 1}}'],
)  # fmt: skip
def test_what_is_no_report_is_passed_over(value: bytes | None) -> None:
    assert report_of(value) is None


def test_a_report_of_a_later_version_is_read() -> None:
    report = QueryReport(query_id="q", run_id="r", name=None, state="running", at_ms=1)
    more = {**json.loads(report.to_json()), "more": 1}
    assert report_of(json.dumps(more).encode()) == report
