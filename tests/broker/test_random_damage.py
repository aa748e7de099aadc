"""Random damage to the files of a partition while the broker is down: what is left is delivered."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.broker.server import Broker
from sharegroup.client.admin.admin import Admin
from sharegroup.model.ids import TopicPartition
from tests.broker import running, share_wire
from tests.broker.share_wire import ACCEPT

WHERE = TopicPartition(share_wire.TOPIC, 0)
SEEDS = int(os.environ.get("SHAREGROUP_DAMAGE_SEEDS", "40"))
RECORDS = 6000
ACCEPTED = 700
CHECKPOINTS = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, UUID]:
    """A folder with several segments of batches of all sizes, and a group that has begun."""
    folder = tmp_path_factory.mktemp("whole")
    found: list[UUID] = []

    async def fill(broker: Broker, port: int) -> None:
        session = await share_wire.started(broker, port, partitions=1)
        found.append(session.topic_id)
        configs = {"segment.bytes": "1048576", "retention.ms": "-1", "index.interval.bytes": "512"}
        broker.parts.store.set_topic_config(share_wire.TOPIC, configs)
        sizes = random.Random(1)
        left = RECORDS
        while left:
            count = min(left, sizes.choice((1, 2, 7, 30, 150)))
            await share_wire.produce(port, session.topic_id, 0, count, size=700)
            left -= count
        await session.fetch(0, max_records=0)
        taken = 0
        while taken < ACCEPTED:
            got = share_wire.acquired(
                await session.fetch(max_records=ACCEPTED - taken, share_acquire_mode=1)
            )[0]
            acks = [(first, last, [ACCEPT]) for first, last, _ in got]
            assert share_wire.codes(await session.acknowledge({0: acks})) == {0: 0}
            taken += sum(last - first + 1 for first, last, _ in got)

    running.run(folder, fill)
    return folder, found[0]


def damage(folder: Path, dice: random.Random) -> list[str]:
    """Hurt one to four files of the partition, or a checkpoint; what was done."""
    done = []
    for _ in range(dice.randint(1, 4)):
        files = [*(folder / "data" / "jobs-0").iterdir()]
        files += [folder / "data" / name for name in CHECKPOINTS]
        file = dice.choice([one for one in sorted(files) if one.is_file()])
        size = file.stat().st_size
        what = dice.choice(["flip", "flip", "zero", "cut", "delete", "add"])
        if what == "delete":
            file.unlink()
        elif what == "cut":
            os.truncate(file, dice.randint(0, size))
        else:
            data = bytearray(file.read_bytes())
            at = dice.randrange(size + 1)
            if what == "flip" and at < size:
                data[at] ^= 1 << dice.randrange(8)
            elif what == "zero":
                data[at : at + 4096] = bytes(len(data[at : at + 4096]))
            elif what == "add":
                data += dice.randbytes(dice.randint(1, 300))
            file.write_bytes(data)
        done.append(f"{what} {file.name}")
    if dice.random() < 0.4:
        (folder / "data" / ".kafka_cleanshutdown").unlink()
        done.append("crash")
    return done


@pytest.mark.parametrize("seed", range(SEEDS))
def test_intact_records_are_delivered_and_damage_is_reported(
    seed: int, whole: tuple[Path, UUID], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, topic_id = whole
    shutil.copytree(source / "data", tmp_path / "data")
    done = damage(tmp_path, random.Random(seed))

    async def drain(broker: Broker, port: int) -> None:
        log = broker.parts.topics.log(share_wire.TOPIC, 0)
        assert log.log_end_offset >= ACCEPTED, done
        await share_wire.produce(port, topic_id, 0, 3)
        session = share_wire.Session(await share_wire.connect(port), topic_id)
        await session.fetch(0, max_records=0)
        taken: list[int] = []
        while got := share_wire.acquired(await session.fetch(max_records=2000)).get(0, []):
            acks = [(first, last, [ACCEPT]) for first, last, _ in got]
            assert share_wire.codes(await session.acknowledge({0: acks})) == {0: 0}
            taken += [at for first, last, _ in got for at in range(first, last + 1)]
        assert len(taken) == len(set(taken)), done
        assert not taken or min(taken) >= ACCEPTED, (done, "accepted records came again")
        await share_wire.until(lambda: not broker._tasks)
        async with Admin(f"127.0.0.1:{port}") as admin:
            offsets = (await admin.list_share_group_offsets(share_wire.GROUP))[WHERE]
        lost = {at for one in offsets.damaged for at in range(one.first, one.last + 1)}
        whole_log = range(ACCEPTED, log.log_end_offset)
        assert set(taken) == {at for at in whole_log if at not in lost}, done
        assert (offsets.start_offset, offsets.lag) == (log.log_end_offset, 0), done
        assert set(range(log.log_end_offset - 3, log.log_end_offset)) <= set(taken), done
        assert "Traceback" not in caplog.text, done

    running.run(tmp_path, drain)
