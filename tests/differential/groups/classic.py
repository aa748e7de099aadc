"""Steps of the classic protocol: join, sync, heartbeat, leave."""

from __future__ import annotations

import struct
from typing import Any

from sharegroup.groups.classic.embedded import decode_assignment, encode_assignment
from sharegroup.wire import apis
from sharegroup.wire.messages.heartbeat import HeartbeatRequest
from sharegroup.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from sharegroup.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sharegroup.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.differential.groups.player import (
    MEMBER_ID_REQUIRED,
    PARTITIONS,
    Client,
    GroupPlayer,
    Waiting,
)
from tests.differential.groups.rendering import error_name, rendered

REBALANCING = 27
GONE = (25, 82)  # UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID
ROUNDS = 8
EMBEDDED_VERSION = b"\0\1"
SESSION_MS = 600_000
"""Longer than a script takes on a machine that has much else to do."""


class ClassicSteps(GroupPlayer):
    """What members of a classic group do."""

    async def join(self, client: Client, who: str, *asked: str) -> list[str]:
        """Ask to join; with a new id come again at once, as clients do."""
        protocols, metadata, kind, timeout = asked
        client.asked = (protocols, metadata, kind, timeout)
        member_id = {"own": client.member_id, "none": "", "stranger": "stranger"}[who]
        self._begin_join(client, member_id)
        return await self.seen()

    def _begin_join(self, client: Client, member_id: str) -> None:
        protocols, metadata, kind, timeout = client.asked
        names = [] if protocols == "none" else protocols.split("+")
        request = JoinGroupRequest(
            self.group,
            1 if timeout == "too short" else SESSION_MS,
            SESSION_MS,
            member_id,
            client.instance_id,
            kind,
            [JoinGroupRequestProtocol(name, self._metadata(client, metadata)) for name in names],
        )
        self.begin(client, "join", apis.JOIN_GROUP, request)

    def _metadata(self, client: Client, kind: str) -> bytes:
        """A consumer's subscription; the script's topic has the group's name. A cooperative
        consumer says what it owns."""
        if kind == "garbage":
            return b"\x00"
        if kind == "owning":
            name = self.group.encode()
            owned = decode_assignment(client.assignment).partitions.get(self.group, ())
            return b"".join(
                (
                    struct.pack(f">hih{len(name)}si", 1, 1, len(name), name, -1),
                    struct.pack(f">ih{len(name)}si", 1, len(name), name, len(owned)),
                    struct.pack(f">{len(owned)}i", *owned),
                )
            )
        name = (self.group if kind == "topic" else "elsewhere").encode()
        return struct.pack(">hih", 0, 1, len(name)) + name + struct.pack(">i", -1)

    async def sync(self, client: Client, case: str) -> list[str]:
        """Ask for the assignment; a leader gives everybody one."""
        joined = client.joined
        kind = joined.protocol_type or "consumer" if joined else "consumer"
        name = joined.protocol_name or "range" if joined else "range"
        request = SyncGroupRequest(
            self.unknown if case == "unknown group" else self.group,
            client.generation - (case == "old generation"),
            "stranger" if case == "stranger" else client.member_id,
            "another" if case == "other instance" else client.instance_id,
            {"other type": "connect", "no protocol": None}.get(case, kind),
            {"other protocol": "cooperative", "no protocol": None}.get(case, name),
        )
        if client.leads and case == "real":
            members = sorted((one.member_id for one in joined.members), key=self.names.text)
            request.assignments = [
                SyncGroupRequestAssignment(
                    one,
                    encode_assignment(
                        {self.group: range(at, PARTITIONS, len(members))}, EMBEDDED_VERSION
                    ),
                )
                for at, one in enumerate(members)
            ]
        if client.leads and case in ("right", "to strangers"):
            members = [member.member_id for member in joined.members]
            if case == "to strangers":
                members = [*members[:-1], "stranger"]
            request.assignments = [
                SyncGroupRequestAssignment(one, self.names.text(one).encode()) for one in members
            ]
        self.begin(client, "sync", apis.SYNC_GROUP, request, generation=client.generation)
        return await self.seen()

    async def heartbeat(self, client: Client, case: str) -> list[str]:
        """One heartbeat."""
        request = HeartbeatRequest(
            self.unknown if case == "unknown group" else self.group,
            client.generation - (case == "old generation"),
            "stranger" if case == "stranger" else client.member_id,
            "another" if case == "other instance" else client.instance_id,
        )
        return await self.see(apis.HEARTBEAT, request)

    async def leave(self, client: Client, case: str) -> list[str]:
        """Leave, or be removed."""
        mine = MemberIdentity(client.member_id, client.instance_id)
        named = {
            "stranger": [MemberIdentity("stranger")],
            "by instance": [MemberIdentity("", client.instance_id)],
            "other instance": [MemberIdentity(client.member_id, "another")],
            "twice": [mine, mine],
            "right and stranger": [mine, MemberIdentity("stranger")],
            "nobody": [],
        }.get(case, [mine])
        request = LeaveGroupRequest(
            self.unknown if case == "unknown group" else self.group,
            named[0].member_id if named else "",
            named,
        )
        response = await self.told(self.ask(apis.LEAVE_GROUP, request))
        lines = rendered(response, self.names)
        codes = [one.error_code for one in response.members] or [response.error_code]
        if 0 in codes and case in ("right", "by instance", "twice", "right and stranger"):
            client.forget()
        return lines + await self.seen()

    # --- answers ----------------------------------------------------------------------------------

    async def seen(self) -> list[str]:
        """The answers that have come, and what is still waited for."""
        lines: list[str] = []
        while done := await self.answered():
            for one in done:
                self._take(one)
            for one in done:
                path = f"{one.client.name}.{one.verb}."
                answer = one.answer.result()
                lines += [path + line for line in rendered(answer, self.names)]
        lines += self._still_waiting()
        return lines

    def _still_waiting(self) -> list[str]:
        both = any(step.verb == "cg_join" for step in self.script.steps)
        beside = " beside consumer protocol" if both else ""
        return sorted(f"{one.client.name}.{one.verb} waits{beside}" for one in self.waiting)

    def _take(self, one: Waiting) -> None:
        client, answer = one.client, one.answer.result()
        if one.verb == "join":
            self._take_join(client, answer)
        elif answer.error_code == 0 and one.told["generation"] == client.generation:
            client.synced, client.assignment = True, bytes(answer.assignment)

    def _take_join(self, client: Client, answer: Any) -> None:
        if answer.error_code == MEMBER_ID_REQUIRED:
            self.name_member(client, answer.member_id)
            client.member_id = answer.member_id
            self._begin_join(client, answer.member_id)
        elif answer.error_code == 0:
            self.name_member(client, answer.member_id)
            client.member_id = answer.member_id
            client.generation, client.joined = answer.generation_id, answer
            client.synced = False

    # --- all together -----------------------------------------------------------------------------

    async def settle(self, _: Client, sync: str = "right") -> list[str]:
        """Every member does what clients do until the group is stable."""
        for _round in range(ROUNDS):
            if not await self._go_on(sync):
                break
        return [
            f"{client.name} generation {client.generation} {self.names.data(client.assignment)}"
            for client in self.clients
            if client.member_id
        ] + self._still_waiting()

    async def _go_on(self, sync: str) -> bool:
        """One round; whether there was something to do."""
        busy = False
        for client in self.clients:
            if not client.member_id or any(one.client is client for one in self.waiting):
                continue
            heartbeat = HeartbeatRequest(
                self.group, client.generation, client.member_id, client.instance_id
            )
            code = (await self.told(self.ask(apis.HEARTBEAT, heartbeat))).error_code
            if code in GONE:
                client.forget()
            elif code:
                assert code == REBALANCING or error_name(code) == "ILLEGAL_GENERATION", code
                self._begin_join(client, client.member_id)
                await self.seen()
                busy = True
            elif not client.synced:
                await self.sync(client, sync)
                busy = True
        return busy
