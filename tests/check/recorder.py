"""Writes histories for tests of the checker."""

from __future__ import annotations

import json
from typing import Any

from sharegroup.check.judge import judged

GROUP, TOPIC = "workers", "jobs"


class Recorder:
    """A history in the making."""

    def __init__(self, **settings: Any) -> None:
        self.lines: list[str] = []
        self.t = 0
        self._n = 0
        self.tell("settings", group=GROUP, **({"limit": 5, "lock_ms": 1_000} | settings))

    def tell(self, op: str, **fields: Any) -> None:
        self.t += 1
        self.lines.append(json.dumps({"op": op, "t": self.t, **fields}))

    def n(self) -> int:
        self._n += 1
        return self._n

    def produce(
        self, *offsets: int, ids: dict[int, str] | None = None, key: str = "", **said: Any
    ) -> None:
        for offset in offsets:
            n = self.n()
            name = (ids or {}).get(offset, f"r{offset}")
            self.tell("produce", n=n, topic=TOPIC, id=name, **({"key": key} if key else {}))
            self.tell("produced", n=n, partition=0, offset=offset, **said)

    def poll(self, member: str, first: int, last: int, count: int = 1, **said: Any) -> None:
        n = self.n()
        self.tell("poll", n=n, group=GROUP, member=member)
        records = [[TOPIC, 0, offset, f"r{offset}"] for offset in range(first, last + 1)]
        acquired = [[TOPIC, 0, first, last, count]]
        self.tell("polled", n=n, acquired=acquired, records=records, **said)

    def ack(
        self, member: str, first: int, last: int, kind: str = "accept", result: str = "ok"
    ) -> None:
        n = self.n()
        self.tell("ack", n=n, group=GROUP, member=member, acks=[[TOPIC, 0, first, last, kind]])
        self.tell("acked", n=n, results=[result])

    def nothing(self, member: str, ms: int = 600) -> None:
        """A poll comes back empty after so long."""
        n = self.n()
        self.tell("poll", n=n, group=GROUP, member=member)
        self.t += ms
        self.tell("polled", n=n, acquired=[], of=[[TOPIC, 0]])

    def end(self, **said: Any) -> None:
        self.tell("end", **({"drained": [GROUP]} | said))

    def place(self, op: str, offset: int) -> None:
        self.tell(op, group=GROUP, topic=TOPIC, partition=0, offset=offset)

    def found(self) -> list[str]:
        return [str(one) for one in judged(self.lines).violations]
