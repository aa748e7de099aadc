"""``sharegroup serve``: run a broker until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sharegroup import __version__
from sharegroup.app.descriptors import QuietAccepting, raise_descriptor_limit
from sharegroup.app.environment import local_environment
from sharegroup.broker.api_table import load_all
from sharegroup.broker.configs.broker import BrokerConfig, load
from sharegroup.broker.configs.listeners import Listener
from sharegroup.broker.server import Broker
from sharegroup.model.errors import ConfigError
from sharegroup.model.printable import EscapedLines

if TYPE_CHECKING:
    from sharegroup.broker.metrics.endpoint import MetricsEndpoint

logger = logging.getLogger("sharegroup.broker")

DATA_DEFAULT = "./sharegroup-data"

THREAD_SWITCH_S = 0.0005
"""How long a thread that has synced a file waits for Python's lock while the event loop is busy. At
Python's 5 ms, and a few times in each sync, one busy client would make everybody's fsync take tens
of milliseconds.
"""


def run(
    *,
    listen: str | None = None,
    metrics: str | None = None,
    data: str | None = None,
    config_path: str | None = None,
    overrides: Sequence[str] = (),
) -> int:
    """Serve until SIGTERM or SIGINT; the exit status: 0 after a clean stop.

    ``listen``, ``metrics`` (HOST:PORT) and ``data`` win over the configuration, which wins over
    the defaults.

    Raises:
        ConfigError: one sentence that says what is wrong.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(EscapedLines("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    config = load(_read(config_path), overrides)
    for warning in config.warnings:
        logger.warning("%s", warning)
    listeners = _listeners(listen, config)
    metrics_at = metrics or config.text("metrics.address")
    scraped = _address("--metrics", metrics_at) if metrics_at else None
    folder = data or _folder(config)
    raise_descriptor_limit()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve(config, listeners, folder, scraped))
    return 0


async def serve(
    config: BrokerConfig,
    listeners: Sequence[Listener],
    folder: str,
    metrics: tuple[str, int] | None = None,
) -> None:
    """Open, listen, say so in one line, wait for a signal, close.

    ``metrics`` is where Prometheus may fetch them.

    Raises:
        ConfigError: the folder or the address cannot be had.
    """
    try:
        broker = await Broker.open(config, local_environment(), folder)
    except OSError as error:
        raise ConfigError(f"data folder {folder} cannot be used: {error.strerror}") from error
    calm_garbage_collector()
    sys.setswitchinterval(THREAD_SWITCH_S)
    try:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(
            QuietAccepting(partial(broker.counters.add, "connections_refused", "descriptors"))
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        endpoint = await _open_metrics(broker, metrics) if metrics else None
        addresses = [await _listen(broker, listener) for listener in listeners]
        for listener, address in zip(listeners[1:], addresses[1:], strict=True):
            logger.info("listener %s on %s:%d", listener.name, *address)
        print(ready_line(broker, *addresses[0], folder), flush=True)
        broker.spawn(load_all())
        await stop.wait()
        logger.info("stopping: open requests may end")
        if endpoint is not None:
            endpoint.close()
    finally:
        await broker.close()


def calm_garbage_collector() -> None:
    """Let the collector leave alone what stays for the broker's life, and look at the rest less.

    Windows of in-flight records are many small objects without cycles; at Python's default
    thresholds, expiring 100,000 locks spends most of its time in the collector.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def ready_line(broker: Broker, host: str, port: int, folder: str) -> str:
    """The one line that says a broker accepts connections."""
    partitions = sum(1 for _ in broker.folder.logs)
    return (
        f"sharegroup {__version__} ready on {host}:{port}, data {folder}, "
        f"{partitions} partitions recovered"
    )


def _read(path: str | None) -> str:
    if path is None:
        return ""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"config file {path} cannot be read: {error}") from error


async def _open_metrics(broker: Broker, address: tuple[str, int]) -> MetricsEndpoint:
    from sharegroup.broker.metrics.endpoint import MetricsEndpoint  # loads prometheus-client

    host, port = address
    try:
        endpoint, bound = await MetricsEndpoint.open(broker, host, port)
    except OSError as error:
        raise ConfigError(f"cannot serve metrics on {host}:{port}: {error.strerror}") from error
    logger.info("metrics on http://%s:%d/metrics", host, bound)
    return endpoint


async def _listen(broker: Broker, listener: Listener) -> tuple[str, int]:
    host, port = listener.host, listener.port
    try:
        return await broker.listen(host, port, listener.name)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from error


def _listeners(listen: str | None, config: BrokerConfig) -> list[Listener]:
    """Those configured; with ``listen`` the first of them at that address."""
    first, *others = config.listeners
    if listen is not None:
        first = Listener(first.name, *_address("--listen", listen))
    return [first, *others]


def _address(option: str, text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"{option} takes HOST:PORT, such as 127.0.0.1:9092, not {text!r}")
    return host.strip("[]") or "0.0.0.0", int(port)


def _folder(config: BrokerConfig) -> str:
    if "log.dirs" in config.static or "log.dir" in config.static:
        return config.data_folder
    return DATA_DEFAULT


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
