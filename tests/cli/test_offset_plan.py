"""Plans, partitions and times as users write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.cli.offset_plan import (
    Plan,
    parse_datetime_ms,
    parse_plan,
    parse_topics,
    partitions_text,
    plan_csv,
)
from sharegroup.cli.outcome import UsageError
from sharegroup.model.ids import TopicPartition

names = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=9)
group_names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=9) | names
plans = st.dictionaries(
    group_names,
    st.dictionaries(
        st.builds(TopicPartition, names, st.integers(0, 2**31 - 1)),
        st.integers(0, 2**63 - 1),
        min_size=1,
        max_size=4,
    ),
    min_size=1,
    max_size=4,
)


@given(plans)
def test_a_plan_is_read_as_it_was_written(plan: Plan) -> None:
    assert parse_plan(plan_csv(plan)) == plan


def test_how_a_plan_looks() -> None:
    plan = {"billing": {TopicPartition("orders", 0): 1200, TopicPartition("orders", 1): 0}}
    text = "group,topic,partition,new-offset\nbilling,orders,0,1200\nbilling,orders,1,0\n"
    assert plan_csv(plan) == text
    spaced = text.replace(",", " , ").replace("\n", "\r\n\r\n")  # as an editor may leave it
    assert parse_plan(spaced) == plan
    assert parse_plan(f"\ufeff{text}") == plan  # as a spreadsheet leaves it


def test_a_name_that_needs_quotes_has_them() -> None:
    plan = {name: {TopicPartition("t", 0): 1} for name in (" a", "a", 'say "x"', "a,b", "1\r2\n3")}
    text = plan_csv(plan)
    assert text.startswith('group,topic,partition,new-offset\n" a",t,0,1\na,t,0,1\n')
    assert '\n"say ""x""",t,0,1\n"a,b",t,0,1\n"1\r2\n3",t,0,1\n' in text
    assert parse_plan(text) == plan


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "first line must be group,topic,partition,new-offset"),
        ("g,t,0,5\n", "first line must be"),
        ("group,topic,partition,new-offset\n", "the plan is empty"),
        ('group,topic,partition,new-offset\n"g,t,0,5\n', "line 2 of the plan has a quote"),
        ('group,topic,partition,new-offset\n"a\nb",t,0,5\n,t,0,6\n', "line 4 of the plan is not"),
        ("group,topic,partition,new-offset\ng,t,0\n", "line 2 of the plan is not group,topic"),
        ("group,topic,partition,new-offset\n,t,0,5\n", "line 2 of the plan is not"),
        ("group,topic,partition,new-offset\ng,t,0,5\ng,t,x,5\n", "line 3 of the plan needs"),
        ("group,topic,partition,new-offset\ng,t,0,-1\n", "line 2 of the plan needs"),
        ("group,topic,partition,new-offset\ng,t,0,9223372036854775808\n", "line 2"),
        ("group,topic,partition,new-offset\ng,t,2147483648,1\n", "line 2"),
        ("group,topic,partition,new-offset\ng,t,0,5\ng,t,0,6\n", "line 3 of the plan repeats t-0"),
    ],
)
def test_invalid_plans_are_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_plan(text)


def test_topics_and_partitions() -> None:
    assert parse_topics([]) == {}
    assert parse_topics(["t"]) == {"t": None}
    assert parse_topics(["t:1,0"]) == {"t": [0, 1]}
    assert parse_topics(["t:0", "u", "t:2,0"]) == {"t": [0, 2], "u": None}
    assert parse_topics(["t", "t:0"]) == {"t": None}
    assert parse_topics(["t:0", "t"]) == {"t": None}


@pytest.mark.parametrize("text", ["", ":", ":0", "t:", "t:a", "t:0,", "t:0:1", "t:-1", "t:1.5"])
def test_invalid_topics_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--topic"):
        parse_topics([text])


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-01T00:00:00.123", 123),
        ("1970-01-01T00:00:00.123Z", 123),
        ("1970-01-01T01:00:00.000+01:00", 0),
        ("1970-01-01T01:00:00.000+0100", 0),
        ("1970-01-01T01:00:00.000+01", 0),
        ("2026-11-21T08:30:00.001-02:00", 1_795_257_000_001),
    ],
)
def test_times(text: str, milliseconds: int) -> None:
    assert parse_datetime_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "yesterday", "21.11.2026", "2026-13-01", "08:30"])
def test_invalid_times_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write it as 2026-11-21T08:30:00"):
        parse_datetime_ms(text)


def test_an_assignment_in_words() -> None:
    partitions = [TopicPartition("b", 3), TopicPartition("a", 10), TopicPartition("a", 2)]
    assert partitions_text(partitions) == "a:2,10;b:3"
    assert partitions_text([]) == ""
