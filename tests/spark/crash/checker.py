"""What must hold after a round, from the sink's files and the broker's state alone.

Also a program: ``python -m tests.spark.crash.checker BOOTSTRAP FOLDER SEED`` prints what is wrong.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from sharegroup.check import judge
from sharegroup.sim.recorder import Recorder
from tests.spark.crash.broker_state import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    GroupState,
    Place,
    group_state,
    log_of,
)
from tests.spark.crash.lane import Lane, LaneFolder, Mode, lane_of

FINAL = {"accept": ACKNOWLEDGED, "reject": ARCHIVED}
SHOWN = 5


class Row(NamedTuple):
    """One result: a record that was processed, and how it was answered."""

    number: int
    partition: int
    offset: int
    delivery_count: int
    ack: str


Histories = dict[Place, list[Row]]


def violations(bootstrap: str, folder: Path, lane: Lane) -> list[str]:
    """Everything that is wrong with a lane, each in a sentence."""
    log = {place: int(value) for place, value in log_of(bootstrap, lane.name, lane.partitions)}
    state = group_state(bootstrap, lane.name, lane.name)
    rows, wrong = _results(bootstrap, LaneFolder(folder, lane).sink, lane)
    wrong += judged(lane, log, rows, state)
    if lane.mode is not Mode.SINK and not lane.is_restored:  # the others may repeat results
        told = [*history(lane, log, rows)]
        (folder / f"{lane.name}.jsonl").write_text("".join(f"{event}\n" for event in told))
        wrong += [str(one) for one in judge.judged(told).violations]
    return [f"{lane.name}: {sentence}" for sentence in wrong]


def history(lane: Lane, log: Mapping[Place, int], rows: Iterable[Row]) -> Iterator[str]:
    """For ``sharegroup check``: each record but the anchors has one final result (S14)."""
    lines: list[str] = []
    recorder = Recorder(lambda: 0, lines.append)
    for (partition, offset), number in log.items():
        if number >= lane.anchors:
            n = recorder.call("produce", topic=lane.name, id=str(number))
            recorder.tell("produced", n=n, partition=partition, offset=offset)
    for row in rows:
        if row.ack in FINAL:
            at = {"partition": row.partition, "offset": row.offset}
            recorder.tell("sunk", sink="results", topic=lane.name, **at)
    recorder.tell("end", drained=[], sinks={"results": [lane.name]})
    yield from lines


def judged(
    lane: Lane, log: Mapping[Place, int], rows: Iterable[Row], state: GroupState
) -> list[str]:
    """What is wrong with these results, given what the broker holds."""
    histories = _histories(rows)
    return [
        *_lost(lane, log, histories),
        *_misjudged(lane, histories),
        *_not_settled(lane, log, histories, state),
    ]


def _results(bootstrap: str, sink: Path, lane: Lane) -> tuple[list[Row], list[str]]:
    """The results, and what is wrong with them as a whole."""
    if lane.mode is Mode.SINK:  # at least once: a batch that runs again produces its results again
        produced = log_of(bootstrap, lane.results, 1)
        return sorted({Row(*json.loads(value)) for _, value in produced}), []
    return sink_results(lane, sink)


def sink_results(lane: Lane, sink: Path) -> tuple[list[Row], list[str]]:
    """The rows of the sink's files, which are named batch id - hash of the content; a batch that
    ran again must have had the same records."""
    files = sorted(sink.glob("*.json"))
    batches = Counter(int(file.name.partition("-")[0]) for file in files)
    wrong = []
    if not lane.is_restored:
        changed = [batch for batch, count in batches.items() if count > 1]
        wrong += _sentence("batches ran again with other records", changed)
    return [Row(*row) for file in files for row in json.loads(file.read_text())], wrong


def _histories(rows: Iterable[Row]) -> Histories:
    """What happened to each record, in the order of its deliveries."""
    histories: Histories = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.delivery_count):
        histories[row.partition, row.offset].append(row)
    return histories


def _lost(lane: Lane, log: Mapping[Place, int], histories: Histories) -> Iterator[str]:
    yield from _sentence("numbers are not in the log", set(range(lane.records)) - {*log.values()})
    yield from _sentence("records were never processed", log.keys() - histories.keys())
    yield from _sentence("results are of no record", histories.keys() - log.keys())
    other = [r for h in histories.values() for r in h if log.get(r[1:3]) not in (None, r.number)]
    yield from _sentence("results hold another record's number", other)


def _misjudged(lane: Lane, histories: Histories) -> Iterator[str]:
    rows = [row for history in histories.values() for row in history]
    against = [row for row in rows if row.ack != lane.decision(row.number, row.delivery_count)]
    yield from _sentence("answers are against the rule", against)
    again = [h for h in histories.values() if any(row.ack != "release" for row in h[:-1])]
    # A copy of the checkpoint does not know the last batch, of which the broker was not told yet.
    if len(again) > (lane.per_batch if lane.is_restored else 0):
        yield from _sentence("records were processed again after their final answer", again)
    ends = [h[-1] for h in histories.values() if h[-1].number >= lane.anchors]
    yield from _sentence("records have no final answer", [e for e in ends if e.ack not in FINAL])
    yield from _sentence("first deliveries have no number", [r for r in rows if not r[3]])


def _not_settled(
    lane: Lane, log: Mapping[Place, int], histories: Histories, state: GroupState
) -> Iterator[str]:
    """The broker's view must be the sink's, record by record, as far back as the broker knows."""
    if state.lags != lane.last_lags:
        yield f"the lags are {state.lags}, not {lane.last_lags}"
    if lane.anchors and set(state.start_offsets.values()) != {0}:
        yield f"anchors were given up: the group starts at {state.start_offsets}"
    for place, number in log.items():
        known = state.records.get(place)
        if place[1] < state.start_offsets[place[0]] or place not in histories:
            continue
        last = histories[place][-1]
        if number < lane.anchors:  # held by the query or given back; its count is not written yet
            if known is not None and known[0] != AVAILABLE:
                yield f"the broker has {known} of the anchor at {place}"
        elif known is None or known[0] != FINAL.get(last.ack):
            yield f"the broker has {known} of {number} at {place}; the last result is {last}"
        elif known[1] < last.delivery_count:
            yield f"the broker counts {known[1]} deliveries of {number}; the last result is {last}"


def _sentence(what: str, which: Iterable[object]) -> list[str]:
    found = list(which)
    return [f"{len(found)} {what}: {found[:SHOWN]}"] if found else []


def main(bootstrap: str, folder: str, seed: str) -> None:
    wrong = violations(bootstrap, Path(folder), lane_of(int(seed)))
    sys.exit("\n".join(wrong) if wrong else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
