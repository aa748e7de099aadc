"""`sharegroup consume --peek`: looking at records without a group; and records as JSON, there and
back.
"""

from __future__ import annotations

import json
import signal
import time
from datetime import UTC, datetime

import pytest

from sharegroup import sync
from tests.cli.command import Commands, finish

pytestmark = pytest.mark.process

AT = (int(time.time()) - 3_600) * 1_000
"""An hour ago, in ms: what is older than retention allows may be gone at once."""
BYTES = {"base64": "/wD+"}
RECORDS = [
    {"partition": 0, "timestamp": AT + 1_000, "key": "k", "value": "ä\n\t\u2028", "headers": []},
    {"partition": 0, "timestamp": AT + 2_000, "key": "", "value": None, "headers": [["h", None]]},
    {"partition": 0, "timestamp": AT + 3_000, "key": None, "value": "", "headers": [["h", ""]]},
    {
        "partition": 1,
        "timestamp": AT + 4_000,
        "key": BYTES,
        "value": BYTES,
        "headers": [["ü", BYTES]],
    },
    {"partition": 1, "timestamp": AT + 5_000, "key": None, "value": "\U0001f600", "headers": []},
]
LINES = "".join(json.dumps(record) + "\n" for record in RECORDS)
END = ("--until", "latest")


def test_json_round_trips_all_fields(commands: Commands, topic: str) -> None:
    commands.given("produce", topic, "--format", "json", stdin=LINES)
    seen = commands.ok("consume", topic, "--peek", *END, "--json")
    records = sorted(seen.json_lines, key=lambda one: one["partition"])
    assert [{name: one[name] for name in RECORDS[0]} for one in records] == RECORDS
    assert [one["offset"] for one in records] == [0, 1, 2, 0, 1]
    assert {(one["topic"], one["delivery_count"]) for one in records} == {(topic, None)}

    copy = f"{topic}-copy"
    commands.given("topics", "create", copy, "-p", "2")
    sent = commands.ok("produce", copy, "--format", "json", "--json", stdin=seen.stdout)
    assert sent.json["sent"] == len(RECORDS)
    again = commands.ok("consume", copy, "--peek", *END, "--format", "json")
    assert again.stdout.replace(copy, topic) == seen.stdout

    words = ("consume", topic, "-g", topic, "--from-beginning", "-n", "5", "--json")
    given = sorted(commands.ok(*words).json_lines, key=lambda one: one["partition"])
    assert [one | {"delivery_count": None} for one in given] == records


def test_from_until_partition_max_and_format(commands: Commands, topic: str) -> None:
    commands.given("produce", topic, "--format", "json", stdin=LINES)
    groups = commands.inside("groups", "list").stdout

    def seen(*words: str) -> list[str]:
        shown = commands.ok("consume", topic, "--peek", "--format", r"%p@%o\n", *words)
        return sorted(shown.stdout.split())

    assert seen("--from", "1", "--until", "2") == ["0@1", "1@1"]
    assert seen("--from", "-1", *END) == ["0@2", "1@1"]
    assert seen("--partition", "0", "-n", "2") == ["0@0", "0@1"]
    assert seen("--from", "latest", *END) == []
    second, third = (datetime.fromtimestamp(AT / 1_000 + n, UTC).isoformat() for n in (2, 3))
    assert seen("--from", second, "--until", third) == ["0@1"]
    assert seen("--from", "PT1M", "--timeout", "0.1") == []  # follows, until nothing comes

    all_fields = r"%t %p %o %T \x5b%k\x5d %s %h %K %S %d%%\t|"
    shown = commands.ok(
        "consume", topic, "--peek", "-p", "0", "--from", "1", *END, "--format", all_fields
    )
    assert shown.stdout == (
        f"{topic} 0 1 {AT + 2_000} []  h= 0 -1 -%\t|{topic} 0 2 {AT + 3_000} []  h= -1 0 -%\t|"
    )
    assert commands.inside("groups", "list").stdout == groups  # no group has heard of it


def test_it_follows_the_log_until_ctrl_c(commands: Commands, topic: str) -> None:
    process = commands.start("consume", topic, "--peek")
    assert process.stdout is not None
    commands.given("produce", topic, stdin="a\n")
    assert process.stdout.readline() == b"a\n"
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert (done.status, done.stdout, done.stderr) == (130, "", "")


def test_places_outside_of_the_log(commands: Commands, topic: str) -> None:
    commands.given("produce", topic, "--format", "json", stdin=LINES)
    late = commands.ok("consume", topic, "--peek", "-p", "1", "--from", "7", *END)
    assert late.stderr == f"sharegroup: {topic}-1 has offsets 0 to 2: beginning at 2\n"
    gone = commands.run("consume", topic, "--peek", "-p", "9")
    assert (gone.status, gone.stderr) == (
        2,
        f"sharegroup: {topic} has 2 partitions, but no partition 9\n",
    )
    unknown = commands.run("consume", f"{topic}-x", "--peek")
    assert unknown.status == 1
    assert unknown.stderr.startswith("sharegroup: UNKNOWN_TOPIC_OR_PARTITION: ")


class Regret(Exception):
    """The transaction must not be committed."""


def test_records_of_aborted_and_open_transactions(commands: Commands, topic: str) -> None:
    def send(*values: bytes) -> None:
        for value in values:
            producer.send_and_wait(topic, value, partition=0)

    def change_of_mind() -> None:
        with producer.transaction():
            send(b"aborted")
            raise Regret

    def seen(*words: str) -> list[str]:
        shown = commands.ok("consume", topic, "--peek", "-p0", *END, "--format", r"%o %s\n", *words)
        complaints.append(shown.stderr)
        return shown.stdout.splitlines()

    everything = ("--isolation-level", "read_uncommitted")
    complaints: list[str] = []
    with sync.Producer(commands.bootstrap, transactional_id=topic) as producer:
        with producer.transaction():
            send(b"committed")
        with pytest.raises(Regret):
            change_of_mind()
        with producer.transaction():
            send(b"later")
        committed = ["0 committed", "4 later"]
        assert seen() == committed
        assert seen("--from", "2") == committed[1:]
        assert seen("--isolation-level", "read_committed") == committed
        assert seen(*everything) == ["0 committed", "2 aborted", "4 later"]

        with producer.transaction():
            send(b"open")
            assert set(complaints) == {""}
            assert seen() == committed
            assert complaints.pop() == (
                f"sharegroup: a transaction is open in {topic}-0: records from offset 6 on are "
                "shown when it has ended, and at once with --isolation-level read_uncommitted\n"
            )
            assert seen(*everything)[-1] == "6 open"
        assert seen()[-1] == "6 open"
        assert set(complaints) == {""}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--peek", "-g", "g"), "--group cannot be given with --peek"),
        (("--peek", "--ack", "reject"), "--ack cannot be given with --peek"),
        (("-g", "g", "--from", "1"), "--from cannot be given with --group"),
        (
            ("-g", "g", "--isolation-level", "read_committed"),
            "--isolation-level cannot be given with --group",
        ),
        (("--peek", "--from", "noon"), "--from noon: write earliest, latest, an offset"),
        (("--peek", "--from", "PT1X"), "--from PT1X: write earliest"),
        (("--peek", "--format", "%x"), "--format: %x is not a field"),
        (("--peek", "--format", r"\y"), r"--format: \y is not one of"),
        (("--peek", "--json", "--format", "%s"), "exclude each other"),
    ],
)
def test_wrong_usage(words: tuple[str, ...], says: str) -> None:
    refused = Commands("127.0.0.1:1").inside("consume", "t", *words)
    assert refused.status == 2
    assert refused.stdout == ""
    assert says in refused.stderr
