"""``spark.speculation``: two attempts of one task at once, on two hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from tests.servers import admin
from tests.servers.process import free_port
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import LONG_LOCKS, all_done
from tests.spark.readers import produce_singly, until

pytestmark = [pytest.mark.spark, pytest.mark.process, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("speculative_program.py")
HOSTS = ("127.0.0.1", "127.0.0.2")
"""Spark never starts a copy on the host of the first attempt."""
SECONDS = 800
MODES = ("implicit", "explicit", "claim")
VALUES = [b"%d" % n for n in range(200)]
SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path_factory.mktemp("broker"), LONG_LOCKS) as running:
        yield running


@pytest.fixture
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a standalone cluster with a worker on each of two hosts."""
    folder, port = tmp_path_factory.mktemp("cluster"), free_port()
    address = f"spark://{HOSTS[0]}:{port}"
    with ExitStack() as stack:
        where = ["--host", HOSTS[0], "--port", str(port), "--webui-port", "0"]
        stack.enter_context(daemon(folder / "master", "master.Master", *where))
        for host in HOSTS:
            where = ["--host", host, "--webui-port", "0", "--cores", "1", "--memory", "1g"]
            where += ["--work-dir", str(folder / host), address]
            stack.enter_context(daemon(folder / f"worker-{host}", "worker.Worker", *where))
        yield address


@contextmanager
def daemon(log: Path, name: str, *arguments: str) -> Iterator[None]:
    """A process of the cluster; a worker tries until it finds the master."""
    command = [SPARK_CLASS, f"org.apache.spark.deploy.{name}", *arguments]
    environment = {**os.environ, "SPARK_DAEMON_JAVA_OPTS": os.environ["SPARK_SUBMIT_OPTS"]}
    with (
        log.open("w") as file,
        subprocess.Popen(command, stdout=file, stderr=file, env=environment) as process,
    ):
        try:
            yield
        finally:
            process.kill()


def test_a_task_and_its_copy_count_once(
    server: SharegroupServer, master: str, name: str, tmp_path: Path
) -> None:
    """The first attempt rejects its records, the copy accepts them: one of both is committed."""
    for mode in MODES:
        topic = f"{name}-{mode}"
        admin.Admin(server.bootstrap).create_topic(topic, partitions=4)
        for partition in range(4):
            produce_singly(server, topic, VALUES[partition::4], partition)
        (tmp_path / mode).mkdir()
    command = [sys.executable, str(PROGRAM), master, server.bootstrap, name, str(tmp_path), *MODES]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    for mode in MODES:
        assert (tmp_path / mode / "copied").exists(), "Spark made no copy"
        result = json.loads((tmp_path / mode / "result.json").read_text())
        report = result["report"]
        assert report["accepted"] + report["rejected"] == len(VALUES), report
        assert report["redelivered"] == 0
        if mode == "explicit":
            assert report["undecided"] == report["unmatched"] == 0
        else:
            assert Counter(result["found"]) == Counter(value.decode() for value in VALUES)
        until(lambda topic=f"{name}-{mode}": all_done(server, topic))
