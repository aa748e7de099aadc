"""``sharegroup serve``: run a broker until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sharegroup import __version__
from sharegroup.app import addresses, console, log_lines, signals
from sharegroup.app.allocator import keep_freed_memory
from sharegroup.app.descriptors import QuietAccepting, raise_descriptor_limit
from sharegroup.app.environment import local_environment
from sharegroup.app.idle_memory import give_back_idle_memory
from sharegroup.app.listener_warnings import listener_warnings
from sharegroup.app.open_folder import warn_of_open_folder
from sharegroup.app.open_listeners import check_alterations, check_exposure
from sharegroup.broker.configs.broker import BrokerConfig, load
from sharegroup.broker.configs.listeners import Listener
from sharegroup.broker.configs.properties import parse_properties
from sharegroup.broker.configs.security import USERS_FILE
from sharegroup.broker.network.api_table import load_all
from sharegroup.broker.server import Broker
from sharegroup.model.errors import ConfigError, InvalidConfig, KafkaStorageError

if TYPE_CHECKING:
    from sharegroup.broker.metrics.endpoint import MetricsEndpoint
    from sharegroup.client.network.cluster import Cluster

logger = logging.getLogger("sharegroup.broker")

DATA_DEFAULT = "./sharegroup-data"

THREAD_SWITCH_S = 0.0005
"""How long a thread that has synced a file waits for the GIL while the event loop is busy. A sync
waits for the GIL a few times. At Python's default of 5 ms, one busy client would make every fsync
take tens of milliseconds.
"""

GARBAGE_THRESHOLDS = (100_000, 20, 20)
"""Allocations, and younger collections, until the garbage collector runs. Python begins at 700."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of the command line. ``listen``, ``metrics`` (HOST:PORT), ``data`` and ``users``
    override the configuration, which overrides the defaults. ``console`` is HOST:PORT;
    ``console_acts`` says that its page may change something. ``tls_self_signed`` is a folder.
    ``insecure`` says that listeners and metrics may be open to everybody.
    """

    listen: str | None = None
    metrics: str | None = None
    console: str | None = None
    console_acts: bool = False
    data: str | None = None
    upstream: str | None = None
    upstream_config: str | None = None
    users: str | None = None
    tls_self_signed: str | None = None
    insecure: bool = False
    config_path: str | None = None
    overrides: Sequence[str] = ()
    log_level: str = "info"
    log_format: str = "text"


def run(options: ServeOptions) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit status, 0.

    Raises:
        ConfigError: one sentence that says what is wrong.
    """
    log_lines.set_up(options.log_level, options.log_format)
    plan = _planned(options)
    raise_descriptor_limit()
    keep_freed_memory()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve(plan))
    return 0


def _planned(options: ServeOptions) -> Plan:
    """The plan that the options ask for.

    Raises:
        ConfigError: a setting is wrong, or something would be open to everybody.
    """
    overrides = list(options.overrides)
    if options.users is not None:
        overrides.append(f"{USERS_FILE}={options.users}")
    config = load(_read(options.config_path), overrides)
    for warning in config.warnings:
        logger.warning("%s", warning)
    opened = addresses.listeners(options.listen, config)
    lines: list[str] = []
    try:
        if options.tls_self_signed is not None:
            from sharegroup.app.try_out_tls import with_try_out_tls  # loads cryptography

            folder = options.tls_self_signed
            config, opened, lines = with_try_out_tls(config, opened, folder)
        else:
            config = config.listening(opened)
    except InvalidConfig as error:
        raise ConfigError(error.message) from None
    metrics_at = options.metrics or config.text("metrics.address")
    metrics = addresses.address("--metrics", metrics_at) if metrics_at else None
    check_exposure(config, opened, metrics, insecure=options.insecure)
    page = None
    if options.console:
        at = addresses.address("--console", options.console)
        page = console.planned(at, config, opened, acts=options.console_acts)
    for warning in listener_warnings(config, opened):
        logger.warning("%s", warning)
    told_host = addresses.name_for_clients(config, opened)
    say = logger.info if options.log_format == "json" else _print_line
    if lines:
        say("clients connect with these properties:")
        for line in lines:
            say(f"  {line}")
    return Plan(
        config=config,
        listeners=opened,
        insecure=options.insecure,
        told_host=told_host,
        folder=options.data or _folder(config),
        upstream=_upstream(options),
        metrics=metrics,
        console=page,
        say_ready=say,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The broker to run, and its addresses."""

    config: BrokerConfig
    listeners: Sequence[Listener]
    insecure: bool
    """Whether listeners and metrics may be open to everybody."""
    told_host: str
    """The host that clients are told for a listener on every interface."""
    folder: str
    upstream: Cluster | None
    """The cluster that has the topics; None: the folder has them."""
    metrics: tuple[str, int] | None
    """Address of the endpoint for metrics and health probes."""
    console: console.ConsolePlan | None
    """None: there is no console."""
    say_ready: Callable[[str], None]


async def serve(plan: Plan) -> None:
    """Open, listen, print the ready line, wait for a signal, close.

    Raises:
        ConfigError: the folder or the address cannot be used.
    """
    signals.ignore_hang_ups_at_start()
    endpoint = await _open_metrics(*plan.metrics) if plan.metrics else None
    try:
        await _serve(plan, endpoint)
    finally:
        if endpoint is not None:
            endpoint.close()


async def _open(plan: Plan) -> Broker | None:
    """The broker; None: it was told to stop while it waited for its cluster.

    Raises:
        ConfigError: the folder or the cluster cannot be used.
    """
    opening = Broker.open(plan.config, local_environment(), plan.folder, plan.upstream)
    try:
        return await (opening if plan.upstream is None else signals.unless_stopped(opening))
    except OSError as error:
        raise ConfigError(f"data folder {plan.folder} cannot be used: {error.strerror}") from error
    except KafkaStorageError as error:
        where = f"data folder {plan.folder}"
        if plan.upstream is not None:
            where = f"{where}, or what the broker has in the cluster,"
        raise ConfigError(f"{where} cannot be used: {error}") from error


async def _serve(plan: Plan, endpoint: MetricsEndpoint | None) -> None:
    gc.set_threshold(*GARBAGE_THRESHOLDS)  # there is no garbage in what a start loads
    broker = await _open(plan)
    if broker is None:
        return
    warn_of_open_folder(plan.folder)
    calm_garbage_collector()
    sys.setswitchinterval(THREAD_SWITCH_S)
    try:
        asyncio.get_running_loop().set_exception_handler(
            QuietAccepting(partial(broker.parts.counters.add, "connections_refused", "descriptors"))
        )
        if not plan.insecure:
            check_alterations(broker, plan.listeners)
        stop = signals.stop_event(broker)
        told = [await _listen(broker, listener, plan.told_host) for listener in plan.listeners]
        for listener, address in zip(plan.listeners[1:], told[1:], strict=True):
            logger.info("listener %s on %s:%d", listener.name, *address)
        if not await _joined(broker, stop):
            return
        if endpoint is not None:
            endpoint.show(broker.parts)
        async with _console(plan, told):
            plan.say_ready(ready_line(broker, *told[0], plan.folder))
            broker.spawn(load_all())
            idle_memory = asyncio.create_task(
                give_back_idle_memory(lambda: broker.parts.meters.request_count)
            )
            await stop.wait()
            idle_memory.cancel()
            logger.info("stopping: open requests may end")
    finally:
        await broker.close()


async def _joined(broker: Broker, stop: asyncio.Event) -> bool:
    """Whether the broker shares the work of its fleet before it is told to stop."""
    joining, stopping = asyncio.create_task(broker.join()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([joining, stopping], return_when=asyncio.FIRST_COMPLETED)
        return joining.done() and joining.result() is None
    finally:
        joining.cancel()
        stopping.cancel()


@asynccontextmanager
async def _console(plan: Plan, told: Sequence[tuple[str, int]]) -> AsyncIterator[None]:
    """With the console, if the plan has one. ``told``: what clients of each listener are told."""
    if plan.console is None:
        yield
        return
    host, port = told[[*plan.listeners].index(plan.console.listener)]
    bootstrap = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    opened, address = await console.open_console(plan.console, bootstrap, plan.config)
    plan.say_ready(f"console on {address}")
    try:
        yield
    finally:
        await opened.close()


def calm_garbage_collector() -> None:
    """Exempt long-lived objects from garbage collection, and collect the others less often.

    Windows of in-flight records are many small objects without cycles; at Python's default
    thresholds, expiring 100,000 locks spends most of its time in the collector.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


def ready_line(broker: Broker, host: str, port: int, folder: str) -> str:
    """The one line that says a broker accepts connections."""
    partitions = sum(1 for _ in broker.parts.store.logs)
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


def _upstream(options: ServeOptions) -> Cluster | None:
    if options.upstream is None:
        if options.upstream_config is not None:
            raise ConfigError("--upstream-config needs --upstream")
        return None
    from sharegroup.client.network.cluster import Cluster  # only who needs it pays for it

    properties = parse_properties(_read(options.upstream_config))
    return Cluster(
        options.upstream,
        client_id="sharegroup-upstream",
        # Or the cluster makes our own topics, with its defaults: what is in them is gone in a week.
        allow_auto_create_topics=False,
        security=properties or None,
    )


def _print_line(line: str) -> None:
    print(line, flush=True)


async def _open_metrics(host: str, port: int) -> MetricsEndpoint:
    from sharegroup.broker.metrics.endpoint import MetricsEndpoint  # loads prometheus-client

    try:
        endpoint, bound = await MetricsEndpoint.open(host, port)
    except OSError as error:
        raise ConfigError(f"cannot serve metrics on {host}:{port}: {error.strerror}") from error
    logger.info("metrics on http://%s:%d/metrics, health on /health", host, bound)
    return endpoint


async def _listen(broker: Broker, listener: Listener, told_host: str) -> tuple[str, int]:
    host, port = listener.host, listener.port
    try:
        return await broker.listen(host, port, listener.name, told_host=told_host)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}") from error


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
