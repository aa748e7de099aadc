"""`sharegroup consume --key-range` and `--key-ranges`: records of some keys, without a group."""

from __future__ import annotations

import pytest

from sharegroup.cli.key_ranges import parse_key_ranges
from sharegroup.cli.outcome import UsageError
from sharegroup.client.core.key_ranges import KeyRange
from sharegroup.cooperative.hash_split import HASH_MAX
from tests.cli.command import Commands

END = ("--until", "latest")


@pytest.mark.parametrize(
    ("part", "ranges", "expected"),
    [
        (None, None, ()),
        ("1/1", None, (KeyRange(0, HASH_MAX),)),
        ("2/2", None, (KeyRange(HASH_MAX // 2 + 1, HASH_MAX),)),
        (None, "5-9", (KeyRange(5, 9),)),
        (None, f"20-{HASH_MAX}, 5-9", (KeyRange(5, 9), KeyRange(20, HASH_MAX))),
    ],
)
def test_what_is_meant(
    part: str | None, ranges: str | None, expected: tuple[KeyRange, ...]
) -> None:
    assert parse_key_ranges(part, ranges) == expected


@pytest.mark.parametrize(
    ("part", "ranges", "words"),
    [
        ("1/4", "5-9", "exclude each other"),
        ("0/4", None, "write I/N"),
        ("5/4", None, "write I/N"),
        ("1", None, "write I/N"),
        ("a/b", None, "write I/N"),
        (None, "", "write FIRST-LAST"),
        (None, "5", "write FIRST-LAST"),
        (None, "-1-5", "write FIRST-LAST"),
        (None, "9-5", "no key range"),
        (None, f"0-{HASH_MAX + 1}", "no key range"),
    ],
)
def test_what_cannot_be_read(part: str | None, ranges: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_key_ranges(part, ranges)


@pytest.mark.process
def test_parts_of_a_topic(commands: Commands, topic: str) -> None:
    lines = "".join(f"customer-{n}:{n}\n" for n in range(40))
    commands.given("produce", topic, "--key-separator", ":", stdin=lines)
    refused = commands.run("consume", topic, "--key-range", "1/3", *END)
    assert refused.status == 1
    assert "accept.range.fetch" in refused.stderr
    commands.given("topics", "alter", topic, "-c", "accept.range.fetch=true")
    parts = [
        commands.ok("consume", topic, "--key-range", f"{n}/3", *END).stdout.split()
        for n in (1, 2, 3)
    ]
    assert all(parts)
    assert sorted(int(value) for part in parts for value in part) == list(range(40))
    half = commands.ok("consume", topic, "--key-ranges", f"0-{HASH_MAX // 3}", *END)
    assert half.stdout.split() == parts[0]
    wrong = commands.run("consume", topic, "-g", "g", "--key-range", "1/3")
    assert wrong.status == 2
    assert "key ranges cannot be given with --group" in wrong.stderr
