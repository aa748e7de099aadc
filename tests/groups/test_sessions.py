from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.groups.sessions import MemberKey, Sessions

KEYS = [MemberKey("g", member) for member in "abc"]
COMMANDS = st.lists(
    st.tuples(
        st.sampled_from(["restart", "end", "expire"]), st.sampled_from(KEYS), st.integers(0, 30)
    )
)


def test_without_sessions_there_is_no_deadline() -> None:
    assert Sessions().next_deadline_ms() is None
    assert Sessions().expired(10) == []


@given(COMMANDS)
def test_agrees_with_a_dictionary(commands: list[tuple[str, MemberKey, int]]) -> None:
    sessions, model = Sessions(), dict[MemberKey, int]()
    for verb, key, time_ms in commands:
        if verb == "restart":
            sessions.restart(key, time_ms)
            model[key] = time_ms
        elif verb == "end":
            sessions.end(key)
            model.pop(key, None)
        else:
            due = sorted((deadline, key) for key, deadline in model.items() if deadline <= time_ms)
            assert sessions.expired(time_ms) == [key for _, key in due]
            for _, gone in due:
                del model[gone]
        assert sessions.next_deadline_ms() == min(model.values(), default=None)
        assert len(sessions) == len(model)
        assert all((key in sessions) == (key in model) for key in KEYS)
