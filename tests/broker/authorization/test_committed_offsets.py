"""Committed offsets under ACLs, over real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.groups.offsets import Commit, CommitClient, CommittedOffset
from sharegroup.model.errors import (
    GroupAuthorizationFailed,
    InvalidProducerIdMapping,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from sharegroup.wire import apis
from sharegroup.wire.messages import offset_commit as commit
from sharegroup.wire.messages import offset_delete as delete
from sharegroup.wire.messages import offset_fetch as fetch
from sharegroup.wire.messages import txn_offset_commit as txn
from tests.broker.authorization.clients import Clients, with_acls

TOPIC = TopicAuthorizationFailed.code
GROUP = GroupAuthorizationFailed.code
TXN = TransactionalIdAuthorizationFailed.code


def allow(operation: str, kind: str, name: str) -> str:
    return f"ALLOW,User:ANONYMOUS,*,{operation},{kind},{name},LITERAL"


READ_GROUP = allow("READ", "GROUP", "readers")
DELETE_GROUP = allow("DELETE", "GROUP", "readers")
READ_TOPIC = allow("READ", "TOPIC", "jobs")
WRITE_TXN = allow("WRITE", "TRANSACTIONAL_ID", "t")


@pytest.mark.parametrize(
    ("acls", "committed", "in_transaction"),
    [
        ([], GROUP, TXN),
        ([READ_TOPIC, WRITE_TXN], GROUP, GROUP),
        ([READ_GROUP, WRITE_TXN], TOPIC, TOPIC),
        ([READ_GROUP, READ_TOPIC], 0, TXN),
        # allowed, and there is no such transaction
        ([READ_GROUP, READ_TOPIC, WRITE_TXN], 0, InvalidProducerIdMapping.code),
    ],
)
def test_committing(tmp_path: Path, acls: list[str], committed: int, in_transaction: int) -> None:
    async def scenario(clients: Clients) -> None:
        part = commit.OffsetCommitRequestPartition(0, 1, -1, "")
        topics = [commit.OffsetCommitRequestTopic("", clients.topic_id, [part])]
        request = commit.OffsetCommitRequest("readers", topics=topics)
        (topic,) = (await clients.ask(apis.OFFSET_COMMIT, request)).topics
        assert topic.partitions[0].error_code == committed

        txn_part = txn.TxnOffsetCommitRequestPartition(0, 1, -1, "")
        txn_topics = [txn.TxnOffsetCommitRequestTopic("", clients.topic_id, [txn_part])]
        txn_request = txn.TxnOffsetCommitRequest("t", "readers", 1, 0, topics=txn_topics)
        (topic,) = (await clients.ask(apis.TXN_OFFSET_COMMIT, txn_request)).topics
        assert topic.partitions[0].error_code == in_transaction

    with_acls(tmp_path, acls, scenario)


@pytest.mark.parametrize(
    ("acls", "group_code", "one", "all_of_them"),
    [
        ([READ_TOPIC], GROUP, None, []),
        ([READ_GROUP], 0, (-1, TOPIC), []),
        ([READ_GROUP, READ_TOPIC], 0, (7, 0), [7]),
    ],
)
def test_fetching(
    tmp_path: Path,
    acls: list[str],
    group_code: int,
    one: tuple[int, int] | None,
    all_of_them: list[int],
) -> None:
    async def scenario(clients: Clients) -> None:
        committer = CommitClient("readers", "", None, -1, transactional=False, version=9)
        commits = [Commit("jobs", 0, CommittedOffset(7))]
        await clients.broker.parts.offsets.commit(committer, commits)
        some = [fetch.OffsetFetchRequestTopics("", clients.topic_id, [0])]
        groups = [fetch.OffsetFetchRequestGroup("readers", topics=asked) for asked in (some, None)]
        request = fetch.OffsetFetchRequest(groups=groups)
        first, second = (await clients.ask(apis.OFFSET_FETCH, request)).groups
        assert first.error_code == second.error_code == group_code
        found = [part for topic in first.topics for part in topic.partitions]
        assert [(part.committed_offset, part.error_code) for part in found] == (
            [one] if one else []
        )
        found = [part for topic in second.topics for part in topic.partitions]
        assert [part.committed_offset for part in found] == all_of_them

    with_acls(tmp_path, acls, scenario)


@pytest.mark.parametrize(
    ("acls", "codes"),
    [([READ_TOPIC], (GROUP,)), ([DELETE_GROUP], (0, TOPIC)), ([DELETE_GROUP, READ_TOPIC], (0, 0))],
)
def test_deleting(tmp_path: Path, acls: list[str], codes: tuple[int, ...]) -> None:
    async def scenario(clients: Clients) -> None:
        committer = CommitClient("readers", "", None, -1, transactional=False, version=9)
        commits = [Commit("jobs", 0, CommittedOffset(7))]
        await clients.broker.parts.offsets.commit(committer, commits)
        parts = [delete.OffsetDeleteRequestPartition(0)]
        topics = [delete.OffsetDeleteRequestTopic("jobs", parts)]
        response = await clients.ask(
            apis.OFFSET_DELETE, delete.OffsetDeleteRequest("readers", topics)
        )
        found = [part.error_code for topic in response.topics for part in topic.partitions]
        assert (response.error_code, *found) == codes
        left = await clients.broker.parts.offsets.fetch_all("readers", None, -1, stable=False)
        assert bool(left) == (codes != (0, 0))

    with_acls(tmp_path, acls, scenario)
