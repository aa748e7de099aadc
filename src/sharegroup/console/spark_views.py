"""Spark's queries as the page shows them: what their listeners write, and members of groups that
are queries."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import OffsetSpec
from sharegroup.client.consumer import Consumer
from sharegroup.client.core.query_report import QueryReport, report_of
from sharegroup.client.network.cluster import Cluster
from sharegroup.console.limits import QUERIES_MAX, QUERY_GROUPS_MAX, REPORTS_MAX
from sharegroup.model.errors import KafkaError, SharegroupError
from sharegroup.model.ids import TopicPartition

CLIENT_ID: Final = "sharegroup-spark"
READ_MS: Final = 500

Json = dict[str, Any]


class SparkViews:
    """Reads on in the topic of reports where it has ended the last time.

    Args:
        topic: where listeners write.
    """

    def __init__(self, admin: Admin, reading: Cluster, topic: str) -> None:
        self._admin = admin
        self._reading = reading
        self._topic = topic
        self._read: dict[TopicPartition, int] = {}
        self._reports: dict[str, QueryReport] = {}

    async def all(self) -> Json:
        """The queries that have reported, the newest report first, and the members of share groups
        that are queries.

        Raises:
            KafkaError: the groups may not be seen.
        """
        missing = None
        try:
            missing = await self._read_on()
        except SharegroupError as error:
            missing = str(error)
        newest = sorted(self._reports.values(), key=lambda one: -one.at_ms)[:QUERIES_MAX]
        self._reports = {one.query_id: one for one in newest}
        return {
            "topic": self._topic,
            "missing": missing,
            "queries": [asdict(one) for one in newest],
            "members": await self._members(),
        }

    async def _read_on(self) -> str | None:
        """Take in what has been written since. Returns why there is nothing to read."""
        listed = {one.name: one for one in await self._admin.list_topics()}
        if self._topic not in listed:
            return f"No listener has written to {self._topic} yet."
        partitions = [
            TopicPartition(self._topic, number)
            for number in range(listed[self._topic].partition_count)
        ]
        begins = await self._admin.list_offsets(partitions, OffsetSpec.EARLIEST)
        ends = await self._admin.list_offsets(partitions, OffsetSpec.LATEST)
        wanted: dict[TopicPartition, tuple[int, int]] = {}
        for at in partitions:
            begin, end = begins[at].offset, ends[at].offset
            read = self._read.get(at, 0)
            if read > end:  # the topic was made anew
                read = self._read[at] = 0
            first = max(begin, end - REPORTS_MAX, read)
            if first < end:
                wanted[at] = first, end
        if wanted:
            await self._take(wanted)
        return None

    async def _take(self, wanted: dict[TopicPartition, tuple[int, int]]) -> None:
        async with Consumer[bytes, bytes](cluster=self._reading) as consumer:
            consumer.assign(list(wanted))
            for at, (first, _) in wanted.items():
                consumer.seek(at.topic, at.partition, first)
            while any(self._read.get(at, first) < end for at, (first, end) in wanted.items()):
                records = await consumer.poll(READ_MS)
                for record in records:
                    report = report_of(record.value)
                    if report is not None:
                        self._reports[report.query_id] = report
                for at in wanted:
                    self._read[at] = await consumer.position(at.topic, at.partition)
                if not records:
                    break  # the next look goes on

    async def _members(self) -> list[Json]:
        """Of the first groups that have members: to describe very many would take long."""
        listed = await self._admin.list_groups()
        busy = [
            one.group_id
            for one in listed
            if one.type.lower() == "share" and one.state.lower() != "empty"
        ][:QUERY_GROUPS_MAX]
        try:
            found = await self._admin.describe_share_groups(busy) if busy else {}
        except KafkaError:
            return []  # a group may be gone meanwhile: the next look finds the others
        return [
            {
                "group": group,
                "member": member.member_id,
                "client": member.client_id,
                "host": member.client_host,
                "partitions": len(member.assignment),
            }
            for group, described in found.items()
            for member in described.members
            if member.client_id.startswith(CLIENT_ID)
        ]
