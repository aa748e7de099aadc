"""Steps of committed offsets and of administrators."""

from __future__ import annotations

from uuid import UUID

from sharegroup.wire import apis
from sharegroup.wire.messages import offset_commit as commit_messages
from sharegroup.wire.messages import offset_delete as delete_messages
from sharegroup.wire.messages import offset_fetch as fetch_messages
from sharegroup.wire.messages.delete_groups import DeleteGroupsRequest
from sharegroup.wire.messages.describe_groups import DescribeGroupsRequest
from sharegroup.wire.messages.list_groups import ListGroupsRequest
from tests.differential.groups.player import PARTITIONS, Client, GroupPlayer
from tests.differential.groups.rendering import rendered

NO_TOPIC = UUID(int=404)
METADATA_MAX = 4096


class OffsetSteps(GroupPlayer):
    """What is asked of a group's offsets, and of groups as a whole."""

    commits = 0

    async def commit(self, client: Client, case: str, partition: str) -> list[str]:
        """Commit one offset, each time the next."""
        self.commits += 1
        unknown = case == "unknown topic"
        part = commit_messages.OffsetCommitRequestPartition(
            77 if case == "unknown partition" else int(partition),
            -5 if case == "negative offset" else self.commits,
            3,
            {"large metadata": "x" * (METADATA_MAX + 1), "null metadata": None}.get(case, "m"),
        )
        topics = [
            commit_messages.OffsetCommitRequestTopic(
                "nowhere" if unknown else self.group,
                NO_TOPIC if unknown else self.topic_id,
                [part],
            )
        ]
        simple = case == "simple"
        request = commit_messages.OffsetCommitRequest(
            self.unknown if case == "unknown group" else self.group,
            -1 if simple or case == "no generation" else self.epoch_of(client, case),
            ""
            if simple or case == "no member"
            else "stranger"
            if case == "stranger"
            else client.member_id,
            "another" if case == "other instance" else None if simple else client.instance_id,
            topics=[] if case == "no topics" else topics,
        )
        return await self.see(apis.OFFSET_COMMIT, request)

    def epoch_of(self, client: Client, case: str) -> int:
        """The generation that a commit names."""
        return client.generation - (case == "old generation")

    async def fetch_offsets(self, client: Client, case: str) -> list[str]:
        """Committed offsets, by whoever asks."""
        version = self.pinned(apis.OFFSET_FETCH)
        unknown = case == "unknown topic"
        indexes = [77] if case == "unknown partition" else list(range(PARTITIONS))
        everything = case == "all" and version >= 2
        group = self.unknown if case == "unknown group" else self.group
        if version < 8:
            topic = fetch_messages.OffsetFetchRequestTopic(
                "nowhere" if unknown else self.group, indexes
            )
            topics = [] if case == "no topics" else [topic]
            request = fetch_messages.OffsetFetchRequest(group, None if everything else topics)
        else:
            part = fetch_messages.OffsetFetchRequestTopics(
                "nowhere" if unknown else self.group,
                NO_TOPIC if unknown else self.topic_id,
                indexes,
            )
            parts = [] if case == "no topics" else [part]
            wanted = fetch_messages.OffsetFetchRequestGroup(
                group,
                {"stranger": "stranger", "member": client.member_id}.get(case),
                {"stranger": 3, "member": client.generation}.get(case, -1),
                None if everything else parts,
            )
            request = fetch_messages.OffsetFetchRequest(groups=[wanted])
            if case == "several groups":
                request.groups = [
                    wanted,
                    fetch_messages.OffsetFetchRequestGroup(self.unknown, topics=None),
                ]
        request.require_stable = case == "stable" and version >= 7
        return await self.see(apis.OFFSET_FETCH, request)

    async def delete_offsets(self, _: Client, case: str) -> list[str]:
        """Forget committed offsets."""
        indexes = {"unknown partition": [77], "two": [0, 1]}.get(case, [0])
        request = delete_messages.OffsetDeleteRequest(
            self.unknown if case == "unknown group" else self.group,
            [
                delete_messages.OffsetDeleteRequestTopic(
                    "nowhere" if case == "unknown topic" else self.group,
                    [delete_messages.OffsetDeleteRequestPartition(index) for index in indexes],
                )
            ],
        )
        return await self.see(apis.OFFSET_DELETE, request)

    async def describe(self, _: Client, case: str) -> list[str]:
        """DescribeGroups."""
        group = self.unknown if case == "unknown group" else self.group
        return await self.see(apis.DESCRIBE_GROUPS, DescribeGroupsRequest([group]))

    async def list_groups(self, _: Client, state: str, kind: str) -> list[str]:
        """ListGroups, as far as it is about this script's group."""
        kinds = [] if kind == "any" or self.pinned(apis.LIST_GROUPS) < 5 else [kind]
        request = ListGroupsRequest([] if state == "any" else [state], kinds)
        response = await self.told(self.ask(apis.LIST_GROUPS, request))
        response.groups = [one for one in response.groups if one.group_id == self.group]
        return rendered(response, self.names)

    async def delete_group(self, _: Client, case: str) -> list[str]:
        """DeleteGroups."""
        group = {"unknown group": self.unknown, "no name": ""}.get(case, self.group)
        return await self.see(apis.DELETE_GROUPS, DeleteGroupsRequest([group]))
