"""Brokers of ours that lead by turns: as in rolling restarts that never end, but for the ends of
connections."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Final

from sharegroup.sync import Admin

DRAIN: Final = "node.drain"


@contextmanager
def moving_leaders(bootstrap: str, every_s: float = 2.0) -> Iterator[None]:
    """Each so many seconds, another one of the brokers of ours is drained, and the last one is
    resumed."""
    over = Event()
    with ThreadPoolExecutor(1) as pool:
        moving = pool.submit(_move, bootstrap, every_s, over)
        try:
            yield
        finally:
            over.set()
        moving.result()


def _move(bootstrap: str, every_s: float, over: Event) -> None:
    with Admin(bootstrap) as admin:
        nodes = [str(one.node_id) for one in admin.describe_cluster().nodes]
        while not over.is_set():
            for node in nodes:
                admin.alter_configs("broker", node, {DRAIN: "true"})
                over.wait(every_s)
                admin.alter_configs("broker", node, {DRAIN: None})
