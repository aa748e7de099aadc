"""Building the package: the walk is compiled where a compiler is, and nothing depends on it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scripts.release.artifacts import sources_problems, wheel_problems
from scripts.setup_compiler import machine_compiler

ROOT = Path(__file__).resolve().parent.parent
ASK = "import sharegroup.records.walk as w; print(w.__file__, w.NAME, sep='|')"
HAS_ZIG = importlib.util.find_spec("ziglang") is not None
CAN_COMPILE = machine_compiler() is not None or HAS_ZIG

pytestmark = pytest.mark.process


def environment(*, compiler: bool = True, **more: str) -> dict[str, str]:
    """Ours; without ``compiler`` nothing at all is on the PATH."""
    env = {k: v for k, v in os.environ.items() if k not in ("CC", "SHAREGROUP_PURE")} | more
    return env if compiler else env | {"PATH": "/nonexistent"}


def build(target: str, out: Path, env: dict[str, str], source: Path = ROOT) -> tuple[Path, str]:
    """The file that was built, and what the build said."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)]
    done = subprocess.run(command, cwd=source, env=env, capture_output=True, text=True, check=True)
    [file] = out.iterdir()
    return file, done.stdout + done.stderr


def walk_in(place: Path, **more: str) -> str:
    """Which walk an installation in ``place`` uses."""
    env = environment(PYTHONPATH=str(place), **more)
    command = [sys.executable, "-c", ASK]
    shown = subprocess.run(command, env=env, capture_output=True, text=True, check=True, cwd=place)
    path, name = shown.stdout.strip().split("|")
    assert Path(path).is_relative_to(place)
    return name


def unpacked(wheel: Path, place: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    return place


@pytest.mark.skipif(not CAN_COMPILE, reason="there is no compiler here")
def test_a_wheel_has_the_compiled_walk_and_says_for_which_machine(tmp_path: Path) -> None:
    wheel, _ = build("wheel", tmp_path / "out", environment())
    assert "-py3-none-" in wheel.name
    assert not wheel.name.endswith("-any.whl")
    place = unpacked(wheel, tmp_path / "place")
    assert walk_in(place) == "compiled"
    assert walk_in(place, SHAREGROUP_PURE="1") == "pure Python"
    (place / "sharegroup" / "records" / "libwalk.so").write_bytes(b"no library")
    assert walk_in(place) == "pure Python"


def test_without_a_compiler_the_installation_succeeds_with_a_message(tmp_path: Path) -> None:
    env = environment(compiler=False)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-v"]
    command = [*pip, "--no-deps", "--no-build-isolation", "--target", str(tmp_path), str(ROOT)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert walk_in(tmp_path) == ("compiled" if HAS_ZIG else "pure Python")
    assert HAS_ZIG or "there is no C compiler here" in done.stdout + done.stderr


def test_a_failing_compiler_is_reported_in_one_sentence(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'it is not my day' >&2\nexit 1\n")
    compiler.chmod(0o755)
    wheel, said = build("wheel", tmp_path / "out", environment(CC=str(compiler)))
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "stays Python's" in said
    assert "it is not my day" in said
    assert walk_in(unpacked(wheel, tmp_path / "place")) == "pure Python"


def test_the_library_can_be_disabled(tmp_path: Path) -> None:
    wheel, _ = build("wheel", tmp_path / "out", environment(SHAREGROUP_PURE="1"))
    assert wheel.name.endswith("-py3-none-any.whl")
    assert wheel_problems(wheel, ROOT) == []


@pytest.mark.skipif(not CAN_COMPILE, reason="there is no compiler here")
def test_a_source_distribution_has_all_files_for_the_build(tmp_path: Path) -> None:
    archive, _ = build("sdist", tmp_path / "out", environment())
    assert sources_problems(archive, ROOT) == []
    (tmp_path / "source").mkdir()
    subprocess.run(["tar", "-xzf", archive, "-C", tmp_path / "source"], check=True)
    [source] = (tmp_path / "source").iterdir()
    wheel, _ = build("wheel", tmp_path / "wheels", environment(), source)
    assert walk_in(unpacked(wheel, tmp_path / "place")) == "compiled"


def test_a_compiler_is_asked_for_only_where_there_is_none() -> None:
    ask = "import hatchling.build as b; print(b.get_requires_for_build_wheel())"

    def wanted(env: dict[str, str]) -> bool:
        command = [sys.executable, "-c", ask]
        shown = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
        assert shown.returncode == 0, shown.stderr
        return "ziglang" in shown.stdout

    assert wanted(environment()) == (machine_compiler() is None)
    assert wanted(environment(compiler=False))
    assert not wanted(environment(compiler=False, SHAREGROUP_PURE="1"))


def test_changes_that_affect_the_library_make_setup_run_again() -> None:
    from scripts.setup_environment import INPUTS

    assert {"hatch_build.py", "src/sharegroup/records/walk.c", "requirements-zig.lock"} <= {*INPUTS}
