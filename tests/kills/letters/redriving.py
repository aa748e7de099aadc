"""A redrive that is interrupted again and again: each letter is redriven once.

The redrives are ``sharegroup groups redrive``, as a user runs it. By turns one is killed, one gets
Ctrl-C, and the broker is killed under one. librdkafka writes the letters and reads what came of
them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from confluent_kafka import Producer

from tests.kills.checker import read
from tests.kills.letters.jobs import GROUP, LETTERS, PARTITIONS, TOPIC, number_of, value_of
from tests.kills.ordering.states import read_all
from tests.kills.round import ROOT, Stuck
from tests.kills.working import pause
from tests.servers.admin import SILENT, Admin
from tests.servers.running import RunningServer

RATE: Final = 400
"""Letters a second of an interrupted redrive: a transaction has a quarter of them."""
STEPS_MAX: Final = 4
"""An interruption comes after so many steps, at most."""
DELAY_S_MAX: Final = 0.05
END_S: Final = 120
HOW: Final = ("kill", "interrupt", "broker")


class Redriven(NamedTuple):
    """What is wrong, and what was done."""

    wrong: list[str]
    redrives: int
    """How many were started until all letters were redriven."""
    found_again: int
    """What a second redrive has found."""


def play(
    server: RunningServer,
    folder: Path,
    *,
    letters: int,
    interruptions: int,
    seed: int = 1,
    told: Callable[[int], None] = lambda _: None,
) -> Redriven:
    """Play and judge. The server is not started yet; raises Stuck, ServerFailed."""
    random = Random(f"redriving {seed}")
    server.start()
    try:
        admin = Admin(server.bootstrap)
        for name in (TOPIC, LETTERS):
            admin.create_topic(name, PARTITIONS)
        write_letters(server.bootstrap, letters)
        with (folder / "redrive.log").open("wb") as log:
            for number in range(interruptions):
                _interrupt(server, HOW[number % len(HOW)], random, log.fileno())
                told(number + 1)
            begun = interruptions + 1
            while (ended := _to_its_end(server, log.fileno())) is None:
                begun += 1  # it ended with an error: the next one goes on
            found_again = _to_its_end(server, log.fileno())
        wrong = list(_judged(server.bootstrap, letters))
        if ended is None or found_again:
            wrong.append(f"a second redrive has found {found_again} letters")
        return Redriven(wrong, begun, found_again or 0)
    finally:
        server.kill()


def write_letters(bootstrap: str, letters: int) -> None:
    """Letters as Apache Kafka 4.4 writes them, with the headers of our broker."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **SILENT})
    for number in range(letters):
        said = {
            "topic": TOPIC,
            "partition": number % PARTITIONS,
            "offset": number // PARTITIONS,
            "group": GROUP,
            "timestamp": 1_000 + number,
            "failed.ms": 2_000 + number,
        }
        headers = [(f"__dlq.errors.{name}", str(text).encode()) for name, text in said.items()]
        producer.produce(LETTERS, value_of(number), partition=number % PARTITIONS, headers=headers)
        producer.poll(0)
    if producer.flush(END_S):
        raise Stuck("letters are not acknowledged")


def _start(server: RunningServer, log: int, *more: str) -> subprocess.Popen[str]:
    words = ["groups", "redrive", GROUP, "--dead-letters", LETTERS, "--json", *more]
    return subprocess.Popen(
        [sys.executable, "-m", "sharegroup", *words, "-b", server.bootstrap],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )


def _interrupt(server: RunningServer, how: str, random: Random, log: int) -> None:
    """Start a redrive and interrupt it somewhere."""
    steps = random.randint(1, STEPS_MAX)
    with _start(server, log, "--rate", str(RATE)) as redrive:
        try:
            assert redrive.stdout is not None
            for _ in zip(redrive.stdout, range(steps), strict=False):
                continue
            pause(random.uniform(0, DELAY_S_MAX))  # a random time of the seed
            if how == "broker":
                server.kill()
                server.start()
            redrive.send_signal(signal.SIGKILL if how == "kill" else signal.SIGINT)
            redrive.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            raise Stuck(f"a redrive does not end ({how})") from None
        finally:
            redrive.kill()


def _to_its_end(server: RunningServer, log: int) -> int | None:
    """How many letters a redrive has redriven that nobody interrupts; None: it has failed."""
    with _start(server, log) as redrive:
        try:
            said, _ = redrive.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            raise Stuck("a redrive does not end") from None
        finally:
            redrive.kill()
    return None if redrive.returncode else int(json.loads(said.splitlines()[-1])["done"])


def _judged(bootstrap: str, letters: int) -> list[str]:
    undecided: list[str] = []
    found = read(bootstrap, TOPIC, undecided, PARTITIONS)
    wrong = [f"undecided: {one}" for one in undecided]
    numbers = {at: [number_of(value.encode()) for _, value in own] for at, own in found.items()}
    count = Counter(number for own in numbers.values() for number in own)
    lost = [number for number in range(letters) if number not in count]
    twice = [number for number, times in count.items() if times > 1]
    wrong += [f"{len(lost)} letters are not redriven: {lost[:3]}"] if lost else []
    wrong += [f"{len(twice)} letters are redriven twice: {twice[:3]}"] if twice else []
    for at, own in numbers.items():
        if own != sorted(own) or any(number % PARTITIONS != at for number in own):
            wrong.append(f"partition {at} is not in the order of the letters")
    left = len(read_all(bootstrap, LETTERS, PARTITIONS))
    wrong += [f"the dead letters are {left}, not {letters}"] if left != letters else []
    return wrong
