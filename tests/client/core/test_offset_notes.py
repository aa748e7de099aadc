"""Notes beside acknowledgements, against one entry per record."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.acknowledgements import AcknowledgedRange
from sharegroup.client.core.offset_notes import OffsetNotes
from sharegroup.cooperative.intervals import normal
from sharegroup.model.ids import TopicIdPartition

P = TopicIdPartition(UUID(int=1), 0)
offsets = st.sets(st.integers(0, 25), max_size=12)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("note"), offsets, st.sampled_from("ab")),
        st.tuples(st.just("note"), offsets, st.none()),
        st.tuples(st.just("ranges"), offsets, st.sampled_from("ab")),
        st.tuples(st.just("forget"), offsets),
    ),
    max_size=12,
)


def acknowledged(some: set[int]) -> list[AcknowledgedRange]:
    return [AcknowledgedRange(*one, b"\x02") for one in normal((n, n) for n in some)]


def by_offset(found: Sequence[tuple[int, int, str]]) -> dict[int, str]:
    ends = [(first, last) for first, last, _ in found]
    assert ends == sorted(ends)
    said = {n: note for first, last, note in found for n in range(first, last + 1)}
    assert len(said) == sum(last - first + 1 for first, last in ends)  # no two about one record
    return said


@given(steps, offsets)
def test_notes_about_records_and_about_ranges(script: list[tuple], asked: set[int]) -> None:
    notes = OffsetNotes[str]()
    single: dict[int, str] = {}
    ranges: dict[int, str] = {}
    for name, some, *text in script:
        if name == "note":
            for offset in some:
                notes.note(P, offset, text[0])
            single.update(dict.fromkeys(some, text[0]))
            single = {offset: said for offset, said in single.items() if said is not None}
        elif name == "ranges":
            spans = [(*one, text[0]) for one in normal((n, n) for n in some)]
            notes.note_ranges(P, spans)
            ranges.update(dict.fromkeys(some, text[0]))
        else:
            notes.forget(P, acknowledged(some))
            for offset in some:
                single.pop(offset, None)
                ranges.pop(offset, None)
    every = {**ranges, **single}
    expected = {n: every[n] for n in asked if n in every}
    assert by_offset(notes.of(P, acknowledged(asked))) == expected
    assert bool(notes) == bool(every)


def test_another_partition_has_notes_of_its_own() -> None:
    notes = OffsetNotes[str]()
    notes.note_ranges(P, [(0, 9, "a")])
    other = P._replace(partition=1)
    assert notes.of(other, acknowledged({1})) == []
    notes.forget(other, acknowledged({1}))
    assert notes.of(P, acknowledged({1})) == [(1, 1, "a")]
