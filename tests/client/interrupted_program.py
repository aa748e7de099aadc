"""A blocking consumer that is interrupted while it waits for records: it prints which callbacks
are called, and that it has ended.

The signal comes on the event loop's thread, from the deserializer, which then waits: the main
thread is in its wait for certain, and no record can end that.
"""

from __future__ import annotations

import os
import signal
import sys
from threading import Event

from sharegroup.sync import Consumer

_interrupted = Event()


def _interrupt(data: bytes) -> bytes:
    if not _interrupted.is_set():
        os.kill(os.getpid(), signal.SIGINT)
        _interrupted.wait()
    return data


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def main(bootstrap: str, topic: str) -> None:
    """Read the topic until the interrupt."""
    consumer: Consumer = Consumer(
        group_id="interrupted",
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        value_deserializer=_interrupt,
    )
    consumer.subscribe(topic, on_revoked=lambda _: say("revoked"))
    try:
        with consumer:
            try:
                for _ in consumer:
                    say("a record")
            except KeyboardInterrupt:
                _interrupted.set()
                raise
    except KeyboardInterrupt:
        say("interrupted")


if __name__ == "__main__":
    main(*sys.argv[1:])
