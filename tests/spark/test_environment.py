"""A setting that costs time is said to somebody who can change it."""

from __future__ import annotations

import pytest

from sharegroup.spark.source.environment import warn


def test_worker_sockets_over_tcp_are_advised_against(caplog: pytest.LogCaptureFixture) -> None:
    warn({"PYTHON_WORKER_FACTORY_PORT": "40000"})
    (sentence,) = caplog.messages
    assert 'add .config("spark.python.unix.domain.socket.enabled", "true")' in sentence


def test_nothing_is_said_where_sockets_are_files_or_spark_is_not_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    warn({"PYTHON_WORKER_FACTORY_SOCK_PATH": "socket"})
    warn({})
    assert caplog.messages == []
