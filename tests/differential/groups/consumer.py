"""Steps of the consumer protocol (KIP-848). Members choose their ids, so these are known.

Which member gets which partitions is the assignor's; how many each has is compared.
"""

from __future__ import annotations

from typing import Any

from sharegroup.wire import apis
from sharegroup.wire.messages import consumer_group_heartbeat as messages
from sharegroup.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tests.differential.groups.player import Client, GroupPlayer
from tests.differential.groups.rendering import rendered

ROUNDS = 12


class ConsumerSteps(GroupPlayer):
    """What members of the consumer protocol do."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._epochs: dict[str, int] = {}
        self._owned: dict[str, list[int]] = {}
        classic = any(step.verb == "join" for step in self.script.steps)
        self._beside = " beside classic" if classic else ""
        # A group that changes its assignor shows who had which partition, which is chance in Kafka.
        # So do ranges for members of the classic protocol, whose ids are random.
        wanted = "range" if self.script.seed // 3 % 2 and not classic else "uniform"
        self._assignors = {"any": None if wanted == "uniform" else wanted, "wanted": wanted}

    async def cg_join(self, client: Client, topics: str, assignor: str, case: str) -> list[str]:
        """A first heartbeat, or that of a member that begins anew."""
        names = {"topic": [self.group], "nowhere": ["nowhere"], "none": []}[topics]
        request = messages.ConsumerGroupHeartbeatRequest(
            self.unknown if case == "no group name" else self.group,
            "" if case == "no member id" else f"c-{client.name}",
            0,
            {"empty instance": ""}.get(case, client.instance_id),
            rebalance_timeout_ms=-1 if case == "no timeout" else 60_000,
            subscribed_topic_names=None if case == "no topics" else names,
            server_assignor=self._assignors.get(assignor, assignor),
            topic_partitions=None if case == "no partitions" else [],
        )
        if case == "no group name":
            request.group_id = ""
        if case == "owning":
            request.topic_partitions = [messages.TopicPartitions(self.topic_id, [0])]
        if case == "regex":
            request.subscribed_topic_regex = "("
        return await self._beat(client, request)

    async def cg_beat(self, client: Client, case: str) -> list[str]:
        """A later heartbeat."""
        epoch = self._epochs.get(client.name, 0)
        request = messages.ConsumerGroupHeartbeatRequest(
            self.group,
            "stranger" if case == "stranger" else f"c-{client.name}",
            {"old epoch": max(1, epoch - 1), "future epoch": epoch + 7, "odd epoch": -3}.get(
                case, max(epoch, 1)
            ),
            "another" if case == "other instance" else client.instance_id,
        )
        if case == "full":
            request.rebalance_timeout_ms = 60_000
            request.subscribed_topic_names = [self.group]
            request.topic_partitions = self._owns(client)
        if case == "owned":
            request.topic_partitions = self._owns(client)
        return await self._beat(client, request)

    async def cg_leave(self, client: Client, case: str) -> list[str]:
        """Leave for good, or for a moment, as a static member may."""
        request = messages.ConsumerGroupHeartbeatRequest(
            self.group,
            "stranger" if case == "stranger" else f"c-{client.name}",
            -2 if case == "for a moment" else -1,
            client.instance_id,
        )
        return await self._beat(client, request)

    def _owns(self, client: Client) -> list[Any]:
        owned = self._owned.get(client.name)
        return [messages.TopicPartitions(self.topic_id, owned)] if owned else []

    async def _beat(self, client: Client, request: Any) -> list[str]:
        answer = await self.told(self.ask(apis.CONSUMER_GROUP_HEARTBEAT, request))
        if answer.error_code == 0 and answer.member_id == f"c-{client.name}":
            if answer.member_epoch > 0:
                self._epochs[client.name] = answer.member_epoch
            else:
                self._epochs.pop(client.name, None)
                self._owned.pop(client.name, None)
        assignment, answer.assignment = answer.assignment, None
        lines = rendered(answer, self.names)
        if assignment is not None:
            held = [p for topic in assignment.topic_partitions for p in topic.partitions]
            self._owned[client.name] = held
            lines.append(f"assigned {len(held)}{self._beside}")
        return lines

    async def cg_settle(self, _: Client) -> list[str]:
        """Members tell what they own until every one has what it should."""
        for _round in range(ROUNDS):
            for client in self.clients:
                if client.name in self._epochs:
                    request = messages.ConsumerGroupHeartbeatRequest(
                        self.group,
                        f"c-{client.name}",
                        self._epochs[client.name],
                        client.instance_id,
                        topic_partitions=self._owns(client),
                    )
                    lines = await self._beat(client, request)
                    if not lines[0].endswith("=ok"):
                        self._epochs.pop(client.name, None)
                        self._owned.pop(client.name, None)
        taken = sorted(p for name in self._epochs for p in self._owned.get(name, []))
        sizes = sorted(len(self._owned.get(name, [])) for name in self._epochs)
        return [f"{name} epoch {self._epochs[name]}" for name in sorted(self._epochs)] + [
            f"{len(taken)} of {len(set(taken))} as {sizes}{self._beside}".replace(", ", " ")
        ]

    async def cg_describe(self, _: Client, case: str) -> list[str]:
        """ConsumerGroupDescribe, with the number of partitions that each member has."""
        group = self.unknown if case == "unknown group" else self.group
        answer = await self.told(
            self.ask(apis.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest([group], False))
        )
        for member in answer.groups[0].members:
            for one in (member.assignment, member.target_assignment):
                for topic in one.topic_partitions:
                    topic.partitions = [len(topic.partitions)]
        return [
            line + self._beside if "topic_partitions" in line else line
            for line in rendered(answer, self.names)
        ]
