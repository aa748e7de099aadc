from __future__ import annotations

from sharegroup.broker.configs.broker import BROKER_CONFIGS
from sharegroup.broker.configs.foreign import KAFKA_NAMES, REMOVED_NAMES, why_meaningless


def test_no_name_is_in_two_lists() -> None:
    names = [*BROKER_CONFIGS, *KAFKA_NAMES, *REMOVED_NAMES]
    assert len(names) == len(set(names))


def test_every_name_has_its_reason() -> None:
    assert all(why_meaningless(name) for name in (*KAFKA_NAMES, *REMOVED_NAMES))
    assert (
        why_meaningless("controller.quorum.voters") == "there is no controller: one embedded node"
    )
    assert why_meaningless("zookeeper.connect") == "Kafka has removed it"
    assert why_meaningless("ssl.provider") == "TLS is OpenSSL's, SASL is built in"
    assert why_meaningless("colour") is None
