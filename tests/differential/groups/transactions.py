"""Steps of transactional producers: m0 and m1 share a transactional id, m2 and m3 another one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sharegroup.wire import apis
from sharegroup.wire.batch import TRANSACTIONAL, BatchHeader, encode_batch, parse_headers
from sharegroup.wire.markers import is_control
from sharegroup.wire.messages import fetch as fetch_messages
from sharegroup.wire.messages import txn_offset_commit as offset_messages
from sharegroup.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from sharegroup.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from sharegroup.wire.messages.describe_transactions import DescribeTransactionsRequest
from sharegroup.wire.messages.end_txn import EndTxnRequest
from sharegroup.wire.messages.init_producer_id import InitProducerIdRequest
from sharegroup.wire.messages.list_transactions import ListTransactionsRequest
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.differential.groups.player import (
    APPLY_S,
    COORDINATOR_LOADING,
    TRIES,
    Client,
    GroupPlayer,
)
from tests.differential.groups.rendering import Names, error_name, rendered

PASSING = {51} | COORDINATOR_LOADING  # CONCURRENT_TRANSACTIONS
NO_ID = UUID(int=0)


@dataclass
class Producer:
    """What a producer knows of itself."""

    producer_id: int = -1
    epoch: int = -1
    sequences: dict[int, int] = field(default_factory=dict)


class TransactionSteps(GroupPlayer):
    """What transactional producers and committed readers do."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._producers: dict[str, Producer] = {}
        self._values = 0
        for pair in ("a", "b"):
            self.names.texts[f"{self.group}-{pair}"] = pair
        self.commits_in_transactions = 0

    def _id(self, client: Client, case: str = "") -> str:
        if case == "unknown id":
            return f"{self.group}-nobody"
        return f"{self.group}-{'a' if client.name in ('m0', 'm1') else 'b'}"

    def _producer(self, client: Client) -> Producer:
        return self._producers.setdefault(client.name, Producer())

    def _claims(self, client: Client, case: str) -> tuple[int, int]:
        """Producer id and epoch as a request names them."""
        known = self._producer(client)
        wrong = {"old epoch": -1, "future epoch": 1}.get(case, 0)
        epoch = max(-1, known.epoch + wrong)
        return known.producer_id + 1_000_000 * (case == "other producer"), epoch

    async def _patiently(self, api: apis.Api, request: Any, error: Any) -> Any:
        """Ask until no other transaction is being ended."""
        for _ in range(TRIES):
            answer = await self.told(self.ask(api, request))
            if error(answer) not in PASSING:
                return answer
            await asyncio.sleep(APPLY_S / 4)
        raise AssertionError(f"{api.name}: for ever {error_name(error(answer))}")

    async def txn_init(self, client: Client, case: str) -> list[str]:
        """InitProducerId; what else was going on under this id is aborted."""
        goes_on = case in ("goes on", "old epoch", "future epoch", "other producer")
        known = self._claims(client, case) if goes_on else (-1, -1)
        timeout = {"no timeout": 0, "huge timeout": 2_000_000_000}.get(case, 60_000)
        transactional_id = {"no name": "", "idempotent": None}.get(case, self._id(client))
        request = InitProducerIdRequest(transactional_id, timeout, *known)
        answer = await self._patiently(apis.INIT_PRODUCER_ID, request, lambda a: a.error_code)
        if not answer.error_code and case != "idempotent":
            self._producers[client.name] = Producer(answer.producer_id, answer.producer_epoch)
        return rendered(answer, self.names)

    async def txn_add(self, client: Client, case: str, partition: str) -> list[str]:
        """AddPartitionsToTxn as clients send it."""
        topic = "nowhere" if case == "unknown topic" else self.group
        index = 77 if case == "unknown partition" else int(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id(client, case),
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic, [index])],
        )
        claims = self._claims(client, case)
        request.v3_and_below_producer_id, request.v3_and_below_producer_epoch = claims
        return rendered(
            await self._patiently(
                apis.ADD_PARTITIONS_TO_TXN,
                request,
                lambda a: (
                    a.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
                ),
            ),
            self.names,
        )

    async def txn_produce(self, client: Client, case: str, partition: str) -> list[str]:
        """One record; the sequence goes on when it is taken."""
        known, index = self._producer(client), int(partition)
        plain = case == "plain"
        producer_id, epoch = (-1, -1) if plain else self._claims(client, case)
        if producer_id < 0 and not plain:
            return ["no producer"]
        self._values += 1
        batch = encode_batch(
            [(None, str(self._values).encode())],
            timestamp_ms=0,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=-1
            if plain
            else known.sequences.get(index, 0) + 5 * (case == "wrong sequence"),
            attributes=0 if plain or case == "outside" else TRANSACTIONAL,
        )
        part = PartitionProduceData(index, batch)
        transactional_id = None if plain or case == "outside" else self._id(client, case)
        request = ProduceRequest(
            transactional_id, -1, 30_000, [TopicProduceData(self.group, NO_ID, [part])]
        )
        answer = await self._patiently(
            apis.PRODUCE, request, lambda a: a.responses[0].partition_responses[0].error_code
        )
        if not plain and answer.responses[0].partition_responses[0].error_code == 0:
            known.sequences[index] = known.sequences.get(index, 0) + 1
        return rendered(answer, self.names)

    async def txn_add_offsets(self, client: Client, case: str) -> list[str]:
        """AddOffsetsToTxn."""
        request = AddOffsetsToTxnRequest(
            self._id(client, case), *self._claims(client, case), self.group
        )
        answer = await self._patiently(apis.ADD_OFFSETS_TO_TXN, request, lambda a: a.error_code)
        return rendered(answer, self.names)

    async def txn_commit_offset(self, client: Client, case: str, partition: str) -> list[str]:
        """TxnOffsetCommit of a simple group or of the member."""
        self.commits_in_transactions += 1
        index = 77 if case == "unknown partition" else int(partition)
        part = offset_messages.TxnOffsetCommitRequestPartition(
            index, 1000 + self.commits_in_transactions, 4, "t"
        )
        topic = "nowhere" if case == "unknown topic" else self.group
        request = offset_messages.TxnOffsetCommitRequest(
            self._id(client, case), self.group, *self._claims(client, case)
        )
        if case in ("member", "old generation"):
            request.member_id = client.member_id
            request.generation_id_or_member_epoch = client.generation - (case == "old generation")
            request.group_instance_id = client.instance_id
        request.topics = [offset_messages.TxnOffsetCommitRequestTopic(topic, NO_ID, [part])]
        return rendered(
            await self._patiently(
                apis.TXN_OFFSET_COMMIT, request, lambda a: a.topics[0].partitions[0].error_code
            ),
            self.names,
        )

    async def txn_end(self, client: Client, what: str, case: str) -> list[str]:
        """Commit or abort, and wait until the markers are written."""
        known = self._producer(client)
        request = EndTxnRequest(
            self._id(client, case), *self._claims(client, case), what == "commit"
        )
        answer = await self._patiently(apis.END_TXN, request, lambda a: a.error_code)
        if answer.error_code == 0 and answer.producer_id >= 0:
            moved = (known.producer_id, known.epoch) != (answer.producer_id, answer.producer_epoch)
            known.producer_id, known.epoch = answer.producer_id, answer.producer_epoch
            if moved:
                known.sequences.clear()
        lines = rendered(answer, self.names)
        for _ in range(TRIES):
            if not (state := await self._state(client)).startswith("Prepare"):
                break
            await asyncio.sleep(APPLY_S / 4)
        return [*lines, f"then {state}"]

    async def _state(self, client: Client) -> str:
        request = DescribeTransactionsRequest([self._id(client)])
        answer = await self.told(self.ask(apis.DESCRIBE_TRANSACTIONS, request))
        return str(answer.transaction_states[0].transaction_state)

    async def txn_describe(self, client: Client, case: str) -> list[str]:
        """DescribeTransactions."""
        request = DescribeTransactionsRequest([self._id(client, case)])
        return await self.see(apis.DESCRIBE_TRANSACTIONS, request)

    async def txn_list(self, _: Client, state: str) -> list[str]:
        """ListTransactions, as far as it is about this script's."""
        request = ListTransactionsRequest([] if state == "any" else [state])
        answer = await self.told(self.ask(apis.LIST_TRANSACTIONS, request))
        answer.transaction_states = [
            one for one in answer.transaction_states if one.transactional_id.startswith(self.group)
        ]
        return rendered(answer, self.names)

    async def read(self, _: Client, partition: str, level: str, start: str) -> list[str]:
        """Fetch to the end; the first answer, and all batches with their producers."""
        first = told = await self._fetched(int(partition), level, int(start))
        answer = first.responses[0].partitions[0]
        batches: list[BatchHeader] = []
        aborted: list[fetch_messages.AbortedTransaction] = []
        while found := parse_headers(bytes(told.responses[0].partitions[0].records or b"")):
            batches += found
            aborted += told.responses[0].partitions[0].aborted_transactions or ()
            # Kafka answers from one segment, ours goes on over small ones.
            told = await self._fetched(int(partition), level, found[-1].last_offset + 1)
        answer.records = None
        # Kafka names aborted transactions by the size that is asked for, not by what is sent.
        answer.aborted_transactions = [
            one
            for at, one in enumerate(aborted)
            if one.first_offset < answer.last_stable_offset and one not in aborted[:at]
        ]
        return rendered(first, self.names) + _batches(batches, self.names)

    async def _fetched(self, partition: int, level: str, start: int) -> Any:
        wanted = fetch_messages.FetchPartition(
            partition, fetch_offset=start, partition_max_bytes=1 << 20
        )
        request = fetch_messages.FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=int(level == "committed"),
            topics=[fetch_messages.FetchTopic(self.group, NO_ID, [wanted])],
        )
        return await self.told(self.ask(apis.FETCH, request))


def _batches(headers: Sequence[BatchHeader], names: Names) -> list[str]:
    return [
        f"{header.base_offset}-{header.last_offset} {names.producer(header.producer_id)}"
        f" epoch {header.producer_epoch}{' marker' * is_control(header)}"
        for header in headers
    ]
