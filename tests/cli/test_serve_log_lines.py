"""What a fresh ``sharegroup serve`` logs, and what SIGHUP means to it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.broker.authorization.clients import write_acls
from tests.servers.admin import SILENT
from tests.servers.process import HOST, ServerProcess, free_port
from tests.servers.sharegroup_server import SOURCE, START_SECONDS, SharegroupServer

pytestmark = pytest.mark.process
SECONDS = 240


@contextmanager
def serving(folder: Path, *words: str) -> Iterator[SharegroupServer]:
    """A broker with more words on its command line; ready when it answers."""
    server = SharegroupServer(folder)
    server.process.command += words
    server.start_and_probe()
    try:
        yield server
    finally:
        server.kill()


def wait_for(process: ServerProcess, text: str) -> None:
    process.wait_until(lambda: text in process.output(), timeout_s=SECONDS)


def test_every_json_line_is_one_object(tmp_path: Path) -> None:
    words = ("--log-format", "json", "-o", "log.cleaner.threads=2", "--log-level", "debug")
    with serving(tmp_path, *words) as server:
        wait_for(server.process, " ready on ")
        server.stop()
        lines = [json.loads(line) for line in server.output().splitlines()]
    assert all({"timestamp", "level", "logger", "message"} <= line.keys() for line in lines)
    said = {(line["level"], line["message"].split(":")[0]) for line in lines}
    assert ("WARNING", "log.cleaner.threads does nothing here") in said
    assert ("INFO", "stopping") in said
    assert any(f" ready on {server.bootstrap}, " in line["message"] for line in lines)


def test_a_level_hides_lower_levels(tmp_path: Path) -> None:
    with serving(tmp_path, "--log-level", "error", "-o", "log.cleaner.threads=2") as server:
        wait_for(server.process, " ready on ")
        server.stop()
        (line,) = server.output().splitlines()
    assert " ready on " in line


def topic_names(server: SharegroupServer) -> set[str]:
    admin = AdminClient({"bootstrap.servers": server.bootstrap, **SILENT})
    return set(admin.list_topics(timeout=SECONDS).topics)


def create(admin: AdminClient, topic: str) -> str:
    """The error's name; empty when the topic is made."""
    from confluent_kafka.admin import NewTopic

    try:
        admin.create_topics([NewTopic(topic, 1)])[topic].result(SECONDS)
    except KafkaException as error:
        return str(error.args[0].name())
    return ""


def test_sighup_reloads_the_acls_for_open_connections(tmp_path: Path) -> None:
    create_any = "ALLOW,User:*,*,CREATE,TOPIC,jobs,PREFIXED"
    file = write_acls(tmp_path / "acls.csv", [])
    with serving(tmp_path, "-o", f"authorizer.acl.file={file}") as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap, **SILENT})
        assert create(admin, "jobs-1") == "TOPIC_AUTHORIZATION_FAILED"
        write_acls(file, [create_any])
        os.kill(server.process.pid, signal.SIGHUP)
        wait_for(server.process, "SIGHUP: 1 ACLs are in force")
        assert create(admin, "jobs-1") == ""
        file.write_text("nonsense\n")
        os.kill(server.process.pid, signal.SIGHUP)
        wait_for(server.process, "SIGHUP: the ACLs were not reloaded: ")
        assert create(admin, "jobs-2") == ""


def test_a_changed_acl_file_is_taken_without_a_signal(tmp_path: Path) -> None:
    file = write_acls(tmp_path / "acls.csv", [])
    with serving(tmp_path, "-o", f"authorizer.acl.file={file}") as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap, **SILENT})
        assert create(admin, "jobs-1") == "TOPIC_AUTHORIZATION_FAILED"
        write_acls(file, ["ALLOW,User:*,*,CREATE,TOPIC,jobs,PREFIXED"])
        wait_for(server.process, "acls.csv has changed: 1 ACLs are in force")
        assert create(admin, "jobs-1") == ""


def test_sighup_without_acls_does_nothing(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        wait_for(server.process, " ready on ")
        os.kill(server.process.pid, signal.SIGHUP)
        wait_for(server.process, "SIGHUP: nothing to reload, authorizer.acl.file is not set")
        assert topic_names(server) <= {"__consumer_offsets", "__share_group_state"}


def test_a_broker_stops_cleanly_when_its_terminal_closes(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "sharegroup", "serve", "--listen", f"{HOST}:{free_port()}"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--data", str(tmp_path / "data")],
            stdin=its,
            stdout=subprocess.PIPE,
            stderr=output,
            env={"PYTHONPATH": str(SOURCE)},
            start_new_session=True,
        )
    os.close(its)
    with process:
        try:
            assert process.stdout is not None
            assert b" ready on " in process.stdout.readline()
            os.close(ours)  # the window is closed: no terminal any more, and SIGHUP comes
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGHUP)
            assert process.wait(START_SECONDS) == 0
        finally:
            process.kill()
    assert "the terminal is gone" in log.read_text()
