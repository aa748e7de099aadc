"""For how long the broker keeps the settings of a group at hand. Virtual time."""

from __future__ import annotations

from sharegroup.model.limits import GROUP_SETTINGS_MAX
from tests.broker.group_wire import GROUP, World, simulate


def test_settings_are_kept_at_hand_until_the_group_is_deleted_or_there_are_too_many() -> None:
    async def scenario(world: World) -> None:
        of = world.broker.parts.configs.group
        await world.create_topic("foo", 1)
        await world.heartbeat("m", 0, ["foo"])
        await world.heartbeat("m", -1)
        before = of(GROUP)
        assert of(GROUP) is before
        assert await world.delete_groups(GROUP) == {GROUP: 0}
        first = of("0")
        assert of(GROUP) is not before
        for number in range(1, GROUP_SETTINGS_MAX - 1):
            of(str(number))
        assert of("0") is first
        of("one more")
        assert of("0") is not first

    simulate(scenario)
