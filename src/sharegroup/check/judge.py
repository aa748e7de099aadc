"""Reads a history once, and says which rules do not hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from math import inf
from sys import maxsize
from typing import Final

from sharegroup.check.delivery_rules import SharePartitionRules
from sharegroup.check.gone_rules import Compaction, Gone
from sharegroup.check.history import (
    ABORTED,
    ACCEPT,
    CALLS,
    COMMITTED,
    ENDED,
    OK,
    UNKNOWN,
    BadHistory,
    Event,
    events,
)
from sharegroup.check.key_rules import KeyRules, answers
from sharegroup.check.log_rules import LogRules
from sharegroup.check.lost_polls import LostPolls
from sharegroup.check.reader_rules import HASH_MAX, ReaderRules, Run, Tenure
from sharegroup.check.sink_rules import SinkRules
from sharegroup.check.states import Found, Settings
from sharegroup.check.verdict import Verdict, Violation
from sharegroup.check.waiting_rules import Spinning
from sharegroup.check.work_rules import WorkRules, work_of

Place = tuple[str, str, int]
"""Group, topic, partition."""

VIOLATIONS_MAX: Final = 1_000
"""So many are told; the rest is counted."""


class Judge:
    """Takes events one by one."""

    def __init__(self) -> None:
        self._log = LogRules()
        self._gone: dict[tuple[str, int], Gone] = {}
        self._compaction = Compaction()
        self._partitions: dict[Place, SharePartitionRules] = {}
        self._keys: dict[Place, KeyRules] = {}
        self._letters: dict[Place, set[int]] = {}
        self._handled: dict[Place, set[int]] = {}
        """What handlers have ended with: the worker may have accepted or rejected it, and may say
        so again after a later delivery."""
        self._key_of: dict[tuple[str, int, int], str] = {}
        self._settings: dict[str, Settings] = {}
        self._calls: dict[int, Event] = {}
        self._mixed: set[str] = set()
        """Groups that have read in both ways, what is committed only and everything."""
        self._lost_polls = LostPolls()
        self._violations: list[Violation] = []
        self._more = 0
        self._counts: dict[str, int] = {}
        self._line = 0
        self._shakes = 0
        self._kills, self._killed_ms = 0, -inf
        self._calm_ms = inf
        self._readers: dict[Place, ReaderRules] = {}
        self._sinks: dict[Place, SinkRules] = {}
        """By the sink's name, topic and partition."""
        self._work: dict[Place, WorkRules] = {}
        self._departures: dict[str, int] = {}
        """Group → how many of its members have left or died."""
        self._spinning: dict[tuple[str, str], Spinning] = {}
        self._takers: dict[str, Callable[[Event], None]] = {
            "settings": self._set,
            "produce": self._called,
            "produced": self._produced,
            "poll": self._poll,
            "polled": self._polled,
            "ack": self._ack,
            "acked": self._acked,
            "works": self._works,
            "worked": self._worked,
            "leave": self._leave,
            "reset": self._reset,
            "starts": self._starts,
            "letter": self._letter,
            "gone": self._goes,
            "compacts": self._compacts,
            "kill": self._kill,
            "shaky": self._shaky,
            "calm": self._calm,
            "read": self._read,
            "owns": self._owns,
            "commit": self._commit,
            "committed": self._committed,
            "fetched": self._fetched,
            "sunk": self._sunk,
            "end": self._end,
        }

    def take(self, line: int, event: Event) -> None:
        """The next event. Raises BadHistory: it answers no call."""
        self._line = line
        op = event["op"]
        self._counts[op] = self._counts.get(op, 0) + 1
        self._takers[op](event)

    def verdict(self) -> Verdict:
        """What there is to say, by the line where it shows. It is asked for once."""
        for topic, partition, one in self._log.twice():
            self._tell(None, topic, partition, [one])
        return Verdict(self._violations, self._more, self._counts)

    # Events -----------------------------------------------------------------------------------

    def _settings_of(self, group: str) -> Settings:
        return self._settings.get(group, Settings())

    def _set(self, event: Event) -> None:
        group = event["group"]
        before = self._settings_of(group)
        settings = self._settings[group] = before.weakest(event)
        seen = any(place[0] == group for place in self._readers)
        for place, rules in self._partitions.items():
            if place[0] == group:
                rules.settings = settings
                seen |= rules.end > 0
                self._order(place, rules)
        if seen and settings.isolation != before.isolation:
            self._mixed.add(group)

    def _order(self, place: Place, rules: SharePartitionRules) -> None:
        """A group has order per key from its first delivery on, or it is not judged by it: what is
        held while it begins is given back."""
        if rules.settings.ordering != "key":
            self._keys.pop(place, None)
        elif place not in self._keys and not rules.end:
            keys = self._keys[place] = KeyRules(rules, self._gone_of(*place[1:]))
            for (topic, partition, offset), key in self._key_of.items():
                if (topic, partition) == place[1:]:
                    keys.exists(offset, key)

    def _called(self, event: Event) -> None:
        self._calls[event["n"]] = event

    def _asked(self, event: Event) -> Event:
        """The call that this event answers."""
        n, call = event["n"], CALLS[event["op"]]
        asked = self._calls.pop(n, None)
        if asked is None:
            raise self._bad(event, f"call {n}, which nobody has made, or which has its answer")
        if asked["op"] != call:
            raise self._bad(event, f"call {n}, which is a {asked['op']} and no {call}")
        return asked

    def _bad(self, event: Event, why: str) -> BadHistory:
        return BadHistory(f"line {self._line}: {event['op']} answers {why}")

    def _produced(self, event: Event) -> None:
        asked = self._asked(event)
        topic = asked["topic"]
        if "offset" not in event:
            for one in self._compaction.unknown(topic, asked.get("key", "")):
                self._gone_of(topic, one[0]).add(one[1], one[1])
            return
        partition, offset = event["partition"], event["offset"]
        aborted = event.get("result") == ABORTED
        found = self._log.written(
            topic, partition, offset, asked["id"], event["t"], aborted=aborted
        )
        self._tell(None, topic, partition, found)
        if aborted:
            self._aborted(topic, partition, offset)
        elif "key" in asked:
            self._key_of[topic, partition, offset] = asked["key"]
            for one in self._compaction.written(topic, partition, offset, asked["key"]):
                self._gone_of(topic, one[0]).add(one[1], one[1])
            for (_, of, at), keys in self._keys.items():
                if (of, at) == (topic, partition):
                    keys.exists(offset, asked["key"])
            for (_, of, at), work in self._work.items():
                if (of, at) == (topic, partition):
                    work.exists(offset, asked["key"])

    def _aborted(self, topic: str, partition: int, offset: int) -> None:
        """The record's transaction was aborted. Who has got it before that was known?"""
        for place in sorted({*self._partitions, *self._readers}):
            group, *at = place
            by = self._settings_of(group).isolation
            if at != [topic, partition] or by != COMMITTED or group in self._mixed:
                continue
            shared, read = self._partitions.get(place), self._readers.get(place)
            if (shared and shared.state(offset).deliveries) or (read and read.has_read(offset)):
                self._tell(*place, self._log.aborted(topic, partition, offset, offset))

    def _poll(self, event: Event) -> None:
        self._called(event)
        self._lost_polls.asked(event)

    def _polled(self, event: Event) -> None:
        asked = self._asked(event)
        group, member = asked["group"], asked["member"]
        self._lost_polls.answered(event)
        when = event["since"] if "since" in event else asked["t"], event["t"]
        for topic, partition, first, last, count in event["acquired"]:
            place = group, topic, partition
            rules = self._rules(*place)
            if self._calm_ms < when[0]:
                hindered_ms = self._hindered_ms(place, rules, first, last)
                found = rules.overdue(first, last, count, when[0], hindered_ms)
                self._tell(*place, found)
            self._tell(*place, rules.acquired(member, first, last, count, *when))
            if rules.settings.isolation == COMMITTED:
                self._tell(*place, self._log.aborted(topic, partition, first, last))
            if place in self._keys:
                keys = self._keys[place]
                keys.changed(first, last, event["t"])
                keys.delivered(first, last)
                for offset in range(first, last + 1):
                    self._tell(*place, keys.acquired(member, offset, *when))
        for topic, partition, offset, record in event.get("records", ()):
            self._tell(None, topic, partition, self._log.read(topic, partition, offset, record))
        of = [self._rules(group, *at) for at in event.get("of", ())]  # it is judged there, too
        if not event["acquired"] and event.get("result") != UNKNOWN and self._calm_ms < asked["t"]:
            self._came_back_empty(group, member, of, asked["t"], event["t"])

    def _hindered_ms(
        self, place: Place, rules: SharePartitionRules, first: int, last: int
    ) -> float:
        """Until when these records may have had to wait: for the log, or for their keys."""
        written_ms = self._log.written_ms(*place[1:], last)
        if place not in self._keys:
            return written_ms
        settings = rules.settings
        longest_ms = (settings.longest_ms or inf) + settings.rests_ms
        return max(written_ms, self._keys[place].changed_ms(first, last) + longest_ms)

    def _came_back_empty(
        self, group: str, member: str, of: Iterable[SharePartitionRules], *when: float
    ) -> None:
        for rules in of:
            rules.empty_polls.add(*when)
        if self._spinning.setdefault((group, member), Spinning()).add(*when):
            text = f"the polls of {member} come back empty, again and again, without a pause"
            self._tell(group, "", -1, [Found("L4", 0, 0, text)])

    def _ack(self, event: Event) -> None:
        self._called(event)
        for topic, partition, first, last, kind in event["acks"]:
            rules = self._rules(event["group"], topic, partition)
            rules.asked(event["n"], event["member"], first, last, kind)

    def _acked(self, event: Event) -> None:
        asked = self._asked(event)
        if len(asked["acks"]) != len(event["results"]):
            many = f"{len(asked['acks'])} acks with {len(event['results'])} results"
            raise self._bad(event, many)
        group, member = asked["group"], asked["member"]
        told = answers(asked["acks"], event["results"], lambda *at: self._keys.get((group, *at)))
        for (topic, partition, first, last, kind), result in told:
            place = group, topic, partition
            found = self._rules(*place).answered(
                event["n"], member, first, last, kind, result, asked["t"], event["t"]
            )
            self._tell(*place, found)
            if place in self._keys:
                self._keys[place].changed(first, last, event["t"])
            if place in self._keys and (kind, result) == (ACCEPT, OK):
                for offset in range(first, last + 1):
                    self._tell(*place, self._keys[place].accepted(member, offset, asked["t"]))

    def _works(self, event: Event) -> None:
        self._called(event)
        place = event["group"], event["topic"], event["partition"]
        member, offset = event["member"], event["offset"]
        self._tell(None, *place[1:], self._log.read(*place[1:], offset, event["id"]))
        # The worker fetches ahead: nobody knows when it has asked for the record.
        rules, when = self._rules(*place), (-inf, event["t"])
        self._tell(*place, rules.acquired(member, offset, offset, event["count"], *when))
        if place in self._keys:
            self._keys[place].changed(offset, offset, event["t"])
            self._keys[place].delivered(offset, offset)
        if place in self._keys and "key" in event:
            self._tell(*place, self._working(place).begun(member, offset, event["key"]))

    def _worked(self, event: Event) -> None:
        asked = self._asked(event)
        place = asked["group"], asked["topic"], asked["partition"]
        member, offset = asked["member"], asked["offset"]
        if event["result"] in ENDED:
            self._handled.setdefault(place, set()).add(offset)
            rules = self._rules(*place)
            said = event["n"], member, offset, offset, ACCEPT
            rules.asked(*said)
            self._tell(*place, rules.answered(*said, UNKNOWN, asked["t"], event["t"]))
        if place in self._keys:
            self._keys[place].changed(offset, offset, event["t"])
        if place in self._keys and "key" in asked:
            self._working(place).ended(member, offset, asked["key"], event["result"])

    def _working(self, place: Place) -> WorkRules:
        if place not in self._work:
            group, rules, gone = place[0], self._rules(*place), self._gone_of(*place[1:])
            self._work[place] = work_of(rules, gone, lambda: bool(self._departures.get(group)))
            for (topic, partition, offset), key in self._key_of.items():
                if (topic, partition) == place[1:]:
                    self._work[place].exists(offset, key)
        return self._work[place]

    def _leave(self, event: Event) -> None:
        self._departures[event["group"]] = self._departures.get(event["group"], 0) + 1
        self._lost_polls.left(event["group"], event["member"])
        for (group, _, _), work in self._work.items():
            if group == event["group"]:
                work.left(event["member"])
        for (group, _, _), rules in self._partitions.items():
            if group == event["group"]:
                rules.left(event["member"])
        for (group, _, _), readers in self._readers.items():
            if group == event["group"]:
                readers.left(event["member"])

    def _reset(self, event: Event) -> None:
        place = event["group"], event["topic"], event["partition"]
        self._rules(*place).reset(event["offset"], event["t"])
        if place in self._keys:
            self._keys[place].reset()
        if place in self._work:
            self._work[place].reset()

    def _starts(self, event: Event) -> None:
        place = event["group"], event["topic"], event["partition"]
        self._tell(*place, self._rules(*place).moved(event["offset"]))

    def _letter(self, event: Event) -> None:
        place = event["group"], event["topic"], event["partition"]
        self._letters.setdefault(place, set()).add(event["offset"])

    def _goes(self, event: Event) -> None:
        since_ms = event["t"] if event.get("done") else inf
        gone = self._gone_of(event["topic"], event["partition"])
        gone.add(event["first"], event["last"], since_ms)

    def _gone_of(self, topic: str, partition: int) -> Gone:
        return self._gone.setdefault((topic, partition), Gone())

    def _compacts(self, event: Event) -> None:
        self._compaction.topics.add(event["topic"])

    def _there(
        self, topic: str, partition: int, first: int = 0, last: int = maxsize - 1
    ) -> Iterator[Run]:
        """The records among these that producers know to be written, and that are not gone."""
        gone = self._gone_of(topic, partition)
        for run in self._log.known(topic, partition, first, last):
            yield from gone.there(*run)

    def _all(self, topics: Collection[str]) -> Iterator[tuple[str, int, int, int]]:
        """The same, of all partitions of some topics."""
        for topic, partition in self._log.partitions(topics):
            for first, last in self._there(topic, partition):
                yield topic, partition, first, last

    def _kill(self, event: Event) -> None:
        self._calm_ms = inf
        self._kills, self._killed_ms = self._kills + 1, event["t"]
        for rules in self._partitions.values():
            rules.killed(event["t"])

    def _shaky(self, event: Event) -> None:
        self._shakes += 1 if event["on"] else -1
        self._calm_ms = inf
        self._kills, self._killed_ms = self._kills + 1, event["t"]
        for rules in self._partitions.values():
            rules.shake(event["t"], on=self._shakes > 0)

    def _calm(self, event: Event) -> None:
        self._calm_ms = event["t"]

    def _read(self, event: Event) -> None:
        group, member = event["group"], event["member"]
        by_key = self._settings_of(group).ordering == "key"
        for topic, partition, offset, record, *key in event["records"]:
            self._tell(None, topic, partition, self._log.read(topic, partition, offset, record))
            rules = self._reading(group, topic, partition)
            of = key[0] if by_key and key else None
            found = rules.read(member, offset, of, event["t"], self._calm_ms)
            self._tell(group, topic, partition, found)
            if self._settings_of(group).isolation == COMMITTED:
                found = self._log.aborted(topic, partition, offset, offset)
                self._tell(group, topic, partition, found)

    def _owns(self, event: Event) -> None:
        group, member = event["group"], event["member"]
        since_ms = event["since"] if "since" in event else event["t"]
        tenure = Tenure(since_ms, event["t"])
        parts: dict[Place, list[tuple[int, int]]] = {}
        for topic, partition, *hashes in event["parts"]:
            first, last = hashes or (0, HASH_MAX)
            parts.setdefault((group, topic, partition), []).append((first, last))
        for place in parts:
            self._reading(*place)
        for place, rules in self._readers.items():
            if place[0] == group:
                rules.owns(member, parts.get(place, ()), tenure)

    def _commit(self, event: Event) -> None:
        self._called(event)
        for topic, partition, first, last in event["offsets"]:
            self._reading(event["group"], topic, partition).asked(first, last)

    def _committed(self, event: Event) -> None:
        asked = self._asked(event)
        if event["result"] == OK:
            for topic, partition, first, last in asked["offsets"]:
                rules = self._reading(asked["group"], topic, partition)
                rules.committed(first, last, event["t"])

    def _fetched(self, event: Event) -> None:
        place = event["group"], event["topic"], event["partition"]
        committed = [(0, event["offset"] - 1), *((first, last) for first, last in event["ranges"])]
        known = [one for run in committed for one in self._there(*place[1:], *run)]
        found = self._reading(*place).fetched(committed, event["since"], known)
        self._tell(*place, found)

    def _reading(self, group: str, topic: str, partition: int) -> ReaderRules:
        return self._readers.setdefault((group, topic, partition), ReaderRules())

    def _sunk(self, event: Event) -> None:
        place = event["sink"], event["topic"], event["partition"]
        self._tell(None, *place[1:], self._sink(*place).sunk(event["offset"]))

    def _sink(self, name: str, topic: str, partition: int) -> SinkRules:
        return self._sinks.setdefault((name, topic, partition), SinkRules(name))

    def _end(self, event: Event) -> None:
        for group, many in event.get("left", {}).items():
            left = "1 record is" if many == 1 else f"{many} records are"
            text = f"{left} left, and nothing hinders the group"
            self._tell(group, "", -1, [Found("L3", 0, 0, text)])
        for sink, wanted in event.get("sinks", {}).items():
            for topic, partition, first, last in self._all(wanted):
                found = self._sink(sink, topic, partition).missing(first, last)
                self._tell(None, topic, partition, found)
        for group in event["drained"]:
            self._lost_polls.finished(self._settings_of(group), group, self._calm_ms, event["t"])
            self._end_of_readers(group)
            topics = {topic for of, topic, _ in self._partitions if of == group}
            for topic, partition, first, last in self._all(topics):
                place = group, topic, partition
                rules = self._rules(*place)
                self._tell(*place, rules.unfinished(first, last))
                if rules.settings.letters:
                    letters = self._letters.get(place, set())
                    handled = self._handled.get(place, set())
                    self._tell(*place, rules.letters(first, last, letters, handled))

    def _end_of_readers(self, group: str) -> None:
        by_key = self._settings_of(group).ordering == "key"
        topics = {topic for of, topic, _ in self._readers if of == group}
        for topic, partition, first, last in self._all(topics):
            found = self._reading(group, topic, partition).unread(first, last)
            self._tell(group, topic, partition, found)
        if by_key and self._calm_ms < inf:
            for place, rules in self._readers.items():
                if place[0] == group and not self._gone_of(*place[1:]).whole:
                    self._tell(*place, rules.shared_out())

    def _rules(self, group: str, topic: str, partition: int) -> SharePartitionRules:
        place = group, topic, partition
        if place not in self._partitions:
            gone = self._gone_of(topic, partition)
            killed = self._kills, self._killed_ms
            rules = SharePartitionRules(lambda: self._lost_polls.of(group), gone, *killed)
            self._partitions[place] = rules
            rules.settings = self._settings_of(group)
            rules.shaky = self._shakes > 0
            self._order(place, rules)
        return self._partitions[place]

    def _tell(self, group: str | None, topic: str, partition: int, found: Iterable[Found]) -> None:
        for one in found:
            if len(self._violations) >= VIOLATIONS_MAX:
                self._more += 1
            else:
                where = self._line, group, topic, partition
                self._violations.append(Violation(one.rule, *where, *one[1:]))


def judged(lines: Iterable[str | bytes]) -> Verdict:
    """The verdict on a history.

    Raises:
        BadHistory: a line cannot be read.
    """
    judge = Judge()
    for line, event in events(lines):
        judge.take(line, event)
    return judge.verdict()
