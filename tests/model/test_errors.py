"""Every error says where it comes from."""

from __future__ import annotations

import pickle

import pytest

from sharegroup.client.errors import BootstrapError, IllegalState
from sharegroup.model.errors import (
    ERRORS,
    ErrorSource,
    NetworkException,
    RequestTimedOut,
    SharegroupError,
    UnknownServerError,
    UnknownTopicOrPartition,
    error_from_code,
)


@pytest.mark.parametrize("code", [*ERRORS, 9_999])
def test_a_code_in_a_response_is_the_brokers_refusal(code: int) -> None:
    error = error_from_code(code, "why")
    assert type(error) is ERRORS.get(code, UnknownServerError)
    assert error.source is ErrorSource.BROKER
    assert str(error).endswith("why")


@pytest.mark.parametrize(
    ("error", "source"),
    [
        (NetworkException(), "connection"),
        (RequestTimedOut(), "connection"),
        (BootstrapError("none answered"), "connection"),
        (UnknownTopicOrPartition(), "local"),
        (IllegalState("too early"), "local"),
    ],
)
def test_an_error_made_here_is_not_the_brokers(error: SharegroupError, source: str) -> None:
    assert error.source == source


def test_a_pickled_error_keeps_its_source() -> None:
    """Spark raises on the driver what a task raised on an executor."""
    error = pickle.loads(pickle.dumps(error_from_code(NetworkException.code)))
    assert (type(error), error.source) == (NetworkException, ErrorSource.BROKER)
