"""Errors that will pass are told to readers by a code that their clients take as such."""

from __future__ import annotations

import pytest

from sharegroup.broker.handlers.passing_errors import as_readers_expect
from sharegroup.model import errors


@pytest.mark.parametrize("kind", [errors.NetworkException, errors.CoordinatorNotAvailable])
def test_what_readers_do_not_expect_is_told_otherwise(kind: type[errors.KafkaError]) -> None:
    told = as_readers_expect(kind("no answer"))
    assert isinstance(told, errors.OffsetNotAvailable)
    assert told.message == f"{kind.name}: no answer"


@pytest.mark.parametrize(
    "error",
    [
        errors.NotLeaderOrFollower("it moved"),
        errors.KafkaStorageError("a broken disk"),
        errors.PolicyViolation("it will not pass"),
        errors.TopicAuthorizationFailed("nor will this"),
    ],
)
def test_the_others_are_told_as_they_are(error: errors.KafkaError) -> None:
    assert as_readers_expect(error) is error
