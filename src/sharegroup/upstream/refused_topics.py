"""Which topics of the cluster share groups get no records of, where ``upstream.unsafe.topics`` is
``refuse``: those that can lose what was confirmed. They are looked at again and again, since both
their replicas and their settings change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final
from uuid import UUID

from sharegroup.client.network.cluster import Cluster
from sharegroup.client.network.metadata import TopicMetadata
from sharegroup.model import errors
from sharegroup.upstream.unsafe_topics import UNCLEAN, is_alone, may_be_unclean, some_of

logger = logging.getLogger("sharegroup.broker")

WARN: Final = "set upstream.unsafe.topics=warn"
ALONE: Final = (
    f"it has partitions on one broker alone, and is lost with it: give it more replicas, or {WARN}"
)
MAY_BE_UNCLEAN: Final = (
    f"it has {UNCLEAN}=true, so what is confirmed may be lost: set that to false, or {WARN}"
)
NOT_KNOWN: Final = (
    f"its {UNCLEAN} cannot be seen: let the broker's user describe its settings, or {WARN}"
)
AGAIN_S: Final = 60.0
"""The settings of a topic are looked at again after this time,"""
AGAIN_REFUSED_S: Final = 5.0
"""and those of a topic that is refused for them after this one."""


class RefusedTopics:
    """See the module."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._by_settings: dict[UUID, str] = {}
        """Topic → why it is refused, as its settings say; empty: it is not."""
        self._again_s: dict[UUID, float] = {}
        """Topic → when to look at its settings again."""
        self._refused: dict[str, str] = {}

    @property
    def are_due(self) -> bool:
        """Whether settings are to be looked at again, though nothing else has changed."""
        return min(self._again_s.values(), default=0.0) <= _now_s()

    async def look(self, topics: Mapping[UUID, TopicMetadata]) -> Mapping[str, str]:
        """Why topics are refused, by name; topics that are not are left out."""
        for gone in self._again_s.keys() - topics.keys():
            del self._again_s[gone], self._by_settings[gone]
        now_s = _now_s()
        await self._ask(
            {key: one for key, one in topics.items() if self._again_s.get(key, 0.0) <= now_s}
        )
        found = {
            one.name: ALONE if is_alone(one) else self._by_settings[key]
            for key, one in topics.items()
        }
        found = {name: why for name, why in found.items() if why}
        self._say(found, {one.name for one in topics.values()})
        self._refused = found
        return found

    async def _ask(self, due: Mapping[UUID, TopicMetadata]) -> None:
        names = sorted(one.name for one in due.values())
        try:
            answers = await may_be_unclean(self._cluster, names)
        except errors.KafkaError as error:
            logger.info("whether topics of the cluster have %s is not known: %s", UNCLEAN, error)
            answers = {}
        for key, one in due.items():
            told = answers.get(one.name)
            why = NOT_KNOWN if told is None else MAY_BE_UNCLEAN if told else ""
            self._by_settings[key] = why
            self._again_s[key] = _now_s() + (AGAIN_REFUSED_S if why else AGAIN_S)

    def _say(self, found: Mapping[str, str], known: Collection[str]) -> None:
        news = {name: why for name, why in found.items() if self._refused.get(name) != why}
        for why, names in _by_reason(news).items():
            logger.warning("share groups get no records of %s: %s", _each(names), why)
        for name in sorted((self._refused.keys() - found.keys()) & set(known)):
            logger.info("share groups get records of %s again", name)


def _by_reason(found: Mapping[str, str]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for name in sorted(found):
        names.setdefault(found[name], []).append(name)
    return names


def _each(names: Iterable[str]) -> str:
    topics = [*names]
    return topics[0] if len(topics) == 1 else f"each of {len(topics)} topics ({some_of(topics)})"


def _now_s() -> float:
    return asyncio.get_running_loop().time()
