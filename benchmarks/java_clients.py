"""Kafka's own clients, many in one process of Java (`java/Clients.java`)."""

from __future__ import annotations

import functools
import hashlib
import subprocess
from pathlib import Path

from tests.apache_kafka.cache import cached_folder
from tests.apache_kafka.jars import KAFKA, class_path
from tests.apache_kafka.java import java_command
from tests.apache_kafka.program import compile_java

SOURCE = Path(__file__).resolve().parent / "java" / "Clients.java"
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
JVM = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Xmx2g")
SECONDS = 600


class ClientsFailed(Exception):
    """The program ended with an error; the message is what it printed."""


def run_clients(job: str, bootstrap: str, topic: str, clients: int, *arguments: object) -> float:
    """Run one job of Clients.java, and return the number that it prints; raises ClientsFailed."""
    words = [job, bootstrap, topic, str(clients), *map(str, arguments)]
    command = [java_command(), *JVM, QUIET, "-cp", _class_path(), "Clients", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise ClientsFailed(f"{' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return float(done.stdout)


@functools.cache
def _class_path() -> str:
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    name = f"bench-clients-{KAFKA.name}-{digest}"
    folder = cached_folder(name, _compile)
    return f"{folder}:{class_path(KAFKA)}"


def _compile(folder: Path) -> None:
    compile_java(SOURCE, folder)
