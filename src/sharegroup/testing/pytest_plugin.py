"""Fixtures that pytest finds by itself wherever sharegroup is installed.

Loaded at the start of every pytest run, so it imports nothing of ours until a test asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sharegroup.testing import LocalBroker


@pytest.fixture
def sharegroup_configs() -> Mapping[str, object]:
    """Broker settings of ``sharegroup_broker``; define a fixture of this name to have others."""
    return {}


@pytest.fixture
def sharegroup_broker(sharegroup_configs: Mapping[str, object]) -> Iterator[LocalBroker]:
    """A fresh broker for this test: in memory, on a free port, with a clock that ``advance`` moves.

    See ``sharegroup.testing``.
    """
    from sharegroup.testing import broker

    with broker(configs=sharegroup_configs) as running:
        yield running
