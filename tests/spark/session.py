"""The Spark session that a worker's tests share: made, tried, and thrown away when it is broken.

A test that is stopped in the middle of a call to the JVM, by its time limit for example, leaves an
answer unread, which the next call would take for its own ("SparkConf does not exist in the JVM").
"""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
}
ANSWER_S = 60
"""A JVM that has not answered by then is thought to work on what a stopped test has asked."""


def start() -> SparkSession:
    """A session in the JVM of the one before, or in a new one."""
    builder = SparkSession.builder.master("local[2]").appName("sharegroup-tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def stop(session: SparkSession) -> None:
    """Stop the session, and keep its JVM for the next, if it can be used further."""
    if is_sound():
        session.stop()
    else:
        throw_away()


def is_sound() -> bool:
    """Whether there is a session whose JVM answers what this thread asks."""
    gateway: Any = SparkContext._gateway
    if gateway is None or SparkContext._active_spark_context is None:
        return False
    try:
        connection = gateway._gateway_client.get_thread_connection()
        if connection is not None:
            connection.socket.settimeout(ANSWER_S)
        answers = [gateway.jvm.java.lang.Integer.parseInt(str(number)) for number in (17, 18)]
        if connection is not None:
            connection.socket.settimeout(None)
    except Exception:  # noqa: BLE001 - py4j's, or Python's on an answer of another question
        return False
    return answers == [17, 18]


def throw_away() -> None:
    """End the JVM and forget what stood in it: the next session gets a new one."""
    gateway: Any = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    if gateway is not None:
        gateway.proc.kill()
        gateway.proc.wait()
        gateway.shutdown()
