"""One queue (share group) as the page shows it: asked of the broker by its admin requests."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import (
    MemberDescription,
    PartitionRecords,
    RecordRange,
    ShareGroupOffset,
)
from sharegroup.client.admin.hand_requests import PAUSED
from sharegroup.client.network.cluster import Cluster
from sharegroup.console.causes import OLD_MS, likely_causes, said_of, silence_text, status_of
from sharegroup.console.holds import Hold, Holds
from sharegroup.console.letter_counts import LetterCounts
from sharegroup.console.letter_goals import TOPIC_NAME, lacking_of_group
from sharegroup.console.limits import GIVEN_UP_MAX, HELD_MAX, RANGES_MAX
from sharegroup.console.queue_counts import QueueCounts, lag_of
from sharegroup.console.queue_list import (
    QueueList,
    counted,
    ends_of,
    note,
    state_of,
    topic_names,
)
from sharegroup.console.rates import Rates
from sharegroup.console.settings import settings_of
from sharegroup.model.errors import KafkaError, SharegroupError
from sharegroup.model.ids import TopicPartition
from sharegroup.share.record_state import RecordState

LOCK: Final = "share.record.lock.duration.ms"
_FAILED: Final = frozenset({"delivery-limit", "rejected"})

Json = dict[str, Any]


class QueueViews:
    """Asks about queues, and remembers what is needed for their rates.

    Args:
        reading: connections for fetches.

    Attributes:
        rates: the rates of each queue.
        list: all queues, with one line each.
        letters: how many dead letters each queue has.
        holds: how long members hold records.
    """

    def __init__(self, admin: Admin, reading: Cluster) -> None:
        self._admin = admin
        self.rates: dict[str, Rates] = {}
        self.letters = LetterCounts(admin, reading)
        self.holds = Holds()
        self.list = QueueList(admin, self.rates, self.letters)

    async def one(self, group: str) -> Json:
        """One share group, whole.

        Raises:
            KafkaError: there is no such group, or it may not be seen.
        """
        described = (await self._admin.describe_share_groups([group]))[group]
        there = await topic_names(self._admin)
        rates = self.rates.setdefault(group, Rates())
        before = await ends_of(self._admin, rates.counted, there)
        summary = (await self._admin.summarize_share_groups([group]))[group]
        if isinstance(summary, KafkaError):
            raise summary
        offsets = summary.offsets
        ends = await ends_of(self._admin, {*offsets}, there)
        states, no_states = await self._states(group)
        settings, no_settings = await settings_of(self._admin, "group", group)
        found = QueueCounts.of(offsets, ends, before)
        note(rates, found, time.monotonic())
        counts = counted(found, rates)
        values = {one["name"]: one["value"] for one in settings}
        self.letters.named(group, values.get(TOPIC_NAME))
        await self.letters.look(there, [group])
        members = {one.member_id: one for one in described.members}
        seen = self.holds.seen(group, states, now_ms(), lock_ms_of(values))
        held = [*_held(seen, members)]
        assigned = {at for member in described.members for at in member.assignment}
        silences = tuple(silence_text(m) for m in described.members if m.silent_ms is not None)
        paused = values.get(PAUSED) == "true"
        state = state_of(counts, len(described.members), paused)._replace(
            blocked=sum(_size(r) for one in states.values() for r in one.ranges if r.blocked),
            unassigned=tuple(
                f"{at.topic}:{at.partition}"
                for at, one in offsets.items()
                if lag_of(one, ends.get(at)) and at not in assigned
            ),
            silent=len(silences),
            silences=silences,
            left=sum(one["last"] - one["first"] + 1 for one in held if one["client"] is None),
        )
        given_up = [] if values.get(TOPIC_NAME) else [*_given_up(states)]
        state = state._replace(forgotten=sum(one["last"] - one["first"] + 1 for one in given_up))
        if state.dead:
            state = state._replace(
                letters_lack=await lacking_of_group(self._admin, values.get(TOPIC_NAME))
            )
        by_member = _held_by_member(states)
        return {
            "at_ms": now_ms(),
            "group": group,
            "state": described.state,
            "paused": paused,
            "status": status_of(state)._asdict(),
            **counts,
            **self.letters.of(group),
            "history": _history(rates),
            "causes": likely_causes(state),
            "held": held[:HELD_MAX],
            "more_held": max(0, len(held) - HELD_MAX),
            "given_up": given_up[-GIVEN_UP_MAX:],
            "members": [
                _member(one, by_member.get(one.member_id, [])) for one in described.members
            ],
            "partitions": [
                _partition(at, one, ends.get(at), states.get(at)) for at, one in offsets.items()
            ],
            "states_missing": no_states,
            "settings": settings,
            "settings_missing": no_settings,
        }

    async def _states(
        self, group: str
    ) -> tuple[Mapping[TopicPartition, PartitionRecords], str | None]:
        """The states of records, or why they are not known."""
        try:
            return await self._admin.describe_record_states(group), None
        except SharegroupError as error:
            return {}, str(error)


def _history(rates: Rates) -> Json:
    at_ms = now_ms()
    return {
        "at_ms": [at_ms - round(age_s * 1000) for age_s in rates.ages_s()],
        "written": rates.written(),
        "finished": rates.finished(),
        "redelivered": rates.redelivered(),
        "lag": rates.lags(),
    }


def now_ms() -> int:
    """Milliseconds since 1970."""
    return round(time.time() * 1000)


def _size(one: RecordRange) -> int:
    return one.last - one.first + 1


def lock_ms_of(settings: Mapping[str, str | None]) -> int | None:
    """How long the locks of a group are; None: not known."""
    found = settings.get(LOCK) or ""
    return int(found) if found.isdecimal() else None


def hold_json(one: Hold, member: MemberDescription | None) -> Json:
    """``member`` is None if it has left the group."""
    held_ms = now_ms() - one.since_ms
    return {
        "member": one.member,
        "client": None if member is None else member.client_id,
        "host": None if member is None else member.client_host,
        "since_ms": one.since_ms,
        "exact": one.exact,
        "too_long": held_ms > OLD_MS,
        "renewals": one.renewals,
        "deliveries": one.deliveries,
        "until_ms": one.until_ms,
    }


def _held(
    seen: Mapping[TopicPartition, tuple[Hold, ...]], members: Mapping[str, MemberDescription]
) -> Iterator[Json]:
    """What is held, the longest first."""
    everywhere = [(at, one) for at, held in seen.items() for one in held]
    for at, one in sorted(everywhere, key=lambda each: (each[1].since_ms, each[0], each[1].first)):
        place = {"topic": at.topic, "partition": at.partition}
        yield {**place, "first": one.first, "last": one.last} | hold_json(
            one, members.get(one.member)
        )


def _given_up(states: Mapping[TopicPartition, PartitionRecords]) -> Iterator[Json]:
    """What failed for good, as far as the broker remembers it."""
    for at, records in states.items():
        for one in (*records.given_up, *records.ranges):
            if one.state is RecordState.ARCHIVED and one.reason in _FAILED and not one.archiving:
                yield {
                    "topic": at.topic,
                    "partition": at.partition,
                    "first": one.first,
                    "last": one.last,
                    "deliveries": one.delivery_count,
                    "reason_said": said_of(one.reason),
                }


def _held_by_member(
    states: Mapping[TopicPartition, PartitionRecords],
) -> dict[str, list[tuple[TopicPartition, RecordRange]]]:
    found: dict[str, list[tuple[TopicPartition, RecordRange]]] = {}
    for at, records in states.items():
        for one in records.ranges:
            if one.member_id is not None:
                found.setdefault(one.member_id, []).append((at, one))
    return found


def _member(member: MemberDescription, held: list[tuple[TopicPartition, RecordRange]]) -> Json:
    locks = [one.lock_ms for _, one in held if one.lock_ms is not None]
    return {
        "member": member.member_id,
        "client": member.client_id,
        "host": member.client_host,
        "silent_ms": member.silent_ms,
        "session_left_ms": member.session_left_ms,
        "partitions": [f"{at.topic}:{at.partition}" for at in member.assignment],
        "holds": sum(_size(one) for _, one in held),
        "shortest_lock_ms": min(locks, default=None),
    }


def _partition(
    at: TopicPartition,
    offset: ShareGroupOffset,
    end: int | None,
    records: PartitionRecords | None,
) -> Json:
    ranges = () if records is None else records.ranges
    return {
        "topic": at.topic,
        "partition": at.partition,
        "start": offset.start_offset if offset.start_offset is not None else offset.begins_at,
        "end": end,
        "lag": lag_of(offset, end),
        "in_flight": offset.in_flight,
        "error": None if offset.error is None else str(offset.error),
        "ranges": [_range(one) for one in ranges[:RANGES_MAX]],
        "more_ranges": max(0, len(ranges) - RANGES_MAX),
        "locks_known": records is not None and records.locks_known,
    }


def _range(one: RecordRange) -> Json:
    state = "archiving" if one.archiving else one.state.name.lower()
    if one.blocked:
        state = "blocked"
    elif state == "available" and one.lock_ms is not None:
        state = "delayed"
    return {
        "first": one.first,
        "last": one.last,
        "state": state,
        "deliveries": one.delivery_count,
        "member": one.member_id,
        "lock_ms": one.lock_ms,
        "reason": one.reason,
    }
