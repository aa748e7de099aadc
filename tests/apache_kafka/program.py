"""A Java program of ours, compiled against Apache Kafka's jars."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.apache_kafka.jars import COMPILER, KAFKA, Jars, class_path, jar_folder
from tests.apache_kafka.java import java_command

COMPILE_SECONDS = 400
QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class DoesNotCompile(Exception):
    """The compiler refused a source; the message is what it said."""


def compile_java(source: Path, folder: Path, kafka: Jars = KAFKA) -> str:
    """Compile one source file into `folder`; the `-cp` argument to run it with.

    Raises DoesNotCompile; JarsMissing when compiler or Kafka cannot be fetched.
    """
    compiler = jar_folder(COMPILER) / COMPILER.proof
    needed = (
        "kafka-clients-*.jar",
        "kafka-streams-*.jar",
        "parallel-consumer-core-*.jar",
        "slf4j-api-*.jar",
    )
    found = sorted(jar for pattern in needed for jar in jar_folder(kafka).glob(pattern))
    jars = ":".join(map(str, found))
    options = ["-17", "-proc:none", "-cp", jars, "-d", str(folder)]
    done = subprocess.run(
        [java_command(), *QUICK, "-jar", str(compiler), *options, str(source)],
        capture_output=True,
        text=True,
        timeout=COMPILE_SECONDS,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise DoesNotCompile(f"{source.name}\n{done.stdout}{done.stderr}")
    return f"{folder}:{class_path(kafka)}"
