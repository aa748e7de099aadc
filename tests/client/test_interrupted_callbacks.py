"""Callbacks of a blocking consumer are called after an interrupt, too."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sharegroup.client.errors import Wakeup
from sharegroup.model.ids import TopicPartition
from sharegroup.sync import Consumer
from sharegroup.testing import LocalBroker
from sharegroup.testing import broker as local_broker
from tests.client import interrupted_program
from tests.client.working import WAIT_S, fresh

Places = list[TopicPartition]


@pytest.fixture(scope="module")
def local() -> Iterator[LocalBroker]:
    with local_broker() as broker:
        yield broker


def filled(local: LocalBroker) -> str:
    topic = fresh("read")
    local.create_topic(topic)
    local.produce(topic, ["0"])
    return topic


def consumer_of(local: LocalBroker) -> Consumer:
    return Consumer(
        group_id=fresh("group"), bootstrap_servers=local.bootstrap, auto_offset_reset="earliest"
    )


def raising(error: BaseException) -> Callable[[Places], None]:
    def callback(_: Places) -> None:
        raise error

    return callback


def values(consumer: Consumer) -> list[bytes | None]:
    return [record.value for record in consumer.poll(int(WAIT_S * 1000))]


@pytest.mark.process
def test_ctrl_c_ends_with_the_good_bye(local: LocalBroker) -> None:
    """Before, the close waited for its time-out, and ``on_revoked`` was never called."""
    program = Path(interrupted_program.__file__)
    ended = subprocess.run(
        [sys.executable, program, local.bootstrap, filled(local)],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("revoked\ninterrupted\n", "")
    assert ended.returncode == 0


def test_a_rebalance_goes_on_when_its_callback_is_interrupted(local: LocalBroker) -> None:
    topic = filled(local)
    consumer = consumer_of(local)
    consumer.subscribe(topic, on_assigned=raising(KeyboardInterrupt()))
    with consumer:
        with pytest.raises(KeyboardInterrupt):
            values(consumer)
        assert values(consumer) == [b"0"]


def test_a_callback_that_waits_at_an_interrupt_is_called_by_the_next_poll(
    local: LocalBroker,
) -> None:
    """The rebalance goes on beside the program, and asks for its next callback."""
    one, other = filled(local), filled(local)
    assigned: list[str] = []
    with consumer_of(local) as consumer:
        consumer.subscribe(one, on_revoked=raising(KeyboardInterrupt()))
        assert values(consumer) == [b"0"]
        consumer.subscribe(
            other,
            on_assigned=lambda wheres: assigned.extend(where.topic for where in wheres),
            on_revoked=raising(KeyboardInterrupt()),
        )
        with pytest.raises(KeyboardInterrupt):
            values(consumer)
        assert values(consumer) == [b"0"]
        assert assigned == [other]
        consumer.subscribe(other)  # the close is not interrupted


def test_a_wait_does_not_end_by_the_end_of_another(local: LocalBroker) -> None:
    """A poll ends by ``wakeup()`` while its callback waits for something else."""
    topic, threads = filled(local), []
    consumer = consumer_of(local)

    def assigned(wheres: Places) -> None:
        consumer.wakeup()
        assert consumer.position(*wheres[0]) == 0
        consumer.unsubscribe()

    def revoked(_: Places) -> None:
        threads.append(threading.get_ident())

    consumer.subscribe(topic, on_assigned=assigned, on_revoked=revoked)
    with consumer, pytest.raises(Wakeup):
        values(consumer)
    assert threads == [threading.get_ident()]


def test_a_callback_may_raise_what_no_future_takes(local: LocalBroker) -> None:
    consumer = consumer_of(local)
    consumer.subscribe(filled(local), on_assigned=raising(StopIteration()))
    with consumer:
        with pytest.raises(RuntimeError, match="StopIteration"):
            values(consumer)
        assert values(consumer) == [b"0"]


def test_a_close_in_a_callback_of_the_close_does_not_wait_for_itself(local: LocalBroker) -> None:
    consumer = consumer_of(local)
    closed: list[bool] = []

    def revoked(_: Places) -> None:
        consumer.close()
        consumer.commit()
        closed.append(consumer.closed)

    consumer.subscribe(filled(local), on_revoked=revoked)
    with consumer:
        assert values(consumer) == [b"0"]
    assert closed == [True]
