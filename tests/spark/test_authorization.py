"""What a stream does when ACLs let it read, but not configure its group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.model.errors import ConfigError, TopicAuthorizationFailed
from sharegroup.spark.data_source import ShareStreamReader
from sharegroup.spark.slices import Acquired, Slice
from sharegroup.spark.task.fetch import SliceReader, TaskFetchSettings
from tests.broker.authorization.clients import ADMIN, write_acls
from tests.servers.admin import Admin, produce
from tests.servers.process import HOST, free_port
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import source_options
from tests.spark.readers import FIELDS, Stream

pytestmark = pytest.mark.process

ACLS = [
    f"ALLOW,User:ANONYMOUS,*,{operation},{kind},jobs,LITERAL"
    for operation, kind in (("READ", "TOPIC"), ("WRITE", "TOPIC"), ("READ", "GROUP"))
]


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[RunningServer]:
    """A broker that lets everybody write and read `jobs`, and its group begin at the first."""
    admin_port = free_port()
    server = SharegroupServer(
        tmp_path,
        f"listeners=PLAINTEXT://{HOST}:0,ADMIN://{HOST}:{admin_port}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,ADMIN:PLAINTEXT",
        f"listener.principal.map=ADMIN:{ADMIN}",
        f"super.users={ADMIN}",
        f"authorizer.acl.file={write_acls(tmp_path / 'acls.csv', ACLS)}",
    )
    with server:
        admin = Admin(f"{HOST}:{admin_port}")
        admin.create_topic("jobs")
        admin.start_group_at_earliest("jobs")
        yield server


def test_a_group_that_may_not_be_configured(
    guarded: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    produce(guarded.bootstrap, "jobs", [b"one", b"two"])
    asking = Stream(guarded, "jobs")
    with pytest.raises(ConfigError, match="ALTER_CONFIGS on the group jobs, or"):
        asking.next()
    asking.stop()
    stream = Stream(guarded, "jobs")
    options = source_options(guarded, "jobs")
    del options["startingOffsets"]
    stream.reader = ShareStreamReader(options, FIELDS)
    end = stream.next()
    assert end is not None
    assert stream.run(end).keys() == {b"one", b"two"}
    assert "ALTER_CONFIGS on the group jobs" in caplog.text
    stream.stop()


def test_a_topic_that_may_not_be_described_does_not_count_as_deleted(
    guarded: RunningServer,
) -> None:
    settings = TaskFetchSettings(
        bootstrap_servers=guarded.bootstrap,
        client_id="test",
        request_timeout_ms=5_000,
        poll_timeout_ms=5_000,
        fail_on_data_loss=False,
    )
    part = Slice("not-ours", UUID(int=1), 0, (Acquired(0, 9, 1),))
    with pytest.raises(TopicAuthorizationFailed, match="DESCRIBE on topic 'not-ours'"):
        list(SliceReader(part, None, settings).chunks())
