"""Whole-system simulation: the production shell on virtual time, an in-memory network and disk.

Nothing of the broker or the client is replaced: they run on :class:`SimulatedLoop` instead of
asyncio's loop, and are given a :class:`MemoryDisk` instead of files.
"""

from sharegroup.sim.disk import MemoryDisk
from sharegroup.sim.environment import simulated_environment
from sharegroup.sim.loop import SimulatedLoop, SimulationStalled

__all__ = ["MemoryDisk", "SimulatedLoop", "SimulationStalled", "simulated_environment"]
