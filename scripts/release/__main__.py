"""Build a release and try it, up to the upload: ``make release``.

Writes ``dist/``: the sources, a wheel with the compiled library for each machine of ``MACHINES``, a
wheel without it for all others, and the notes. Each is built from the sources' archive, looked
into, and installed in an empty environment where the README's lines run. A wheel for a machine of
another kind is looked into only. The last line is the command for the upload. ``--rehearse`` does
the same for a tree that is not to be released yet, and ends without that line.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

from scripts.release.artifacts import sources_problems, wheel_problems
from scripts.release.running import Commands, ReleaseError, step
from scripts.release.texts import Texts
from scripts.release.trial import COMPILED, PURE, try_file
from tests.servers import family

ROOT: Final = Path(__file__).resolve().parents[2]
DIST: Final = ROOT / "dist"
PLACE: Final = ROOT / "build" / "release"
TOOLS: Final = PLACE / "tools"
MACHINES: Final = ("x86_64", "aarch64")
GLIBC: Final = "2.17"
"""The oldest C library that the compiled one runs with: that of manylinux2014. This machine's
compiler would ask for its own C library, so Zig's compiles, which knows the old ones."""
TOOLS_S_MAX: Final = 400
BUILD_S_MAX: Final = 300
QUICK_S_MAX: Final = 60


def main() -> None:
    """Make the release; exits with one sentence where it cannot go on."""
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument("--rehearse", action="store_true", help="for a tree that is not ready")
    rehearse = parser.parse_args().rehearse
    family.begin()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left running
    try:
        release(rehearse=rehearse)
    except ReleaseError as error:
        sys.exit(f"release: {error}")


def release(*, rehearse: bool) -> None:
    """All steps, in their order. Raises ReleaseError."""
    texts = Texts.of(ROOT)
    with step(f"sharegroup {texts.version}: tree, tag, changelog and versions agree"):
        problems = texts.disagreements() + tree_problems(texts.version)
    for problem in problems:
        if not rehearse:
            raise ReleaseError(problem)
        print(f"    not yet: {problem}")
    for folder in (DIST, PLACE / "work"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    commands = Commands(PLACE / "log.txt")
    with step("the tools, from requirements-release.lock"):
        install_tools(commands)
    files = build(commands)
    with step("twine check --strict"):
        tool(commands, "twine", "check", "--strict", *files)
    for file in files:
        if "manylinux" in file.name and platform.machine() not in file.name:
            print(f"  {file.name} is for another machine: it is not tried here")
            continue
        walk = PURE if file.name.endswith("-any.whl") else COMPILED
        with step(f"{file.name} in an empty environment, with the README's lines"):
            try_file(file, PLACE / "trial", commands, version=texts.version, walk=walk)
    notes = DIST / f"notes-{texts.version}.md"
    notes.write_text(texts.notes())
    print(f"the notes are in {notes.relative_to(ROOT)}")
    if rehearse:
        print("a rehearsal: nothing to upload")
        return
    tag, twine = f"v{texts.version}", (TOOLS / "bin" / "twine").relative_to(ROOT)
    names = " ".join(str(file.relative_to(ROOT)) for file in files)
    print(f'ready: git tag -a {tag} -m "sharegroup {texts.version}" && {twine} upload {names}')


def tree_problems(version: str) -> list[str]:
    """Why this tree is not what would be released, a sentence each."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=QUICK_S_MAX
        )
        if done.returncode:
            raise ReleaseError(f"git {words[0]} failed: {done.stderr.strip()}")
        return done.stdout

    found = []
    if changed := git("status", "--porcelain").splitlines():
        found.append(f"the tree is not clean: {changed[0].strip()} and {len(changed) - 1} more")
    if git("tag", "--list", f"v{version}").strip():
        found.append(f"the tag v{version} exists: {version} has been released")
    return found


def install_tools(commands: Commands) -> None:
    """An environment with what the lock names, and nothing else."""
    if not (TOOLS / "bin" / "python").exists():
        shutil.rmtree(TOOLS, ignore_errors=True)
        commands.run(
            [sys.executable, "-m", "venv", TOOLS], within_s=QUICK_S_MAX, cwd=ROOT, env=os.environ
        )
    pip = ("pip", "install", "--require-hashes", "--only-binary", ":all:")
    tool(commands, *pip, "-r", ROOT / "requirements-release.lock", within_s=TOOLS_S_MAX)


def build(commands: Commands) -> list[Path]:
    """The files of the release, looked into."""
    with step("the sources"):
        tool(commands, "build", "--no-isolation", "--sdist", "--outdir", DIST, ROOT)
        [archive] = DIST.glob("*.tar.gz")
        refuse(archive, sources_problems(archive, ROOT))
        with tarfile.open(archive) as opened:
            opened.extractall(PLACE / "work", filter="data")
    source = PLACE / "work" / archive.name.removesuffix(".tar.gz")
    for machine in MACHINES:
        with step(f"a wheel for {machine}, Linux with glibc {GLIBC} or newer"):
            compile_wheel(commands, source, machine)
    with step("a wheel without the library"):
        build_wheel(commands, source, DIST, SHAREGROUP_PURE="1")
    wheels = sorted(DIST.glob("*.whl"))
    if len(wheels) != len(MACHINES) + 1:
        raise ReleaseError(f"not all wheels are there: {', '.join(w.name for w in wheels)}")
    for wheel in wheels:
        refuse(wheel, wheel_problems(wheel, ROOT))
    return [archive, *wheels]


def compile_wheel(commands: Commands, source: Path, machine: str) -> None:
    """A wheel that auditwheel finds to run with the C library ``GLIBC``. Raises ReleaseError if it
    asks for a newer one."""
    made = PLACE / "work" / machine
    build_wheel(
        commands,
        source,
        made,
        CC=f"python -m ziglang cc -target {machine}-linux-gnu.{GLIBC} -s",
        ZIG_GLOBAL_CACHE_DIR=str(PLACE / "zig"),
        _PYTHON_HOST_PLATFORM=f"linux-{machine}",  # Python's own variable for such builds
    )
    [wheel] = made.glob("*.whl")
    if not wheel.name.endswith(f"-linux_{machine}.whl"):
        raise ReleaseError(f"{wheel.name} has no compiled library: see {PLACE / 'log.txt'}")
    tool(commands, "auditwheel", "repair", "--wheel-dir", DIST, wheel)
    tag = f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
    if not list(DIST.glob(f"*{tag}.whl")):
        raise ReleaseError(f"auditwheel does not give the tag {tag}: see {PLACE / 'log.txt'}")


def build_wheel(commands: Commands, source: Path, out: Path, **more: str) -> None:
    """A wheel from unpacked sources; ``more`` goes to its environment."""
    words = ("build", "--no-isolation", "--wheel", "--outdir", out, source)
    tool(commands, *words, within_s=BUILD_S_MAX, **more)


def refuse(file: Path, problems: list[str]) -> None:
    """Raises ReleaseError if a file has problems."""
    if problems:
        raise ReleaseError(f"{file.name}: {problems[0]} ({len(problems)} such things)")


def tool(
    commands: Commands, *words: str | Path, within_s: float = QUICK_S_MAX, **more: str
) -> None:
    """Run a tool as a module of its environment. Raises ReleaseError."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    path = f"{TOOLS / 'bin'}:{os.environ['PATH']}"
    command = [TOOLS / "bin" / "python", "-m", *words]
    commands.run(command, within_s=within_s, cwd=ROOT, env={**kept, "PATH": path, **more})


if __name__ == "__main__":
    main()
