"""The checker finds what it is there to find: one wrong thing in an otherwise good run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.spark.crash.broker_state import ACKNOWLEDGED, ARCHIVED, GroupState, Place
from tests.spark.crash.checker import FINAL, Row, judged, sink_results
from tests.spark.crash.lane import Fault, Lane, Mode, Strike, lane_of

LANE = Lane(seed=1, mode=Mode.FOREACH, partitions=2, per_batch=5, strikes=())


class Run:
    """A good run of LANE, to be spoilt."""

    def __init__(self) -> None:
        numbers = range(LANE.records)
        self.log: dict[Place, int] = {(n % 2, n // 2): n for n in numbers}
        self.rows: list[Row] = []
        known: dict[Place, tuple[int, int]] = {}
        for (partition, offset), number in self.log.items():
            count = 0
            ack = "release"
            while ack == "release" and count < 2:
                count += 1
                ack = LANE.decision(number, count)
                self.rows.append(Row(number, partition, offset, count, ack))
            known[partition, offset] = (FINAL.get(ack, 0), count)
        self.state = GroupState({0: 0, 1: 0}, known, [1, 1])

    def row(self, number: int) -> Row:
        return next(row for row in self.rows if row.number == number)

    def wrong(self) -> list[str]:
        return judged(LANE, self.log, self.rows, self.state)


def test_a_good_run_passes() -> None:
    assert Run().wrong() == []


def lost(run: Run) -> None:
    run.rows.remove(run.row(8))


def not_produced(run: Run) -> None:
    del run.log[0, 4]


def again_after_accept(run: Run) -> None:
    run.rows.append(run.row(8)._replace(delivery_count=2))


def twice_in_the_sink(run: Run) -> None:
    run.rows.append(run.row(8))


def released_and_never_seen_again(run: Run) -> None:
    run.rows.remove(run.row(7)._replace(delivery_count=2, ack="accept"))


def against_the_rule(run: Run) -> None:
    run.rows[run.rows.index(run.row(10))] = run.row(10)._replace(ack="accept")


def wrong_payload(run: Run) -> None:
    run.rows[run.rows.index(run.row(8))] = run.row(8)._replace(number=9)


def reject_became_accept(run: Run) -> None:
    run.state.records[0, 5] = (ACKNOWLEDGED, 1)


def accept_became_reject(run: Run) -> None:
    run.state.records[0, 4] = (ARCHIVED, 1)


def never_acknowledged(run: Run) -> None:
    del run.state.records[0, 4]


def too_few_deliveries(run: Run) -> None:
    run.state.records[1, 3] = (ACKNOWLEDGED, 1)


def lag(run: Run) -> None:
    run.state.lags[0] = 2


def anchor_given_up(run: Run) -> None:
    run.state.start_offsets[1] = 1


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lost, "1 records were never processed: [(0, 4)]"),
        (not_produced, "1 numbers are not in the log: [8]"),
        (again_after_accept, "processed again after their final answer"),
        (twice_in_the_sink, "processed again after their final answer"),
        (released_and_never_seen_again, "have no final answer"),
        (against_the_rule, "answers are against the rule"),
        (wrong_payload, "hold another record's number"),
        (reject_became_accept, "the broker has (2, 1) of 10 at (0, 5)"),
        (accept_became_reject, "the broker has (4, 1) of 8 at (0, 4)"),
        (never_acknowledged, "the broker has None of 8"),
        (too_few_deliveries, "the broker counts 1 deliveries of 7"),
        (lag, "the lags are [2, 1], not [1, 1]"),
        (anchor_given_up, "anchors were given up"),
    ],
)
def test_each_wrong_thing_is_found(spoil: Callable[[Run], None], sentence: str) -> None:
    run = Run()
    spoil(run)
    assert any(sentence in found for found in run.wrong()), run.wrong()


def test_a_batch_that_ran_again_with_other_records_is_found(tmp_path: Path) -> None:
    row = [8, 0, 4, 1, "accept"]
    (tmp_path / "3-aa.json").write_text(json.dumps([row]))
    assert sink_results(LANE, tmp_path) == ([Row(8, 0, 4, 1, "accept")], [])
    (tmp_path / "3-bb.json").write_text(json.dumps([row, [9, 1, 4, 1, "accept"]]))
    assert sink_results(LANE, tmp_path)[1] == ["1 batches ran again with other records: [3]"]
    restored = replace(LANE, strikes=(Strike(Fault.RESTORE, 1, 0),))
    assert sink_results(restored, tmp_path)[1] == []  # there batch ids begin again


def test_twenty_seeds_have_every_fault_and_every_mode() -> None:
    lanes = [lane_of(seed) for seed in range(20)]
    assert {strike.fault for lane in lanes for strike in lane.strikes} == set(Fault)
    assert lane_of(7) == lane_of(7)
