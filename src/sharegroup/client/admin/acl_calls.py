"""The admin client's calls about ACLs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from sharegroup.client.admin import acl_requests as requests
from sharegroup.client.admin.acls import Acl, AclFilter
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.errors import KafkaError

T = TypeVar("T")

EVERY_ACL: Final = AclFilter()


class AclCalls(ABC):
    """See the module. The admin client sets the attributes."""

    _cluster: Cluster

    @abstractmethod
    async def _trying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Retry until success, an error that is not transient, or the time-out."""

    async def create_acls(self, *acls: Acl) -> None:
        """Make ACLs; one that exists is no error.

        Raises:
            SecurityDisabled: the brokers keep no ACLs.
            ClusterAuthorizationFailed: the call needs ALTER on the cluster.
            InvalidRequest: one of the ACLs makes no sense; the ones before and after it are made.
        """
        await self._trying(lambda: requests.create_acls(self._cluster, acls))

    async def describe_acls(self, wanted: AclFilter = EVERY_ACL) -> list[Acl]:
        """The ACLs in force that match the filter; by default all. Needs DESCRIBE on the cluster.

        Raises:
            SecurityDisabled: no ACLs are in force.
        """
        return await self._trying(lambda: requests.describe_acls(self._cluster, wanted))

    async def delete_acls(self, *filters: AclFilter) -> dict[Acl, KafkaError | None]:
        """Delete the ACLs that match one of the filters. Needs ALTER on the cluster.

        Returns each ACL's error; None is success. An ACL of a broker's ACL file has an error: it
        stays in force.

        Raises:
            SecurityDisabled: the brokers keep no ACLs.
        """
        return await self._trying(lambda: requests.delete_acls(self._cluster, filters))
