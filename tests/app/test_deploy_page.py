"""docs/deploy.md tells the truth: what stands there can be run, and is."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from sharegroup import sync
from sharegroup.broker.configs.broker import BROKER_CONFIGS, load
from sharegroup.broker.configs.topic import TOPIC_CONFIGS
from sharegroup.broker.metrics.metric import MetricKind
from sharegroup.broker.metrics.reader import METRICS
from sharegroup.groups.config import GROUP_CONFIGS
from sharegroup.model.ids import TopicPartition
from sharegroup.sasl.users_file import user_lines
from tests.broker.authentication.secured import certificates
from tests.servers.process import HOST, ServerProcess, free_port
from tests.servers.sharegroup_server import SOURCE, START_SECONDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text()
DATA = "/var/lib/sharegroup"
PROGRAM = "/opt/sharegroup/bin/sharegroup"
SECONDS = 240
RULE_FIELDS = {"alert", "expr", "for", "labels", "annotations"}
PROCESS_METRICS = {"process_open_fds", "process_max_fds"}
SUFFIXES = {
    MetricKind.HISTOGRAM: ("_bucket", "_sum", "_count"),
    MetricKind.SUMMARY: ("_sum", "_count"),
}


def blocks(language: str, having: str = "") -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)
    return [block for block in found if having in block]


def block(language: str, having: str = "") -> str:
    (one,) = blocks(language, having)
    return one


@contextmanager
def served(command: list[str], folder: Path) -> Iterator[ServerProcess]:
    """A broker that was started so, once it says that it is ready."""
    server = ServerProcess(
        command, log_path=folder / "server.log", environment={"PYTHONPATH": str(SOURCE)}
    )
    server.start()
    try:
        server.wait_until(lambda: " ready on " in server.output(), timeout_s=START_SECONDS)
        yield server
        assert server.stop() == 0
    finally:
        server.kill()


def ours(words: list[str], folder: Path) -> list[str]:
    """A command of the page as it runs here: our program, our folder, free ports."""
    listen, metrics = f"{HOST}:{free_port()}", f"{HOST}:{free_port()}"
    here = {
        "/etc/sharegroup/server.properties": str(folder / "server.properties"),
        DATA: str(folder / "data"),
        "/data": str(folder / "data"),
        "/data/broker": str(folder / "volume" / "broker"),
        "0.0.0.0:9092": listen,
        "0.0.0.0:9404": metrics,
        "127.0.0.1:9404": metrics,
    }
    assert words[0] in (PROGRAM, "sharegroup")
    return [sys.executable, "-m", "sharegroup", *(here.get(word, word) for word in words[1:])]


def probe(program: str, metrics: str) -> None:
    subprocess.run(
        [sys.executable, "-c", program.replace("127.0.0.1:9404", metrics)],
        check=True,
        timeout=SECONDS,
    )


# --- the unit -------------------------------------------------------------------------------------


@pytest.mark.process
def test_the_unit_starts_a_broker_with_these_settings(tmp_path: Path) -> None:
    settings = block("properties")
    assert load(settings).warnings == ()
    here = {
        "0.0.0.0:9092": f"{HOST}:{free_port()}",
        "/etc/sharegroup/broker.pem": str(certificates(tmp_path).broker()),
        "/etc/sharegroup/users": str(tmp_path / "users"),
    }
    (tmp_path / "users").write_text("\n".join(user_lines("admin", "secret", bytes(48), 4096)))
    for word, own in here.items():
        settings = settings.replace(word, own)
    (tmp_path / "server.properties").write_text(settings)
    (line,) = re.findall(r"^ExecStart=(.*)$", block("ini"), re.M)
    with served(ours(line.split(), tmp_path), tmp_path) as server:
        assert "ready on broker.example.org:9092, " in server.output()


def test_no_other_user_can_read_the_data_folder() -> None:
    """Records are in it, and SCRAM credentials."""
    unit = block("ini").splitlines()
    assert {"StateDirectory=sharegroup", "StateDirectoryMode=0700", "UMask=0077"} <= {*unit}
    assert " install -d -m 700 " in block("dockerfile")
    assert f"mkdir -m 700 {DATA}" in console("--extract")


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    parsed = configparser.ConfigParser(strict=True, interpolation=None)
    parsed.read_string(block("ini"))
    assert parsed.sections() == ["Unit", "Service", "Install"]
    if shutil.which("systemd-analyze") is None:
        return  # nobody here knows more of it
    unit = tmp_path / "sharegroup.service"
    unit.write_text(block("ini").replace(PROGRAM, sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "sharegroup.service" not in done.stderr, done.stderr


# --- the container --------------------------------------------------------------------------------


def in_dockerfile(instruction: str) -> list[str]:
    (text,) = re.findall(rf"^{instruction} (\[.*\])$", block("dockerfile"), re.M)
    words: list[str] = yaml.safe_load(text)
    return words


@pytest.mark.process
def test_the_containers_command_serves_and_its_health_check_succeeds(tmp_path: Path) -> None:
    command = ours(in_dockerfile("ENTRYPOINT") + in_dockerfile("CMD"), tmp_path)
    with served(command, tmp_path):
        _, option, program = in_dockerfile("HEALTHCHECK CMD")
        assert option == "-c"
        probe(program, command[command.index("--metrics") + 1])


def in_pod() -> tuple[dict[str, Any], dict[str, Any]]:
    """The specification of the pod, and of its container."""
    pod: dict[str, Any] = yaml.safe_load(block("yaml", "livenessProbe"))
    (container,) = pod["containers"]
    return pod, container


def test_the_pod_is_the_images_user_who_may_write_in_a_fresh_volume() -> None:
    pod, container = in_pod()
    (user,) = re.findall(r"useradd .*--uid (\d+)", block("dockerfile"))
    assert pod["securityContext"] == {
        "runAsUser": int(user),
        "runAsNonRoot": True,
        "fsGroup": int(user),
        "fsGroupChangePolicy": "OnRootMismatch",
    }
    assert [volume["mountPath"] for volume in container["volumeMounts"]] == ["/data"]
    port = int(container["command"][container["command"].index("--metrics") + 1].split(":")[1])
    probes = [container[name]["httpGet"] for name in ("livenessProbe", "readinessProbe")]
    assert [probe["path"] for probe in probes] == ["/health/live", "/health/ready"]
    assert {probe["port"] for probe in probes} == {port}


@pytest.mark.process
def test_the_pods_broker_makes_its_folder_in_the_volume(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    (volume / "lost+found").mkdir(parents=True)
    volume.chmod(0o2775)  # as fsGroup makes it
    _, container = in_pod()
    with served(ours(container["command"] + container["args"], tmp_path), tmp_path) as server:
        assert stat.S_IMODE((volume / "broker").stat().st_mode) & 0o777 == 0o700
        assert "can be read by other users" not in server.output()
        assert "ready on sharegroup:9092, " in server.output()
    assert {path.name for path in volume.iterdir()} == {"broker", "lost+found"}


# --- back-up and restore --------------------------------------------------------------------------


def console(having: str) -> list[str]:
    return re.findall(r"^\$ (.*)$", block("console", having), re.M)


def run_line(line: str, folder: Path) -> None:
    """One line of the page, on a data folder of ours and with our program."""
    line = line.replace(DATA, str(folder / "data"))
    line = line.replace(PROGRAM, f"{sys.executable} -m sharegroup")
    line = line.replace("sharegroup:sharegroup", f"{os.getuid()}:{os.getgid()}")
    subprocess.run(
        ["bash", "-ec", line],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        check=True,
        timeout=SECONDS,
    )


@pytest.mark.process
def test_a_restored_backup_has_exactly_the_records_of_its_time(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("")
    listen, jobs = f"{HOST}:{free_port()}", TopicPartition("jobs", 0)
    start = [sys.executable, "-m", "sharegroup", "serve", "--listen", listen]
    start += ["--data", str(tmp_path / "data")]

    def produce(value: bytes) -> None:
        with sync.Producer(listen) as producer:
            producer.send("jobs", value=value)
            producer.flush()

    def records() -> int:
        with sync.Admin(listen) as admin:
            return admin.list_offsets([jobs])[jobs].offset

    with served(start, tmp_path), sync.Admin(listen) as admin:
        admin.create_topics("jobs", partitions=1)
        produce(b"before")
    for having, counted in (("--create", 2), ("--extract", 1)):
        first, *lines, last = console(having)
        assert (first, last) == ("systemctl stop sharegroup", "systemctl start sharegroup")
        for line in lines:
            run_line(line, tmp_path)
        with served(start, tmp_path):
            if having == "--create":
                produce(b"since")
            assert records() == counted


# --- alerts and tuning ----------------------------------------------------------------------------


def series() -> set[str]:
    """The names that a scraper sees."""
    names = {
        f"{metric.name}{suffix}"
        for metric in METRICS
        for suffix in SUFFIXES.get(metric.kind, ("",))
    }
    return names | PROCESS_METRICS | {"up"}


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load(block("yaml", "alert:"))
    assert list(document) == ["groups"]
    (group,) = document["groups"]
    assert set(group) == {"name", "rules"}
    found: list[dict[str, Any]] = group["rules"]
    return found


def test_every_alert_uses_existing_metrics() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) > 5
    labels = {metric.name: set(metric.labels) for metric in METRICS}
    for rule in rules():
        assert {"alert", "expr", "labels", "annotations"} <= set(rule) <= RULE_FIELDS
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
        expression = re.sub(r'"[^"]*"', "", rule["expr"])
        used = set(re.findall(r"\b(?:sharegroup_|process_|up\b)\w*", expression))
        assert used, rule["alert"]
        assert used <= series(), rule["alert"]
        for opening, closing in ("()", "[]", "{}"):
            assert expression.count(opening) == expression.count(closing), rule["alert"]
        shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) - {"instance"}
        known = {label for name in used for label in labels.get(name, ())}
        assert shown <= known, f"{rule['alert']} shows labels that its metrics do not have"


def test_the_tuning_section_names_existing_settings_and_metrics() -> None:
    tuning = PAGE.partition("## Tuning")[2]
    settings = {*BROKER_CONFIGS, *TOPIC_CONFIGS, *GROUP_CONFIGS}
    named = set(re.findall(r"`([a-z]+(?:\.[a-z]+)+)(?:=\w+)?`", tuning))
    assert len(named) > 5
    assert named <= settings
    metrics = set(re.findall(r"`((?:sharegroup|process)_\w+)`", tuning))
    assert metrics <= {metric.name for metric in METRICS} | PROCESS_METRICS
