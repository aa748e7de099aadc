"""A damaged log as a user meets it: serve, a stop, a bad disk, serve; all commands as programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.wire.batch import parse_headers
from tests.cli.command import Commands
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process


def test_damaged_records_of_a_group_are_shown(tmp_path: Path) -> None:
    with SharegroupServer(tmp_path) as server:
        commands = Commands(server.bootstrap)
        commands.given("topics", "create", "jobs", "--partitions", "1")
        for job in range(6):
            commands.given("produce", "jobs", stdin=f"job {job}\n")
        commands.ok("consume", "jobs", "-g", "workers", "--from-beginning", "--max", "2")
        server.stop()
        log = next(server.data.glob("jobs-0/*.log"))
        data = bytearray(log.read_bytes())
        starts = [0]
        for header in parse_headers(bytes(data)):
            starts.append(starts[-1] + header.length)
        data[starts[3] + 70] ^= 1  # the fourth job
        log.write_bytes(data)

        server.start()
        left = commands.ok("consume", "jobs", "-g", "workers", "--max", "3").stdout
        assert left.splitlines() == ["job 2", "job 4", "job 5"]
        (row,) = commands.ok("groups", "records", "workers", "--state", "damaged", "--json").json
        assert (row["first"], row["last"], row["state"]) == (3, 3, "damaged")
        (partition,) = commands.ok("groups", "describe", "workers", "--json").json["partitions"]
        assert (partition["damaged"], partition["lag"]) == (1, 0)
        table = commands.ok("groups", "describe", "workers", "--offsets").stdout
        assert table.splitlines()[0].split()[-1] == "damaged"
        peek = ("consume", "jobs", "--peek", "--from", "2")
        looked = commands.ok(*peek, "--until", "latest", "--format", "%o ")
        assert looked.stdout == "2 4 5 "
        assert looked.stderr == "skipped: 3-3 of jobs-0: the log has lost them\n"
        assert commands.ok(*peek, "--until", "4", "--format", "%o ").stdout == "2 "
        said = [line for line in server.output().splitlines() if " ERROR " in line]
        assert len(said) == 2
        assert "offsets 3 to 3 cannot be read" in said[0]
        assert "offsets 3 to 3 are damaged, its group skips them" in said[1]
