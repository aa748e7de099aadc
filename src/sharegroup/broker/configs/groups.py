"""The broker's settings for the configs of groups, and its settings of consumer groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sharegroup.broker.configs.define import integer
from sharegroup.groups.config import BROKER_BOUNDS
from sharegroup.groups.config_fields import broker_names
from sharegroup.groups.consumer.assignors import ASSIGNORS
from sharegroup.groups.consumer.migration import MigrationPolicy
from sharegroup.model.config import INT_MAX, ConfigDef, ConfigType, ConfigValue


def group_settings(kind: str) -> Iterator[ConfigDef]:
    """The broker's three settings for each bounded config of groups of one kind."""
    for name, bounds in BROKER_BOUNDS.items():
        if not name.startswith(f"{kind}."):
            continue
        setting, least, most = broker_names(name)
        for defined, (default, lowest, highest), doc, aliases in (
            (setting, bounds.value, bounds.doc, bounds.aliases),
            (least, bounds.minimum, f"The least that a group may set {name} to.", ()),
            (
                most,
                bounds.maximum,
                f"The most that a group may set {name} to.",
                bounds.maximum_aliases,
            ),
        ):
            yield integer(
                defined, default, lowest, doc, maximum=highest, aliases=aliases, dynamic=True
            )


def _only_known(value: ConfigValue) -> str | None:
    names = value if isinstance(value, tuple) else ()
    if names and set(names) <= ASSIGNORS.keys():
        return None
    return f"the assignors there are here are {', '.join(ASSIGNORS)}"


def _only_served(value: ConfigValue) -> str | None:
    names = set(value) if isinstance(value, tuple) else set()
    if not names <= {"classic", "consumer", "streams"}:
        return "the protocols are classic, consumer and streams"
    return None if "classic" in names else "classic cannot be switched off"


def _only_policies(value: ConfigValue) -> str | None:
    policies = [policy.value for policy in MigrationPolicy]
    if str(value).lower() in policies:
        return None
    return f"the policies are {', '.join(policies)}"


CONSUMER_CONFIGS: Final = (
    *group_settings("consumer"),
    integer("group.consumer.max.size", INT_MAX, 1, "Members in a consumer group."),
    integer(
        "group.consumer.regex.refresh.interval.ms",
        600_000,
        10_000,
        "How long the topics of a regular expression are trusted while no topic changes: rights "
        "may change.",
    ),
    ConfigDef(
        name="group.coordinator.rebalance.protocols",
        type=ConfigType.LIST,
        default=("classic", "consumer"),
        check=_only_served,
        doc="The protocols by which consumers may join a group. As in Kafka, the broker does not "
        "start without classic. Share groups are switched by share.version. streams is accepted "
        "and has no effect.",
        departs="there are no streams groups (Kafka: classic,consumer,streams)",
    ),
    ConfigDef(
        name="group.consumer.migration.policy",
        type=ConfigType.STRING,
        default="bidirectional",
        check=_only_policies,
        doc="Which way a group may change its protocol while it has members: upgrade is from "
        "classic to consumer, downgrade is back, bidirectional is both, disabled is neither.",
    ),
    ConfigDef(
        name="group.consumer.assignors",
        type=ConfigType.LIST,
        default=tuple(ASSIGNORS),
        check=_only_known,
        doc="The assignors that members of a consumer group may ask for, the default first.",
    ),
)
