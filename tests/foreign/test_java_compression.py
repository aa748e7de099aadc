"""Java's producer in every codec, with records that compress to nearly nothing: none is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apache_kafka.tools import parse_producer_rate, run_tool
from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.kafka

RECORDS = 50_000
PROPERTIES = ("batch.size=1000000", "linger.ms=50")


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_highly_compressed_batches_are_accepted(codec: str, tmp_path: Path) -> None:
    payload = tmp_path / "payload"
    payload.write_text("a" * 2_000 + "\n")
    with SharegroupServer(tmp_path / "data") as broker:
        admin.Admin(broker.bootstrap).create_topic("t")
        output = run_tool(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--bootstrap-server", broker.bootstrap, "--topic", "t"),
            *("--num-records", str(RECORDS), "--payload-file", str(payload)),
            *("--throughput", "-1"),
            *("--command-property", *PROPERTIES, f"compression.type={codec}"),
            timeout_s=400,
        )
        assert parse_producer_rate(output).records == RECORDS, output
        assert "Exception" not in output
