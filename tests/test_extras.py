"""Without an extra, the first use of what it brings says in one sentence what to install; all the
rest works without it. Each in a fresh Python that lacks the modules of the extra.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOWHERE = "127.0.0.1:1"

MODULES = {
    "arrow": ("numpy", "pyarrow"),
    "spark": ("pyspark",),
    "plot": ("matplotlib",),
    "aws": ("boto3", "aws_msk_iam_sasl_signer"),
    "console": ("starlette", "uvicorn"),
    "console-oidc": ("authlib", "httpx2"),
}
"""Extra → what it installs that we import."""
OTHERS = {"dev"}
"""Extras without a first use: of our own work."""

ASYNCHRONOUS = f"""
import asyncio
from sharegroup import Consumer, ShareConsumer
async def read():
    consumer = {{}}("jobs", group_id="g", bootstrap_servers="{NOWHERE}")
    async for batch in consumer.arrow_batches():
        pass
asyncio.run(read())
"""
BLOCKING = f"""
from sharegroup.sync import Consumer, ShareConsumer
consumer = {{}}("jobs", group_id="g", bootstrap_servers="{NOWHERE}")
for batch in consumer.arrow_batches():
    pass
"""
OPTIONS = {"kafka.bootstrap.servers": NOWHERE, "kafka.group.id": "g", "subscribe": "jobs"}
LOAD = f"from pyspark_kafka_share import DefaultSource; DefaultSource({OPTIONS}).schema()"
SESSION = "from sharegroup.spark import spark_session; spark_session()"
REPORT = "from sharegroup.cli import main; main(['spark-report', 'here', '--output', 'it.png'])"
CONSOLE = "from sharegroup.cli import main; main(['console', '127.0.0.1:0'])"
CONSOLE_OIDC = """
import sys, tempfile
from sharegroup.cli import main
with tempfile.NamedTemporaryFile("w") as file:
    print("issuer=https://login.example.com\\nclient.id=console", file=file, flush=True)
    sys.argv = ["sharegroup", "console", "127.0.0.1:0", "--login-oidc", file.name]
    main()
"""
SERVE_CONSOLE = (
    "import tempfile; from sharegroup.cli import main; main(['serve', '--listen', '127.0.0.1:0', "
    "'--console', '127.0.0.1:0', '--data', tempfile.mkdtemp()])"
)
TOKEN = "from sharegroup.client.security.aws import msk_token; msk_token()"
LOGIN = f"""
import asyncio
from sharegroup.client import Admin
security = {{
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.provider": "sharegroup.client.security.aws:msk_token",
}}
async def ask():
    async with Admin("{NOWHERE}", security=security) as admin:
        await admin.list_topics()
asyncio.run(ask())
"""
USES = [
    *(
        ("arrow", name, program.format(kind))
        for name in MODULES["arrow"]
        for program in (ASYNCHRONOUS, BLOCKING)
        for kind in ("ShareConsumer", "Consumer")
    ),
    ("spark", "pyspark", LOAD),
    ("spark", "pyspark", SESSION),
    ("spark", "numpy", LOAD),
    ("spark", "pyarrow", LOAD),
    ("plot", "matplotlib", REPORT),
    ("console", "starlette", CONSOLE),
    ("console", "uvicorn", CONSOLE),
    ("console", "uvicorn", SERVE_CONSOLE),
    ("console-oidc", "authlib", CONSOLE_OIDC),
    ("console-oidc", "httpx2", CONSOLE_OIDC),
    ("aws", "boto3", TOKEN),
    ("aws", "boto3", LOGIN),
]


def lacking(names: tuple[str, ...], program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python where these modules cannot be imported."""
    missing = f"import sys; sys.modules.update(dict.fromkeys({names!r}))\n"
    command = [sys.executable, "-c", missing + program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_every_extra_is_here() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == MODULES.keys() | OTHERS


@pytest.mark.parametrize(("extra", "module", "program"), USES)
def test_the_first_use_says_what_to_install(extra: str, module: str, program: str) -> None:
    done = lacking((module,), program)
    said = done.stderr.splitlines()[-1]
    assert done.returncode in (1, 2)
    assert module in said
    assert f"pip install 'sharegroup[{extra}]'" in said


@pytest.mark.parametrize(
    "program",
    [
        "import sharegroup.client as c; [getattr(c, name) for name in c.__all__]",
        "import sharegroup.sync as s; [getattr(s, name) for name in s.__all__]",
        "import sharegroup.testing, sharegroup.spark, sharegroup.app.serve",
        "from sharegroup.cli import main; main(['consume', '--help'])",
        "from sharegroup.cli import main; main(['spark-report', '--help'])",
        "from sharegroup.cli import main; main(['serve', '--help'])",
    ],
)
def test_all_the_rest_works_without_extras(program: str) -> None:
    done = lacking(tuple(name for names in MODULES.values() for name in names), program)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
