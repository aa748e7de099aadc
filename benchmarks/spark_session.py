"""Runs queries in a session of PySpark 4.2.0, which also has Spark's own Kafka source.

Each session is a separate process. A small query of the same kind warms it up before the measured
ones.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from benchmarks.benchmark import Bench
from benchmarks.spark_jars import connector_jars, pyspark_folder
from benchmarks.spark_program import RESULT
from sharegroup.client import Admin

ROOT = Path(__file__).resolve().parents[1]
WARM_UP_RECORDS = 100_000
SESSION_SECONDS = 570
SHARE, KAFKA = "kafka-share", "kafka"
LOCKS_SETTING = "group.share.max.partition.max.record.locks"
WIDE_LOCKS = "2000000"

_numbers = itertools.count(1)


class Queries:
    """Makes the queries of one session, each with its own group and folder.

    Args:
        kind: the source, :data:`SHARE` or :data:`KAFKA`.
    """

    def __init__(self, bench: Bench, kind: str, folder: Path) -> None:
        self._bench = bench
        self._kind = kind
        self._folder = folder
        self._locks = "" if kind == KAFKA else locks_per_partition(bench)

    def query(
        self,
        topic: str,
        sink: str = "noop",
        more: Mapping[str, Any] | None = None,
        **options: object,
    ) -> dict[str, Any]:
        """A query over ``topic`` from its first record on; ``more`` adds fields to the query."""
        number = next(_numbers)
        folder = self._folder / str(number)
        folder.mkdir()
        share = {"kafka.group.id": f"{topic}-{number}", "recordLocksPerPartition": self._locks}
        return {
            "format": self._kind,
            "options": {
                "kafka.bootstrap.servers": self._bench.bootstrap,
                "subscribe": topic,
                "startingOffsets": "earliest",
                **(share if self._kind == SHARE else {}),
                **{name: str(value) for name, value in options.items()},
            },
            "sink": sink,
            "folder": str(folder),
            **(more or {}),
        }


def locks_per_partition(bench: Bench) -> str:
    """The record lock limit, which bounds a batch: Apache Kafka's highest one; on our broker as
    many as a batch needs.
    """
    if bench.server.name == "sharegroup":
        return WIDE_LOCKS
    return asyncio.run(_locks_max(bench.bootstrap))


async def _locks_max(bootstrap: str) -> str:
    async with Admin(bootstrap) as admin:
        [node] = (await admin.describe_cluster()).nodes
        return str((await admin.describe_configs("broker", str(node.node_id)))[LOCKS_SETTING].value)


def run_queries(
    queries: Sequence[dict[str, Any]],
    *,
    cores: int,
    settings: Mapping[str, str] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the result of each query when it ends.

    Raises:
        RuntimeError: the session failed or took too long; the message has its output.
    """
    kafka = any(query["format"] == KAFKA for query in queries)
    job = {
        "cores": cores,
        "jars": connector_jars() if kafka else [],
        "settings": dict(settings or {}),
        "queries": list(queries),
    }
    with tempfile.TemporaryFile("w+") as errors:
        process = _started(job, errors)
        limit = threading.Timer(SESSION_SECONDS, process.kill)
        limit.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(RESULT):
                    yield json.loads(line.removeprefix(RESULT))
            failed = process.wait()
        finally:
            limit.cancel()
            process.kill()
            process.wait()
        if failed:
            errors.seek(0)
            raise RuntimeError(f"the Spark session failed:\n{_cause(errors.read())}")


def _cause(said: str) -> str:
    """The relevant part of a session's output: Python's own lines, if there are any."""
    lines = [line for line in said.splitlines() if not line.lstrip().startswith("at ")]
    return "\n".join(lines)[-3000:]


def _started(job: dict[str, Any], errors: IO[str]) -> subprocess.Popen[str]:
    path = os.pathsep.join(map(str, (pyspark_folder(), ROOT / "src", ROOT)))
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.spark_program", json.dumps(job)],
        env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )


def drained(
    bench: Bench,
    kind: str,
    cases: Sequence[Mapping[str, Any]],
    *,
    cores: int,
    settings: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """The result of one query per case (arguments of :meth:`Queries.query`), after a warm-up."""
    warm_up = bench.loaded_topic(WARM_UP_RECORDS)
    with tempfile.TemporaryDirectory() as folder:
        queries = Queries(bench, kind, Path(folder))
        asked = [queries.query(warm_up), *(queries.query(**case) for case in cases)]
        return list(run_queries(asked, cores=cores, settings=settings))[1:]
