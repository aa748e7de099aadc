"""Compiles the walk over records and the record codec when the package is built
(``src/sharegroup/records/*.c``).

With the machine's C compiler, else with the one of the package ``ziglang``. Nothing depends on it:
where neither is there or the compiling fails, the build says so in a sentence, and the package does
the same in Python. SHAREGROUP_PURE=1 leaves it out.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

FOLDER = "src/sharegroup/records"
SOURCES = ("walk.c", "key_hashes.c", "message_ids.c", "record_codec.c", "expiry.c", "syncs.c")
LIBRARY = "sharegroup/records/libwalk.so"
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=c99", "-O2", "-shared", "-fPIC", "-fvisibility=hidden")
ZIG = "ziglang>=0.13,<0.17"
ZIG_MACHINES = ("x86_64", "AMD64", "aarch64", "arm64")
"""Where ziglang is sure to have a wheel; elsewhere asking for it could end the installation."""
COMPILE_SECONDS_MAX = 300


class CompiledWalk(BuildHookInterface):  # type: ignore[type-arg]
    """See the module."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What an isolated build installs first."""
        wanted = not pure() and machine_compiler() is None and platform.machine() in ZIG_MACHINES
        return [ZIG] if wanted else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the library into the wheel; for an editable installation, beside its source."""
        place = Path(self.root, "src", LIBRARY)
        if version != "editable":
            place = Path(tempfile.mkdtemp(prefix="sharegroup-walk-"), "libwalk.so")
        else:
            place.unlink(missing_ok=True)  # what the last installation left is not this one's
        reason = compiled([Path(self.root, FOLDER, name) for name in SOURCES], place)
        if reason:
            self.app.display_warning(f"sharegroup: the walk over records stays Python's: {reason}")
            return
        if version == "editable":
            return
        build_data["force_include"][str(place)] = LIBRARY
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Take back the temporary library."""
        for path, target in build_data["force_include"].items():
            if target == LIBRARY:
                shutil.rmtree(Path(path).parent, ignore_errors=True)


def compiled(sources: list[Path], library: Path) -> str | None:
    """Compile; why it did not go, or None."""
    if pure():
        return "SHAREGROUP_PURE=1"
    compiler = machine_compiler() or zig_compiler()
    if compiler is None:
        return "there is no C compiler here, and no ziglang"
    made = library.with_suffix(".new")  # whoever loads meanwhile finds a whole one, or none
    command = [*compiler, *FLAGS, "-o", str(made), *map(str, sources)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMPILE_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{compiler[0]} does not run: {error}"
    if done.returncode:
        made.unlink(missing_ok=True)
        said = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        return f"{' '.join(compiler)} failed: {said}"
    made.replace(library)
    return None


def pure() -> bool:
    """Whoever builds wants no library."""
    return os.environ.get("SHAREGROUP_PURE") == "1"


def machine_compiler() -> list[str] | None:
    """The C compiler on the PATH; ``CC`` names another one."""
    for name in filter(None, (os.environ.get("CC"), *COMPILERS)):
        words = name.split()
        if shutil.which(words[0]):
            return words
    return None


def zig_compiler() -> list[str] | None:
    """The C compiler in ziglang, where that is installed."""
    if importlib.util.find_spec("ziglang") is None:
        return None
    return [sys.executable, "-m", "ziglang", "cc"]


def platform_tag() -> str:
    """This machine's. Not a manylinux one: nobody has looked at what the library links to."""
    tags = list(platform_tags())
    return next((tag for tag in tags if not tag.startswith(("manylinux", "musllinux"))), tags[0])
