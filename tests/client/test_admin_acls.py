"""The admin client's calls about ACLs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup.client import (
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclResource,
    Admin,
)
from sharegroup.model.errors import InvalidRequest, SecurityDisabled
from sharegroup.sync import Admin as SyncAdmin
from tests.apache_kafka.broker import KafkaBroker
from tests.client.working import eventually, run
from tests.servers.running import RunningServer
from tests.servers.sharegroup_server import SharegroupServer

READ_JOBS = Acl(
    principal="User:alice",
    operation=AclOperation.READ,
    resource=AclResource.TOPIC,
    name="jobs-",
    pattern=AclPattern.PREFIXED,
)
DENIED = Acl(
    principal="User:*",
    operation=AclOperation.ALL,
    resource=AclResource.GROUP,
    name="secret",
    host="10.0.0.7",
    allow=False,
)


OPTIONS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)


@pytest.fixture(
    params=[
        pytest.param(SharegroupServer, id="ours", marks=pytest.mark.process),
        pytest.param(KafkaBroker, id="kafka", marks=pytest.mark.kafka),
    ]
)
def guarded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningServer]:
    with request.param(tmp_path, *OPTIONS) as server:
        yield server


async def found(admin: Admin, acls: list[Acl]) -> list[Acl]:
    """The ACLs, when they are these: Kafka tells of a change a moment after its answer."""
    return await eventually(admin.describe_acls, lambda all_of_them: all_of_them == acls)


def test_acls_are_made_found_and_deleted(guarded: RunningServer) -> None:
    async def scenario() -> None:
        async with Admin(guarded.bootstrap) as admin:
            await admin.create_acls(READ_JOBS, DENIED)
            await admin.create_acls(DENIED)
            await found(admin, sorted([READ_JOBS, DENIED]))
            matching = AclFilter(
                resource=AclResource.TOPIC, name="jobs-1", pattern=AclPattern.MATCHING
            )
            assert await admin.describe_acls(matching) == [READ_JOBS]
            assert await admin.describe_acls(AclFilter(allow=False)) == [DENIED]
            bad = Acl(
                principal="alice",
                operation=AclOperation.READ,
                resource=AclResource.TOPIC,
                name="x",
            )
            with pytest.raises(InvalidRequest, match="Could not parse principal"):
                await admin.create_acls(bad)
            assert await admin.delete_acls(matching) == {READ_JOBS: None}
            await found(admin, [DENIED])

    run(scenario)
    with SyncAdmin(guarded.bootstrap) as blocking:
        assert blocking.describe_acls() == [DENIED]
        blocking.create_acls(READ_JOBS)
        assert blocking.delete_acls(AclFilter()) == {READ_JOBS: None, DENIED: None}


def test_a_broker_that_keeps_no_acls_says_so(broker: RunningServer) -> None:
    async def scenario() -> None:
        async with Admin(broker.bootstrap) as admin:
            with pytest.raises(SecurityDisabled):
                await admin.create_acls(READ_JOBS)

    run(scenario)
