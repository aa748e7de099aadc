"""The addresses of the console: one page, its files, and the JSON behind it under ``/api/v1``."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from functools import partial
from importlib.resources import files
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import sharegroup
from sharegroup.console.act_fields import BadAct, Said
from sharegroup.console.acts import ACTS
from sharegroup.console.answers import BadRequest, Forged, answered, body_of, number_of, text_of
from sharegroup.console.guard import ACT_HEADER, Guard
from sharegroup.console.payloads import Decode
from sharegroup.console.record_life import life_of
from sharegroup.console.record_views import exported, letters_of, record_at
from sharegroup.console.sessions import Entrance, Session
from sharegroup.console.topic_views import topic, topics
from sharegroup.console.watches import TooManyViewers
from sharegroup.model.errors import AuthenticationFailed
from sharegroup.model.ids import TopicPartition

log = logging.getLogger("sharegroup.console.acts")

STATIC: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/acts.js": ("acts.js", "text/javascript; charset=utf-8"),
    "/console.js": ("console.js", "text/javascript; charset=utf-8"),
    "/console.css": ("console.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/uplot.js": ("uplot.js", "text/javascript; charset=utf-8"),
    "/uplot.css": ("uplot.css", "text/css; charset=utf-8"),
    "/uplot-license.txt": ("uplot-license.txt", "text/plain; charset=utf-8"),
}
Ask = Callable[[Session, Request], Awaitable[Any]]
"""Answers a request of a viewer: with JSON, or with a response."""


class Api:
    """What the page asks. Each call is about the broker as it is now."""

    def __init__(self, entrance: Entrance, *, acts: bool, decode: Decode | None = None) -> None:
        self._entrance = entrance
        self._acts = acts
        self._decode = decode

    def routes(self) -> list[Route]:
        """The addresses, with what answers them."""
        asks: dict[str, Ask] = {
            "about": self._about,
            "queues": lambda session, _: session.desk.queues.list.all(),
            "queue": lambda session, request: session.desk.queues.one(text_of(request, "group")),
            "topics": lambda session, _: topics(session.desk.admin),
            "topic": lambda session, request: topic(session.desk.admin, text_of(request, "topic")),
            "record": self._record,
            "spark": lambda session, _: session.desk.spark.all(),
            "dead": lambda session, request: letters_of(
                session.desk.admin, text_of(request, "group"), request.query_params.get("where")
            ),
            "progress": _progress,
            "letters": _letters,
            "events": _events,
        }
        routes = [Route(f"/api/v1/{name}", self._answering(ask)) for name, ask in asks.items()]
        act = Route("/api/v1/acts/{name}", self._answering(_act), methods=["POST"])
        return [*routes, act, *self._entrance.routes()]

    def _answering(self, ask: Ask) -> Callable[[Request], Awaitable[Response]]:
        async def of_session(request: Request) -> Any:
            session = self._entrance.session(request)
            try:
                return await ask(session, request)
            except AuthenticationFailed:
                self._entrance.refused(request)
                self._entrance.session(request)  # says how to log in anew
                raise

        return partial(answered, of_session)

    async def _about(self, session: Session, _: Request) -> Any:
        cluster = await session.desk.admin.describe_cluster()
        return {
            "version": sharegroup.__version__,
            "servers": session.desk.broker.servers,
            "acts": self._acts,
            "user": session.user,
            "token": session.token,
            "may_leave": session.may_leave,
            "cluster_id": cluster.cluster_id,
            "nodes": [
                {"node": node.node_id, "address": str(node.address)} for node in cluster.nodes
            ],
        }

    async def _record(self, session: Session, request: Request) -> Any:
        at = TopicPartition(text_of(request, "topic"), number_of(request, "partition"))
        desk, offset = session.desk, number_of(request, "offset")
        found = await record_at(desk.admin, desk.broker.reading, at, offset, self._decode)
        group = request.query_params.get("group")
        life = (
            await life_of(desk.admin, desk.queues.holds, group, at, found["offset"])
            if group
            else None
        )
        return {**found, "life": life}


async def _progress(session: Session, request: Request) -> Any:
    return {"said": session.desk.progress(text_of(request, "group"))}


async def _letters(session: Session, request: Request) -> Response:
    """The dead letters as ``sharegroup dead export`` prints them, to be kept as a file."""
    group, where = text_of(request, "group"), request.query_params.get("where")
    lines = exported(session.desk.broker.reading, group, where)
    first = await anext(lines, b"")  # what is wrong is told by the status

    async def parts() -> AsyncIterator[bytes]:
        yield first
        async for line in lines:
            yield line

    return StreamingResponse(
        parts(),
        media_type="application/jsonl",
        headers={"content-disposition": 'attachment; filename="dead-letters.jsonl"'},
    )


async def _act(session: Session, request: Request) -> Any:
    """Do an act, or say what it would do: ``do`` of the body says which."""
    if not session.may_act(request.headers.get(ACT_HEADER)):
        raise Forged
    act = ACTS.get(request.path_params["name"])
    if act is None:
        raise BadRequest(f"the acts are {', '.join(ACTS)}")
    given = await body_of(request)
    do = given.get("do") is True
    if do and session.user is not None:
        log.info("%r: %s %s", session.user, request.path_params["name"], json.dumps(given))
    try:
        said = await act(session.desk, given, do)
        return (Said(said) if isinstance(said, str) else said)._asdict()
    except BadAct as error:
        raise BadRequest(str(error)) from None
    finally:
        if do and isinstance(given.get("group"), str):
            session.desk.queues.list.forget(given["group"])


async def _events(session: Session, request: Request) -> Response:
    """The same JSON as ``queues``, ``queue`` with a group, or ``spark`` with ``of=spark``, each
    time that it has changed."""
    desk, group = session.desk, request.query_params.get("group")
    if request.query_params.get("of") == "spark":
        views = desk.watches.views("spark", desk.spark.all)
    elif group is None:
        views = desk.watches.views("queues", desk.queues.list.watched)
    else:
        name = group
        views = desk.watches.views(f"queue {name}", lambda: desk.queues.one(name))
    try:
        first = await anext(views)
    except TooManyViewers:
        return JSONResponse({"error": "too many viewers: close some pages"}, 503)
    except StopAsyncIteration:
        return JSONResponse({"error": "the console ends"}, 503)
    return StreamingResponse(_as_events(first, views), media_type="text/event-stream")


async def _as_events(first: bytes, views: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield b"data: %b\n\n" % first
    async for view in views:
        yield b"data: %b\n\n" % view


def site(
    entrance: Entrance,
    hosts: Collection[str] = (),
    *,
    acts: bool = False,
    decode: Decode | None = None,
) -> Starlette:
    """The application.

    Args:
        hosts: names of this console besides those of loopback.
        acts: whether the page may change something.
        decode: what makes text of values.
    """
    folder = files(__package__) / "static"
    pages = [
        Route(address, _file((folder / name).read_bytes(), kind))
        for address, (name, kind) in STATIC.items()
    ]
    return Starlette(
        routes=[*pages, *Api(entrance, acts=acts, decode=decode).routes()],
        middleware=[Middleware(Guard, hosts=hosts, acts=acts)],
    )


def _file(content: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        return Response(content, media_type=kind)

    return answer
