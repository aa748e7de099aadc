"""What must be, and must not be, in the files of a release."""

from __future__ import annotations

import re
import tarfile
import zipfile
from pathlib import Path
from typing import Final

LIBRARY: Final = "sharegroup/records/libwalk.so"
PACKAGES: Final = ("sharegroup", "pyspark_kafka_share")
IN_SOURCES: Final = ("LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "hatch_build.py")
_OWN_PATH = re.compile(rb"/(?:tmp|home|root|work|usr/src|build)/[\w./-]*")
"""In a compiled library: where somebody's sources lay."""


def wheel_problems(wheel: Path, root: Path) -> list[str]:
    """What is wrong with a wheel of the sources at ``root``, a sentence each."""
    found = []
    pure = wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        content = {n: archive.read(n) for n in archive.namelist() if not n.endswith("/")}
    libraries = sorted(name for name in content if ".so" in Path(name).name or ".libs/" in name)
    if libraries != ([] if pure else [LIBRARY]):
        found.append(f"its libraries are {libraries}")
    found += [
        f"{name} names {path.decode()}"
        for name in libraries
        for path in sorted({*_OWN_PATH.findall(content[name])})
    ]
    missing = sorted(package_files(root) - {*content})
    unknown = sorted({n for n in content if ".dist-info/" not in n} - package_files(root))
    unknown = [name for name in unknown if name not in libraries]
    found += [f"{name} is missing" for name in missing]
    found += [f"{name} is not of the package" for name in unknown]
    info = {Path(name).name for name in content if ".dist-info/" in name}
    wanted = {"METADATA", "WHEEL", "RECORD", "LICENSE", "entry_points.txt"}
    found += [f"{name} is missing" for name in sorted(wanted - info)]
    return found + path_problems(content, root)


def sources_problems(archive: Path, root: Path) -> list[str]:
    """What is wrong with a source distribution of ``root``, a sentence each."""
    with tarfile.open(archive) as opened:
        content = {
            member.name.partition("/")[2]: file.read()
            for member in opened.getmembers()
            if (file := opened.extractfile(member)) is not None
        }
    sources = {f"src/{name}" for name in package_files(root)}
    compiled = ("walk.c", "key_hashes.c", "message_ids.c", "record_codec.c", "expiry.c", "syncs.c")
    sources |= {f"src/sharegroup/records/{name}" for name in compiled}
    found = [f"{name} is missing" for name in sorted({*sources, *IN_SOURCES} - {*content})]
    found += [f"{name} is a library" for name in content if name.endswith(".so")]
    return found + path_problems(content, root)


def package_files(root: Path) -> set[str]:
    """The files of the packages, as a wheel names them."""
    return {
        path.relative_to(root / "src").as_posix()
        for package in PACKAGES
        for path in (root / "src" / package).rglob("*")
        if path.is_file() and path.suffix not in {".so", ".pyc"}
    }


def path_problems(content: dict[str, bytes], root: Path) -> list[str]:
    """Files that name the folder in which the release was made."""
    own = str(root).encode()
    return [f"{name} names {root}" for name, data in content.items() if own in data]
