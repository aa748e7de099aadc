"""A user's program for ``spark-submit`` with a private key as text: prints the plans of its query.

Arguments: files with the key, its certificate and the authority's.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main(key: str, certificate: str, authority: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    rows = (
        spark.readStream.format("kafka-share")
        .option("kafka.bootstrap.servers", "127.0.0.1:9092")
        .option("kafka.group.id", "workers")
        .option("subscribe", "jobs")
        .option("kafka.security.protocol", "SSL")
        .option("kafka.ssl.keystore.type", "PEM")
        .option("kafka.ssl.keystore.key", Path(key).read_text())
        .option("kafka.ssl.keystore.certificate.chain", Path(certificate).read_text())
        .option("kafka.ssl.truststore.type", "PEM")
        .option("kafka.ssl.truststore.certificates", Path(authority).read_text())
        .load()
    )
    rows.explain(extended=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
