"""The catalog's file: its checksum, and what is accepted of earlier versions."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.model.errors import ConfigError
from sharegroup.model.store import TopicFacts
from sharegroup.storage import LocalDisk
from sharegroup.storage.catalog import Catalog


def filled(folder: Path) -> Catalog:
    catalog = Catalog.open(LocalDisk(), str(folder), "cluster")
    catalog.put_topic("a", TopicFacts(topic_id=UUID(int=1), partitions=3))
    catalog.put_topic(
        'b"', TopicFacts(topic_id=UUID(int=2), partitions=4, configs={"retention.ms": "5"})
    )
    catalog.put_group_configs("g", {"x": "1"})
    catalog.put_producer_ids_end(1000)
    catalog.put_topic("gone", TopicFacts(topic_id=UUID(int=3), partitions=2))
    catalog.remove_topic("gone")
    return catalog


def test_all_facts_survive_a_restart(tmp_path: Path) -> None:
    catalog = filled(tmp_path)
    again = Catalog.open(LocalDisk(), str(tmp_path), "other")
    assert again.facts == catalog.facts
    assert again.facts.deleted == {UUID(int=3): 0}
    assert again.size == (tmp_path / "catalog.json").stat().st_size
    assert again.partition_count == 7


def test_every_flipped_bit_is_detected(tmp_path: Path) -> None:
    facts = filled(tmp_path).facts
    path = tmp_path / "catalog.json"
    whole = path.read_bytes()
    for position in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << bit
            path.write_bytes(damaged)
            try:
                found = Catalog.open(LocalDisk(), str(tmp_path), "other").facts
            except ConfigError:
                continue
            assert found == facts, (position, bit)  # white space behind the checksum


@pytest.mark.parametrize("indent", [None, 1])
def test_a_catalog_without_a_checksum_is_read(tmp_path: Path, indent: int | None) -> None:
    facts = filled(tmp_path).facts
    path = tmp_path / "catalog.json"
    content = json.loads(path.read_bytes())
    del content["crc32c"]
    del content["deleted"]
    path.write_text(json.dumps(content, indent=indent))
    found = Catalog.open(LocalDisk(), str(tmp_path), "other")
    assert found.facts.topics == facts.topics
    assert found.facts.producer_ids_end == 1000
    found.put_producer_ids_end(2000)
    assert b"crc32c" in path.read_bytes()


@pytest.mark.parametrize(
    "content", [b"[]", b"null", b"[" * 100_000, b'{"version": 1, "cluster_id": "", "topics": []}']
)
def test_json_that_is_no_catalog_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "catalog.json").write_bytes(content)
    with pytest.raises(ConfigError, match="--repair"):
        Catalog.open(LocalDisk(), str(tmp_path), "other")


def test_defaults_of_every_broker_are_written_where_there_are_some(tmp_path: Path) -> None:
    """An earlier release reads the file without them, and has written such ones."""
    catalog = filled(tmp_path)
    catalog.put_broker_configs({"x": "1"})
    path = tmp_path / "catalog.json"
    assert b"cluster_configs" not in path.read_bytes()
    assert Catalog.open(LocalDisk(), str(tmp_path), "other").facts.cluster_configs == {}
    catalog.put_cluster_configs({"x": "2"})
    found = Catalog.open(LocalDisk(), str(tmp_path), "other")
    assert (found.facts.broker_configs, found.facts.cluster_configs) == ({"x": "1"}, {"x": "2"})
    found.put_cluster_configs({})
    assert b"cluster_configs" not in path.read_bytes()


def test_a_wrong_checksum_is_reported(tmp_path: Path) -> None:
    filled(tmp_path)
    path = tmp_path / "catalog.json"
    path.write_bytes(
        path.read_bytes().replace(b'"producer_ids_end": 1000', b'"producer_ids_end": 0')
    )
    with pytest.raises(ConfigError, match=r"damaged \(its checksum is wrong"):
        Catalog.open(LocalDisk(), str(tmp_path), "other")
