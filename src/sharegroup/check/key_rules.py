"""The rules of order per key: all records of a key that are in flight are with one member, and none
is accepted before an earlier one of its key is done (S9)."""

from __future__ import annotations

from bisect import bisect_left, insort
from math import inf

from sharegroup.check.delivery_rules import SharePartitionRules
from sharegroup.check.gone_rules import Gone
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
        """Key → its offsets that are not known to be done, ascending."""
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
                    return [Found("S9", offset, offset, text)]
            elif self._waits(state, asked_ms):
                text = f"delivered to {member} before {earlier} of its key"
                return [Found("S9", offset, offset, text)]
        return []

    def accepted(self, member: str, offset: int, asked_ms: float) -> list[Found]:
        """An accept that was sent at ``asked_ms`` was taken."""
        for earlier, state in self._before(offset):
            if self._sure(state) and self._waits(state, asked_ms):
                text = f"accepted by {member} before {earlier} of its key is done"
                return [Found("S9", offset, offset, text)]
        return []

    def _sure(self, state: State) -> bool:
        """Whether nothing of it was lost since."""
        return state.kills == self._states.kills and not self._states.shaky

    def _waits(self, state: State, asked_ms: float) -> bool:
        """Whether the record has certainly been available since before that moment."""
        free = state.phase is Phase.FREE and state.known_ms < asked_ms
        return free and not self._states.given_up(state)

    def _before(self, offset: int) -> list[tuple[int, State]]:
        """The earlier records of the same key that are not known to be done, with their states."""
        key = self._keys.get(offset)
        if key is None:
            return []
        listed = self._open[key]
        found, done = [], []
        for at in listed[: bisect_left(listed, offset)]:
            state = self._states.state(at)
            if state.phase is Phase.DONE:
                done.append(at)
            elif state.phase is not Phase.UNSURE and not self._gone.may_be(at):
                found.append((at, state))
        for at in done:
            listed.remove(at)
        return found

    def reset(self) -> None:
        """The group begins elsewhere: what was done may not be."""
        self._open.clear()
        for offset, key in sorted(self._keys.items()):
            self._open.setdefault(key, []).append(offset)
