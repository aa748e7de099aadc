"""The folder of claims: what is in it when it is opened again, and what is refused or put aside."""

from __future__ import annotations

import logging
from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.source.claims import Claim, ClaimError, ClaimFolder
from sharegroup.spark.source.offsets import Acquired, ClaimPosition

TOPICS = {UUID(int=1): "jobs"}


def ranges_of(number: int) -> dict[TopicIdPartition, tuple[Acquired, ...]]:
    first = 10 * number
    return {TopicIdPartition(UUID(int=1), 0): (Acquired(first, first + 9, 1),)}


def opened(location: Path, position: ClaimPosition | None = None) -> tuple[ClaimFolder, list[int]]:
    folder = ClaimFolder(str(location), "workers")
    assert folder.try_lock()
    try:
        claims = folder.open(position)
    except BaseException:
        folder.close()
        raise
    for claim in claims:
        assert claim == Claim(claim.number, TOPICS, ranges_of(claim.number))
    return folder, [claim.number for claim in claims]


def with_claims(location: Path, count: int) -> str:
    """A folder with so many claims; its id."""
    folder, _ = opened(location)
    for number in range(1, count + 1):
        assert folder.write(TOPICS, ranges_of(number)).number == number
    folder.close()
    return folder.id


def file_of(location: Path, number: int) -> Path:
    return location / f"claim-{number:012d}.json"


def numbers(location: Path) -> list[int]:
    return [n for n in range(1, 20) if file_of(location, n).exists()]


def test_claims_are_loaded_from_the_position_on(tmp_path: Path) -> None:
    folder_id = with_claims(tmp_path / "new" / "claims", 3)
    for position, expected in (
        (None, [1, 2, 3]),
        (ClaimPosition(folder_id, 1, 4), [1, 2, 3]),
        (ClaimPosition(folder_id, 3, 0), [3]),
        (ClaimPosition(folder_id, 4, 0), []),
    ):
        folder, found = opened(tmp_path / "new" / "claims", position)
        assert found == expected
        folder.close()
    folder, _ = opened(tmp_path / "new" / "claims")
    assert folder.write(TOPICS, ranges_of(4)).number == 4
    folder.close()


def test_claims_of_the_batch_before_the_committed_one_are_deleted(tmp_path: Path) -> None:
    folder_id = with_claims(tmp_path, 5)
    folder, _ = opened(tmp_path)
    folder.settled(ClaimPosition(folder_id, 2, 0))
    assert numbers(tmp_path) == [1, 2, 3, 4, 5]  # what the batch before held is not known yet
    folder.settled(ClaimPosition(folder_id, 4, 3))
    assert numbers(tmp_path) == [2, 3, 4, 5]
    folder.settled(ClaimPosition(folder_id, 4, 7))
    assert numbers(tmp_path) == [2, 3, 4, 5]
    folder.settled(ClaimPosition(folder_id, 6, 0))
    assert numbers(tmp_path) == [4, 5]
    folder.close()


@pytest.mark.parametrize("damage", ["truncated", "changed", "emptied", "renamed"])
def test_damaged_claims_are_set_aside_and_logged(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder_id = with_claims(tmp_path, 3)
    path = file_of(tmp_path, 2)
    content = {
        "truncated": path.read_bytes()[:-20],
        "changed": path.read_bytes().replace(b"29", b"28"),
        "emptied": b"",
        "renamed": file_of(tmp_path, 3).read_bytes(),
    }[damage]
    path.write_bytes(content)
    folder, found = opened(tmp_path, ClaimPosition(folder_id, 1, 0))
    assert found == [1, 3]
    [told] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert str(path) in told.getMessage()
    assert (tmp_path / "damaged" / path.name).read_bytes() == content
    folder.close()
    folder, found = opened(tmp_path, ClaimPosition(folder_id, 1, 0))  # it is known to be damaged
    assert found == [1, 3]
    folder.close()


def test_a_damaged_newest_claim_keeps_its_number(tmp_path: Path) -> None:
    folder_id = with_claims(tmp_path, 2)
    file_of(tmp_path, 2).write_bytes(b"?")
    folder, found = opened(tmp_path, ClaimPosition(folder_id, 2, 5))
    assert found == []
    assert folder.write(TOPICS, ranges_of(3)).number == 3
    folder.close()


def test_a_half_written_claim_does_not_count(tmp_path: Path) -> None:
    with_claims(tmp_path, 1)
    scratch = tmp_path / f".{file_of(tmp_path, 2).name}"
    scratch.write_bytes(b'{"v": 1, "e"')
    folder, found = opened(tmp_path)
    assert found == [1]
    assert not scratch.exists()
    folder.close()


def test_missing_claims_are_reported(tmp_path: Path) -> None:
    folder_id = with_claims(tmp_path, 3)
    file_of(tmp_path, 2).unlink()
    with pytest.raises(ConfigError, match=r"lacks claim-000000000002\.json"):
        opened(tmp_path, ClaimPosition(folder_id, 1, 0))
    folder, found = opened(tmp_path, ClaimPosition(folder_id, 3, 0))  # a batch has it
    assert found == [3]
    folder.close()
    with pytest.raises(ConfigError, match=r"lacks claim-000000000004\.json"):
        opened(tmp_path, ClaimPosition(folder_id, 5, 0))


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with_claims(tmp_path / "one", 3)
    elsewhere = with_claims(tmp_path / "other", 3)
    with pytest.raises(ConfigError, match="is not the folder that the checkpoint was written with"):
        opened(tmp_path / "one", ClaimPosition(elsewhere, 2, 0))
    with pytest.raises(ConfigError, match="is not the folder"):
        opened(tmp_path / "empty", ClaimPosition(elsewhere, 2, 0))


def test_a_folder_of_another_group_is_refused(tmp_path: Path) -> None:
    with_claims(tmp_path, 1)
    folder = ClaimFolder(str(tmp_path), "others")
    assert folder.try_lock()
    with pytest.raises(ConfigError, match="is of the group workers"):
        folder.open(None)
    folder.close()


def test_a_folder_with_a_damaged_identity_file(tmp_path: Path) -> None:
    with_claims(tmp_path, 1)
    (tmp_path / "folder.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"folder\.json is damaged"):
        opened(tmp_path)


def test_one_source_at_a_time(tmp_path: Path) -> None:
    one, other = (ClaimFolder(str(tmp_path), "workers") for _ in range(2))
    assert one.try_lock()
    assert one.try_lock()
    assert not other.try_lock()
    one.close()
    assert other.try_lock()
    other.close()


def test_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"claimLocation .*claims cannot be used"):
        ClaimFolder(str(tmp_path / "file" / "claims"), "workers").try_lock()


def test_a_claim_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    folder, _ = opened(tmp_path)
    (tmp_path / f".{file_of(tmp_path, 1).name}").mkdir()
    with pytest.raises(ClaimError, match="are not accepted"):
        folder.write(TOPICS, ranges_of(1))
    folder.close()
