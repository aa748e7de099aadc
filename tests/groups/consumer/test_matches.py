"""The topics of regular expressions are kept: as if matched anew, with only new names matched."""

from __future__ import annotations

from uuid import UUID

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.groups.consumer import patterns
from sharegroup.groups.consumer.patterns import Matches
from sharegroup.groups.topics import KnownTopic, TopicsImage
from sharegroup.model.errors import InvalidRegularExpression
from sharegroup.model.regex import compile_regex

names = st.frozensets(st.text("ab", min_size=1, max_size=3), max_size=8)
REGEXES = ["a.*", ".*b", "[ab]", "b"]


def image(topics: frozenset[str] | list[str]) -> TopicsImage:
    return TopicsImage({name: KnownTopic(UUID(int=1), 1) for name in topics})


@given(st.lists(st.tuples(names, st.lists(st.sampled_from(REGEXES), max_size=3)), max_size=12))
def test_what_is_kept_is_what_would_be_found(steps: list[tuple[frozenset[str], list[str]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patterns, "CHANGES_MAX", 3)
        patch.setattr(patterns, "KEPT_NAMES_MAX", 6)
        matches = Matches()
        begun = []
        for topics, asked in steps:
            now = image(topics)
            begun.append(matches.steps("a.*", now))
            next(begun[0], None)  # one that is under way while topics change
            for regex in asked:
                found = matches.of(regex, now)
                assert found == tuple(sorted(n for n in topics if re2.fullmatch(regex, n)))


def test_a_new_topic_is_the_only_one_that_is_matched() -> None:
    matches = Matches()
    many = [f"topic-{number}" for number in range(1_000)]

    def steps(topics: list[str]) -> int:
        return sum(1 for _ in matches.steps("topic-1.*", image(topics)))

    assert steps(many) == 1 + 1_000
    assert steps(many) == 0
    assert steps([*many, "topic-1000"]) == 1 + 1
    assert steps([*many[1:], "topic-1000"]) == 0
    assert len(matches.of("topic-1.*", image(many))) == 111


def test_a_refused_expression_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    compile_ = re2.compile

    def counting(regex: str, options: re2.Options) -> object:
        compiled.append(regex)
        return compile_(regex, options)

    monkeypatch.setattr(re2, "compile", counting)
    refused = r"\pL{1,18}" * 100
    said = set()
    for field in ("SubscribedTopicRegex", "SubscribedTopicRegex", "Other"):
        with pytest.raises(InvalidRegularExpression, match="too large") as error:
            compile_regex(refused, field)
        said.add(error.value.message)
    assert compiled == [refused]
    assert len(said) == 2
