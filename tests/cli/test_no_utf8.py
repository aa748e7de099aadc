"""Text that is no UTF-8, in the arguments and in the input: a sentence says so, and no command ends
with a traceback."""

from __future__ import annotations

import os
from io import BytesIO, TextIOWrapper

import pytest
import typer

from sharegroup.cli import outcome
from sharegroup.cli.input_records import NewRecord, parse_headers, parser
from sharegroup.cli.outcome import UsageError
from sharegroup.cli.record_format import renderer
from sharegroup.client.core.record import Record
from tests.cli.command import Commands
from tests.cli.test_lines import delivery

ODD = os.fsdecode(b"a\xff")  # as Python gives an argument
SHOWN = r"'a\udcff'"


@pytest.mark.process
@pytest.mark.parametrize(
    "words",
    [
        ("groups", "describe", ODD),
        ("groups", "records", ODD),
        ("topics", "create", ODD),
        ("quotas", "set", "--user", ODD, "producer_byte_rate=1"),
        ("users", "create", ODD),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_an_argument(commands: Commands, words: tuple[str, ...]) -> None:
    done = commands.run(*words, stdin="secret\n")
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr == f"sharegroup: {SHOWN} is no UTF-8 text\n"


@pytest.mark.process
def test_a_group_that_is_to_be_joined(commands: Commands, topic: str) -> None:
    done = commands.run("consume", topic, "--group", ODD)
    assert (done.status, done.stderr) == (2, f"sharegroup: group_id is {SHOWN}, no UTF-8 text\n")


@pytest.mark.process
def test_a_field_names_the_line_and_what_was_sent_is_counted(
    commands: Commands, topic: str
) -> None:
    lines = '{"id": "ok"}\n{"id": "\\ud83d"}\n'
    for option in ("--key", "--message-id"):
        done = commands.run("produce", topic, option, "id", stdin=lines)
        assert done.status == 2
        assert done.stderr == (
            f"sharegroup: line 2: 'id' is '\\ud83d', no UTF-8 text\n1 record sent to {topic}\n"
        )


@pytest.mark.process
def test_a_topic_that_no_topic_can_be_named(commands: Commands) -> None:
    for name, shown in ((ODD, SHOWN), ("tübingen", "'tübingen'")):
        done = commands.run("produce", name, stdin="x\n")
        assert done.status == 2
        assert done.stderr.startswith(f"sharegroup: topic is {shown}: a name has ASCII letters")


def test_an_encoding_that_lacks_a_character(capsys: pytest.CaptureFixture[str]) -> None:
    async def command() -> None:
        TextIOWrapper(BytesIO(), "ascii").write("Größe")

    with pytest.raises(typer.Exit) as ended:
        outcome.run(command())
    said = "sharegroup: the output cannot be written: ascii has no 'öß'\n"
    assert (ended.value.exit_code, capsys.readouterr().err) == (1, said)


def test_what_takes_bytes_takes_any() -> None:
    parse = parser(None, ODD)
    assert parse(1, b"ka\xffv") == NewRecord(b"k", b"v")
    with pytest.raises(UsageError, match="line 2 has no 'a\ufffd' after a key"):
        parse(2, b"kv")
    assert parse_headers([f"h={ODD}"]) == [("h", b"a\xff")]
    with pytest.raises(UsageError, match=r"the name 'a\\udcff' is no UTF-8 text"):
        parse_headers([f"{ODD}=1"])
    record = Record((0, 0, b"k", b"v", []), delivery())
    assert renderer(f"%s{ODD}", terminal=False)(record) == b"va\xff"
