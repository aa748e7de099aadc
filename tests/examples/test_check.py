"""The demo's judge finds what is wrong, shown by spoiling what is right."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from flights_demo.check import (
    Finding,
    Row,
    check_kills,
    check_pool,
    check_statistics,
    check_tables,
    expected_statistics,
    read_tables,
)
from flights_demo.dataset import Flight, flights
from flights_demo.journal import Batch, Decision, Journal, read_journals


def flight(number: int, dep_delay: int | None, carrier: str = "UA") -> Flight:
    departed = None if dep_delay is None else 900
    return Flight(number, "2013-01-01", carrier, 1, "N1", "EWR", "IAH", departed, dep_delay)


ON_TIME, CANCELLED, LATE = flight(0, 5), flight(1, None), flight(2, 400)
FLIGHTS = [ON_TIME, CANCELLED, LATE]

ACCEPT = Decision(0, 3, "accept", 1)
REJECT = Decision(1, 3, "reject", 1)
PUT_BACK = Decision(2, 3, "release", 1)
ACCEPT_LATE = Decision(2, 3, "accept", 2)
GOOD = [ACCEPT, REJECT, PUT_BACK, ACCEPT_LATE]


def confirmed(*decisions: Decision) -> Batch:
    return Batch(list(decisions), 1.0, 2.0)


def in_doubt(*decisions: Decision) -> Batch:
    return Batch(list(decisions), 1.0)


def wrong(findings: list[Finding]) -> set[str]:
    return {one.what for one in findings if not one.ok}


def test_a_good_run_passes() -> None:
    findings = check_pool(FLIGHTS, [confirmed(*GOOD)])
    assert wrong(findings) == set()
    numbers = {one.what: one.found for one in findings}
    assert numbers["accepted"] == 2
    assert numbers["put back, came again, accepted"] == 1


@pytest.mark.parametrize(
    ("batches", "complaint"),
    [
        pytest.param([confirmed(*GOOD[1:])], "neither", id="missing"),
        pytest.param([confirmed(*GOOD), confirmed(ACCEPT)], "confirmed twice", id="twice"),
        pytest.param([confirmed(*GOOD), in_doubt(Decision(1, 3, "accept", 2))], "both", id="both"),
        pytest.param(
            [confirmed(ACCEPT, Decision(1, 3, "accept", 1), PUT_BACK, ACCEPT_LATE)],
            "rejected: cancelled flights",
            id="cancelled-and-accepted",
        ),
        pytest.param(
            [confirmed(ACCEPT, REJECT, Decision(2, 3, "accept", 1))],
            "very late, and accepted at once",
            id="late-and-accepted-at-once",
        ),
        pytest.param(
            [confirmed(*GOOD, Decision(0, 3, "release", 1))],
            "not very late, and put back",
            id="put-back-without-reason",
        ),
        pytest.param([confirmed(*GOOD, PUT_BACK)], "put back twice", id="put-back-twice"),
    ],
)
def test_mistakes_are_found(batches: list[Batch], complaint: str) -> None:
    assert complaint in wrong(check_pool(FLIGHTS, batches))


def test_a_decision_in_doubt_counts_when_none_followed() -> None:
    batches = [confirmed(REJECT, PUT_BACK, ACCEPT_LATE), in_doubt(ACCEPT)]
    assert wrong(check_pool(FLIGHTS, batches)) == set()
    assert [one.found for one in check_kills(batches)] == [1, 1, 0, 1]


def test_a_decision_in_doubt_may_be_made_again() -> None:
    batches = [in_doubt(ACCEPT), confirmed(REJECT, PUT_BACK, ACCEPT_LATE, ACCEPT)]
    assert wrong(check_pool(FLIGHTS, batches)) == set()
    assert [one.found for one in check_kills(batches)] == [1, 1, 1, 0]


def test_the_statistics_are_compared_row_by_row() -> None:
    expected = expected_statistics([*FLIGHTS, flight(3, None, carrier="AA")])
    united, american = ("EWR", "UA", "2013-01-01"), ("EWR", "AA", "2013-01-01")
    assert expected == {united: (2, 202.5), american: (0, None)}
    assert wrong(check_statistics(expected, dict(expected))) == set()
    counted_twice = {**expected, united: (4, 202.5)}
    assert wrong(check_statistics(expected, counted_twice)) == {
        "departures",
        "rows with equal count and mean delay",
    }
    assert wrong(check_statistics(expected, {**expected, united: (2, 202.6)}))
    assert wrong(check_statistics(expected, {united: expected[united]}))


TABLES = [Row(0, "accept", 1), Row(1, "reject", 1), Row(2, "accept", 2)]


def test_tables_with_every_flight_once_pass() -> None:
    assert wrong(check_tables(FLIGHTS, TABLES)) == set()


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        pytest.param(TABLES[1:], "in no table", id="missing"),
        pytest.param([*TABLES, TABLES[0]], "twice in the tables", id="twice"),
        pytest.param([Row(0, "reject", 1), *TABLES[1:]], "accepted", id="rejected"),
        pytest.param(
            [TABLES[0], Row(1, "accept", 1), TABLES[2]],
            "rejected: cancelled flights",
            id="cancelled-and-accepted",
        ),
        pytest.param(
            [*TABLES[:2], Row(2, "accept", 1)],
            "very late, and accepted at once",
            id="late-and-accepted-at-once",
        ),
    ],
)
def test_mistakes_in_the_tables_are_found(rows: list[Row], complaint: str) -> None:
    assert complaint in wrong(check_tables(FLIGHTS, rows))


def test_the_tables_are_read_from_all_batches(tmp_path: Path) -> None:
    for batch, row in enumerate(TABLES):
        folder = tmp_path / f"batch={batch}" / f"ack={row.ack}"
        folder.mkdir(parents=True)
        columns = {"id": [row.id], "delivery_count": [row.delivery_count]}
        pyarrow.parquet.write_table(pa.table(columns), folder / "part-0.parquet")
        (folder.parent / "_SUCCESS").touch()
    assert sorted(read_tables(tmp_path)) == sorted(TABLES)


def test_a_journal_has_the_confirmed_decisions(tmp_path: Path) -> None:
    path = tmp_path / "consumer-1.journal"
    with Journal(path) as journal:
        journal.decide([ACCEPT, Decision(7, 0, "accept", 1)])
        journal.confirm({3: None, 0: "NOT_LEADER_OR_FOLLOWER"})
        journal.decide([REJECT])
    with path.open("a") as file:
        file.write('{"at": 1, "decis')  # killed as it wrote
    batches = read_journals(tmp_path)
    assert [one.decisions for one in batches] == [
        [ACCEPT],
        [Decision(7, 0, "accept", 1)],
        [REJECT],
    ]
    assert [one.confirmed_at is not None for one in batches] == [True, False, False]


def test_the_flights_are_those_of_the_file() -> None:
    first = next(flights())
    assert first == Flight(0, "2013-01-01", "UA", 1545, "N14228", "EWR", "IAH", 517, 2)
    assert '"carrier": "UA"' in first.to_json()
