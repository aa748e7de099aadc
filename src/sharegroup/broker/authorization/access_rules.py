"""The rules in force: ACLs of a file and ACLs made by CreateAcls, or everything for everybody."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable

from sharegroup.broker.authorization.acl_authorizer import AclAuthorizer
from sharegroup.broker.authorization.acl_file import parse_acls
from sharegroup.broker.authorization.acl_index import AclIndex
from sharegroup.broker.authorization.acl_rows import acl_of
from sharegroup.broker.authorization.acls import AclRule
from sharegroup.broker.authorization.authorizer import AllowAll, Authorizer
from sharegroup.model.environment import Disk
from sharegroup.model.errors import ConfigError
from sharegroup.wire.internal.security import AclRow

logger = logging.getLogger("sharegroup.authorizer")


class AccessRules:
    """Keeps one authorizer up to date.

    Args:
        file: the path of the ACL file; empty: there is none.
        stores: whether ACLs that were made by CreateAcls count.

    Raises:
        ConfigError: the file cannot be read or parsed; one sentence.
    """

    def __init__(
        self,
        disk: Disk,
        *,
        file: str = "",
        stores: bool = False,
        super_users: Iterable[str] = (),
        allow_if_no_acl: bool = False,
    ) -> None:
        self._disk = disk
        self.file = file
        self.stores = stores
        self.file_acls: tuple[AclRule, ...] = ()
        """The ACLs of the file, in its order."""
        self.changed: Callable[[Authorizer], None] | None = None
        """Called with the new authorizer when the rules have changed."""
        self._index = AclIndex()
        self._stored: dict[AclRow, AclRule] = {}
        self._seen = b""  # the file's bytes at the last look
        self._taken = b""  # the file's bytes that are in force, or were refused
        self.authorizer: Authorizer = AllowAll()
        if self.enabled:
            self.authorizer = AclAuthorizer(
                self._index, super_users=super_users, allow_if_no_acl=allow_if_no_acl
            )
            self.read_file()

    @property
    def enabled(self) -> bool:
        """Whether anything can be refused at all."""
        return self.stores or bool(self.file)

    @property
    def acl_count(self) -> int:
        """The number of ACLs in force."""
        return len(self.file_acls) + len(self._stored)

    def read_file(self) -> None:
        """Take the ACLs of the file as they are now.

        Raises:
            ConfigError: the file cannot be read or parsed; the old ACLs stay.
        """
        if self.file:
            self._seen = self._read()
            self._take_file(self._seen)

    async def look_at_file(self) -> None:
        """Take the file if it has changed and was the same at two looks, so that a file that is
        being written is not taken half-written. A file that cannot be taken is logged once."""
        try:
            found = await self._disk.run(self._read)
            if found == self._seen != self._taken:
                self._take_file(found)
                logger.info("%s has changed: %d ACLs are in force", self.file, self.acl_count)
            self._seen = found
        except ConfigError as error:
            said = str(error).encode()
            if said != self._seen:
                logger.error("the ACLs stay as they were: %s", error)
            self._seen = said

    def take_stored(self, rows: Collection[AclRow], changed: Iterable[AclRow] | None) -> None:
        """Take the ACLs made by CreateAcls: ``rows``, found by their hash. ``changed``: the ACLs
        that were made or deleted since the last call; None: look at all ACLs."""
        if not self.stores:
            return
        stored = self._stored
        for row in [*rows, *stored] if changed is None else changed:
            if row not in rows:
                before = stored.pop(row, None)
                if before is not None:
                    self._index.remove(before)
            elif row not in stored:
                acl = _in_force(row)
                if acl is not None:
                    stored[row] = acl
                    self._index.add(acl)
        self._renew()

    def _take_file(self, text: bytes) -> None:
        self._taken = text
        try:
            acls = parse_acls(text.decode(), self.file)
        except UnicodeDecodeError as error:
            raise ConfigError(f"authorizer.acl.file {self.file} cannot be read: {error}") from error
        for acl in self.file_acls:
            self._index.remove(acl)
        self.file_acls = tuple(acls)
        for acl in acls:
            self._index.add(acl)
        self._renew()

    def _read(self) -> bytes:
        try:
            return self._disk.read_file(self.file)
        except OSError as error:
            raise ConfigError(f"authorizer.acl.file {self.file} cannot be read: {error}") from error

    def _renew(self) -> None:
        """Make a new authorizer, so that no connection uses the answers that it has cached."""
        if isinstance(self.authorizer, AclAuthorizer):
            self.authorizer = self.authorizer.renewed()
        if self.changed is not None:
            self.changed(self.authorizer)


def _in_force(row: AclRow) -> AclRule | None:
    """The ACL of a row; None if it has no meaning here."""
    try:
        return acl_of(row)
    except ValueError as error:
        logger.error("a stored ACL has no effect: %s", error)
        return None
