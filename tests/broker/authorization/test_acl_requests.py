"""ACLs made, shown and deleted by requests: what they do, to whom, and that they last."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.authorization.access_rules import AccessRules
from sharegroup.broker.metrics.reader import MetricsReader
from sharegroup.broker.metrics.traffic import DENIALS
from sharegroup.broker.server import Broker
from sharegroup.client.network.connection import Connection
from sharegroup.client.network.versions import LAST_BY_NAME
from sharegroup.model.environment import Disk
from sharegroup.model.errors import (
    ClusterAuthorizationFailed,
    CoordinatorNotAvailable,
    KafkaStorageError,
    PolicyViolation,
    SecurityDisabled,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from sharegroup.model.limits import ACL_CHANGES_MAX, ACL_FILTERS_MAX
from sharegroup.wire import apis
from sharegroup.wire.messages import fetch, incremental_alter_configs, list_offsets
from sharegroup.wire.messages.create_acls import AclCreation, CreateAclsRequest
from sharegroup.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from sharegroup.wire.messages.describe_acls import DescribeAclsRequest
from sharegroup.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.authorization.clients import TWO_LISTENERS, write_acls
from tests.broker.by_hand import TIMEOUT_MS, connect
from tests.broker.running import running
from tests.storage.lacks import FullDisk

STORED = (*TWO_LISTENERS, "authorizer.class.name=StandardAuthorizer")
SEE_JOBS = AclCreation(2, "jobs", 3, "User:ANONYMOUS", "*", 8, 3)
EVERY = DeleteAclsFilter(1, None, 1, None, None, 1, 1)
ALL_OF_THEM = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
TOPIC_DENIED = TopicAuthorizationFailed.code
UNKNOWN = UnknownTopicOrPartition.code


class Two:
    """The administrator, and somebody."""

    def __init__(self, broker: Broker, admin: Connection, anybody: Connection) -> None:
        self.broker = broker
        self._admin = admin
        self._anybody = anybody

    async def create(self, creations: Iterable[AclCreation]) -> list[tuple[int, str | None]]:
        made = await self.as_admin(apis.CREATE_ACLS, CreateAclsRequest(list(creations)))
        return [(each.error_code, each.error_message) for each in made.results]

    async def delete(self, *filters: DeleteAclsFilter) -> Any:
        deleted = await self.as_admin(apis.DELETE_ACLS, DeleteAclsRequest(list(filters)))
        return deleted.filter_results

    async def shown(self) -> list[tuple[str, int]]:
        """Resource and operation of each ACL."""
        found = await self.as_admin(apis.DESCRIBE_ACLS, ALL_OF_THEM)
        return [(r.resource_name, acl.operation) for r in found.resources for acl in r.acls]

    async def sees(self, name: str) -> int:
        """The error that anybody gets for a topic."""
        request = MetadataRequest([MetadataRequestTopic(name=name)], False)
        found = await self.ask(apis.METADATA, request)
        code: int = found.topics[0].error_code
        return code

    async def as_admin(self, api: apis.Api, request: Any) -> Any:
        return await self._admin.send(
            api, request, timeout_ms=TIMEOUT_MS, version_max=LAST_BY_NAME.get(api)
        )

    async def ask(self, api: apis.Api, request: Any) -> Any:
        return await self._anybody.send(api, request, timeout_ms=TIMEOUT_MS)


def with_two(folder: Path, scenario: Any, *options: str, disk: Disk | None = None) -> None:
    async def main() -> None:
        async with asyncio.timeout(240), running(folder, *options, disk=disk) as (broker, port):
            _, admin_port = await broker.listen("127.0.0.1", 0, "ADMIN")
            await scenario(Two(broker, await connect(admin_port), await connect(port)))

    asyncio.run(main())


def test_an_acl_holds_at_once_for_open_connections_and_after_a_restart(tmp_path: Path) -> None:
    async def first(two: Two) -> None:
        assert await two.sees("jobs") == TOPIC_DENIED
        assert await two.create([SEE_JOBS, SEE_JOBS]) == [(0, None), (0, None)]
        assert await two.create([SEE_JOBS]) == [(0, None)]
        assert await two.shown() == [("jobs", 8)]
        assert await two.sees("jobs") == 3  # allowed, and there is none

    async def again(two: Two) -> None:
        assert await two.shown() == [("jobs", 8)]
        assert await two.sees("jobs") == 3
        (deleted,) = await two.delete(EVERY)
        assert [(acl.error_code, acl.resource_name) for acl in deleted.matching_acls] == [
            (0, "jobs")
        ]
        assert await two.sees("jobs") == TOPIC_DENIED
        assert await two.shown() == []

    with_two(tmp_path, first, *STORED)
    with_two(tmp_path, again, *STORED)
    with_two(tmp_path, lambda two: _nothing(two), *STORED)


def test_a_change_of_stored_acls_looks_at_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    take = AccessRules.take_stored

    def counting(rules: AccessRules, rows: Mapping[Any, Any], *about: Any) -> None:
        counted = CountedRows(rows)
        take(rules, counted, *about)
        looked_at.append(counted.looked_at)

    async def scenario(two: Two) -> None:
        many = [AclCreation(2, f"t{n}", 3, "User:a", "*", 8, 3) for n in range(300)]
        del looked_at[:]
        await two.create(many)
        await two.create([SEE_JOBS])
        assert await two.sees("jobs") == 3
        await two.delete(DeleteAclsFilter(2, "jobs", 3, None, None, 1, 1))
        assert await two.sees("jobs") == TOPIC_DENIED
        assert looked_at == [300, 1, 1]

    monkeypatch.setattr(AccessRules, "take_stored", counting)
    with_two(tmp_path, scenario, *STORED)


class CountedRows(Mapping[Any, Any]):
    """Counts the rows that are looked at, or gone through."""

    def __init__(self, rows: Mapping[Any, Any]) -> None:
        self._rows = rows
        self.looked_at = 0

    def __getitem__(self, key: Any) -> Any:
        self.looked_at += 1
        return self._rows[key]

    def __iter__(self) -> Iterator[Any]:
        for key in self._rows:
            self.looked_at += 1
            yield key

    def __len__(self) -> int:
        return len(self._rows)


async def _nothing(two: Two) -> None:
    assert await two.shown() == []


def test_who_changes_acls_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(two: Two) -> None:
        await two.create([SEE_JOBS, SEE_JOBS])
        await two.create([SEE_JOBS])
        await two.create([AclCreation(2, f"t{n}", 3, "User:a", "*", 3, 3) for n in range(25)])
        await two.delete(DeleteAclsFilter(2, "jobs", 3, None, None, 1, 1))

    with caplog.at_level("INFO", logger="sharegroup.authorizer"):
        with_two(tmp_path, scenario, *STORED)
    told = [line for line in caplog.messages if line.startswith("User:admin from 127.0.0.1 has")]
    acl = "ALLOW User:ANONYMOUS DESCRIBE on TOPIC:LITERAL:jobs from host *"
    assert told[0] == f"User:admin from 127.0.0.1 has made an ACL: {acl}"
    assert told[-1] == f"User:admin from 127.0.0.1 has deleted an ACL: {acl}"
    assert told[-2].endswith("and 5 more")
    assert len(told) == 1 + 20 + 1 + 1


def test_who_may_not_alter_the_cluster_changes_no_acls(tmp_path: Path) -> None:
    async def scenario(two: Two) -> None:
        denied = ClusterAuthorizationFailed.code
        made = await two.ask(apis.CREATE_ACLS, CreateAclsRequest([SEE_JOBS]))
        assert [each.error_code for each in made.results] == [denied]
        gone = await two.ask(apis.DELETE_ACLS, DeleteAclsRequest([EVERY]))
        assert [each.error_code for each in gone.filter_results] == [denied]
        assert (await two.ask(apis.DESCRIBE_ACLS, ALL_OF_THEM)).error_code == denied

    with_two(tmp_path, scenario, *STORED)


def test_without_an_authorizer_acls_are_refused(tmp_path: Path) -> None:
    async def scenario(two: Two) -> None:
        said = (SecurityDisabled.code, "No Authorizer is configured.")
        assert await two.create([SEE_JOBS]) == [said]
        (deleted,) = await two.delete(EVERY)
        assert (deleted.error_code, deleted.error_message) == said

    with_two(tmp_path, scenario, *TWO_LISTENERS[:3])


def test_with_a_file_alone_acls_are_not_made_by_requests(tmp_path: Path) -> None:
    file = write_acls(tmp_path / "acls.csv", [])

    async def scenario(two: Two) -> None:
        ((code, said),) = await two.create([SEE_JOBS])
        assert code == SecurityDisabled.code
        assert said is not None
        assert "authorizer.class.name" in said

    with_two(tmp_path, scenario, *TWO_LISTENERS, f"authorizer.acl.file={file}")


def test_acls_of_the_file_count_with_the_others_and_stay(tmp_path: Path) -> None:
    file = write_acls(
        tmp_path / "acls.csv",
        [
            "ALLOW,User:ANONYMOUS,*,DESCRIBE,TOPIC,jobs,LITERAL",
            "DENY,User:ANONYMOUS,*,DESCRIBE,TOPIC,jobs-secret,LITERAL",
        ],
    )

    async def scenario(two: Two) -> None:
        prefix = AclCreation(2, "jobs-", 4, "User:ANONYMOUS", "*", 8, 3)
        assert await two.create([SEE_JOBS, prefix]) == [(0, None)] * 2
        assert await two.shown() == [("jobs", 8), ("jobs-secret", 8), ("jobs-", 8)]
        assert await two.sees("jobs-1") == 3
        assert await two.sees("jobs-secret") == TOPIC_DENIED
        exact = DeleteAclsFilter(2, "jobs", 3, "User:ANONYMOUS", "*", 8, 3)
        every, one = await two.delete(EVERY, exact)
        told = [(acl.resource_name, acl.error_code) for acl in every.matching_acls]
        refused = PolicyViolation.code
        assert told == [("jobs", 0), ("jobs-", 0), ("jobs", refused), ("jobs-secret", refused)]
        assert [acl.error_code for acl in one.matching_acls] == [0, refused]
        assert str(file) in one.matching_acls[1].error_message
        assert await two.shown() == [("jobs", 8), ("jobs-secret", 8)]
        assert (await two.sees("jobs"), await two.sees("jobs-1")) == (3, TOPIC_DENIED)

    with_two(tmp_path, scenario, *STORED, f"authorizer.acl.file={file}")


def test_a_file_that_changes_is_taken_when_it_has_been_the_same_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = write_acls(tmp_path / "acls.csv", [])
    allow = "ALLOW,User:ANONYMOUS,*,DESCRIBE,TOPIC,jobs,LITERAL"

    async def scenario(two: Two) -> None:
        rules = two.broker.parts.access_rules
        await rules.look_at_file()
        write_acls(file, [allow])
        await rules.look_at_file()
        assert await two.sees("jobs") == TOPIC_DENIED  # somebody may be writing it
        await rules.look_at_file()
        assert await two.sees("jobs") == 3
        for broken in ("not a table", "nor this"):
            file.write_text(broken)
            for _ in range(4):
                await rules.look_at_file()
        file.unlink()
        for _ in range(4):
            await rules.look_at_file()
        assert await two.sees("jobs") == 3
        write_acls(file, [])
        for _ in range(2):
            await rules.look_at_file()
        assert await two.sees("jobs") == TOPIC_DENIED

    with caplog.at_level("INFO", logger="sharegroup.authorizer"):
        with_two(tmp_path, scenario, *STORED, f"authorizer.acl.file={file}")
    stay = [line for line in caplog.messages if line.startswith("the ACLs stay as they were")]
    assert len(stay) == 3
    assert sum("has changed" in line for line in caplog.messages) == 2


def test_limits_of_one_request(tmp_path: Path) -> None:
    def many(count: int) -> list[AclCreation]:
        return [AclCreation(2, f"t{number}", 3, "User:a", "*", 3, 3) for number in range(count)]

    def exact(count: int) -> list[DeleteAclsFilter]:
        return [
            DeleteAclsFilter(2, f"t{number}", 3, "User:a", "*", 3, 3) for number in range(count)
        ]

    async def scenario(two: Two) -> None:
        refused = await two.create(many(ACL_CHANGES_MAX + 1))
        assert {code for code, _ in refused} == {PolicyViolation.code}
        assert {code for code, _ in await two.create(many(ACL_CHANGES_MAX))} == {0}
        assert len(await two.shown()) == ACL_CHANGES_MAX
        wide = [DeleteAclsFilter(2, f"x{n}", 2, None, None, 1, 1) for n in range(ACL_FILTERS_MAX)]
        one_more = DeleteAclsFilter(2, "x", 2, None, None, 1, 1)
        assert {each.error_code for each in await two.delete(*wide)} == {0}
        assert {each.error_code for each in await two.delete(*wide, one_more)} == {
            PolicyViolation.code
        }
        twice = await two.delete(EVERY, EVERY)
        assert {each.error_code for each in twice} == {PolicyViolation.code}
        assert len(await two.shown()) == ACL_CHANGES_MAX
        gone = await two.delete(*exact(ACL_CHANGES_MAX))
        assert sum(len(each.matching_acls) for each in gone) == ACL_CHANGES_MAX
        assert await two.shown() == []

    with_two(tmp_path, scenario, *STORED)


def test_an_acl_that_cannot_be_written_does_not_hold(tmp_path: Path) -> None:
    disk = FullDisk()
    disk.where = "__sharegroup_security"

    async def scenario(two: Two) -> None:
        group = AclCreation(3, "workers", 3, "User:a", "*", 3, 3)
        assert await two.create([group]) == [(0, None)]
        disk.full = True
        ((code, _),) = await two.create([SEE_JOBS])
        assert code in (CoordinatorNotAvailable.code, KafkaStorageError.code)
        assert await two.sees("jobs") == TOPIC_DENIED
        disk.full = False
        async with asyncio.timeout(120):
            while (await two.create([SEE_JOBS]))[0][0]:
                pass  # the log is being read again
        assert await two.sees("jobs") == 3
        assert sorted(await two.shown()) == [("jobs", 8), ("workers", 3)]

    with_two(tmp_path, scenario, *STORED, disk=disk)


def test_denials_are_counted_and_told_with_their_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(two: Two) -> None:
        for _ in range(3):
            assert await two.sees("jobs") == TOPIC_DENIED
        samples = await MetricsReader(two.broker.parts).read()
        (denials,) = (sample for sample in samples if sample.metric is DENIALS)
        assert (denials.labels, denials.value) == (("DESCRIBE", "TOPIC"), 3)

    with caplog.at_level("INFO", logger="sharegroup.authorizer"):
        with_two(tmp_path, scenario, *STORED)
    (said,) = (line for line in caplog.messages if "Denied" in line)
    assert said == (
        "Principal = User:ANONYMOUS is Denied operation = DESCRIBE from host = 127.0.0.1 on "
        "resource = TOPIC:LITERAL:jobs for request = Metadata"
    )


def test_nobody_reads_or_alters_the_topic_that_credentials_are_kept_in(tmp_path: Path) -> None:
    topic = "__sharegroup_security"

    async def scenario(two: Two) -> None:
        await two.create([SEE_JOBS])
        part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        asked = fetch.FetchRequest(
            max_wait_ms=0, min_bytes=0, topics=[fetch.FetchTopic(topic=topic, partitions=[part])]
        )
        (found,) = (await two.as_admin(apis.FETCH, asked)).responses
        assert found.partitions[0].error_code == UNKNOWN
        assert not found.partitions[0].records
        place = list_offsets.ListOffsetsTopic(topic, [list_offsets.ListOffsetsPartition(0, -1, -1)])
        listed = await two.as_admin(
            apis.LIST_OFFSETS, list_offsets.ListOffsetsRequest(-1, 0, [place])
        )
        assert listed.topics[0].partitions[0].error_code == UNKNOWN
        change = incremental_alter_configs.AlterableConfig("cleanup.policy", 0, "delete")
        resource = incremental_alter_configs.AlterConfigsResource(2, topic, [change])
        altered = await two.as_admin(
            apis.INCREMENTAL_ALTER_CONFIGS,
            incremental_alter_configs.IncrementalAlterConfigsRequest([resource]),
        )
        assert altered.responses[0].error_code == UNKNOWN

    with_two(tmp_path, scenario, *STORED)
