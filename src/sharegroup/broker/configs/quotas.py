"""Broker settings of quotas. The quotas themselves are set by AlterClientQuotas."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.configs.define import integer
from sharegroup.model.config import INT_MAX

QUOTA_CONFIGS: Final = (
    integer(
        "quota.window.num",
        11,
        1,
        "Samples over which the rate of a client is taken; the time of all but one may be used "
        "in a burst.",
    ),
    integer("quota.window.size.seconds", 1, 1, "Seconds of one sample of a client's rate."),
    integer(
        "controller.quota.window.num",
        11,
        1,
        "Samples in which the bucket of the quota controller_mutation_rate is filled.",
    ),
    integer("controller.quota.window.size.seconds", 1, 1, "Seconds of one of these samples."),
    integer(
        "max.connection.creation.rate",
        INT_MAX,
        0,
        "Connections per second that are begun with, over all listeners; more wait. 0 is taken for "
        "1. The quota connection_creation_rate is for one address.",
        dynamic=True,
    ),
)
