"""What a check says of share groups, and what they get after a repair."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.broker.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from sharegroup.broker.server import Broker
from sharegroup.model.errors import CorruptMessage
from sharegroup.storage import checkpoints
from sharegroup.storage.checkup.findings import Affected, Severity
from tests.app.checked import check, kinds, served, starts, without_checksum
from tests.broker import running, share_wire
from tests.broker.test_damage_at_rest import drained, flip, resumed

RECORDS = 60
BATCH = 5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    served(tmp_path)
    return tmp_path


def segment_of(folder: Path, offset: int) -> tuple[Path, int]:
    """The file with the batch that holds an offset of the topic, and its position."""
    logs = sorted((folder / "data" / f"{share_wire.TOPIC}-0").glob("*.log"))
    file = max(log for log in logs if int(log.stem) <= offset)
    data, position = file.read_bytes(), 0
    while int.from_bytes(data[position : position + 8], "big") + BATCH <= offset:
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return file, position


def delivered(folder: Path, topic_id: UUID) -> list[int]:
    """What the group still gets, in order."""
    taken: list[int] = []

    async def scenario(broker: Broker, port: int) -> None:
        taken.extend(await drained(await resumed(port, topic_id)))

    running.run(folder, scenario)
    return taken


@pytest.mark.parametrize(
    ("offset", "passed", "in_flight", "not_delivered"),
    [(5, 5, 0, 0), (10, 0, 5, 0), (20, 0, 0, 5)],
)
def test_findings_say_how_damage_affects_each_group(
    offset: int, passed: int, in_flight: int, not_delivered: int, tmp_path: Path
) -> None:
    topic_id = served(tmp_path)
    file, position = segment_of(tmp_path, offset)
    flip(file, position + 80, 4)
    (finding,) = check(tmp_path / "data").findings
    assert (finding.severity, finding.kind) == (Severity.ERROR, "damaged-batches")
    assert (finding.first_offset, finding.last_offset) == (offset, offset + BATCH - 1)
    assert finding.groups == [
        Affected(
            group=share_wire.GROUP,
            passed=passed,
            in_flight=in_flight,
            not_delivered=not_delivered,
        )
    ]
    repaired = check(tmp_path / "data", repair=True)
    assert repaired.sound
    assert repaired.lost_records == BATCH
    (again,) = check(tmp_path / "data").findings
    assert (again.severity, again.groups) == (Severity.KNOWN, finding.groups)
    lost = range(offset, offset + BATCH)
    assert delivered(tmp_path, topic_id) == [at for at in range(10, RECORDS) if at not in lost]


def test_lost_delivery_state_is_reported_with_its_repair(folder: Path) -> None:
    for file in (folder / "data" / f"{SHARE_GROUP_STATE}-0").glob("*.log"):
        os.truncate(file, 0)
    for _ in range(2):
        outcome = check(folder / "data", repair=True)
        assert kinds(outcome) == {"state-lost"}
        (finding,) = [each for each in outcome.findings if each.open]
        assert finding.place == f"share group {share_wire.GROUP}"
        assert f"lost its delivery state in {share_wire.TOPIC}-0" in finding.message
        command = (
            "`sharegroup groups reset-offsets --all-topics --to-earliest --execute "
            f"{share_wire.GROUP}`"
        )
        assert command in (finding.action or "")
    starts(folder)


def test_offsets_seen_by_a_group_are_not_used_again(folder: Path) -> None:
    data = folder / "data"
    (data / checkpoints.CLEAN_MARKER).unlink()
    (data / checkpoints.RECOVERY_POINTS).unlink()
    file, position = segment_of(folder, 10)
    os.truncate(file, position)
    for other in (data / f"{share_wire.TOPIC}-0").glob("0*"):
        if other.stem > file.stem:
            other.unlink()
    outcome = check(data)
    (finding,) = [each for each in outcome.findings if each.kind == "state-beyond-end"]
    assert (finding.first_offset, finding.last_offset) == (10, 14)
    assert [str(group) for group in finding.groups] == [
        f"{share_wire.GROUP}: 0 already passed, 5 in flight, 0 not yet delivered"
    ]
    assert check(data, repair=True).sound
    again = check(data)
    assert again.sound
    assert [(f.first_offset, f.last_offset) for f in again.findings if f.records] == [(10, 14)]

    async def scenario(broker: Broker, port: int) -> None:
        log = broker.parts.store.log(share_wire.TOPIC, 0)
        assert log.log_end_offset == 15
        with pytest.raises(CorruptMessage):
            await log.read(12, 1000)

    running.run(folder, scenario)


def test_a_folder_that_belongs_to_no_topic_is_reported(folder: Path) -> None:
    data = folder / "data"
    catalog = without_checksum((data / "catalog.json").read_text())
    (data / "catalog.json").write_text(catalog.replace(f'"{share_wire.TOPIC}"', '"renamed"'))
    found = {each.kind: each.severity for each in check(data).findings}
    assert found["stray-folder"] is Severity.WARNING
    assert found["no-folder"] is Severity.INFO


@pytest.mark.parametrize("topic", [SHARE_GROUP_STATE, CONSUMER_OFFSETS])
def test_every_byte_of_the_records_of_groups(topic: str, tmp_path: Path) -> None:
    """No byte of an internal topic makes a check fail, and each one that matters is found."""
    served(tmp_path)
    file = tmp_path / "data" / f"{topic}-0" / f"{0:020d}.log"
    whole = file.read_bytes()
    unnoticed = []
    for position in range(0, len(whole), 3):
        changed = bytearray(whole)
        changed[position] ^= 1 << position % 8
        file.write_bytes(changed)
        if check(tmp_path / "data").sound:
            unnoticed.append(position)
    starts_of_batches = []
    position = 0
    while position < len(whole):
        starts_of_batches.append(position)
        position += 12 + int.from_bytes(whole[position + 8 : position + 12], "big")
    epochs = {start + at for start in starts_of_batches for at in range(12, 16)}
    assert set(unnoticed) <= epochs, "no CRC covers the leader epoch, and nothing needs it"
