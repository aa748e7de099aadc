"""Programs of Java's that use Kafka's own clients (`java/*.java`); one holds many clients."""

from __future__ import annotations

import functools
import hashlib
import subprocess
from pathlib import Path

from tests.apache_kafka.cache import cached_folder
from tests.apache_kafka.jars import KAFKA, Jars, class_path
from tests.apache_kafka.java import java_command
from tests.apache_kafka.program import compile_java

SOURCES = Path(__file__).resolve().parent / "java"
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
JVM = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Xmx2g")
SECONDS = 600


class ClientsFailed(Exception):
    """The program ended with an error; the message is what it printed."""


def run_clients(job: str, bootstrap: str, topic: str, clients: int, *arguments: object) -> float:
    """Run one job of Clients.java, and return the number that it prints; raises ClientsFailed."""
    return run_java("Clients", KAFKA, job, bootstrap, topic, clients, *arguments)


def run_java(program: str, jars: Jars, *arguments: object) -> float:
    """Run a program with these jars, and return the number that it prints.

    Raises:
        ClientsFailed: it ended with an error.
    """
    words = [program, *map(str, arguments)]
    command = [java_command(), *JVM, QUIET, "-cp", _class_path(program, jars), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise ClientsFailed(f"{' '.join(words)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return float(done.stdout)


@functools.cache
def _class_path(program: str, jars: Jars) -> str:
    source = SOURCES / f"{program}.java"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    name = f"bench-{program.lower()}-{jars.name}-{digest}"

    def compile_into(folder: Path) -> None:
        compile_java(source, folder, jars)

    return f"{cached_folder(name, compile_into)}:{class_path(jars)}"
