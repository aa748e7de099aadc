"""Nobody learns whether there is a topic, group or transactional id that is not theirs: a broker
that has them and one that has not give the same answers, word for word."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from uuid import UUID

from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.wire import apis
from sharegroup.wire.messages import init_producer_id, offset_commit
from tests.broker.running import running
from tests.differential.authorization.asked import ASKED
from tests.differential.authorization.servers_asked import CLUSTER, Acl, Server, lists_of_acls

OPTIONS = (
    "authorizer.class.name=StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
    "group.initial.rebalance.delay.ms=0",
)
VARIES = re.compile(
    r"UUID\('[0-9a-f-]+'\)|producer_id=\d+|port=\d+|cluster_id='[^']+'|member_id='asks-[^']+'"
    r"|(offset|watermark)=\d+"  # a record of jobs is seen when it is durable
)
BY_RANDOM_IDS = ("by id", "ShareFetch")
"""Asked with ids that nobody can guess; Kafka's answers tell them apart as well."""
WITH_NAMES = [
    asked
    for asked in ASKED
    if asked.api.key in API_TABLE and not any(part in asked.name for part in BY_RANDOM_IDS)
]


def narrow_lists() -> list[list[Acl]]:
    """The lists of ACLs that say nothing of the cluster or of what is hidden."""
    return [
        acls
        for name, acls in lists_of_acls()
        if (name == "nothing" or name.startswith("only"))
        and all(acl.resource_type != CLUSTER for acl in acls)
    ]


async def hide_something(server: Server) -> None:
    """Make what only the administrator may know of."""
    await server.make_topics("secret")
    parts = [offset_commit.OffsetCommitRequestPartition(0, 1, -1, "")]
    topics = [offset_commit.OffsetCommitRequestTopic("secret", UUID(int=0), parts)]
    commit = offset_commit.OffsetCommitRequest("others", topics=topics)
    done = await server.admin.ask(apis.OFFSET_COMMIT, 9, commit)
    assert done.topics[0].partitions[0].error_code == 0
    made = init_producer_id.InitProducerIdRequest("refunds", 10_000)
    assert (await server.admin.ask(apis.INIT_PRODUCER_ID, 5, made)).error_code == 0


async def answers(folder: Path, *, hidden: bool) -> list[str]:
    """What somebody is told under each list of ACLs."""
    told = []
    async with running(folder, *OPTIONS) as (_, port):
        server = Server([port])
        await server.give_administrator_all_rights()
        await server.make_topics("jobs")
        if hidden:
            await hide_something(server)
        ids = {**server.ids, "secret": UUID(int=9)}
        for acls in narrow_lists():
            await server.set_acls(acls)
            for asked in WITH_NAMES:
                request = asked.of(ids)
                answer = await server.everybody.ask(asked.api, asked.version, request)
                told.append(f"{acls} {asked.name}: {VARIES.sub('…', repr(answer))}")
        server.close()
    return told


def test_what_is_hidden_changes_no_answer(tmp_path: Path) -> None:
    async def both() -> tuple[list[str], list[str]]:
        async with asyncio.timeout(240):
            return (
                await answers(tmp_path / "with", hidden=True),
                await answers(tmp_path / "without", hidden=False),
            )

    with_them, without = asyncio.run(both())
    assert len(narrow_lists()) > 10
    different = [pair for pair in zip(with_them, without, strict=True) if pair[0] != pair[1]]
    assert not different, "\n".join(map("\n  ".join, different))
