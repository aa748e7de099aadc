"""Whatever is damaged, a check ends with findings, a repair with a folder that a broker starts."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from sharegroup.model.errors import ConfigError
from tests.app.checked import check, kinds, served, starts, tree


def flipped(data: bytes, places: list[int]) -> bytes:
    changed = bytearray(data)
    for place in places:
        if data:
            changed[place // 8 % len(data)] ^= 1 << place % 8
    return bytes(changed)


def zeroed(data: bytes, start: int, size: int) -> bytes:
    first = start % (len(data) + 1)
    return data[:first] + bytes(len(data[first : first + size])) + data[first + size :]


@dataclass(frozen=True)
class Damage:
    """One damage of one file, the ``choice``-th of those that are there."""

    choice: int
    kind: str
    places: list[int]
    size: int

    def apply(self, folder: Path) -> str:
        """Do it; what was done, for whoever looks at a failure."""
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        file = files[self.choice % len(files)]
        data = file.read_bytes()
        if self.kind == "delete":
            file.unlink()
        elif self.kind == "flip":
            file.write_bytes(flipped(data, self.places))
        elif self.kind == "cut":
            file.write_bytes(data[: self.places[0] % (len(data) + 1)])
        elif self.kind == "grow":
            file.write_bytes(data + bytes(place % 256 for place in self.places))
        else:
            file.write_bytes(zeroed(data, self.places[0], self.size))
        return f"{self.kind} {file.relative_to(folder)}"


damages = st.builds(
    Damage,
    choice=st.integers(0, 10_000),
    kind=st.sampled_from(["flip", "flip", "zero", "cut", "delete", "grow"]),
    places=st.lists(st.integers(0, 100_000), min_size=1, max_size=4),
    size=st.integers(1, 400),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    served(folder)
    return folder / "data"


@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(damages, min_size=1, max_size=5))
@pytest.mark.timeout(300)
def test_any_damage_is_found_and_repaired(whole: Path, applied: list[Damage]) -> None:
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data"
        shutil.copytree(whole, data)
        note(", ".join(damage.apply(data) for damage in applied))
        before = tree(data)
        found = check(data)
        assert tree(data) == before, "a check writes nothing"
        repaired = check(data, repair=True)
        assert kinds(repaired) <= kinds(found)
        again = check(data)
        assert kinds(again) == kinds(repaired), "there is nothing new"
        assert again.sound == repaired.sound
        untouched = tree(data)
        check(data, repair=True)
        assert tree(data) == untouched, "a second repair changes nothing"
        starts(Path(name))


def test_a_folder_without_damage_is_sound(whole: Path) -> None:
    before = tree(whole)
    outcome = check(whole)
    assert outcome.findings == []
    assert outcome.sound
    assert (outcome.topics, outcome.partitions, outcome.share_partitions) == (3, 3, 1)
    check(whole, repair=True)
    assert tree(whole) == before


@pytest.mark.parametrize("name", ["", "nothing-here"])
def test_other_folders_are_not_checked(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"not a data folder|does not exist"):
        check(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
