"""The addresses of the console: one page, its files, and the JSON behind it under ``/api/v1``."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from importlib.resources import files
from typing import Any, Final, NamedTuple

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import sharegroup
from sharegroup.client.admin.admin import Admin
from sharegroup.client.network.cluster import Cluster
from sharegroup.console.acts import ACTS, BadAct
from sharegroup.console.guard import Guard
from sharegroup.console.limits import BODY_BYTES_MAX
from sharegroup.console.queue_views import QueueViews
from sharegroup.console.record_views import letters_of, record_at
from sharegroup.console.watches import TooManyViewers, Watches
from sharegroup.model.errors import ConfigError, KafkaError, SharegroupError
from sharegroup.model.ids import TopicPartition

STATIC: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/console.js": ("console.js", "text/javascript; charset=utf-8"),
    "/console.css": ("console.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_STATUS: Final = {
    "GROUP_ID_NOT_FOUND": 404,
    "UNKNOWN_TOPIC_OR_PARTITION": 404,
    "OFFSET_OUT_OF_RANGE": 404,
    "INVALID_TOPIC_EXCEPTION": 404,
    "GROUP_AUTHORIZATION_FAILED": 403,
    "TOPIC_AUTHORIZATION_FAILED": 403,
    "CLUSTER_AUTHORIZATION_FAILED": 403,
}


class BadAddress(Exception):
    """The query or the body of a request is not what it should be; the text says what is wrong."""


class Watched(NamedTuple):
    """The broker that the page is about.

    Attributes:
        asking: connections for questions.
        reading: connections for fetches, which would keep other requests waiting.
        servers: the addresses, as the page shows them.
    """

    asking: Cluster
    reading: Cluster
    servers: str

    async def close(self) -> None:
        """Close all connections."""
        await self.asking.close()
        await self.reading.close()


class Api:
    """What the page asks. Each call is about the broker as it is now."""

    def __init__(self, broker: Watched, watches: Watches, *, acts: bool) -> None:
        self._broker = broker
        self._admin = Admin(
            cluster=broker.asking, request_timeout_ms=broker.asking.request_timeout_ms
        )
        self._acts = acts
        self._queues = QueueViews(self._admin)
        self._watches = watches

    def routes(self) -> list[Route]:
        """The addresses, with what answers them."""
        answers: dict[str, Callable[[Request], Awaitable[Any]]] = {
            "about": self._about,
            "queues": lambda _: self._queues.all(),
            "queue": lambda request: self._queues.one(_text(request, "group")),
            "topics": self._topics,
            "record": self._record,
            "dead": lambda request: letters_of(self._admin, _text(request, "group")),
        }
        routes = [Route(f"/api/v1/{name}", _answering(ask)) for name, ask in answers.items()]
        act = Route("/api/v1/acts/{name}", _answering(self._act), methods=["POST"])
        return [*routes, act, Route("/api/v1/events", self._events)]

    async def _about(self, _: Request) -> Any:
        cluster = await self._admin.describe_cluster()
        return {
            "version": sharegroup.__version__,
            "servers": self._broker.servers,
            "acts": self._acts,
            "cluster_id": cluster.cluster_id,
            "nodes": [
                {"node": node.node_id, "address": str(node.address)} for node in cluster.nodes
            ],
        }

    async def _topics(self, _: Request) -> Any:
        listed = await self._admin.list_topics()
        return {
            "topics": [{"topic": one.name, "partitions": one.partition_count} for one in listed]
        }

    async def _record(self, request: Request) -> Any:
        at = TopicPartition(_text(request, "topic"), _number(request, "partition"))
        return await record_at(self._admin, self._broker.reading, at, _number(request, "offset"))

    async def _act(self, request: Request) -> Any:
        """Do an act, or say what it would do: ``do`` of the body says which."""
        act = ACTS.get(request.path_params["name"])
        if act is None:
            raise BadAddress(f"the acts are {', '.join(ACTS)}")
        given = await _body(request)
        try:
            return {"said": await act(self._admin, given, given.get("do") is True)}
        except BadAct as error:
            raise BadAddress(str(error)) from None

    async def _events(self, request: Request) -> Response:
        """The same JSON as ``queues``, or ``queue`` with a group, each time that it has changed."""
        group = request.query_params.get("group")
        if group is None:
            views = self._watches.views("queues", self._queues.all)
        else:
            name = group
            views = self._watches.views(f"queue {name}", lambda: self._queues.one(name))
        try:
            first = await anext(views)
        except TooManyViewers:
            return JSONResponse({"error": "too many viewers: close some pages"}, 503)
        except StopAsyncIteration:
            return JSONResponse({"error": "the console ends"}, 503)
        return StreamingResponse(_events(first, views), media_type="text/event-stream")


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object that a request carries. Raises BadAddress."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > BODY_BYTES_MAX:
            raise BadAddress(f"the request has more than {BODY_BYTES_MAX} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadAddress("the request is no JSON object")
    return found


async def _events(first: bytes, views: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield b"data: %b\n\n" % first
    async for view in views:
        yield b"data: %b\n\n" % view


def site(
    broker: Watched, watches: Watches, hosts: Collection[str] = (), *, acts: bool = False
) -> Starlette:
    """The application.

    Args:
        watches: what is watched; closing them ends all event streams.
        hosts: names of this console besides those of loopback.
        acts: whether the page may change something.
    """
    folder = files(__package__) / "static"
    pages = [
        Route(address, _file((folder / name).read_bytes(), kind))
        for address, (name, kind) in STATIC.items()
    ]
    return Starlette(
        routes=[*pages, *Api(broker, watches, acts=acts).routes()],
        middleware=[Middleware(Guard, hosts=hosts, acts=acts)],
    )


def _file(content: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        return Response(content, media_type=kind)

    return answer


def _answering(
    ask: Callable[[Request], Awaitable[Any]],
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return JSONResponse(await ask(request))
        except (BadAddress, ConfigError) as error:
            return JSONResponse({"error": str(error)}, 400)
        except KafkaError as error:
            return JSONResponse({"error": str(error)}, _STATUS.get(error.name, 502))
        except SharegroupError as error:  # the broker does not answer
            return JSONResponse({"error": str(error)}, 502)

    return answer


def _text(request: Request, name: str) -> str:
    found = request.query_params.get(name)
    if not found:
        raise BadAddress(f"the address lacks {name}=…")
    return found


def _number(request: Request, name: str) -> int:
    text = _text(request, name)
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise BadAddress(f"{name} is {text[:40]!r}: write a whole number")
    return int(text)
