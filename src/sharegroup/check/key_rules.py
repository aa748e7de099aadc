"""The rules of order per key: all records of a key that are in flight are with one member, and none
is accepted before an earlier one of its key is done (S9)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf

from sharegroup.check.delivery_rules import SharePartitionRules
from sharegroup.check.gone_rules import Gone
from sharegroup.check.history import ACCEPT, OK, REJECT, RELEASE, UNKNOWN
from sharegroup.check.states import Found, Phase, State


class KeyRules:
    """The keys of one share partition.

    Args:
        states: what is known of its records.
        gone: which records may be gone from the log.
    """

    def __init__(self, states: SharePartitionRules, gone: Gone) -> None:
        self._states = states
        self._gone = gone
        self._open: dict[str, list[int]] = {}
        """Key → its offsets that somebody may have to wait for, ascending."""
        self._keys: dict[int, str] = {}
        self._changed_ms: dict[str, float] = {}
        """Key → when something of its records was last asked for or answered."""

    def exists(self, offset: int, key: str) -> None:
        """The log has a record of this key."""
        if offset not in self._keys:
            self._keys[offset] = key
            insort(self._open.setdefault(key, []), offset)

    def changed(self, first: int, last: int, now_ms: float) -> None:
        """Something of these records is asked for or answered."""
        for offset in range(first, last + 1):
            if offset in self._keys:
                self._changed_ms[self._keys[offset]] = now_ms

    def delivered(self, first: int, last: int) -> None:
        """Somebody has got these records. Until then it was perhaps not sure whether they are
        done."""
        for offset in range(first, last + 1):
            if offset in self._keys:
                listed = self._open[self._keys[offset]]
                at = bisect_left(listed, offset)
                if at == len(listed) or listed[at] != offset:
                    listed.insert(at, offset)

    def changed_ms(self, first: int, last: int) -> float:
        """When something of the keys of these records was last asked for or answered."""
        keys = (self._keys.get(offset, "") for offset in range(first, last + 1))
        return max(self._changed_ms.get(key, -inf) for key in keys)

    def acquired(self, member: str, offset: int, asked_ms: float, now_ms: float) -> list[Found]:
        """A poll that was made at ``asked_ms`` has returned the record."""
        for earlier, state in self._before(offset):
            if not self._sure(state) or state.acking:
                continue
            if state.phase is Phase.HELD and state.member != member:
                held = state.known_ms < asked_ms and self._states.locked(state, now_ms)
                if held and not self._states.taken_back(earlier, state, now_ms):
                    text = f"delivered to {member} while {state.member} holds {earlier} of its key"
                    return [Found("S9", offset, offset, text, earlier)]
            elif self._waits(state, asked_ms):
                text = f"delivered to {member} before {earlier} of its key"
                return [Found("S9", offset, offset, text, earlier)]
        return []

    def accepted(self, member: str, offset: int, asked_ms: float) -> list[Found]:
        """An accept that was sent at ``asked_ms`` was taken."""
        for earlier, state in self._before(offset):
            if self._sure(state) and (self._waits(state, asked_ms) or self._held(state, asked_ms)):
                text = f"accepted by {member} before {earlier} of its key is done"
                return [Found("S9", offset, offset, text, earlier)]
        return []

    def behind(self, released: Iterable[tuple[int, int]]) -> Callable[[int], bool]:
        """Whether a record comes behind one of its key among these runs, or may do."""
        first: dict[str | None, int] = {}
        for run in released:
            for offset in range(run[0], run[1] + 1):
                key = self._keys.get(offset)
                first[key] = min(offset, first.get(key, offset))
        lowest = min(first.values())

        def is_behind(offset: int) -> bool:
            key = self._keys.get(offset)
            if key is None:
                return lowest < offset
            return min(first.get(key, offset), first.get(None, offset)) < offset

        return is_behind

    def _sure(self, state: State) -> bool:
        """Whether nothing of it was lost since."""
        return state.kills == self._states.kills and not self._states.shaky

    def _waits(self, state: State, asked_ms: float) -> bool:
        """Whether the record has certainly been available since before that moment."""
        free = state.phase is Phase.FREE and state.known_ms < asked_ms
        return free and not self._states.given_up(state)

    def _held(self, state: State, asked_ms: float) -> bool:
        """Whether somebody has certainly held the record since before that moment."""
        held = state.phase is Phase.HELD and not state.acking and state.known_ms < asked_ms
        return held and not self._states.given_up(state)

    def _before(self, offset: int) -> list[tuple[int, State]]:
        """The earlier records of the same key that somebody may have to wait for, with their
        states. The others are not looked at again, unless they are delivered."""
        key = self._keys.get(offset)
        if key is None:
            return []
        listed = self._open[key]
        end = bisect_left(listed, offset)
        found = []
        for at in listed[:end]:
            state = self._states.state(at)
            if state.phase not in (Phase.DONE, Phase.UNSURE) and not self._gone.may_be(at):
                found.append((at, state))
        if len(found) < end:
            listed[:end] = [at for at, _ in found]
        return found

    def reset(self) -> None:
        """The group begins elsewhere: what was done may not be."""
        self._open.clear()
        for offset, key in sorted(self._keys.items()):
            self._open.setdefault(key, []).append(offset)


Ack = tuple[str, int, int, int, str]
"""Topic, partition, first and last offset, type."""


def answers(
    acks: Sequence[Ack], results: Sequence[str], keys: Callable[[str, int], KeyRules | None]
) -> Iterator[tuple[Ack, str]]:
    """The acknowledgements of a request, and what each was told. With order per key, one that comes
    with a release of an earlier record of its key has no effect, and no error (docs/keys.md)."""
    released: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for topic, partition, first, last, kind in acks:
        if kind == RELEASE:
            released.setdefault((topic, partition), []).append((first, last))
    behind: dict[tuple[str, int], Callable[[int], bool]] = {}
    for place, runs in released.items():
        rules = keys(*place)
        if rules is not None:
            behind[place] = rules.behind(runs)
    for ack, result in zip(acks, results, strict=True):
        topic, partition, first, last, kind = ack
        is_behind = behind.get((topic, partition))
        if is_behind is None or result != OK or kind not in (ACCEPT, REJECT):
            yield ack, result
            continue
        for offset in range(first, last + 1):
            said = UNKNOWN if is_behind(offset) else OK
            yield (topic, partition, offset, offset, kind), said
