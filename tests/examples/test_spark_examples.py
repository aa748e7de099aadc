"""Every example of ``examples/spark`` does what it says when it is started as it says: as a fresh
program with its defaults, in a folder of its own. No environment is activated, as in cron.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow.parquet
import pytest

from sharegroup.sync import Producer
from tests.servers.admin import Admin
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import all_done

pytestmark = [pytest.mark.spark, pytest.mark.process]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "spark"
LINES_MAX = 60
WAIT_SECONDS = 800  # a test of Spark may take 900

Run = Callable[..., str]
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def run(server: SharegroupServer, tmp_path: Path) -> Run:
    """Run an example as its first lines say; what it printed."""

    def run_example(name: str, *arguments: str) -> str:
        example = str(EXAMPLES / name)
        address = ("--bootstrap-server", server.bootstrap)
        return command(tmp_path, sys.executable, example, *address, *arguments)

    return run_example


def produce(
    server: SharegroupServer,
    topic: str,
    records: Iterable[tuple[str | None, object]],
    partitions: int = 3,
) -> None:
    """A new topic with these keys and values; values that are no text become JSON."""
    Admin(server.bootstrap).create_topic(topic, partitions=partitions)
    with Producer(server.bootstrap) as producer:
        for key, value in records:
            text = value if isinstance(value, str) else json.dumps(value)
            producer.enqueue(topic, text, key=key)
        producer.flush()


def table(folder: Path) -> Rows:
    """The rows of a Parquet table."""
    return pyarrow.parquet.read_table(folder).to_pylist()


def command(folder: Path, *arguments: str, **environment: str) -> str:
    """Run a command in ``folder``, with nothing of our environment but Java's; what it printed.
    What it has started ends with it.
    """
    java = Path(str(shutil.which("java"))).parent
    bare = {"PATH": f"{java}:/usr/bin:/bin", "HOME": str(folder)}
    kept = ("JAVA_HOME", "SPARK_SUBMIT_OPTS")  # where Java is, and that it is to start fast
    bare |= {name: os.environ[name] for name in kept if name in os.environ}
    process = subprocess.Popen(
        arguments,
        cwd=folder,
        env={**bare, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=WAIT_SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert process.returncode == 0, printed
    return printed


# --- a: upsert ------------------------------------------------------------------------------------


def test_orders_are_upserted_and_a_batch_that_runs_again_changes_nothing(
    run: Run, server: SharegroupServer, tmp_path: Path
) -> None:
    states = ["new", "paid", "sent"]
    changes = [
        (str(order), {"order": order, "customer": order % 4, "state": state, "version": version})
        for version, state in enumerate(states)
        for order in range(100)
    ]
    produce(server, "orders", [*changes, *changes[:50]])
    assert "the table has 100 orders" in run("a_upsert.py")
    versions = sorted((tmp_path / "orders-table").glob("[0-9]*"), key=lambda one: int(one.name))
    first = sorted(table(versions[-1]), key=lambda row: row["order"])
    assert [row["order"] for row in first] == list(range(100))
    assert {(row["state"], row["version"]) for row in first} == {("sent", 2)}
    assert {row["name"] for row in first} == {None, "Ada", "Grace", "Edsger"}
    assert all_done(server, "orders-table")

    # As if everything had been killed just before the last batch was committed.
    for name in (versions[-1].name, f".{versions[-1].name}.crc"):
        (tmp_path / "orders-table" / "checkpoint" / "commits" / name).unlink()
    (versions[-1] / "_SUCCESS").unlink()
    assert "the table has 100 orders" in run("a_upsert.py")
    assert sorted(table(versions[-1]), key=lambda row: row["order"]) == first


# --- b: dead letters ------------------------------------------------------------------------------


def test_jobs_that_fail_three_times_are_quarantined_with_the_reason(
    run: Run, server: SharegroupServer, tmp_path: Path
) -> None:
    good = [(None, {"a": n, "b": 4}) for n in range(40)]
    bad = [(None, {"a": 1, "b": 0}), (None, {"a": 1}), (None, "no job")]
    bad += [(None, [1, 2]), (None, 7), (None, "null"), (None, {"a": "x", "b": 1})]
    produce(server, "jobs", [*good, *bad])
    assert "'accept'" in run("b_dead_letters.py")
    results = [row["result"] for row in table(tmp_path / "jobs-done" / "results")]
    assert sorted(results) == [n / 4 for n in range(40)]
    quarantine = table(tmp_path / "jobs-done" / "quarantine")
    assert {row["delivery_count"] for row in quarantine} == {3}
    assert sorted(row["error"].split(":")[0] for row in quarantine) == [
        "JSONDecodeError",
        "KeyError",
        *["TypeError"] * 4,
        "ZeroDivisionError",
    ]
    assert all_done(server, "jobs")


# --- c: a slow API --------------------------------------------------------------------------------


class SlowApi(ThreadingHTTPServer):
    """Answers no question before four are asked at the same time; remembers them all."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: Counter[str] = Counter()
        self.four_at_once = threading.Barrier(4)
        self.opened = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    server: SlowApi

    def do_GET(self) -> None:
        (question,) = parse_qs(urlsplit(self.path).query)["q"]
        self.server.asked[question] += 1
        if not self.server.opened.is_set():
            self.server.four_at_once.wait(WAIT_SECONDS)
            self.server.opened.set()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(question.upper().encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's
        """Nothing."""


@pytest.fixture
def api() -> Iterator[SlowApi]:
    with SlowApi() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_slow_api_is_asked_by_more_tasks_than_there_are_partitions(
    run: Run, server: SharegroupServer, api: SlowApi, tmp_path: Path
) -> None:
    questions = [f"where is parcel {n}?" for n in range(80)]
    produce(server, "questions", [(None, text) for text in questions], partitions=1)
    printed = run("c_slow_api.py", "--api", f"http://127.0.0.1:{api.server_port}/")
    assert "batch 0: 80 answers by 8 tasks" in printed
    assert api.asked == Counter(questions)
    assert not api.four_at_once.broken
    found = {row["question"]: row["answer"] for row in table(tmp_path / "answers" / "batch=0")}
    assert found == {text: text.upper() for text in questions}


# --- d: windows -----------------------------------------------------------------------------------


def test_views_are_counted_per_minute_once_their_minute_is_over(
    run: Run, server: SharegroupServer, tmp_path: Path
) -> None:
    views = [
        (None, {"page": f"/{n % 3}", "at": f"2026-01-31T10:0{minute}:{n:02}Z"})
        for minute in range(5)
        for n in range(60)
    ]
    produce(server, "views", views)
    assert "0 views in closed minutes" in run("d_windows.py")
    with Producer(server.bootstrap) as producer:
        producer.send("views", json.dumps({"page": "/late", "at": "2026-01-31T11:00:00Z"}))
    assert "15 rows, 300 views in closed minutes" in run("d_windows.py")
    found = table(tmp_path / "views-per-minute" / "table")
    assert {row["count"] for row in found} == {20}
    minutes = {(row["start"].strftime("%H:%M"), row["page"]) for row in found}
    assert minutes == {(f"10:0{minute}", f"/{page}") for minute in range(5) for page in range(3)}


# --- e: order per key -----------------------------------------------------------------------------


def test_every_parcels_stops_come_in_order(
    run: Run, server: SharegroupServer, tmp_path: Path
) -> None:
    parcels, stops = 20, 15
    scans = [(f"p{n}", f"place {stop}") for stop in range(1, stops + 1) for n in range(parcels)]
    produce(server, "scans", scans)
    run("e_order_per_key.py")
    found = sorted(
        table(tmp_path / "stops" / "table"), key=lambda row: (row["parcel"], row["stop"])
    )
    assert len(found) == parcels * stops
    assert not any(row["late"] for row in found)
    assert all(row["place"] == f"place {row['stop']}" for row in found)
    assert all(
        row["came_from"] == (None if row["stop"] == 1 else f"place {row['stop'] - 1}")
        for row in found
    )


# --- f, g: a declarative pipeline, Spark Connect --------------------------------------------------

READINGS = [(None, {"sensor": f"s{n % 5}", "celsius": n / 10}) for n in range(500)]
HOTTEST = {f"s{n}": (495 + n) / 10 for n in range(5)}


@pytest.fixture(scope="module")
def readings(server: SharegroupServer) -> SharegroupServer:
    """A server with the topic ``readings``."""
    produce(server, "readings", READINGS)
    return server


def test_a_declarative_pipeline_runs_as_its_docstring_says(
    readings: SharegroupServer, tmp_path: Path
) -> None:
    lines = (
        "spark-pipelines init --name climate",
        "cp f_pipeline.py climate/transformations/",
        "cd climate && KAFKA_BOOTSTRAP_SERVERS=HOST:PORT spark-pipelines run",
        "--conf spark.python.unix.domain.socket.enabled=true",
    )
    text = (EXAMPLES / "f_pipeline.py").read_text()
    assert [line for line in lines if line not in text] == []
    (tmp_path / "f_pipeline.py").write_text(text)
    script = f"set -e; {lines[0]}; {lines[1]}; {lines[2]} {lines[3]}"
    script = script.replace("HOST:PORT", readings.bootstrap)
    program = Path(sys.executable).parent  # this command is found in an environment that is active
    java = Path(str(shutil.which("java"))).parent
    command(tmp_path, "sh", "-c", script, PATH=f"{program}:{java}:/usr/bin:/bin")
    warehouse = tmp_path / "climate" / "spark-warehouse"
    assert len(table(warehouse / "readings")) == len(READINGS)
    found = {row["sensor"]: row["celsius"] for row in table(warehouse / "hottest")}
    assert found == HOTTEST
    assert all_done(readings, "climate")


def test_the_same_pipeline_through_spark_connect(readings: SharegroupServer, run: Run) -> None:
    printed = run("g_connect.py")
    for sensor, celsius in HOTTEST.items():
        assert f"{sensor}: 100 readings, {celsius:.1f} °C at most" in printed
    assert all_done(readings, "climate-connect")


# --- i: by key ------------------------------------------------------------------------------------


def test_each_account_has_one_statement_in_a_batch(
    run: Run, server: SharegroupServer, tmp_path: Path
) -> None:
    accounts, payments = 20, 30
    produce(
        server,
        "payments",
        [(f"a{n}", f"{n}.5") for _ in range(payments) for n in range(accounts)],
        partitions=1,
    )
    run("i_by_key.py")
    batches = [table(folder) for folder in sorted((tmp_path / "statements").glob("batch=*"))]
    assert all(len({row["account"] for row in rows}) == len(rows) for rows in batches)
    rows = [row for batch in batches for row in batch]
    assert len({row["task"] for row in rows}) == 4
    for n in range(accounts):
        mine = [row for row in rows if row["account"] == f"a{n}"]
        assert sum(row["payments"] for row in mine) == payments
        assert sum(row["total"] for row in mine) == payments * (n + 0.5)
        assert max(row["last_offset"] for row in mine) == (payments - 1) * accounts + n


# --- all ------------------------------------------------------------------------------------------


def test_every_example_is_one_short_file_and_is_run_here() -> None:
    tests = (Path(__file__), Path(__file__).parents[1] / "spark" / "test_progress.py")
    text = "".join(path.read_text() for path in tests)
    lengths = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert {name: lines for name, lines in lengths.items() if lines >= LINES_MAX} == {}
    assert [name for name in lengths if name not in text] == []
