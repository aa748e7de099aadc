"""The admin clients' calls about users of SCRAM, asynchronous and synchronous."""

from __future__ import annotations

import asyncio
import os

import pytest

from sharegroup import sync
from sharegroup.client import Admin
from sharegroup.client.admin.descriptions import ScramUser
from sharegroup.client.admin.scram_user_requests import ITERATIONS_DEFAULT
from sharegroup.model.errors import ResourceNotFound, UnacceptableCredential
from tests.client.working import eventually
from tests.servers.running import RunningServer

pytestmark = pytest.mark.process
BOTH = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def test_the_life_of_a_user(broker: RunningServer) -> None:
    async def scenario() -> None:
        async with Admin(broker.bootstrap) as admin:
            await admin.upsert_scram_user("life", "one", salt=os.urandom(16), mechanisms=BOTH)
            made = ScramUser(name="life", iterations=dict.fromkeys(BOTH, ITERATIONS_DEFAULT))
            await eventually(admin.describe_scram_users, lambda all_users: made in all_users)
            assert await admin.describe_scram_users("life") == [made]
            await admin.delete_scram_user("life", "SCRAM-SHA-256")
            left = ScramUser(name="life", iterations={"SCRAM-SHA-512": ITERATIONS_DEFAULT})
            await eventually(admin.describe_scram_users, lambda all_users: left in all_users)
            await admin.delete_scram_user("life")
            await eventually(admin.describe_scram_users, lambda all_users: left not in all_users)
            with pytest.raises(ResourceNotFound):
                await admin.delete_scram_user("life")
            with pytest.raises(UnacceptableCredential, match="Too few iterations"):
                await admin.upsert_scram_user("life", "one", salt=b"salt", iterations=1)

    asyncio.run(scenario())


def test_the_synchronous_calls(broker: RunningServer) -> None:
    with sync.Admin(broker.bootstrap) as admin:
        admin.upsert_scram_user("sync", "one", salt=os.urandom(16), iterations=4096)
        made = ScramUser(name="sync", iterations={"SCRAM-SHA-512": 4096})
        while made not in admin.describe_scram_users():
            continue  # Apache Kafka's broker hears of it a moment later; the test has a time limit
        admin.delete_scram_user("sync")
