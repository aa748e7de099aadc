"""The rules of handlers, where a group has order per key (S9): those of a key run one after the
other, and none begins before each earlier record of the key was handled once, or is given up."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable

from sharegroup.check.delivery_rules import SharePartitionRules
from sharegroup.check.gone_rules import Gone
from sharegroup.check.history import ENDED
from sharegroup.check.states import Found, Phase


class WorkRules:
    """The handlers of one share partition.

    Args:
        finished: whether a record is done or gone, by its offset: nobody waits for it again.
        given_up: whether one of the others may be given up.
        unseen: whether each may be, by deliveries that nobody has seen.
        quiet: whether nobody was killed or has left.
    """

    def __init__(
        self,
        finished: Callable[[int], bool],
        given_up: Callable[[int], bool],
        unseen: Callable[[], bool],
        quiet: Callable[[], bool],
    ) -> None:
        self._finished = finished
        self._given_up = given_up
        self._unseen = unseen
        self._quiet = quiet
        self._passed: dict[int, Found] = {}
        """Record → what is wrong if it was not given up."""
        self._open: dict[str, list[int]] = {}
        """Key → its records that no handler has finished, ascending."""
        self._done: set[int] = set()
        self._running: dict[tuple[str, str], int] = {}
        """Member and key → the record that is handled."""

    def exists(self, offset: int, key: str) -> None:
        """A producer knows of the record. It may have been handled before."""
        if offset not in self._done:
            insort(self._open.setdefault(key, []), offset)

    def begun(self, member: str, offset: int, key: str) -> list[Found]:
        """A handler begins."""
        other = self._running.get((member, key))
        self._running[member, key] = offset
        passed = self._passed.pop(offset, None)
        if passed is not None and self._quiet():
            return [passed]
        if other is not None and other != offset:
            text = f"handled by {member} while it handles {other} of its key"
            return [Found("S9", offset, offset, text, other)]
        listed = self._open.get(key, [])
        end = bisect_left(listed, offset)
        waits = [earlier for earlier in listed[:end] if not self._finished(earlier)]
        listed[:end] = waits
        for earlier in waits:
            if not self._given_up(earlier):
                text = f"handled by {member} before {earlier} of its key"
                found = Found("S9", offset, offset, text, earlier)
                if not self._unseen():
                    return [found]
                # A slow member may have fetched it ahead, and let its lock end, up to the limit.
                self._passed.setdefault(earlier, found)
        return []

    def ended(self, member: str, offset: int, key: str, result: str) -> None:
        """A handler ends: ``ok``, ``failed``, ``rejected`` or ``cancelled``."""
        self._running.pop((member, key), None)
        if result in ENDED:
            self._done.add(offset)
            listed = self._open.get(key, [])
            at = bisect_left(listed, offset)
            if at < len(listed) and listed[at] == offset:
                del listed[at]

    def left(self, member: str) -> None:
        """The member is dead: so are its handlers."""
        self._running = {at: one for at, one in self._running.items() if at[0] != member}

    def reset(self) -> None:
        """The group begins elsewhere: what was given up comes again."""
        self._passed.clear()


def work_of(rules: SharePartitionRules, gone: Gone, somebody_left: Callable[[], bool]) -> WorkRules:
    """The rules of a share partition's handlers, by what is known of its records."""

    def finished(offset: int) -> bool:
        return rules.state(offset).phase is Phase.DONE or gone.may_be(offset)

    def given_up(offset: int) -> bool:
        state = rules.state(offset)
        # By a member that is no worker, by what it has sent.
        unsure = state.phase is Phase.UNSURE or state.acking
        return unsure or not quiet() or rules.at_limit(state)

    def quiet() -> bool:
        # Who is killed has fetched ahead: that was a delivery, too.
        return not rules.kills and not somebody_left()

    return WorkRules(finished, given_up, lambda: rules.settings.unseen, quiet)
