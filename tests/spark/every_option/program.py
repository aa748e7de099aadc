"""Runs every case in one session and prints what came of it, as JSON in the last line.

python -m tests.spark.every_option.program BOOTSTRAP MORTAL_BOOTSTRAP MORTAL_PROCESS FOLDER
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.spark.every_option import letters, looks, sinks, streams
from tests.spark.every_option.work import Work

CASES = {
    "stream": streams.CASES,
    "look": looks.CASES,
    "letters": letters.CASES,
    "sink": sinks.CASES,
}


def names() -> list[str]:
    """Of all cases."""
    return [f"{table}: {case.__name__}" for table, cases in CASES.items() for case in cases]


def main(bootstrap: str, mortal: str, process: str, folder: str, *chosen: str) -> None:
    """Run all cases, or the chosen ones."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.python.unix.domain.socket.enabled", "true").getOrCreate()
    work = Work(spark, bootstrap, (mortal, int(process)), Path(folder))
    outcomes: dict[str, str] = {}
    for table, cases in CASES.items():
        for case in cases:
            if chosen and case.__name__ not in chosen:
                continue
            began = time.monotonic()
            try:
                case(work)
                outcome = ""
            except (Exception, pytest.fail.Exception):  # noqa: BLE001 - the others go on
                outcome = traceback.format_exc()
            outcomes[f"{table}: {case.__name__}"] = outcome
            sys.stderr.write(f"{case.__name__}: {time.monotonic() - began:.1f} s\n")
    spark.stop()
    given = {table: sorted(names) for table, names in work.given.items()}
    sys.stdout.write(
        json.dumps({"pyspark": pyspark.__version__, "outcomes": outcomes, "given": given}) + "\n"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
