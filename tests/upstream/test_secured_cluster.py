"""A broker that logs in at its cluster, with the rights that docs/cluster.md lists alone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup import Admin
from sharegroup.client import Acl, AclOperation, AclPattern, AclResource
from sharegroup.sasl.users_file import user_lines
from tests.foreign.share_reader import receive_accepting, share_consumer
from tests.servers import admin
from tests.servers.process import ServerFailed
from tests.servers.sharegroup_server import SharegroupServer
from tests.test_tidy import ROOT

pytestmark = pytest.mark.process
ADMIN = "admin"
USER = "sharegroup"
PASSWORD = "a secret"
LINE = re.compile(r"^kafka-acls --add --allow-principal User:sharegroup (?P<rest>.*)$", re.M)
RESOURCES = {
    "topic": AclResource.TOPIC,
    "group": AclResource.GROUP,
    "transactional-id": AclResource.TRANSACTIONAL_ID,
}


def listed() -> list[Acl]:
    """The rights on the page."""
    found = []
    for line in LINE.finditer((ROOT / "docs" / "cluster.md").read_text()):
        rest = line["rest"]
        operations = [
            AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()]
            for name in re.findall(r"--operation (\w+)", rest)
        ]
        named = re.search(r"--(topic|group|transactional-id) '?([\w*]+)'?", rest)
        resource, name = (
            (RESOURCES[named[1]], named[2]) if named else (AclResource.CLUSTER, "kafka-cluster")
        )
        pattern = AclPattern.PREFIXED if "prefixed" in rest else AclPattern.LITERAL
        found += [
            Acl(
                principal=f"User:{USER}",
                operation=one,
                resource=resource,
                name=name,
                pattern=pattern,
            )
            for one in operations
        ]
    return found


def properties(user: str) -> dict[str, str]:
    """How a user logs in."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[SharegroupServer]:
    """A cluster at which everybody logs in, and only its administrator has rights."""
    users = tmp_path / "users"
    lines = [line for name in (ADMIN, USER) for line in user_lines(name, PASSWORD, b"s" * 48, 4096)]
    users.write_text("".join(f"{line}\n" for line in lines))
    server = SharegroupServer(
        tmp_path,
        "authorizer.class.name=StandardAuthorizer",
        f"super.users=User:{ADMIN}",
        arguments=["--users", str(users)],
    )
    server.process.command = [
        f"SASL_PLAINTEXT://{part}" if part == server.bootstrap else part
        for part in server.process.command
    ]
    with server:
        yield server


def in_front_of(cluster: SharegroupServer, folder: Path) -> SharegroupServer:
    """A broker that logs in as the user, not started."""
    folder.mkdir()
    config = folder / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in properties(USER).items()))
    upstream = ["--upstream", cluster.bootstrap, "--upstream-config", str(config)]
    return SharegroupServer(folder, arguments=upstream)


def test_the_rights_on_the_page_are_enough(guarded: SharegroupServer, tmp_path: Path) -> None:
    async def prepare() -> None:
        async with Admin(guarded.bootstrap, security=properties(ADMIN)) as theirs:
            assert len(listed()) > 5
            await theirs.create_acls(*listed())
            await theirs.create_topics("jobs")

    asyncio.run(prepare())
    with in_front_of(guarded, tmp_path / "node") as node:
        admin.Admin(node.bootstrap).start_group_at_earliest("workers")
        admin.produce(node.bootstrap, "jobs", [b"1", b"2", b"3"])
        with share_consumer(node.bootstrap, "workers", "jobs", explicit=False) as consumer:
            assert receive_accepting(consumer, 3) == [b"1", b"2", b"3"]


def test_a_right_that_is_missing_is_a_sentence(guarded: SharegroupServer, tmp_path: Path) -> None:
    with pytest.raises(ServerFailed) as failed, in_front_of(guarded, tmp_path / "node"):
        pass
    assert "the cluster cannot be used: __sharegroup_fleet_settings: " in str(failed.value)
    assert "Traceback" not in str(failed.value)
