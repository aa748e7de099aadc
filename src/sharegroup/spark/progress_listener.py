"""Tells the console how the queries of a Spark session go."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sharegroup.client.core.query_report import ENDED, FAILED, QUERY_TOPIC, RUNNING, QueryReport
from sharegroup.model.errors import ConfigError, SharegroupError, TopicAlreadyExists
from sharegroup.spark.options.security import split_security

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress

    from sharegroup.client.security.settings import Security

logger = logging.getLogger("sharegroup.spark")

SERVERS: Final = "kafka.bootstrap.servers"
KEPT: Final = {"cleanup.policy": "compact,delete", "retention.ms": str(30 * 86_400_000)}
"""Of the topic: the last report of each query, and none of queries that ended a month ago."""
PAUSE_S: Final = 60
"""After a failure no report is sent for so long."""
ERROR_MAX: Final = 2_000
"""Characters of an error."""


def progress_listener(
    options: Mapping[str, str], topic: str = QUERY_TOPIC
) -> StreamingQueryListener:
    """A listener that writes how each query of the session goes to a topic, where the console finds
    it (``/?show=spark``)::

        options = {"kafka.bootstrap.servers": "localhost:9092"}
        spark.streams.addListener(progress_listener(options))

    It writes one record when a query starts, after each batch, and when the query ends. The topic
    is made if it is missing. If the broker is away or refuses a report, the log says so once, and
    the queries go on.

    Args:
        options: ``kafka.bootstrap.servers``, and the settings of TLS and SASL as the source has
            them.

    Raises:
        ConfigError: an option is wrong.
    """
    rest, security = split_security(options)
    servers = rest.pop(SERVERS, None)
    if not servers:
        raise ConfigError(f"{SERVERS} is missing")
    if rest:
        raise ConfigError(f"{next(iter(rest))} means nothing to the listener: take it out")
    from pyspark.sql.streaming import listener

    reports = _Reports(servers, security, topic)

    class Progress(listener.StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark's name
            reports.write(_state(event, RUNNING, name=event.name))

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            reports.write(_progress(event.progress))

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            reports.end(event)

    return Progress()


def _state(event: Any, state: str, **others: Any) -> QueryReport:
    others.setdefault("name", None)
    return QueryReport(
        query_id=str(event.id), run_id=str(event.runId), state=state, at_ms=_now_ms(), **others
    )


def _progress(progress: StreamingQueryProgress) -> QueryReport:
    groups: dict[str, dict[str, Any]] = {}
    for source in progress.sources:
        told = _object(source.latestOffset)
        if isinstance(told.get("group"), str):
            groups[told["group"]] = {n: v for n, v in told.items() if isinstance(v, int)}
    return _state(
        progress,
        RUNNING,
        name=progress.name,
        batch=progress.batchId,
        rows=progress.numInputRows,
        rows_per_s=progress.processedRowsPerSecond,
        batch_ms=progress.batchDuration,
        groups=groups,
    )


def _object(text: str | None) -> dict[str, Any]:
    """Another source's offset may be anything."""
    try:
        found = json.loads(text or "null")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class _Reports:
    """Writes reports. Spark calls from threads of its own, one call at a time."""

    def __init__(self, servers: str, security: Security, topic: str) -> None:
        self._servers = servers
        self._security = security
        self._topic = topic
        self._producer: Any = None
        self._last: dict[str, QueryReport] = {}
        self._said = False
        self._not_before_s = 0.0

    def write(self, report: QueryReport) -> None:
        """Send it; a failure is logged, the first time."""
        self._last[report.query_id] = report
        if time.monotonic() < self._not_before_s:
            return  # waiting for a broker that is away holds up Spark's other listeners
        try:
            if self._producer is None:
                self._producer = self._open()
            self._producer.send(self._topic, report.to_json(), key=report.query_id.encode())
        except SharegroupError as error:
            self._not_before_s = time.monotonic() + PAUSE_S
            self._say(error)

    def end(self, event: Any) -> None:
        """The query has ended: its last numbers stay."""
        last = self._last.pop(str(event.id), None)
        known = (
            {}
            if last is None
            else {
                name: getattr(last, name)
                for name in ("name", "batch", "rows", "rows_per_s", "batch_ms", "groups")
            }
        )
        error = str(event.exception)[:ERROR_MAX] if event.exception else None
        self.write(_state(event, FAILED if error else ENDED, error=error, **known))
        self._last.pop(str(event.id), None)
        if not self._last and self._producer is not None:
            producer, self._producer = self._producer, None
            try:
                producer.close()
            except SharegroupError as failure:
                self._say(failure)

    def _say(self, error: SharegroupError) -> None:
        if not self._said:
            self._said = True
            logger.warning("no report of queries to %s: %s", self._topic, error)

    def _open(self) -> Any:
        from sharegroup.sync import Admin, Producer

        settings: dict[str, Any] = {
            "security": self._security,
            "client_id": "sharegroup-spark-listener",
            "request_timeout_ms": 5_000,
        }
        with Admin(self._servers, **settings) as admin:
            try:
                admin.create_topics(self._topic, partitions=1, configs=KEPT)
            except TopicAlreadyExists:
                logger.debug("%s is there", self._topic)
        return Producer(self._servers, **settings)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
