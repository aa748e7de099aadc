"""How long records waited after a fault, as `make soak-cluster` counts it."""

from __future__ import annotations

import json

from scripts.soak_cluster import KILL, STOP, Happened, waits


def test_the_longest_wait_after_each_fault() -> None:
    events = [
        {"op": "produced", "t": 900.0, "n": 1, "partition": 0, "offset": 1},
        {"op": "produced", "t": 1_500.0, "n": 2, "partition": 0, "offset": 2},
        {"op": "produced", "t": 1_600.0, "n": 3, "result": "unknown"},
        {"op": "polled", "t": 1_700.0, "n": 4, "acquired": [["jobs", 0, 1, 1, 1]]},
        {
            "op": "polled",
            "t": 4_000.0,
            "n": 5,
            "acquired": [["jobs", 0, 2, 2, 1], ["jobs", 0, 1, 1, 2]],
        },
        {"op": "produced", "t": 6_000.0, "n": 6, "partition": 1, "offset": 2},
        {"op": "polled", "t": 6_010.0, "n": 7, "acquired": [["jobs", 1, 2, 2, 1]]},
        {"op": "produced", "t": 9_000.0, "n": 8, "partition": 1, "offset": 3},
    ]
    faults = [
        Happened(KILL, 1_000, 5_000),
        Happened(STOP, 5_900, 8_000),
        Happened(KILL, 8_500, 9_500),
    ]
    lines = [json.dumps(event) for event in events]
    found = waits(lines, faults)
    seconds = {kind: [one.seconds for one in each] for kind, each in found.items()}
    assert seconds == {KILL: [0.0, 2.5], STOP: [0.01]}
    assert str(found[KILL][-1]) == (
        "partition 0, offset 2: written at 0.50 s, got at 3.00 s; the next fault came after 4.50 s"
    )
