"""What is said when a query is built, before anything runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sharegroup.model.errors import ConfigError
from sharegroup.spark.data_source import KafkaShareDataSource
from tests.secured.cells import Credentials

GOOD = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.group.id": "g", "subscribe": "t"}
TLS = {**GOOD, "kafka.security.protocol": "SSL"}


def load(options: dict[str, str]) -> None:
    """As Spark does it for ``load()``."""
    KafkaShareDataSource(options).schema()


@pytest.mark.parametrize("missing", ["numpy", "pyarrow"])
@pytest.mark.parametrize(
    "use", ["schema()", "streamWriter(None, False)", "writer(None, False)"], ids=str
)
def test_a_python_without_the_extra_is_told_what_to_install(missing: str, use: str) -> None:
    program = (
        f"import sys; sys.modules[{missing!r}] = None; from pyspark_kafka_share import "
        f"DefaultSource; DefaultSource({GOOD}).{use}"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False
    )
    said = done.stderr.splitlines()[-1]
    assert f"kafka-share needs {missing}, which {sys.executable} lacks" in said
    assert said.endswith("-m pip install 'sharegroup[spark]'")


@pytest.mark.parametrize(
    "name",
    ["kafka.ssl.truststore.location", "kafka.ssl.keystore.location"],
)
def test_a_file_that_is_not_there(name: str, tmp_path: Path) -> None:
    where = str(tmp_path / "nowhere.p12")
    more = {name: where, name.replace("location", "type"): "PKCS12"}
    with pytest.raises(ConfigError, match=where):
        load({**TLS, **more})


def test_a_file_that_is_no_certificate(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("nothing")
    with pytest.raises(ConfigError, match=str(file)):
        load(
            {**TLS, "kafka.ssl.truststore.location": str(file), "kafka.ssl.truststore.type": "PEM"}
        )


def test_a_private_key_as_text_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = Credentials(tmp_path)
    text = {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.key": known.key_file.read_text(),
        "kafka.ssl.keystore.certificate.chain": known.certificate_file.read_text(),
    }
    load({**TLS, **text})
    [told] = caplog.messages
    assert "put it into a file and name that one (kafka.ssl.keystore.location" in told
    assert known.key_file.read_text().splitlines()[1] not in told


def test_a_private_key_in_a_file_is_not_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = Credentials(tmp_path)
    file = tmp_path / "both.pem"
    file.write_text(known.key_file.read_text() + known.certificate_file.read_text())
    load({**TLS, "kafka.ssl.keystore.type": "PEM", "kafka.ssl.keystore.location": str(file)})
    assert caplog.messages == []
