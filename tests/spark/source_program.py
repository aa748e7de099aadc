"""The process of a source with ``ackLocation``: takes a batch, says so, and waits.

Arguments: bootstrap servers, topic (and group), ackLocation. With ``--started-by-another`` it
starts itself in a second process and waits, as Spark does.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

from pyspark.sql.streaming.datasource import ReadAllAvailable

from sharegroup.arrow.schema import COLUMNS
from sharegroup.spark.data_source import ShareStreamReader

STARTED_BY_ANOTHER = "--started-by-another"
HAS_A_BATCH = "it has a batch"


class Source:
    """Such a process, which has a batch."""

    def __init__(self, bootstrap: str, topic: str, acks: str, *before: str) -> None:
        command = [sys.executable, __file__, *before, bootstrap, topic, acks]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{HAS_A_BATCH}\n"

    def kill(self) -> None:
        """``kill -9``; a second call does nothing."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def main(bootstrap: str, topic: str, acks: str) -> None:
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "kafka.group.id": topic,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "ackLocation": acks,
        "pollTimeoutMs": "60000",
        "kafka.request.timeout.ms": "90000",
    }
    reader = ShareStreamReader(options, [("value", COLUMNS["value"])])
    offset = reader.initialOffset()
    try:
        while not offset.get("r"):
            offset = reader.latestOffset(offset, ReadAllAvailable())
        sys.stdout.write(f"{HAS_A_BATCH}\n")
        sys.stdout.flush()
        threading.Event().wait()
    finally:
        reader.stop()


if __name__ == "__main__":
    if sys.argv[1] == STARTED_BY_ANOTHER:
        subprocess.run([sys.executable, __file__, *sys.argv[2:]])
    else:
        main(*sys.argv[1:])
