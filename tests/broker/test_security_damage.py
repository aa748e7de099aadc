"""Damage of the topic that keeps users, ACLs and quotas: the broker does not start without them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sharegroup.broker.coordination.security_machine import SecurityMachine
from sharegroup.broker.internal_topics import SECURITY
from sharegroup.broker.server import Broker
from sharegroup.model.errors import KafkaStorageError
from sharegroup.sasl.scram_keys import ScramMechanism, credential
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.internal.security import ScramChange
from tests.app.checked import check as checked
from tests.broker.running import run
from tests.broker.share_wire import until
from tests.broker.test_damage import damage, positions

SHA_256 = ScramMechanism.SHA_256
USERS = ("alice", "bob", "carol")
Made = tuple[None, list[ScramChange]]
KEPT = credential(SHA_256, bytes(32), b"salt", 4096)


async def make_users(broker: Broker, _port: int) -> None:
    """One batch each, at offsets 0, 1 and 2."""
    for name in USERS:
        made = None, [ScramChange(name, SHA_256, KEPT)]
        await broker.parts.security.change(partial(_answer, made))


def _answer(made: Made, _: SecurityMachine) -> Made:
    return made


async def never(_broker: Broker, _port: int) -> None:
    raise AssertionError("it has started")


def users(broker: Broker) -> set[str]:
    return {name for name, _ in broker.parts.security.state.credentials}


def flip(at: int) -> Callable[[Path], None]:
    return lambda folder: damage(folder, f"{SECURITY}-0", at)


def cut(folder: Path) -> None:
    """Lose the last batch, as if it had never been."""
    file = log_of(folder)
    data = file.read_bytes()
    *_, (last, _) = positions(data)
    file.write_bytes(data[:last])


def tear(folder: Path) -> None:
    file = log_of(folder)
    file.write_bytes(file.read_bytes()[:-3])


def remove(folder: Path) -> None:
    log_of(folder).unlink()


def log_of(folder: Path) -> Path:
    return next(folder.glob(f"**/{SECURITY}-0/*.log"))


def kill(folder: Path) -> None:
    """As if the broker had been killed: the next start scans the logs."""
    next(folder.glob("**/.kafka_cleanshutdown")).unlink()


@pytest.mark.parametrize("clean_end", [True, False])
@pytest.mark.parametrize(
    ("harm", "ranges", "end"),
    [
        (flip(0), "0 to 0", 1),
        (flip(1), "1 to 1", 2),
        (flip(2), "2 to 2", 3),
        (cut, "2 to 2", 3),
        (tear, "2 to 2", 3),
        (remove, "0 to 2", 3),
    ],
)
def test_what_is_lost_keeps_the_broker_from_starting(
    harm: Callable[[Path], None], ranges: str, end: int, clean_end: bool, tmp_path: Path
) -> None:
    run(tmp_path, make_users)
    if not clean_end:
        kill(tmp_path)
    harm(tmp_path)
    for _ in range(2):  # the damage is known at the second start
        outcome = checked(tmp_path / "data")
        (finding,) = [each for each in outcome.findings if each.topic == SECURITY and each.records]
        assert finding.open
        assert f"-o security.damage.accepted.before={end}," in (finding.action or "")
        with pytest.raises(KafkaStorageError) as refused:
            run(tmp_path, never)
        assert f"offsets {ranges})" in str(refused.value)
        assert f"-o security.damage.accepted.before={end}" in str(refused.value)
    with pytest.raises(KafkaStorageError):
        run(tmp_path, never, f"security.damage.accepted.before={end - 1}")


def test_a_loss_is_accepted_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, make_users)
    damage(tmp_path, f"{SECURITY}-0", 1)

    async def others_are_there(broker: Broker, _port: int) -> None:
        assert users(broker) == {"alice", "carol"}

    run(tmp_path, others_are_there, "security.damage.accepted.before=2")
    assert "the loss of records before offset 2 is accepted" in caplog.text
    run(tmp_path, others_are_there)


def test_a_record_that_is_none_of_ours_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    async def write(broker: Broker, port: int) -> None:
        await make_users(broker, port)
        log = broker.parts.topics.internal_log(SECURITY, 0)
        log.append_trusted(encode_batch([(b"\0\x7fjunk", b"\xff" * 9)], timestamp_ms=0))
        await log.wait_durable(log.log_end_offset)

    run(tmp_path, write)
    with pytest.raises(KafkaStorageError, match="offsets 3 to 3"):
        run(tmp_path, never)


@pytest.mark.parametrize("harm", [flip(2), cut, tear, remove])
def test_a_change_that_was_answered_is_missed_after_a_kill(
    harm: Callable[[Path], None], tmp_path: Path
) -> None:
    """The broker notes how far the log goes without waiting for a clean end."""
    copy = tmp_path / "killed"

    async def write(broker: Broker, port: int) -> None:
        await make_users(broker, port)
        points = tmp_path / "data" / "recovery-point-offset-checkpoint"
        await until(lambda: points.exists() and f"{SECURITY} 0 3" in points.read_text())
        shutil.copytree(tmp_path / "data", copy / "data")

    run(tmp_path, write)
    harm(copy)
    with pytest.raises(KafkaStorageError, match="users, ACLs or quotas are lost"):
        run(copy, never)
