"""How answers become lines, what counts as a declared difference, and what stays of a script."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from sharegroup.wire.messages import offset_commit as messages
from tests.differential.differences import Seen, declared
from tests.differential.groups.playing import Comparison, Played, compare
from tests.differential.groups.rendering import Names, rendered
from tests.differential.groups.script import GroupScript, random_group_script
from tests.differential.groups.vocabulary import SUBJECTS
from tests.differential.script import Step

COMMIT = "commit(2, old generation, 0) -> partitions[0].error_code={}"
BEAT = "cg_beat(1, right) -> error_code=ok, assigned {}"
HEARTBEAT = "heartbeat(1, right) -> error_code={}"


def test_an_answer_is_told_field_by_field() -> None:
    names = Names()
    topic_id = UUID(int=7)
    names.topic_ids[topic_id] = "group"
    names.texts["group-1"] = "group"
    parts = [messages.OffsetCommitResponsePartition(at, 25 * at) for at in (1, 0)]
    answer = messages.OffsetCommitResponse(
        9, [messages.OffsetCommitResponseTopic(topic_id=topic_id, partitions=parts)]
    )
    assert rendered(answer, names) == [
        "topics[group].partitions[0].error_code=ok",
        "topics[group].partitions[1].partition_index=1",
        "topics[group].partitions[1].error_code=UNKNOWN_MEMBER_ID",
    ]
    assert names.text("script-c92bc971-0a19-47af-a921-93709d87a0fe") == "script-?"
    assert names.data(b"\x00group-1") == repr("\x00group")
    assert [names.producer(at) for at in (4000, -1, 17, 4000)] == [
        *("producer1", "-1"),
        *("producer2", "producer1"),
    ]


@pytest.mark.parametrize(
    ("kafka", "ours", "seen"),
    [
        (HEARTBEAT.format("ok"), HEARTBEAT.format("ok"), Seen.SAME),
        (HEARTBEAT.format("ok"), HEARTBEAT.format("UNKNOWN_MEMBER_ID"), Seen.DIFFERENT),
        (BEAT.format(1), BEAT.format(2), Seen.DECLARED),
        (COMMIT.format("ok"), COMMIT.format("ILLEGAL_GENERATION"), Seen.PARTED),
        (COMMIT.format("UNKNOWN_MEMBER_ID"), COMMIT.format("ok"), Seen.DIFFERENT),
        (COMMIT.format("ok"), COMMIT.format("ok") + ", partitions[0].more=1", Seen.DIFFERENT),
    ],
)
def test_only_declared_differences_pass(kafka: str, ours: str, seen: Seen) -> None:
    assert compare(kafka, ours, declared()) is seen


def test_a_seed_always_gives_the_same_script() -> None:
    assert random_group_script(7) == random_group_script(7)
    assert random_group_script(7).steps != random_group_script(13).steps


def test_every_step_of_every_subject_comes() -> None:
    verbs = {step.verb for seed in range(300) for step in random_group_script(seed).steps}
    assert verbs == {verb for subject in SUBJECTS.values() for verb in subject}


class Differing(Comparison):
    """Two servers that differ when a commit comes after a join."""

    async def once(self, script: GroupScript) -> Played:
        verbs = [step.verb for step in script.steps]
        if "join" in verbs and "commit" in verbs[verbs.index("join") :]:
            return Played("different", len(verbs) - 1 - verbs[::-1].index("commit"), 0)
        return Played("", None, 1)


def test_a_script_that_differs_becomes_short() -> None:
    script = random_group_script(1)
    noise = [step for step in script.steps if step.verb not in ("join", "commit")]
    steps = [*noise[:9], Step("join"), *noise[9:14], Step("commit"), *noise[14:]]
    both = Differing(0, 0, [])
    played = asyncio.run(both.outcome(replace(script, steps=steps)))
    assert played.report.endswith("different")
    short, _ = asyncio.run(both._shrunk(replace(script, steps=steps), Played("", 15, 0)))
    assert [step.verb for step in short.steps] == ["join", "commit"]
