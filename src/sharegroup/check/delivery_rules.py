"""The rules of one share partition: who holds a record, how often it came, and whether it is done.

Times are a client's. A member holds records for sure from the moment at which its poll has returned
until it acknowledges them, leaves, or the lock can have ended: it began when the records were asked
for, at the earliest. Whatever may have happened in another order is no violation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from math import inf
from typing import Final

from sharegroup.check.gone_rules import Gone
from sharegroup.check.history import ACCEPT, COMMITTED, OK, REJECT, RELEASE, RENEW, UNKNOWN
from sharegroup.check.spans import Spans
from sharegroup.check.states import Found, Phase, Settings, State
from sharegroup.check.waiting_rules import EmptyPolls

OLD_MS: Final = 300_000
"""No poll takes so long: what was done before that is done for all that come."""

FORGET_AT: Final = 1_000
"""Runs of offsets with different states that are kept in any case."""

DONE: Final = "done"
"""How a record was finished of which that is not known, or not kept."""

CLOCK_MS: Final = 1
"""Brokers count a lock in whole milliseconds."""


class SharePartitionRules:
    """See the module. Each call returns what does not hold.

    Args:
        lost: how many polls of the group have no answer: they may have delivered any record.
        gone: which records may be gone from the log.
        kills: how often the broker has been killed.
        killed_ms: when, the last time.
    """

    def __init__(
        self, lost: Callable[[], int], gone: Gone, kills: int = 0, killed_ms: float = -inf
    ) -> None:
        self._lost = lost
        self._gone = gone
        self.states: Spans[State] = Spans(State())
        self._held: Spans[bool] = Spans(False)
        """Which records are held: they are few among all."""
        self.end = 0
        """No record at or after this offset was ever seen."""
        self.kills = kills
        self._killed_ms = killed_ms
        self.shaky = False
        """The broker cannot write, so it may lose locks and counts."""
        self.start = 0
        """The start offset (SPSO) that was seen last."""
        self.settings = Settings()
        self.empty_polls = EmptyPolls()
        self._reset_ms = -inf
        self._reset_from = inf
        """The lowest offset of a reset: what was done from there on may have been done before."""
        self._back_ms: dict[str | None, float] = {}
        """Member → until when its answers may have given a record back: with order per key later
        ones of the key that it had asked for by then are taken back, too."""
        self._forget_at = FORGET_AT

    def _change(self, first: int, last: int, change: Callable[[State], State]) -> None:
        self.states.change(first, last, change)
        for begin, end, state in self.states.items(first, last):
            held = state.phase is Phase.HELD
            self._held.change(begin, end, partial(_always, held))

    def _holds(self) -> list[tuple[int, int, State]]:
        """The records that are held, with their states."""
        return [
            one
            for first, last, held in self._held.items(self.start, self.end)
            if held
            for one in self.states.items(first, last)
        ]

    def state(self, offset: int) -> State:
        """What is known of a record."""
        return next(self.states.items(offset, offset))[2]

    def locked(self, state: State, now_ms: float) -> bool:
        """Whether the lock of a record that is held cannot have ended yet."""
        lock_ms = self.settings.lock_ms
        return lock_ms is not None and now_ms < state.asked_ms + lock_ms - CLOCK_MS

    def killed(self, now_ms: float) -> None:
        """The broker was killed: deliveries are not durable, so counts may begin lower."""
        self.kills += 1
        self._killed_ms = now_ms

    def shake(self, now_ms: float, *, on: bool) -> None:
        """The broker cannot write from now on, or can write again."""
        self.shaky = on
        self.killed(now_ms)

    def acquired(
        self,
        member: str,
        first: int,
        last: int,
        count: int,
        asked_ms: float,
        now_ms: float,
    ) -> list[Found]:
        """A poll has returned these records. The member asked for them at ``asked_ms`` or later."""
        found = [
            Found("S12", *run, f"delivered to {member} after it was deleted")
            for run in self._gone.before(first, last, asked_ms)
        ]
        if count < 1:
            found.append(Found("S5", first, last, f"delivery count {count}: it begins at 1"))
        limit = self.settings.limit
        if limit is not None and count > limit:
            text = f"delivery count {count}, over the limit {limit}"
            found.append(Found("S5", first, last, text))
        for begin, end, state in self.states.items(first, last):
            wrong = self._wrong(begin, state, member, count, asked_ms, now_ms)
            if wrong is not None:
                found.append(Found(wrong[0], begin, end, wrong[1]))
        # The delivery of a poll that was under way during a kill or a reset may have been before.
        kills = self.kills if max(self._killed_ms, self._reset_ms) < asked_ms else -1
        new = State(Phase.HELD, count, member, asked_ms, now_ms, kills=kills)
        # What is done stays done: it is told once, and what came of it does not count.
        self._change(
            first, last, lambda old: old if old.phase is Phase.DONE else self._newer(old, new)
        )
        self.end = max(self.end, last + 1)
        if self.settings.locks is not None:
            found += self._in_flight(first, last, now_ms)
        return found

    def overdue(
        self, first: int, last: int, count: int, asked_ms: float, written_ms: float
    ) -> list[Found]:
        """A poll that was made at ``asked_ms`` returns these records. Were they there when an
        earlier one came back empty (L1), or came back empty before they were delivered at all (L2)?

        Args:
            written_ms: by then they were in the log, and nothing of their keys hindered them.
        """
        if self.settings.locks is not None:
            return []  # they may have been all taken
        found = []
        for begin, end, state in self.states.items(first, last):
            free_ms = self._free_ms(state, count)
            if free_ms is not None and self.empty_polls.between(max(free_ms, written_ms), asked_ms):
                rule = "L1" if state.deliveries else "L2"
                text = "was available, and a poll of a member that reads it came back empty"
                found.append(Found(rule, begin, end, text))
        return found

    def _free_ms(self, state: State, count: int) -> float | None:
        """When the record that is delivered now was certainly available, if that is known."""
        if not state.deliveries:
            # With transactions an earlier one may have been open for long.
            fresh = state.phase is Phase.FREE and count == 1
            return self._reset_ms if fresh and self.settings.isolation != COMMITTED else None
        seen_all = count == state.deliveries + 1 and state.kills == self.kills
        left = state.phase is Phase.FREE and state.acking  # free when its lock ends, at the latest
        if not seen_all or state.renewed or self.given_up(state):
            return None
        if state.phase is Phase.FREE and not left:
            return state.known_ms + self.settings.rests_ms
        if left or (state.phase is Phase.HELD and not state.acking):
            since_ms = max(state.known_ms, state.asked_ms)
            return since_ms + (self.settings.longest_ms or inf) + self.settings.rests_ms
        return None

    def _in_flight(self, first: int, last: int, now_ms: float) -> list[Found]:
        """Whether more records are held than the settings allow."""
        held, limit, by_key = 0, self.settings.locks, self.settings.ordering != "none"
        back_ms = dict(self._back_ms) if by_key else {}
        for begin, end, state in self._holds():
            sure = state.kills == self.kills and not state.acking and self.locked(state, now_ms)
            if not sure and by_key:
                back_ms[state.member] = inf  # so what it has behind this one
            elif sure and back_ms.get(state.member, -inf) < state.asked_ms:
                held += sum(last - first + 1 for first, last in self._gone.there(begin, end))
        if limit is None or held <= limit:
            return []
        return [Found("S8", first, last, f"{held} records are in flight, over the limit {limit}")]

    def _newer(self, old: State, new: State) -> State:
        """Answers may arrive in another order than the deliveries; a renewed record comes again."""
        if old.renewed and (old.member, old.deliveries) == (new.member, new.deliveries):
            return old._replace(renewed=False)
        if old.deliveries > new.deliveries and old.kills == new.kills:
            if new.kills < 0 and new.member != old.member:  # nobody knows which of both came first
                return new._replace(left=True)
            return old
        return new._replace(late=old.acks + old.late) if old.member == new.member else new

    def _wrong(
        self, first: int, state: State, member: str, count: int, asked_ms: float, now_ms: float
    ) -> tuple[str, str] | None:
        if state.phase is Phase.DONE:
            # A client may return an earlier delivery late, or again after a renewal.
            same_run = state.kills == self.kills
            earlier = same_run and count <= state.deliveries
            later = same_run and count > state.deliveries and state.how != DONE
            # A member's accept may have been about this delivery, which it had not seen yet.
            later &= member != state.member or asked_ms > state.done_ms
            if later or (asked_ms > state.done_ms and not earlier):
                return "S2", f"delivered to {member} after it was done ({state.how})"
            return None
        if state.renewed and state.member == member and state.deliveries == count:
            return None
        if self._twice(state, member, count, asked_ms, now_ms):
            return "S5", f"delivery count {count} for {member} and for {state.member}"
        if state.phase is Phase.UNSURE or asked_ms <= state.known_ms:
            return None  # this delivery may be the earlier one
        same_run = state.kills == self.kills and not self.shaky
        # What was taken back, by order per key or by a member that leaves, does not count.
        released = state.phase is Phase.FREE and state.deliveries > 0 and not state.acking
        counts = self.settings.ordering == "none" and (state.phase is Phase.HELD or released)
        if same_run and count < state.deliveries + counts:
            return "S5", f"delivery count {count} after {state.deliveries}"
        sure = state.phase is Phase.HELD and same_run and not state.acking
        if sure and self.locked(state, now_ms) and not self.taken_back(first, state, now_ms):
            return "S3", f"delivered to {member} while {state.member} holds it"
        return None

    def _twice(self, state: State, member: str, count: int, asked_ms: float, now_ms: float) -> bool:
        """Whether this is the delivery that another member has, whichever of them was first."""
        same_run = state.kills == self.kills and not self.shaky
        lost = max(self._killed_ms, self._reset_ms) >= asked_ms
        # By order per key it may have been taken back in between, which does not count.
        if not same_run or lost or self.settings.ordering != "none":
            return False
        held = state.phase is Phase.HELD and not state.acking and self.locked(state, now_ms)
        return held and state.member != member and state.deliveries == count

    def taken_back(self, first: int, state: State, now_ms: float) -> bool:
        """Whether the record may have been taken back from its holder, because an earlier one of
        its key was given back: with order per key that is one that the holder had as well."""
        if self.settings.ordering == "none":
            return False
        earlier = (one for _, _, one in self.states.items(0, first - 1)) if first else ()
        return any(
            one.member == state.member
            and one.phase is not Phase.DONE
            and (one.phase is not Phase.HELD or one.acking or not self.locked(one, now_ms))
            for one in earlier
        )

    def asked(self, n: int, member: str, first: int, last: int, kind: str) -> None:
        """The member acknowledges these records, by the call ``n``."""
        if kind != RENEW:
            self.states.change(first, last, lambda old: self._acking(old, n, member))

    @staticmethod
    def _acking(old: State, n: int, member: str) -> State:
        mine = old.phase is not Phase.DONE and old.member == member
        return old._replace(acks=(*old.acks, n)) if mine and n not in old.acks else old

    def answered(
        self,
        n: int,
        member: str,
        first: int,
        last: int,
        kind: str,
        result: str,
        asked_ms: float,
        now_ms: float,
    ) -> list[Found]:
        """The broker has answered the acknowledgement ``n``, which was sent at ``asked_ms``."""
        found: list[Found] = []
        if result == OK and asked_ms > self._reset_ms:
            for begin, end, state in self.states.items(first, last):
                text = self._not_the_holder(n, state, member, kind, asked_ms, now_ms)
                if text is not None:  # of a record that is gone any answer is taken, as by Kafka
                    there = self._gone.there(begin, end)
                    found.extend(Found("S4", *run, text) for run in there)
        self._change(
            first,
            last,
            lambda old: self._after(old, n, member, kind, result, asked_ms, now_ms),
        )
        if result == UNKNOWN:  # it may come to the broker even later, while the lock lasts
            self._back_ms[member] = now_ms + (self.settings.longest_ms or inf)
        elif result != OK or kind == RELEASE:
            self._back_ms[member] = max(now_ms, self._back_ms.get(member, -inf))
        self._forget(now_ms)
        return found

    def _not_the_holder(
        self, n: int, state: State, member: str, kind: str, asked_ms: float, now_ms: float
    ) -> str | None:
        if state.phase is Phase.FREE and not state.deliveries:
            return f"{kind} of {member} was taken, who never got the record"
        if self._given_back(n, state, member, kind, asked_ms):
            return f"{kind} of {member} was taken after it had released the record"
        if state.member == member or state.acking or state.known_ms >= asked_ms:
            return None
        # Of a record that is finished, any late answer is taken, and changes nothing.
        if state.phase is Phase.HELD and self.locked(state, now_ms):
            return f"{kind} of {member} was taken while {state.member} held the record"
        if self.given_up(state):
            return None
        if state.phase is Phase.HELD:
            return f"{kind} of {member} was taken after {state.member} had got the record"
        if state.phase is Phase.FREE:
            return f"{kind} of {member} was taken after {state.member} had released the record"
        return None

    def _given_back(self, n: int, state: State, member: str, kind: str, asked_ms: float) -> bool:
        """Whether the member had certainly released the record, and cannot have got it again."""
        free = state.phase is Phase.FREE and state.member == member and state.known_ms < asked_ms
        sure = state.acks in ((), (n,)) and not state.late and not state.left
        same_run = state.kills == self.kills and not self.shaky
        again = self._lost() > 0 or self.given_up(state)
        return free and sure and same_run and not again and kind in (ACCEPT, REJECT)

    def _after(
        self,
        old: State,
        n: int,
        member: str,
        kind: str,
        result: str,
        asked_ms: float,
        now_ms: float,
    ) -> State:
        if old.phase is Phase.DONE:
            return old
        if old.member != member and old.deliveries:
            return old  # somebody else has it by now, or had it
        if asked_ms <= self._reset_ms:  # nobody knows whether it came before the reset
            return old.answered(n)._replace(phase=Phase.UNSURE) if old.deliveries else old
        if kind == RENEW:
            return self._renewed(old, result, asked_ms, now_ms)
        if result == OK and kind in (ACCEPT, REJECT):
            # A late answer for a record that was given up is taken, and changes nothing.
            late = self.given_up(old) and not self.locked(old, now_ms)
            return State(
                Phase.DONE,
                old.deliveries,
                member,
                kills=self.kills,
                done_ms=now_ms,
                how=DONE if late else kind,
            )
        new = old.answered(n)
        if result == OK and kind == RELEASE and old.phase is not Phase.UNSURE:
            if n in old.acks:
                return new._replace(phase=Phase.FREE, left=False, known_ms=now_ms)
            # Of an earlier delivery, before which this one cannot have been; or of this one.
            return new._replace(phase=Phase.FREE, left=True)
        return new._replace(phase=Phase.UNSURE) if result == UNKNOWN else new

    def _renewed(self, old: State, result: str, asked_ms: float, now_ms: float) -> State:
        if old.phase is not Phase.HELD or result not in (OK, UNKNOWN):
            return old
        # A late renewal of a record that was given up is taken, too.
        late = self.given_up(old) and not self.locked(old, now_ms)
        renewed = result == OK and not late
        return old._replace(asked_ms=asked_ms if renewed else old.asked_ms, renewed=True)

    def _forget(self, now_ms: float) -> None:
        """Runs that were done long ago become one."""
        if len(self.states) < self._forget_at:
            return
        limit_ms = now_ms - OLD_MS

        def older(state: State) -> State:
            if state.phase is not Phase.DONE or state.done_ms >= limit_ms:
                return state
            how = state.how if self.settings.letters else DONE
            return State(Phase.DONE, kills=-1, done_ms=limit_ms, how=how)

        self.states.change(0, self.end, older)
        self._forget_at = max(FORGET_AT, 2 * len(self.states))  # a look costs as much as there is

    def left(self, member: str) -> None:
        """The member's session ends: its records are free."""

        def after(old: State) -> State:
            if old.member != member:
                return old
            if old.acking:  # and nobody will hear the answer
                return old._replace(phase=Phase.UNSURE)
            # The broker may not know yet, so nothing is sure.
            return old._replace(phase=Phase.FREE, left=True)

        for first, last, _ in self._holds():
            self._change(first, last, after)

    def moved(self, start: int) -> list[Found]:
        """The group's start offset (SPSO) was seen at ``start``."""
        found = []
        if start < self.start:
            found.append(Found("S7", start, start, f"the start offset was {self.start} before"))
        passed = self.states.items(self.start, start - 1) if start > self.start else ()
        for begin, end, state in passed:
            if self._unfinished(state):
                text = f"the start offset {start} has passed it, and it is not done"
                there = self._gone.there(begin, end)
                found.extend(Found("S7", *run, text) for run in there)
        self.start = max(self.start, start)
        return found

    def _unfinished(self, state: State) -> bool:
        """Whether the record was delivered, and is certainly not done."""
        open_ = state.phase in (Phase.HELD, Phase.FREE) and state.deliveries > 0
        same_run = state.kills == self.kills and not self.shaky
        return open_ and same_run and not state.acking and not self.given_up(state)

    def reset(self, offset: int, now_ms: float) -> None:
        """The group begins at ``offset`` again: what was done there is not, and nobody has to get
        what was before."""
        self.end = max(self.end, offset)
        if offset:
            # Nobody knows whether somebody had it.
            skipped = State(Phase.DONE, done_ms=inf, how=DONE)
            done = Phase.DONE
            self._change(0, offset - 1, lambda old: old if old.phase is done else skipped)
        self._change(offset, self.end, lambda _: State())
        self.start = offset
        self._reset_ms = now_ms
        self._reset_from = min(offset, self._reset_from)

    def given_up(self, state: State) -> bool:
        """Whether the record may be at the delivery limit."""
        return self.settings.unseen or self.at_limit(state)

    def at_limit(self, state: State) -> bool:
        """The same, but for deliveries that nobody has seen."""
        limit, lost = self.settings.lowest_limit, self._lost()
        return lost > 0 if limit is None else state.deliveries + lost >= limit

    def unfinished(self, first: int, last: int) -> list[Found]:
        """Of a group that has read all there was: the records that are neither done nor at the
        limit."""
        found = []
        for begin, end, state in self.states.items(first, last):
            if state.phase is Phase.DONE or self._unsure(state) or self.given_up(state):
                continue
            text = "delivered, not done, and gone" if state.deliveries else "never delivered"
            found.append(Found("S1", begin, end, text))
        return found

    @staticmethod
    def _unsure(state: State) -> bool:
        """Whether an acknowledgement without an answer may have had its effect."""
        return state.phase is Phase.UNSURE or (state.phase is Phase.HELD and state.acking)

    def letters(
        self, first: int, last: int, letters: Collection[int], handled: Collection[int]
    ) -> list[Found]:
        """Of a group that has read all there was, and whose dead letters are ``letters``: the
        records that were given up without one (S6), or accepted and have one.

        Args:
            handled: those of a worker that may have been accepted, at any time.
        """
        found = []
        for begin, end, state in self.states.items(first, last):
            accepted = state.phase is Phase.DONE and state.how == ACCEPT
            sure = not self._unsure(state) and state.how != DONE
            for offset in range(begin, end + 1):
                if accepted and offset in letters and offset < self._reset_from:
                    found.append(Found("S6", offset, offset, "accepted, and has a dead letter"))
                elif sure and not accepted and offset not in letters and offset not in handled:
                    found.append(Found("S6", offset, offset, "given up without a dead letter"))
        return found


def _always(held: bool, _: bool) -> bool:
    return held
