"""The folder of claims: what is in it when it is opened again, and what is refused or put aside."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.slices import Acquired
from sharegroup.spark.source.holding.claims import Claim, ClaimError, ClaimFolder
from sharegroup.spark.source.offsets import ClaimPosition

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


def missed(location: Path, position: ClaimPosition | None = None) -> int:
    """The number of the claim that the query says is missing."""
    with pytest.raises(ConfigError, match=r"lacks claim-\d+\.json") as refused:
        opened(location, position)
    return int(str(refused.value).split("lacks claim-")[1].split(".")[0])


def batches(folder_id: str) -> dict[str, ClaimPosition | None]:
    """What Spark's newest offset may say while the claims 2, 3 and 4 are kept."""
    return {
        "no offset": None,
        "within the first": ClaimPosition(folder_id, 2, 5, 2),
        "at the second": ClaimPosition(folder_id, 3, 0, 2),
        "within the second": ClaimPosition(folder_id, 3, 5, 4),
        "at the last": ClaimPosition(folder_id, 4, 0, 3),
        "within the last": ClaimPosition(folder_id, 4, 5, 4),
        "of an earlier version": ClaimPosition(folder_id, 4, 5),
        "after the last": ClaimPosition(folder_id, 5, 0, 4),
    }


def kept_claims_2_to_4(location: Path) -> str:
    folder_id = with_claims(location, 4)
    folder, _ = opened(location, ClaimPosition(folder_id, 2, 0))
    folder.settled(ClaimPosition(folder_id, 2, 0))
    folder.settled(ClaimPosition(folder_id, 3, 0))
    folder.close()
    assert numbers(location) == [2, 3, 4]
    return folder_id


@pytest.mark.parametrize(
    "gone", [{2}, {3}, {4}, {2, 3}, {2, 4}, {3, 4}, {2, 3, 4}, set()], ids=lambda gone: f"{gone}"
)
def test_no_missing_claim_is_passed_over(tmp_path: Path, gone: set[int]) -> None:
    """Every offset with every set of files: it is refused, or has all that is in no batch."""
    folder_id = kept_claims_2_to_4(tmp_path)
    for number in gone:
        file_of(tmp_path, number).unlink()
    for said, position in batches(folder_id).items():
        begin = 2 if position is None else position.number
        needed = set(range(begin, 5))
        if needed & gone:
            assert missed(tmp_path, position) == min(needed & gone), said
        else:
            folder, found = opened(tmp_path, position)
            assert found == sorted(needed), said
            assert folder.next == 5
            folder.close()


@pytest.mark.parametrize("gone", [2, 3, 4])
def test_a_torn_claim_is_no_missing_one(tmp_path: Path, gone: int) -> None:
    """It is named in an ERROR and the query goes on, as often as it is started."""
    folder_id = kept_claims_2_to_4(tmp_path)
    file_of(tmp_path, gone).write_bytes(file_of(tmp_path, gone).read_bytes()[:-5])
    for _ in range(2):
        for said, position in batches(folder_id).items():
            begin = 2 if position is None else position.number
            folder, found = opened(tmp_path, position)
            assert found == sorted({*range(begin, 5)} - {gone}), said
            assert folder.next == 5
            folder.close()


def test_a_claim_that_spark_knows_nothing_of_is_missed(tmp_path: Path) -> None:
    """It was written and accepted, and the query was killed before a batch was made of it."""
    folder_id = with_claims(tmp_path, 3)
    file_of(tmp_path, 3).unlink()
    assert missed(tmp_path, ClaimPosition(folder_id, 3, 0, 2)) == 3
    assert missed(tmp_path, ClaimPosition(folder_id, 2, 7, 2)) == 3


def test_a_lost_claim_is_given_up_by_an_empty_file(tmp_path: Path) -> None:
    folder_id = with_claims(tmp_path, 3)
    file_of(tmp_path, 2).unlink()
    assert missed(tmp_path, ClaimPosition(folder_id, 2, 5, 3)) == 2
    file_of(tmp_path, 2).touch()
    folder, found = opened(tmp_path, ClaimPosition(folder_id, 2, 5, 3))
    assert found == [3]
    folder.close()


def test_an_old_copy_of_the_folder_is_refused(tmp_path: Path) -> None:
    """It agrees with itself; the checkpoint knows of claims that were made since."""
    folder_id = with_claims(tmp_path, 3)
    assert missed(tmp_path, ClaimPosition(folder_id, 5, 0, 4)) == 4
    assert missed(tmp_path, ClaimPosition(folder_id, 4, 0, 6)) == 4
    assert missed(tmp_path, ClaimPosition(folder_id, 3, 0, 6)) == 4


def test_a_folder_of_an_earlier_version_says_from_now_on_what_is_in_it(tmp_path: Path) -> None:
    folder_id = with_claims(tmp_path, 3)
    file_of(tmp_path, 1).unlink()
    [said] = tmp_path.glob("kept-*")
    said.unlink()
    identity = tmp_path / "folder.json"
    identity.write_text(json.dumps({"v": 1, "id": folder_id, "group": "workers"}))
    folder, found = opened(tmp_path, ClaimPosition(folder_id, 2, 5))
    assert found == [2, 3]
    folder.close()
    file_of(tmp_path, 3).unlink()
    assert missed(tmp_path, ClaimPosition(folder_id, 3, 0)) == 3


def test_a_folder_that_lost_what_it_says_is_refused(tmp_path: Path) -> None:
    folder_id = with_claims(tmp_path, 2)
    for path in (*tmp_path.glob("kept-*"), *tmp_path.glob("claim-*")):
        path.unlink()
    with pytest.raises(ConfigError, match="lacks its file kept-"):
        opened(tmp_path, ClaimPosition(folder_id, 2, 0, 1))


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
