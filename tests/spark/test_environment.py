"""A setting that costs time is said to somebody who can change it."""

from __future__ import annotations

import pytest

from sharegroup.spark.source.telling.environment import warn


def test_worker_sockets_over_tcp_are_advised_against(caplog: pytest.LogCaptureFixture) -> None:
    warn({"PYTHON_WORKER_FACTORY_PORT": "40000"})
    (sentence,) = caplog.messages
    assert 'add .config("spark.python.unix.domain.socket.enabled", "true")' in sentence


def test_no_advice_with_unix_sockets_or_without_spark(
    caplog: pytest.LogCaptureFixture,
) -> None:
    warn({"PYTHON_WORKER_FACTORY_SOCK_PATH": "socket"})
    warn({})
    assert caplog.messages == []
