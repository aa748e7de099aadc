"""AlterUserScramCredentials: create, change and delete users of SCRAM (Kafka class
ScramControlManager)."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.authorization.audit import tell_users
from sharegroup.broker.authorization.resources import CLUSTER, Operation
from sharegroup.broker.coordination.security_machine import SecurityMachine
from sharegroup.broker.parts import BrokerParts
from sharegroup.broker.request_context import RequestContext
from sharegroup.model.errors import (
    DuplicateResource,
    KafkaError,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from sharegroup.model.limits import SCRAM_SALT_BYTES_MAX, USER_NAME_LENGTH_MAX
from sharegroup.sasl.scram_keys import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism, credential
from sharegroup.wire.internal.security import ScramChange
from sharegroup.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

_TWICE: Final = "A user credential cannot be altered twice in the same request"
_MISSING: Final = "Attempt to delete a user credential that does not exist"

Change = ScramCredentialDeletion | ScramCredentialUpsertion


async def alter_user_scram_credentials(
    parts: BrokerParts, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    """Each user on its own: all changes of a user are made, or no change of it. A user may be
    changed for both mechanisms at once, as Kafka's documentation shows for kafka-configs. (Kafka
    itself answers DUPLICATE_RESOURCE then.)

    Raises:
        ClusterAuthorizationFailed: the client may not alter the cluster.
    """
    context.access.require(Operation.ALTER, CLUSTER)

    def decide(
        machine: SecurityMachine,
    ) -> tuple[dict[str, KafkaError | None], list[ScramChange]]:
        errors: dict[str, KafkaError | None] = {}
        changes: dict[tuple[str, int], ScramChange] = {}
        for change in _changes(request):
            errors.setdefault(change.name, None)
            try:
                if (change.name, change.mechanism) in changes:
                    raise DuplicateResource(_TWICE)
                changes[change.name, change.mechanism] = _changed(machine, change)
            except KafkaError as error:
                errors[change.name] = errors[change.name] or error
        return errors, [change for change in changes.values() if errors[change.user] is None]

    errors = await parts.security.change(decide)
    for deed, changes in (
        ("deleted a password of a user", request.deletions),
        ("set a password of a user", request.upsertions),
    ):
        users = {change.name: None for change in changes if errors[change.name] is None}
        tell_users(context.access.principal, context.access.host, deed, list(users))
    return _response(errors)


def failure(
    request: AlterUserScramCredentialsRequest, error: KafkaError
) -> AlterUserScramCredentialsResponse:
    """Every user says ``error``."""
    return _response(dict.fromkeys((change.name for change in _changes(request)), error))


def _changes(request: AlterUserScramCredentialsRequest) -> list[Change]:
    return [*request.deletions, *request.upsertions]


def _response(errors: dict[str, KafkaError | None]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user, error.code if error else 0, error.message if error else None
            )
            for user, error in errors.items()
        ]
    )


def _changed(machine: SecurityMachine, change: Change) -> ScramChange:
    mechanism = _mechanism(change)
    if isinstance(change, ScramCredentialDeletion):
        if (change.name, mechanism) not in machine.credentials:
            raise ResourceNotFound(_MISSING)
        return ScramChange(change.name, mechanism, None)
    if change.iterations > ITERATIONS_MAX:
        raise UnacceptableCredential("Too many iterations")
    if change.iterations < ITERATIONS_MIN:
        raise UnacceptableCredential("Too few iterations")
    salt, salted = bytes(change.salt), bytes(change.salted_password)
    if not (salt and salted):
        raise UnacceptableCredential("Salt and salted password must not be empty")
    if max(len(salt), len(salted)) > SCRAM_SALT_BYTES_MAX:
        raise UnacceptableCredential(
            f"Salt and salted password must not be longer than {SCRAM_SALT_BYTES_MAX} bytes"
        )
    kept = credential(mechanism, salted, salt, change.iterations)
    return ScramChange(change.name, mechanism, kept)


def _mechanism(change: Change) -> ScramMechanism:
    if not change.name:
        raise UnacceptableCredential("Username must not be empty")
    if len(change.name) > USER_NAME_LENGTH_MAX:
        raise UnacceptableCredential(
            f"Username must not be longer than {USER_NAME_LENGTH_MAX} characters"
        )
    try:
        return ScramMechanism(change.mechanism)
    except ValueError:
        raise UnsupportedSaslMechanism("Unknown SCRAM mechanism") from None
