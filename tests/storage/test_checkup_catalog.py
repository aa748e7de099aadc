"""The checks of a catalog and of the ids of topics, in a folder that nobody has open."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.model.errors import ConfigError
from sharegroup.storage import checkpoints
from sharegroup.storage.checkup.findings import Severity
from tests.app.checked import without_checksum
from tests.storage.support import (
    TOPIC_ID,
    append_durably,
    batch,
    one_log,
    opened,
    run,
)
from tests.storage.test_checkup import but, checked, content, folder, found, readable
from tests.storage.test_damage_at_rest import (
    SMALL,
    fill,
)

__all__ = ["folder"]  # the fixture


@pytest.mark.parametrize("how", ["gone", "cut", "zeros"])
def test_a_lost_catalog_is_refused_and_can_be_rebuilt(how: str, folder: Path) -> None:
    file = folder / "catalog.json"
    whole = file.read_bytes()
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(whole[:40] if how == "cut" else bytes(len(whole)))
    with pytest.raises(ConfigError, match=f"sharegroup fsck --data {folder} --repair"):
        run(fill(folder))
    assert [finding.kind for finding in found(folder)] == ["catalog"]
    before = checked(folder, repair=True)
    assert "defaults apply" in before.findings[0].message
    assert found(folder) == []
    after = checked(folder).facts
    assert after.cluster_id == "test-cluster"
    assert after.topics["t"].topic_id == UUID(int=7)
    assert after.topics["t"].partitions == 1
    if how != "gone":
        assert (folder / "catalog.json.damaged.1").read_bytes() != whole
    assert readable(folder) == but(set())


def test_a_new_folder_needs_no_catalog(tmp_path: Path) -> None:
    run(fill(tmp_path / "new"))
    assert (tmp_path / "new" / "catalog.json").exists()


def test_producer_ids_continue_above_all_ids_in_the_logs(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path, SMALL) as folder:
            header = {"producer_id": 123_456, "producer_epoch": 0, "base_sequence": 0}
            await append_durably(await one_log(folder), batch(b"x", **header))

    run(main())
    (tmp_path / "catalog.json").unlink()
    assert checked(tmp_path, repair=True).partitions
    assert checked(tmp_path).facts.producer_ids_end > 123_456


def test_a_catalog_of_another_version_is_not_repaired(folder: Path) -> None:
    file = folder / "catalog.json"
    file.write_text(without_checksum(file.read_text()).replace('"version": 1', '"version": 2'))
    before = content(folder)
    with pytest.raises(ConfigError, match="is of version 2"):
        found(folder, repair=True)
    assert content(folder) == before


def test_a_damaged_topic_id_in_a_folder_is_repaired(folder: Path) -> None:
    file = folder / "t-0" / checkpoints.PARTITION_METADATA
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"AAAAAA", b"AABAAA", 1))
    findings = found(folder, repair=True)
    assert [(f.severity, f.kind) for f in findings] == [(Severity.WARNING, "partition-metadata")]
    assert file.read_bytes() == whole
    assert readable(folder) == but(set())


@pytest.mark.parametrize("bits", [1, 8, 9, 16])
def test_a_check_and_a_start_take_the_same_topic_ids_for_damaged(bits: int, folder: Path) -> None:
    other = UUID(int=TOPIC_ID.int ^ ((1 << bits) - 1) << 64)
    metadata = folder / "t-0" / checkpoints.PARTITION_METADATA
    metadata.write_bytes(checkpoints.partition_metadata(other))
    (finding,) = found(folder)
    assert finding.kind == ("partition-metadata" if bits <= 8 else "other-topic")

    async def main() -> None:
        async with opened(folder, SMALL) as broker:
            assert bool(broker.recovered.problems) is (finding.kind == "other-topic")

    run(main())


def test_a_folder_with_another_topics_id_is_not_repaired(folder: Path) -> None:
    file = folder / "t-0" / checkpoints.PARTITION_METADATA
    file.write_bytes(checkpoints.partition_metadata(UUID(int=2**127 - 1)))
    for _ in range(2):
        findings = found(folder, repair=True)
        assert [(f.kind, f.open) for f in findings] == [("other-topic", True)]


def test_a_folder_that_belongs_to_no_topic_is_set_aside(folder: Path) -> None:
    shutil.copytree(folder / "t-0", folder / "u-3")
    findings = found(folder, repair=True)
    assert [finding.kind for finding in findings] == ["stray-folder"]
    assert not (folder / "u-3").exists()
    assert [finding.kind for finding in found(folder)] == ["set-aside"]
    assert readable(folder) == but(set())
