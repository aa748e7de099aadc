"""Which names a topic may have (Kafka class Topic)."""

from __future__ import annotations

import re
from typing import Final

from sharegroup.model.errors import InvalidTopic
from sharegroup.model.limits import CLIENT_TEXT_LENGTH_MAX

_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Check a name by Kafka's rule, which also keeps names from leading out of the data folder.

    Raises:
        InvalidTopic: the name is illegal.
    """
    if name in (".", "..") or len(name) > CLIENT_TEXT_LENGTH_MAX or not _TOPIC_NAME.fullmatch(name):
        raise InvalidTopic(
            f"Topic name {name!r} is illegal: up to {CLIENT_TEXT_LENGTH_MAX} ASCII letters, "
            "digits, '.', '_' and '-', and not '.' or '..'"
        )
