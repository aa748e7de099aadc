"""Delivery with one entry per offset and no cleverness: what the real partition must agree with."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

from sharegroup.share.acknowledge import AckBatch
from sharegroup.share.settings import DeliverySettings

ABSENT = -1
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED, DELAYED = 0, 1, 2, 4, 5
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


class Refused(Exception):
    """The naive partition does not accept an acknowledgement."""


@dataclass
class Record:
    state: int = AVAILABLE
    count: int = 0
    member: str | None = None
    deadline_ms: int | None = None
    """When its lock ends, or when it is due."""
    scheduled: bool = False
    """It rests until the time in its header. How its lock says so is not the model's matter."""


@dataclass
class NaivePartition:
    start: int
    records: dict[int, Record] = field(default_factory=dict)
    due: dict[int, int] = field(default_factory=dict)
    """When each record whose durable state is that of a delayed one is due."""
    durable: dict[int, tuple[int, int]] = field(default_factory=dict)
    durable_start: int = 0
    batches: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The delivery batch that each offset belongs to."""
    freed: set[int] = field(default_factory=set)
    """Released by an operator before their time."""
    taken: set[tuple[str, int]] = field(default_factory=set)
    """Members with the offsets that an operator has taken from them."""

    @property
    def end(self) -> int:
        return max(self.records, default=self.start - 1) + 1

    @property
    def complete(self) -> int:
        return sum(r.state in (ACKNOWLEDGED, ARCHIVED) for r in self.records.values())

    def next_fetch_offset(self) -> int:
        return min(self._in_state(AVAILABLE), default=self.end)

    def deadline_ms(self) -> int | None:
        held = (r.deadline_ms for r in self.records.values() if r.deadline_ms is not None)
        return min(held, default=None)

    def acquire(
        self,
        member: str,
        batches: list[tuple[int, int]],
        fetch_offset: int,
        records_max: int,
        batch_size: int,
        strict: bool,
        aborted: list[tuple[int, int]],
        now_ms: int,
        settings: DeliverySettings,
    ) -> list[tuple[int, int]]:
        """(offset, delivery count) of everything acquired."""
        if not batches or batches[-1][1] < self.start:
            return []
        last_read = batches[-1][1]
        batches = [batch for batch in batches if batch not in aborted]
        batch_of = {o: b for b in batches for o in range(b[0], b[1] + 1)}
        for offset in range(fetch_offset, last_read + 1):
            record = self.records.get(offset)
            if offset not in batch_of and record and record.state in (AVAILABLE, DELAYED):
                self.records[offset] = Record(ARCHIVED, record.count)
        self._advance()
        wanted, go_on = self._redelivery(batch_of, records_max, strict, settings)
        room = self._room(settings)
        end = self.end
        if go_on and len(wanted) < records_max and room > 0:
            wanted += self._new(batch_of, min(room, records_max - len(wanted)), strict)
            end = max(end, *(o + 1 for o in [-1, *wanted]))
            if not any(offset >= end for offset in batch_of):
                end = max(end, last_read + 1)
        new = [offset for offset in wanted if offset >= self.end]
        self._note_batches(new, batch_of, batch_size, strict)
        for offset in range(self.end, end):
            self.records[offset] = Record(ARCHIVED, ABSENT)
        for offset in wanted:
            count = 0 if offset not in self.records else self.records[offset].count
            if self.records.get(offset, Record()).state == ARCHIVED:
                count = 0
            self.records[offset] = Record(ACQUIRED, count + 1, member, now_ms + settings.lock_ms)
        self._advance()
        return [(offset, self.records[offset].count) for offset in wanted]

    def expire(
        self,
        batches: list[tuple[int, int]],
        aborted: list[tuple[int, int]],
        expired: set[int],
        settings: DeliverySettings,
    ) -> None:
        there = {o for b in batches if b not in aborted for o in range(b[0], b[1] + 1)}
        fresh = {offset for offset in expired if offset >= self.end}
        room = self._room(settings)
        if fresh and room > 0:
            limit, run = self.end + room - 1, min(o for o in there if o >= self.end)
            while run in expired:
                limit, run = max(limit, run), run + 1
            end = self.end
            for offset in range(end, max((o for o in fresh if o <= limit), default=end - 1) + 1):
                self.records[offset] = Record() if offset in there else Record(ARCHIVED, ABSENT)
            for _, one in groupby(range(end, self.end), key=there.__contains__):
                known = max(self.batches, default=-1)
                new = [offset for offset in one if offset > known]
                self.batches |= dict.fromkeys(new, (new[0], new[-1])) if new else {}
        free = [*self._in_state(AVAILABLE), *self._in_state(DELAYED)]
        gone = [offset for offset in free if offset in expired]
        for offset in gone:
            self._set(offset, ARCHIVED)
        self._settle(changed=bool(gone))

    def let_rest(
        self,
        batches: list[tuple[int, int]],
        fetch_offset: int,
        aborted: list[tuple[int, int]],
        later: dict[int, int],
        now_ms: int,
        settings: DeliverySettings,
    ) -> int | None:
        """The first of ``later``, offsets with their times, that could not rest."""
        later = {offset: due for offset, due in later.items() if offset not in self.freed}
        self._rest(later, now_ms)
        good = [b for b in batches if b not in aborted]
        there = {o for b in good for o in range(b[0], b[1] + 1)}
        end, last, due = self.end, self.end - 1, 0
        room = self._room(settings)
        new = range(min((o for o in there if o >= end), default=0), max(there, default=-1) + 1)
        for offset in new if room > 0 else ():
            due += offset not in later
            if due > room:
                break
            last = offset if offset in later else last
        for offset in range(end, last + 1):
            self.records[offset] = Record() if offset in there else Record(ARCHIVED, ABSENT)
        holes = [o for o in range(fetch_offset, batches[-1][1] + 1) if o not in there]
        units = [range(first, until + 1) for first, until in good]
        for _, hole in groupby(holes, lambda o: o - holes.index(o)):
            gone = list(hole)
            units.append(range(gone[0], gone[-1] + 1))
        for unit in sorted(units, key=lambda one: one[0]) if last >= end else ():
            known = max(self.batches, default=-1)
            fresh = [offset for offset in unit if offset > known]
            if fresh and unit[0] <= last:
                self.batches |= dict.fromkeys(fresh, (fresh[0], fresh[-1]))
        self._rest(later, now_ms)
        if last >= end:
            self._advance()
        return min((offset for offset in later if offset >= self.end), default=None)

    def _rest(self, later: dict[int, int], now_ms: int) -> None:
        for offset, due_ms in later.items():
            record = self.records.get(offset, Record(ARCHIVED))
            if record.state == AVAILABLE and not record.count and due_ms > now_ms:
                record.state, record.deadline_ms, record.scheduled = DELAYED, due_ms, True

    def _room(self, settings: DeliverySettings) -> int:
        if settings.back_off or settings.scheduled or self._in_state(DELAYED):
            held = [*self._in_state(ACQUIRED), *self._in_state(AVAILABLE)]
            return settings.record_locks_max - len(held)
        return settings.record_locks_max - (self.end - self.start)

    def acknowledge(
        self,
        member: str,
        batches: list[AckBatch],
        now_ms: int,
        settings: DeliverySettings,
        pauses: list[tuple[int, int, int]] | None = None,
    ) -> None:
        said = {
            offset: types[0] if len(types) == 1 else types[i]
            for first, last, types in batches
            for i, offset in enumerate(range(first, last + 1))
        }
        late = self._late(member, said)
        said = {offset: kind for offset, kind in said.items() if offset >= self.start}
        if RENEW in said.values() and not settings.renew_enabled:
            raise Refused
        for offset in [o for o in said if self.records.get(o, Record()).count == ABSENT]:
            del said[offset]
        for offset in said:
            record = self.records.get(offset)
            if record is None or record.member != member:
                raise Refused
        for offset, kind in said.items():
            record = self.records[offset]
            if kind == RENEW:
                record.deadline_ms = now_ms + settings.lock_ms
            elif kind == RELEASE:
                asked = [ms for first, last, ms in sorted(pauses or []) if first <= offset <= last]
                self._give_back(offset, now_ms, settings, *asked[:1])
            else:
                self._set(offset, ACKNOWLEDGED if kind == ACCEPT else ARCHIVED)
        changed = bool(set(said.values()) - {RENEW})
        self._settle(changed=changed)
        if late and not changed:
            raise Refused

    def decide(
        self,
        first: int,
        last: int,
        kind: int,
        now_ms: int,
        settings: DeliverySettings,
        extend_ms: int,
    ) -> tuple[int, int]:
        """How many records an operator's decision is about, and how many of them were held."""
        known = max(self.end, max(self.batches, default=-1) + 1)
        names_new = kind in (GAP, ACCEPT, REJECT) or (kind == RELEASE and settings.scheduled)
        for offset in range(self.end, last + 1) if names_new else ():
            self.records[offset] = Record()
            self.batches.setdefault(offset, (known, last))
        found = held = 0
        for offset in range(first, last + 1):
            record = self.records.get(offset)
            if record is None or record.state in (ACKNOWLEDGED, ARCHIVED):
                continue
            if kind == RENEW and record.state != ACQUIRED:
                continue
            exhausted = record.count >= settings.delivery_count_limit
            exhausted = exhausted or (settings.scheduled and not record.count)
            if kind == RELEASE and record.state == AVAILABLE and not exhausted:
                continue
            found += 1
            held += record.state == ACQUIRED
            if record.member is not None and kind != RENEW:
                self.taken.add((record.member, offset))
            if kind == RENEW:
                assert record.deadline_ms is not None
                record.deadline_ms = max(record.deadline_ms, now_ms + extend_ms)
            elif kind == RELEASE:
                count = min(record.count, settings.delivery_count_limit - 1)
                rested = exhausted or record.state == DELAYED
                self.records[offset] = Record(AVAILABLE, count)
                self.durable[offset] = (DELAYED if rested else AVAILABLE, count)
                self.due[offset] = now_ms  # after a restart it is due, and not yet available
                if rested and not count:
                    self.freed.add(offset)
            else:
                self._set(offset, ACKNOWLEDGED if kind == ACCEPT else ARCHIVED)
        self._settle(changed=found > 0 and kind != RENEW)
        return found, held

    def _late(self, member: str, said: dict[int, int]) -> list[int]:
        """Takes out of ``said`` what an operator has taken from the member."""
        self.taken -= {(member, o) for o, record in self.records.items() if record.member == member}
        late = [offset for offset in said if (member, offset) in self.taken]
        for offset in late:
            del said[offset]
            self.taken.remove((member, offset))
        return late

    def release_member(self, member: str, now_ms: int, settings: DeliverySettings) -> int:
        self.taken = {one for one in self.taken if one[0] != member}
        return self._give_all_back(
            [o for o, r in self.records.items() if r.member == member], now_ms, settings
        )

    def tick(self, now_ms: int, settings: DeliverySettings) -> int:
        due = [
            o
            for o, r in self.records.items()
            if r.deadline_ms is not None and r.deadline_ms <= now_ms
        ]
        for offset in [o for o in due if self.records[o].state == DELAYED]:
            self.records[offset] = Record(AVAILABLE, self.records[offset].count)
            due.remove(offset)
        return self._give_all_back(due, now_ms, settings)

    def log_start_moved(self, log_start: int) -> None:
        if log_start > self.start:
            self._drop_below(log_start)
            self._settle(changed=True)

    def restart(self) -> None:
        kept = {o: v for o, v in self.durable.items() if o >= self.durable_start}
        end = max(kept, default=self.durable_start - 1) + 1
        self.start = self.durable_start
        self.records = {o: Record(*kept.get(o, (0, 0))) for o in range(self.start, end)}
        for offset in [o for o, (state, _) in kept.items() if state == DELAYED]:
            self.records[offset].deadline_ms = self.due[offset]
        self.batches = {}
        self.taken = set()
        written = {o: (AVAILABLE if s == DELAYED else s, n) for o, (s, n) in kept.items()}
        for _, run in groupby(range(self.start, end), key=lambda o: written.get(o, (0, 0))):
            offsets = list(run)
            self.batches |= dict.fromkeys(offsets, (offsets[0], offsets[-1]))
        self._advance()

    def _note_batches(
        self, new: list[int], batch_of: dict[int, tuple[int, int]], batch_size: int, strict: bool
    ) -> None:
        runs: list[list[int]] = []
        for offset in new:
            adjoins = runs and runs[-1][-1] == offset - 1
            may_cut = not strict and batch_of[offset][0] == offset
            if adjoins and not (may_cut and offset - runs[-1][0] >= batch_size):
                runs[-1].append(offset)
            else:
                runs.append([offset])
        for run in runs:
            end = max(self.batches, default=-1) + 1
            last = batch_of[run[-1]][1] if strict else run[-1]
            for offset in range(max(run[0], end), last + 1):
                self.batches[offset] = (max(run[0], end), last)

    def _redelivery(
        self,
        batch_of: dict[int, tuple[int, int]],
        records_max: int,
        strict: bool,
        settings: DeliverySettings,
    ) -> tuple[list[int], bool]:
        def units(offset: int) -> tuple[tuple[int, int], tuple[int, int]]:
            return batch_of[offset], self.batches[offset]

        limit = settings.delivery_count_limit
        taken: list[int] = []
        groups: dict[tuple[int, int], list[int]] = {}
        for offset in self._in_state(AVAILABLE):
            if offset in batch_of:
                groups.setdefault(self.batches[offset], []).append(offset)
        for batch, group in groups.items():
            if max(self.records[o].count for o in group) >= max(2, -(-limit // 2)):
                return (taken or self._portion(batch, group, records_max, limit)), False
            for offset in group:
                full = len(taken) >= records_max
                if full and (strict or units(offset) != units(taken[-1])):
                    return taken, True
                taken.append(offset)
        return taken, True

    def _portion(
        self, batch: tuple[int, int], group: list[int], records_max: int, limit: int
    ) -> list[int]:
        threshold = max(2, -(-limit // 2))
        taken: list[int] = []
        cap: int | None = None
        for offset in group:
            count = self.records[offset].count
            last_time = limit > 2 and count == limit - 1
            if last_time and taken:
                break
            if count >= threshold and cap is None:
                size = batch[1] - batch[0] + 1
                cap = max(1, size // 2 ** (count - threshold + 1))
            if len(taken) >= min(records_max, cap or records_max):
                break
            taken.append(offset)
            if last_time:
                break
        return taken

    def _new(self, batch_of: dict[int, tuple[int, int]], size: int, strict: bool) -> list[int]:
        fresh = [offset for offset in sorted(batch_of) if offset >= self.end]
        if size <= 0 or not fresh:
            return []
        last = max(o for o in fresh if o < fresh[0] + size)
        if not strict:
            last = batch_of[last][1]
        return [offset for offset in fresh if offset <= last]

    def _in_state(self, state: int) -> list[int]:
        return sorted(o for o, r in self.records.items() if r.state == state)

    def _set(self, offset: int, state: int) -> None:
        record = self.records[offset]
        self.records[offset] = Record(state, record.count)
        self.durable[offset] = (state, record.count)

    def _give_back(
        self, offset: int, now_ms: int, settings: DeliverySettings, asked_ms: int | None = None
    ) -> None:
        count = self.records[offset].count
        pause_ms = asked_ms
        if asked_ms is None and settings.back_off:
            grown = settings.back_off.first_ms * settings.back_off.multiplier ** (count - 1)
            pause_ms = round(min(grown, settings.back_off.max_ms))
        if count >= settings.delivery_count_limit:
            self._set(offset, ARCHIVED)
        elif pause_ms:
            self._set(offset, DELAYED)
            self.due[offset] = self.records[offset].deadline_ms = now_ms + pause_ms
        else:
            self._set(offset, AVAILABLE)

    def _give_all_back(self, offsets: list[int], now_ms: int, settings: DeliverySettings) -> int:
        for offset in offsets:
            self._give_back(offset, now_ms, settings)
        self._settle(changed=bool(offsets))
        return len(offsets)

    def _settle(self, *, changed: bool) -> None:
        self._advance()
        if changed:
            self.durable_start = self.start

    def _advance(self) -> None:
        while (record := self.records.get(self.start)) and record.state in (2, 4):
            self._drop_below(self.start + 1)

    def _drop_below(self, offset: int) -> None:
        self.start = offset
        for passed in [o for o in self.records if o < offset]:
            del self.records[passed]
