"""Kafka's group tools against our broker and against Apache Kafka: they print the same."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.apache_kafka.broker import KafkaBroker
from tests.foreign.group_script import NAMES, run_script
from tests.foreign.tool_shell import ToolShell
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.kafka


@dataclass(frozen=True)
class Printed:
    """What each step of the script printed, by its name."""

    ours: dict[str, str]
    kafkas: dict[str, str]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Printed:
    with ToolShell(tmp_path_factory.mktemp("classes")) as shell:
        with SharegroupServer(tmp_path_factory.mktemp("ours")) as ours:
            our_outputs = run_script(shell, ours.bootstrap)
        with KafkaBroker(tmp_path_factory.mktemp("kafka")) as kafka:
            return Printed(our_outputs, run_script(shell, kafka.bootstrap))


@pytest.mark.parametrize("step", NAMES)
def test_kafka_share_groups_prints_the_same(printed: Printed, step: str) -> None:
    assert printed.ours[step] == printed.kafkas[step]


def test_the_script_is_not_silent(printed: Printed) -> None:
    quiet = {"nobody is left", "describe all of none", "consumer groups by their own tool"}
    assert {
        step for step, text in printed.kafkas.items() if len(text) <= len("status 0\n")
    } == quiet
