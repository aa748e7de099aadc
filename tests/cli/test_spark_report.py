"""`sharegroup spark-report` on checkpoints in Spark's format."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import sysconfig
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest

from sharegroup.cli import main
from sharegroup.model.printable import printable
from tests.cli.command import Finished
from tests.servers.odd_names import ODD
from tests.spark.test_report import offset, written

SOURCE = Path(__file__).parents[2] / "src"
PNG = b"\x89PNG\r\n\x1a\n"


def report(*words: str) -> Finished:
    stdout, stderr = io.StringIO(), io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr), pytest.raises(SystemExit) as end:
        main(["spark-report", *words])
    return Finished(
        status=int(end.value.code or 0), stdout=stdout.getvalue(), stderr=stderr.getvalue()
    )


def test_the_picture_in_the_terminal_and_in_a_file(tmp_path: Path) -> None:
    folder = written(tmp_path / "checkpoint", [offset(1), offset(2, 90), offset(3)], unfinished=1)
    done = report(str(folder), "--output", str(tmp_path / "report.png"))
    assert (done.status, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "query 1234 on jobs, group g"
    assert lines[1].startswith("3 batches, 0 to 2, the last one planned ")
    found = {line.split()[0]: line.split()[-4:] for line in lines if "▁" in line or "█" in line}
    assert found["records"] == ["▅█▅", "50", "90", "50"]
    assert found["run"] == ["██·", "2", "2", "-"]
    assert lines[-1].startswith("* batch 2 holds 50 locks of jobs-0 since ")
    assert (tmp_path / "report.png").read_bytes().startswith(PNG)


def test_without_matplotlib_it_names_the_extra_to_install(tmp_path: Path) -> None:
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not package.name.startswith("matplotlib"):
            (tmp_path / package.name).symlink_to(package)
    code = f"import sys; sys.path[1:1] = {[str(tmp_path), str(SOURCE)]}; import sharegroup.cli as c"
    words = ["sharegroup", "spark-report", str(tmp_path), "--output", "report.png"]
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"{code}; sys.argv = {words}; c.main()"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "pip install 'sharegroup[plot]'" in done.stderr


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
def test_odd_names_print_in_the_terminal_and_in_the_picture(odd: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "checkpoint", [replace(offset(1), group_id=odd)])
    done = report(str(folder), "--output", str(tmp_path / "report.png"))
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.replace("\n", "").isprintable()
    assert done.stdout.startswith(f"query 1234 on jobs, group {printable(odd)}\n")


def test_json(tmp_path: Path) -> None:
    folder = written(tmp_path / "checkpoint", [offset(1), offset(2, again=10)])
    done = report(str(folder), "--json")
    found = json.loads(done.stdout)
    assert (found["query"], found["groups"], found["topics"]) == ("1234", ["g"], ["jobs"])
    first, second = found["batches"]
    assert (first["acquire_s"], first["run_s"], first["settle_s"]) == (0.25, 2.0, 0.04)
    assert (second["redelivered"], second["lag"], second["locks"]) == (10, 2_000, {"jobs-0": 50})
    assert len(found["findings"]) == 2


def test_other_folders_are_refused_in_one_sentence(tmp_path: Path) -> None:
    done = report(str(tmp_path / "nothing"))
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr.startswith("sharegroup: there is no folder ")
    assert done.stderr.count("\n") == 1


def test_a_picture_that_cannot_be_written(tmp_path: Path) -> None:
    folder = written(tmp_path / "checkpoint", [offset(1)])
    done = report(str(folder), "--output", str(tmp_path / "nowhere" / "report.png"))
    assert done.status == 2
    assert done.stderr.endswith("report.png cannot be written: No such file or directory\n")
