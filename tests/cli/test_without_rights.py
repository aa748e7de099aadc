"""What a user who may not do everything sees; the broker has ACLs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.authorization.clients import ADMIN, write_acls
from tests.cli.command import Commands
from tests.servers.process import HOST, free_port
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process

ACLS = [
    "ALLOW,User:ANONYMOUS,*,DESCRIBE,GROUP,workers,LITERAL",
    "ALLOW,User:ANONYMOUS,*,DESCRIBE,TOPIC,jobs,LITERAL",
    "ALLOW,User:ANONYMOUS,*,READ,TOPIC,readable,LITERAL",
]


@pytest.fixture(scope="module")
def anybody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """May describe group ``workers`` and topic ``jobs``, without their settings."""
    folder = tmp_path_factory.mktemp("guarded")
    admin = f"{HOST}:{free_port()}"
    settings = (
        f"listeners=PLAINTEXT://{HOST}:0,ADMIN://{admin}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,ADMIN:PLAINTEXT",
        f"listener.principal.map=ADMIN:{ADMIN}",
        f"super.users={ADMIN}",
        f"authorizer.acl.file={write_acls(folder / 'acls.csv', ACLS)}",
    )
    with SharegroupServer(folder, *settings) as server:
        Commands(admin).given("topics", "create", "jobs", "--config", "retention.ms=60000")
        Commands(admin).given("topics", "create", "readable")
        Commands(admin).ok(
            "groups", "reset-offsets", "workers", "-t", "jobs", "--to-earliest", "--execute"
        )
        yield Commands(server.bootstrap)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("topics", "describe", "jobs"), "topic jobs"),
        (("groups", "describe", "workers"), "group workers"),
    ],
)
def test_without_the_right_to_see_settings_the_rest_is_shown(
    anybody: Commands, words: tuple[str, ...], kind: str
) -> None:
    described = anybody.ok(*words, "--json")
    assert described.json["configs"] is None
    assert [one["partition"] for one in described.json["partitions"]] == [0]
    assert described.stderr == (
        f"sharegroup: the settings of {kind} are not shown: they need DESCRIBE_CONFIGS\n"
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("--topic", "jobs", "--partition", "0", "--start-offset", "0"),
            "TOPIC_AUTHORIZATION_FAILED: not authorised for READ on topic 'jobs': ",
        ),
        (
            ("--topic", "readable", "--partition", "0", "--producer-id=1", "--producer-epoch=0"),
            "CLUSTER_AUTHORIZATION_FAILED: not authorised for ALTER on the cluster: ",
        ),
    ],
)
def test_a_transaction_that_hangs(anybody: Commands, words: tuple[str, ...], says: str) -> None:
    refused = anybody.inside("transactions", "abort", *words, "--yes")
    assert (refused.status, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"sharegroup: {says}")
