"""Where one record stands in one queue, and what is next for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import MemberDescription, PartitionRecords, RecordRange
from sharegroup.console.causes import said_of, silence_text
from sharegroup.console.holds import Hold, Holds
from sharegroup.console.letter_goals import TOPIC_NAME
from sharegroup.console.queue_views import hold_json, lock_ms_of, now_ms
from sharegroup.model.errors import GroupIdNotFound
from sharegroup.model.ids import TopicPartition
from sharegroup.share.record_state import RecordState

_REJECTED: Final = "rejected"
_WAITS: Final = ("available", "ready")
LIMIT: Final = "share.delivery.count.limit"

Json = dict[str, Any]


async def life_of(admin: Admin, holds: Holds, group: str, at: TopicPartition, offset: int) -> Json:
    """``state`` with ``deliveries``, ``member``, ``lock_ms`` and ``reason`` as far as they are
    known, and ``next``, a sentence. ``held``: who holds it, since when; null: nobody.

    Raises:
        KafkaError: there is no such group, or it may not be seen.
    """
    records = (await admin.describe_record_states(group, [at])).get(at)
    settings = {
        name: one.value for name, one in (await admin.describe_configs("group", group)).items()
    }
    life = _unknown() if records is None else _life(records, offset)
    members = await _members(admin, group)
    waits = None if life["state"] not in _WAITS else _nobody(members, at)
    return {
        **life,
        "next": f"{waits} {life['next']}" if waits else life["next"],
        "group": group,
        "limit": settings.get(LIMIT),
        "letters": settings.get(TOPIC_NAME) or None,
        "held": None
        if records is None
        else _held(
            members, holds.seen(group, {at: records}, now_ms(), lock_ms_of(settings))[at], offset
        ),
        "at_ms": now_ms(),
    }


async def _members(admin: Admin, group: str) -> Sequence[MemberDescription]:
    """Nobody, if the group is gone and its dead letters are looked at."""
    try:
        return (await admin.describe_share_groups([group]))[group].members
    except GroupIdNotFound:
        return ()


def _held(members: Sequence[MemberDescription], seen: Sequence[Hold], offset: int) -> Json | None:
    hold = next((one for one in seen if one.first <= offset <= one.last), None)
    if hold is None:
        return None
    return hold_json(hold, next((one for one in members if one.member_id == hold.member), None))


def _nobody(members: Sequence[MemberDescription], at: TopicPartition) -> str | None:
    """Why no member asks for a record that waits; None: one may."""
    if not members:
        return "No member consumes."
    having = [one for one in members if at in one.assignment]
    if not having:
        return f"No member has {at.topic}:{at.partition} yet."
    silent = [one for one in having if one.silent_ms is not None]
    return " ".join(map(silence_text, silent)) if len(silent) == len(having) else None


def _life(records: PartitionRecords, offset: int) -> Json:
    if records.error is not None:
        return {**_unknown(), "next": str(records.error)}
    if records.start_offset is None:
        return _unknown()
    everywhere = (*records.given_up, *records.ranges)
    one = next((each for each in everywhere if each.first <= offset <= each.last), None)
    if one is not None:
        return _in_flight(one)
    if offset < records.start_offset:
        return {
            **_unknown(),
            "state": "finished",
            "next": "Nothing: it was accepted or given up, and all records before it, too. The "
            "broker does not keep how.",
        }
    before = offset - max(records.end_offset or 0, records.start_offset)
    return {
        **_unknown(),
        "state": "ready",
        "deliveries": 0,
        "next": "It was not delivered yet. "
        + (f"New ones before it: {before:,}." if before else "It is the next new one."),
    }


def _unknown() -> Json:
    return {
        "state": "unknown",
        "deliveries": None,
        "member": None,
        "lock_ms": None,
        "reason": None,
        "reason_said": None,
        "next": "The group has fetched nothing from this partition yet.",
    }


def _in_flight(one: RecordRange) -> Json:
    state = one.state.name.lower()
    if one.archiving:
        state, following = (
            "archiving",
            ("It has failed for good. It is kept until its dead letter can be written."),
        )
    elif one.blocked:
        state, following = "blocked", "It waits for an operator, who releases or archives it."
    elif one.state is RecordState.ACQUIRED:
        following = (
            "Its member accepts, releases, rejects it, or renews its lock. If the lock ends first, "
            "it is delivered again."
        )
    elif one.state is RecordState.DELAYED:
        state = "delayed"
        following = f"It rests, and is delivered again when it is due.{_failed(one)}"
    elif one.state is RecordState.AVAILABLE:
        following = f"It goes to the next member that asks.{_failed(one)}"
    elif one.state is RecordState.ACKNOWLEDGED:
        following = "Nothing: it was accepted."
    else:
        following = "Nothing: it was given up" + (f" ({_said(one.reason)})." if one.reason else ".")
    return {
        "state": state,
        "deliveries": one.delivery_count or None,
        "member": None if one.archiving else one.member_id,
        "lock_ms": None if one.archiving else one.lock_ms,
        "reason": one.reason,
        "reason_said": _said(one.reason),
        "next": following,
    }


def _failed(one: RecordRange) -> str:
    if not one.delivery_count:
        return ""
    times = (
        "Its delivery" if one.delivery_count == 1 else f"Each of {one.delivery_count} deliveries"
    )
    return (
        f" {times} came to nothing: it failed or was released, or its lock ended. Its worker's log "
        "says why, and its dead letter will, if it fails for good."
    )


def _said(reason: str | None) -> str | None:
    """Without a dead letter the broker does not tell an operator's decision from a member's."""
    return (
        "rejected by a member, or given up by an operator"
        if reason == _REJECTED
        else said_of(reason)
    )
