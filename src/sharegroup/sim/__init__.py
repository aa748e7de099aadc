"""Whole-system simulation: the production shell on virtual time, an in-memory network and disk.

Broker and client run unchanged, on :class:`SimulatedLoop` instead of asyncio's loop and on a
:class:`MemoryDisk` instead of files.
"""

from sharegroup.sim.disk import MemoryDisk
from sharegroup.sim.environment import simulated_environment
from sharegroup.sim.loop import SimulatedLoop, SimulationStalled

__all__ = ["MemoryDisk", "SimulatedLoop", "SimulationStalled", "simulated_environment"]
