"""Class-data archives: Kafka's classes as Java keeps them in memory, in a file for the next start.

A Java that maps such a file reads and verifies none of its classes again. An archive fits one Java
and one set of jars. Where Java can make none, it starts as it always does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from tests.apache_kafka.cache import cached_folder
from tests.apache_kafka.jars import Jars, jar_folder
from tests.apache_kafka.java import java_command

FILE = "classes.jsa"


def archive_options(jars: Jars, make: Callable[[str], None]) -> tuple[str, ...]:
    """The option that lets Java use the archive of these jars; none where there is no archive.

    On a machine that has not made it yet, `make` runs a Java with the option that it is given, and
    lets it end by itself.
    """
    release = Path(java_command()).resolve().parent.parent / "release"
    if not release.exists():  # not a Java of the usual form: nothing says which one it is
        return ()
    fits = f"{release.read_text()}{jar_folder(jars).stat().st_mtime_ns}"
    fingerprint = hashlib.sha256(fits.encode()).hexdigest()[:12]
    folder = cached_folder(
        f"{jars.name}-archive-{fingerprint}",
        lambda folder: make(f"-XX:ArchiveClassesAtExit={folder / FILE}"),
    )
    archive = folder / FILE
    return (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()
