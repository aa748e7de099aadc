"""`sharegroup produce`: headers, a partition, CSV; JSON is in test_peek.py."""

from __future__ import annotations

from typing import Any

import pytest

from sharegroup.cli.csv_rows import CsvRows
from sharegroup.cli.input_records import NewRecord
from sharegroup.cli.outcome import UsageError
from sharegroup.cli.record_json import parse_record_json
from sharegroup.model.limits import INPUT_LINE_BYTES_MAX
from tests.cli.command import Commands

NOWHERE = Commands("127.0.0.1:1")


def all_of(commands: Commands, topic: str) -> list[dict[str, Any]]:
    """Partition, key, value and headers of all records."""
    seen = commands.ok("consume", topic, "--peek", "--until", "latest", "--json").json_lines
    return [{name: one[name] for name in ("partition", "key", "value", "headers")} for one in seen]


@pytest.mark.process
def test_headers_and_a_partition(commands: Commands, topic: str) -> None:
    headers = ("--header", "a=1=2", "-H", "a=", "-H", "b")
    commands.given("produce", topic, *headers, "--partition", "1", stdin="x\ny\n")
    same = {"partition": 1, "key": None, "headers": [["a", "1=2"], ["a", ""], ["b", None]]}
    assert all_of(commands, topic) == [same | {"value": "x"}, same | {"value": "y"}]

    there_is_none = commands.run("produce", topic, "--partition", "2", stdin="x\n")
    assert there_is_none.status == 1
    assert there_is_none.stderr.startswith("sharegroup: INVALID_PARTITIONS: ")


CSV = 'id,name,"in ""dollars"""\n1,"Größe,\nzwei",7\n2,,8\n'


@pytest.mark.process
def test_csv(commands: Commands, topic: str) -> None:
    words = ("produce", topic, "--format", "csv", "--partition", "0", "--key", "id")
    commands.ok(*words, stdin=CSV)
    commands.ok(*words, "--value", "name", "--header-column", 'in "dollars"', stdin=CSV)
    found = [(one["key"], one["value"], one["headers"]) for one in all_of(commands, topic)]
    assert found == [
        ("1", '{"name": "Größe,\\nzwei", "in \\"dollars\\"": "7"}', []),
        ("2", '{"name": "", "in \\"dollars\\"": "8"}', []),
        ("1", "Größe,\nzwei", [['in "dollars"', "7"]]),
        ("2", "", [['in "dollars"', "8"]]),
    ]
    broken = commands.run(*words, "--json", stdin=CSV + '3,"x')
    assert broken.status == 2
    assert broken.stderr == "sharegroup: the quote that line 5 opens is not closed\n"
    assert broken.json["sent"] == 2


def rows(text: str, key: str | None = None, value: str | None = None) -> list[NewRecord]:
    parse = CsvRows(key, value, [])
    lines = enumerate(text.encode(errors="surrogateescape").split(b"\n"), start=1)
    found = [record for number, line in lines if (record := parse(number, line)) is not None]
    parse.end()
    return found


def test_a_row_of_the_longest_length_and_one_longer() -> None:
    parse = CsvRows(None, None, [])
    assert parse(1, b'"' + bytes(INPUT_LINE_BYTES_MAX - 1)) is None
    with pytest.raises(UsageError, match="begins at line 1 exceeds 67108864 bytes"):
        parse(2, b"x")


def test_csv_as_spreadsheets_write_it() -> None:
    assert rows("\ufeffa,b\n1,2\n\n", "a", "b") == [NewRecord(b"1", b"2")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1\n", "line 2 has 1 cells; the first line names 2 columns"),
        ('a,b\n"1\n2",3\n4\n', "line 4 has 1 cells"),
        ("a,b\n\udcff,2\n", "line 2 is not CSV: "),
        ('a,b\n"1"x"y",2\n', "line 2 is not CSV: "),
        ("b,c\n1,2\n", "there is no column 'a'; there are b, c"),
        ("a,a\n1,2\n", "two columns have the same name"),
    ],
)
def test_invalid_csv_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        rows(text, "a")
    assert str(refused.value).startswith(says)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 7 is not JSON: "),
        ("[" * 100_000, "line 7 is not JSON: "),
        ("[]", "line 7 is not a record: it has no field 'value'"),
        ('{"key": "k"}', "line 7 is not a record: it has no field 'value'"),
        ('{"value": "v", "ky": 1}', "line 7: a record has no field 'ky'"),
        ('{"value": 7}', "line 7: value must be text, null, or "),
        ('{"value": {"base64": "?"}}', "line 7: value cannot be read: "),
        ('{"value": "\\ud800"}', "line 7: value cannot be read: "),
        ('{"value": "v", "partition": -1}', "line 7: partition must be an integer from 0 on"),
        ('{"value": "v", "partition": true}', "line 7: partition must be an integer"),
        ('{"value": "v", "timestamp": 1.5}', "line 7: timestamp must be an integer from -1 on"),
        ('{"value": "v", "headers": {"a": "b"}}', "line 7: headers must be a list of "),
        ('{"value": "v", "headers": [["a"]]}', "line 7: headers must be a list of "),
        ('{"value": "v", "headers": [["\\ud800", ""]]}', "line 7: a header's name cannot be read"),
    ],
)
def test_invalid_json_records_are_refused(line: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_record_json(7, line.encode())
    assert str(refused.value).startswith(says)


def test_json_records_with_few_fields() -> None:
    assert parse_record_json(1, b" ") is None
    few = {"value": None, "timestamp": -1}
    parsed = parse_record_json(1, b'{"value": null, "timestamp": -1}')
    assert parsed == NewRecord(None, None, [], document=few)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--format", "csv", "--key-separator", ":"), "--key-separator is not for --format csv"),
        (("--format", "json", "--key", "k"), "--key is not for --format json"),
        (("--value", "v"), "--value is not for --format lines"),
        (("--header", "=v"), "--header '=v' is not NAME=VALUE"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], says: str) -> None:
    refused = NOWHERE.inside("produce", "t", *words)
    assert refused.status == 2
    assert says in refused.stderr
