"""Turns rows of CSV into records: which columns are the key, the value and the headers."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from typing import Final

from sharegroup.cli.input_records import NewRecord
from sharegroup.cli.outcome import UsageError
from sharegroup.client.core.record import Headers
from sharegroup.model.limits import INPUT_LINE_BYTES_MAX
from sharegroup.records.message_ids import MESSAGE_ID

_QUOTE: Final = b'"'


class CsvRows:
    """Parses the input line by line; a quoted cell may span several lines. The first row has the
    names of the columns. Blank lines are skipped.

    Args:
        key: the column for the key; None: no key.
        value: the column for the value; None: the other columns, as a JSON object of strings.
        headers: the columns for the headers.
        message_id: the column for the message id; None: no id.
    """

    def __init__(
        self,
        key: str | None,
        value: str | None,
        headers: Sequence[str],
        message_id: str | None = None,
    ) -> None:
        self._key = key
        self._value = value
        self._headers = list(dict.fromkeys(headers))
        self._message_id = message_id
        self._columns: list[str] | None = None
        self._begun: list[bytes] = []  # the lines so far of a row with an open quote
        self._begun_at = self._begun_bytes = 0
        self._open = False
        csv.field_size_limit(INPUT_LINE_BYTES_MAX)

    def __call__(self, number: int, line: bytes) -> NewRecord | None:
        """The record of the row that ends with this line, or None if no row ends here.

        Raises:
            UsageError: the row has another number of columns than the first one, or is not UTF-8.
        """
        if not self._begun:
            self._begun_at = number
        self._begun.append(line)
        self._begun_bytes += len(line)
        if self._begun_bytes > INPUT_LINE_BYTES_MAX:
            raise UsageError(
                f"the row that begins at line {self._begun_at} exceeds {INPUT_LINE_BYTES_MAX} bytes"
            )
        self._open ^= line.count(_QUOTE) % 2 == 1
        if self._open:
            return None
        cells = self._cells()
        if not cells:
            return None
        if self._columns is None:
            self._columns = self._named(cells)
            return None
        if len(cells) != len(self._columns):
            raise UsageError(
                f"line {self._begun_at} has {len(cells)} cells; the first line names "
                f"{len(self._columns)} columns"
            )
        return self._record(dict(zip(self._columns, cells, strict=True)))

    def end(self) -> None:
        """Note the end of the input.

        Raises:
            UsageError: a row is incomplete.
        """
        if self._begun:
            raise UsageError(f"the quote that line {self._begun_at} opens is not closed")

    def _cells(self) -> list[str]:
        lines, self._begun, self._begun_bytes = self._begun, [], 0
        try:
            text = b"\n".join(lines).decode()
            return next(csv.reader([text], strict=True), [])
        except (csv.Error, UnicodeDecodeError) as error:
            raise UsageError(f"line {self._begun_at} is not CSV: {error}") from None

    def _named(self, cells: list[str]) -> list[str]:
        cells[0] = cells[0].removeprefix("\ufeff")  # the BOM that spreadsheets write
        for name in (self._key, self._value, self._message_id, *self._headers):
            if name is not None and name not in cells:
                raise UsageError(f"there is no column {name!r}; there are {', '.join(cells)}")
        if len(set(cells)) < len(cells):
            raise UsageError("two columns have the same name")
        return cells

    def _record(self, row: dict[str, str]) -> NewRecord:
        if self._value is not None:
            value = row[self._value]
        else:
            taken = {self._key, self._message_id, *self._headers}
            rest = {name: cell for name, cell in row.items() if name not in taken}
            value = json.dumps(rest, ensure_ascii=False)
        headers: Headers = [(name, row[name].encode()) for name in self._headers]
        if self._message_id is not None:
            if not row[self._message_id]:
                raise UsageError(f"line {self._begun_at} has no {self._message_id}: no message id")
            headers.append((MESSAGE_ID, row[self._message_id].encode()))
        return NewRecord(
            key=None if self._key is None else row[self._key].encode(),
            value=value.encode(),
            headers=headers,
        )
