"""``sharegroup serve``: run a broker until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from sharegroup import __version__
from sharegroup.app.environment import local_environment
from sharegroup.broker.configs.broker import BrokerConfig, load
from sharegroup.broker.server import Broker
from sharegroup.model.errors import ConfigError

logger = logging.getLogger("sharegroup.broker")

LISTEN_DEFAULT = ("127.0.0.1", 9092)
DATA_DEFAULT = "./sharegroup-data"


def run(
    *,
    listen: str | None = None,
    data: str | None = None,
    config_path: str | None = None,
    overrides: Sequence[str] = (),
) -> int:
    """Serve until SIGTERM or SIGINT; the exit status: 0 after a clean stop.

    ``listen`` (HOST:PORT) and ``data`` win over the configuration, which wins over the defaults.

    Raises:
        ConfigError: one sentence that says what is wrong.
    """
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    config = load(_read(config_path), overrides)
    for warning in config.warnings:
        logger.warning("%s", warning)
    host, port = _address(listen, config)
    folder = data or _folder(config)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve(config, host, port, folder))
    return 0


async def serve(config: BrokerConfig, host: str, port: int, folder: str) -> None:
    """Open, listen, say so in one line, wait for a signal, close.

    Raises:
        ConfigError: the folder or the address cannot be had.
    """
    try:
        broker = await Broker.open(config, local_environment(), folder)
    except OSError as error:
        raise ConfigError(f"data folder {folder} cannot be used: {error.strerror}") from error
    calm_garbage_collector()
    try:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        try:
            address, bound = await broker.listen(host, port)
        except OSError as error:
            raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from error
        print(ready_line(broker, address, bound, folder), flush=True)
        await stop.wait()
        logger.info("stopping: open requests may end")
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


def _address(listen: str | None, config: BrokerConfig) -> tuple[str, int]:
    if listen is None:
        if "listeners" in config.static:
            listener = config.listeners[0]
            return listener.host, listener.port
        return LISTEN_DEFAULT
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConfigError(f"--listen takes HOST:PORT, such as 127.0.0.1:9092, not {listen!r}")
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
