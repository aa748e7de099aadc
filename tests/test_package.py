"""The public face: its names exist, and importing it costs nothing."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

import sharegroup
from scripts.setup_environment import NOT_IN_LIGHT, light_lock

ROOT = Path(__file__).resolve().parent.parent

# Adding a name is a decision; taking one away breaks somebody.
PUBLIC = {
    "Admin",
    "AuthenticationFailed",
    "ConfigError",
    "Consumer",
    "ConsumerRecord",
    "InvalidRecordState",
    "KafkaError",
    "MalformedMessage",
    "Producer",
    "Record",
    "RetriableError",
    "Security",
    "ShareConsumer",
    "SharegroupError",
    "TopicPartition",
}


def test_public_names() -> None:
    assert set(sharegroup.__all__) == PUBLIC | {"__version__"}
    assert dir(sharegroup) == sorted(sharegroup.__all__)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_name_is_a_class(name: str) -> None:
    assert isinstance(getattr(sharegroup, name), type)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'sharegroup' has no attribute 'Customer'"):
        _ = sharegroup.Customer  # type: ignore[attr-defined]


def test_import_loads_nothing_else() -> None:
    code = "import sys, sharegroup; print(*(m for m in sys.modules if m.startswith('sharegroup')))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["sharegroup"]


def test_version_and_command_are_the_installed_ones() -> None:
    assert version("sharegroup") == sharegroup.__version__
    (command,) = entry_points(group="console_scripts", name="sharegroup")
    assert command.value == "sharegroup.cli:main"


def test_locks_hold_hashes_and_no_address() -> None:
    for lock in ROOT.glob("*.lock"):
        text = lock.read_text()
        assert "://" not in text, lock.name
        pins = [part for part in text.split("\n") if "==" in part]
        assert pins, lock.name
        assert all(pin.endswith("\\") for pin in pins), lock.name  # its hashes follow


def test_a_light_environment_leaves_out_what_it_names_and_nothing_else() -> None:
    def packages(lock: str) -> set[str]:
        return set(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))

    lock = (ROOT / "requirements.lock").read_text()
    light = light_lock(lock)
    assert packages(lock) - packages(light) == NOT_IN_LIGHT
    assert set(light.splitlines()) < set(lock.splitlines())


def test_what_a_light_run_of_the_tests_leaves_out_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = re.search(r"^NOT_IN_LIGHT := (.*\\\n)*.*$", makefile, re.MULTILINE)
    assert named is not None
    paths = re.findall(r"tests/\S+", named[0])
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_dependency_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    wanted = {*project["project"]["dependencies"], *(name for extra in extras for name in extra)}
    wanted = {name for name in wanted if not name.startswith("sharegroup[")}
    page = (ROOT / "docs" / "dependencies.md").read_text().lower()
    for requirement in wanted:
        name = requirement.split(">")[0].split("=")[0].split("[")[0]
        assert f"`{name}`" in page, name
