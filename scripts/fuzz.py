"""Looks for bytes that break what reads bytes of others: `make fuzz`.

Each target of tests/fuzz gets its time. Inputs begin with requests of every version, batches and
files that our own code writes, and are changed under the guidance of the code that they reach
(atheris, which this installs into build/fuzz at the first run). What breaks a target is written to
build/fuzz/faults/TARGET; copied to tests/fuzz/faults/TARGET it is tried by every test run. The walk
in C is compiled anew with the sanitizers of gcc, and gets inputs of its own.

    make fuzz                                      # an hour
    make fuzz ARGS="--seconds 20 --only request"
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
from hashlib import sha1
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.fuzz.corpus import inputs  # noqa: E402
from tests.fuzz.targets import TARGETS  # noqa: E402

BUILD: Final = ROOT / "build" / "fuzz"
ATHERIS: Final = "atheris>=3,<4"
SANITIZED: Final = "walk in C, sanitized"
CFLAGS: Final = (
    *("-shared", "-fPIC", "-O1", "-g", "-std=c11", "-pthread"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
)
SANITIZED_RUN: Final = """\
import sys, time
from pathlib import Path
from sharegroup.records import walk
from tests.fuzz.corpus import inputs
from tests.fuzz.mutation import Mutator
from tests.fuzz.targets import TARGETS, attempt
assert walk.IS_COMPILED, "the library was not loaded"
until, runs = time.monotonic() + float(sys.argv[1]), 0
names = "plain", "log"
mutators = [(TARGETS[one], Mutator(f"{one} {sys.argv[2]}", inputs(one))) for one in names]
while time.monotonic() < until:
    for target, mutator in mutators:
        data = mutator.next()
        Path(sys.argv[3]).write_bytes(data)
        attempt(target, data)
        runs += 1
print(f"Done {runs} runs")
"""
_RUNS: Final = re.compile(r"Done (\d+) runs")


def install() -> None:
    """Atheris, beside the tree."""
    if not (BUILD / "packages" / "atheris").exists():
        words = ["-m", "pip", "install", "-q", "--no-deps", "--target", str(BUILD / "packages")]
        subprocess.run([sys.executable, *words, ATHERIS], check=True)


def environment(**more: str) -> dict[str, str]:
    """Of a run: the tree, and atheris."""
    paths = [str(ROOT / "src"), str(ROOT), str(BUILD / "packages")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | more


def guided(target: str, seconds: float) -> tuple[int, str]:
    """Runs of a target, and what was found: empty, or the end of what it printed."""
    corpus, faults = BUILD / "corpus" / target, BUILD / "faults" / target
    for folder in (corpus, faults):
        folder.mkdir(parents=True, exist_ok=True)
    for one in inputs(target):
        (corpus / sha1(one, usedforsecurity=False).hexdigest()).write_bytes(one)
    words = [f"-max_total_time={seconds:g}", f"-artifact_prefix={faults}/", "-timeout=10"]
    words += ["-rss_limit_mb=2048", "-max_len=65536", "-print_final_stats=1"]
    return _run([sys.executable, "-m", "tests.fuzz.guided", target, str(corpus), *words])


def sanitized(seconds: float) -> tuple[int, str]:
    """The same of the walk in C, compiled with AddressSanitizer and UndefinedBehaviorSanitizer."""
    package = BUILD / "sanitized" / "sharegroup"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "sharegroup", package)
    records = package / "records"
    sources = sorted(str(file) for file in records.glob("*.c"))
    subprocess.run(
        ["gcc", *CFLAGS, *sources, "-o", str(records / "libwalk.so")], check=True, cwd=records
    )
    asked = ["gcc", "-print-file-name=libasan.so"]
    asan = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    paths = os.pathsep.join([str(package.parent), str(ROOT)])
    more = {"LD_PRELOAD": asan, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": paths}
    last = BUILD / "faults" / "sanitized.bin"
    last.parent.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-c", SANITIZED_RUN, f"{seconds:g}", str(os.getpid()), str(last)]
    return _run(words, **more)


def _run(words: list[str], **more: str) -> tuple[int, str]:
    done = subprocess.run(
        words, cwd=ROOT, env=environment(**more), capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    counted = _RUNS.search(said)
    runs = int(counted[1]) if counted else 0
    return runs, "" if done.returncode == 0 and runs else said[-4_000:]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz ARGS=…", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, help="for each target (an hour for all)")
    parser.add_argument("--only", metavar="TARGET", action="append", choices=[*TARGETS, "c"])
    given = parser.parse_args()
    names = given.only or [*TARGETS, "c"]
    seconds = given.seconds or 3600 / len(names)
    install()
    failed = 0
    for name in names:
        runs, wrong = sanitized(seconds) if name == "c" else guided(name, seconds)
        title = SANITIZED if name == "c" else name
        print(f"{title:24} {runs:12,} inputs  {'A FAULT' if wrong else 'nothing'}", flush=True)
        if wrong:
            failed += 1
            print(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
