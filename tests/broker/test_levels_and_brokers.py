"""What Apache Kafka would change and this broker does not: levels of features, and itself. What
both refuse is in tests/differential/test_answers.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.broker.server import Broker
from sharegroup.wire import apis
from sharegroup.wire.messages.unregister_broker import UnregisterBrokerRequest
from sharegroup.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.running import run
from tests.broker.test_one_node_answers import ask

UPGRADE, SAFE_DOWNGRADE = 1, 2
INVALID_REQUEST, INVALID_UPDATE_VERSION = 42, 95


@pytest.mark.parametrize(
    ("feature", "level", "kind", "why"),
    [
        ("group.version", 0, SAFE_DOWNGRADE, "Its level is fixed here: 1."),
        ("share.version", 1, UPGRADE, "start the broker with share.version=1."),
        ("share.version", 2, UPGRADE, "start the broker with share.version=2."),
        ("share.version", 3, UPGRADE, "Local controller 1 only supports versions 0-2"),
        ("share.version", 1, SAFE_DOWNGRADE, "Can't downgrade to a newer version."),
        ("share.version", 0, UPGRADE, None),
        ("share.record.states", 1, UPGRADE, None),
        ("f" * 250, 0, UPGRADE, f" Feature {'f' * 250} not found."),
        ("f" * 251, 0, UPGRADE, f" Feature {'f' * 250}… not found."),
    ],
)
def test_no_level_is_changed(
    tmp_path: Path, feature: str, level: int, kind: int, why: str | None
) -> None:
    async def scenario(_: Broker, port: int) -> None:
        update = FeatureUpdateKey(feature, level, False, kind)
        for validate_only in (True, False):
            answer = await ask(
                port, apis.UPDATE_FEATURES, UpdateFeaturesRequest(1_000, [update], validate_only)
            )
            if why is None:
                assert (answer.error_code, answer.error_message) == (0, None)
            else:
                assert answer.error_code == INVALID_UPDATE_VERSION
                assert answer.error_message.endswith(why)

    run(tmp_path, scenario, "share.version=0")


def test_the_one_broker_is_not_unregistered(tmp_path: Path) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        answer = await ask(
            port, apis.UNREGISTER_BROKER, UnregisterBrokerRequest(broker.parts.node_id)
        )
        assert answer.error_code == INVALID_REQUEST
        assert "is this broker, the only one" in answer.error_message

    run(tmp_path, scenario)
