"""The wheel in an environment of its own, shipped to executors as an archive: docs/spark.md,
"Deploying", step by step.

The archives hold what a fresh installation of the wheel holds; the packages that it depends on are
those of the tests, through a path file, because installing them anew takes minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.session import SETTINGS

pytestmark = [pytest.mark.spark, pytest.mark.process]

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("submitted_program.py")
RECORDS = 100
SECONDS = 800


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as users get it."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", str(folder), str(ROOT))
    (built,) = folder.glob("sharegroup-*.whl")
    return built


@pytest.fixture(scope="module")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Spark of the tests, with a folder for its workers that is not in the installation."""
    home = tmp_path_factory.mktemp("spark")
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "work":
            (home / part.name).symlink_to(part)
    return home


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, timeout=SECONDS)


def environment(folder: Path, wheel: Path | None) -> None:
    """A virtual environment, with the wheel or without."""
    venv.create(folder, symlinks=True)
    site = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    if wheel is not None:
        pip("--python", str(folder), "install", "--no-deps", "--no-index", str(wheel))


def submit(
    server: SharegroupServer, topic: str, spark_home: Path, driver: Path, archive: Path
) -> subprocess.CompletedProcess[str]:
    """``spark-submit`` in the folder that holds the driver's ``environment``; the executors unpack
    theirs from ``archive``."""
    settings = [f"--conf={name}={value}" for name, value in SETTINGS.items()]
    command = [
        str(spark_home / "bin" / "spark-submit"),
        "--master=local-cluster[1,1,1024]",
        f"--archives={archive}#environment",
        "--conf=spark.task.maxFailures=1",
        f"--conf=spark.executor.extraJavaOptions={os.environ['SPARK_SUBMIT_OPTS']}",
        *settings,
        str(PROGRAM),
        *(server.bootstrap, topic, str(driver)),
    ]
    given = {
        k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYSPARK_DRIVER_PYTHON")
    }
    chosen = {"SPARK_HOME": str(spark_home), "PYSPARK_PYTHON": "./environment/bin/python"}
    return subprocess.run(
        command,
        cwd=driver,
        env={**given, **chosen},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def archive_of(folder: Path) -> Path:
    packed = folder.with_suffix(".tar.gz")
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(folder, arcname=".")
    return packed


def filled(server: SharegroupServer, name: str) -> str:
    admin.Admin(server.bootstrap).create_topic(name)
    admin.produce(server.bootstrap, name, [b"x"] * RECORDS)
    return name


def test_an_archive_brings_the_package_to_the_executors(
    server: SharegroupServer, wheel: Path, spark_home: Path, name: str, tmp_path: Path
) -> None:
    environment(tmp_path / "environment", wheel)
    archive = archive_of(tmp_path / "environment")
    done = submit(server, filled(server, name), spark_home, tmp_path, archive)
    assert done.returncode == 0, done.stderr[-4_000:]
    assert (tmp_path / "rows.txt").read_text() == str(RECORDS)


def test_executors_without_the_package_say_so_in_one_sentence(
    server: SharegroupServer, wheel: Path, spark_home: Path, name: str, tmp_path: Path
) -> None:
    environment(tmp_path / "environment", wheel)
    environment(tmp_path / "bare", None)
    archive = archive_of(tmp_path / "bare")
    done = submit(server, filled(server, name), spark_home, tmp_path, archive)
    assert done.returncode != 0
    sentence = "ImportError: sharegroup is not installed in the Python of the executor on "
    assert sentence in done.stderr, done.stderr[-4_000:]
    assert "ModuleNotFoundError" not in done.stderr
    assert "cloudpickle" not in done.stderr
