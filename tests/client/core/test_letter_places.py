"""Letters chosen by their places."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.dead_letter import DeadLetter, LetterReader
from sharegroup.client.core.letter_places import LetterPlace, LetterPlaces
from sharegroup.model.ids import TopicPartition
from tests.client.core.test_dead_letter import LogLetter
from tests.client.dead_letters import said

places = st.builds(LetterPlace, st.integers(0, 2), st.integers(0, 9), st.integers(0, 2))


def letter(place: LetterPlace) -> DeadLetter:
    found = LetterReader("billing").letter_in(
        LogLetter(
            said("billing", "orders", 0, place.record_offset),
            topic_partition=TopicPartition("dead", place.partition),
            offset=place.offset,
        )
    )
    assert found is not None
    return found


@given(st.lists(places), places)
def test_the_letters_at_the_places_and_no_others(some: list[LetterPlace], one: LetterPlace) -> None:
    chosen = LetterPlaces([*some, *some])
    assert chosen.chooses(letter(one), 0) == (one in some)
    assert all(chosen.chooses(letter(place), 0) for place in some)
    assert len(chosen) == len(set(some))
    assert not chosen.needs_record
