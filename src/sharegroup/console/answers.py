"""Requests and answers: what a request must carry, and what an error is called in JSON."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from sharegroup.console.limits import BODY_BYTES_MAX
from sharegroup.console.sessions import NotLoggedIn
from sharegroup.model.errors import ConfigError, KafkaError, SharegroupError

_STATUS: Final = {
    "GROUP_ID_NOT_FOUND": 404,
    "UNKNOWN_TOPIC_OR_PARTITION": 404,
    "OFFSET_OUT_OF_RANGE": 404,
    "INVALID_TOPIC_EXCEPTION": 404,
    "GROUP_AUTHORIZATION_FAILED": 403,
    "TOPIC_AUTHORIZATION_FAILED": 403,
    "CLUSTER_AUTHORIZATION_FAILED": 403,
}


class BadRequest(Exception):
    """The query or the body of a request is not what it should be; the text says what is wrong."""


class Forged(Exception):
    """An act that the page has not sent."""


def json_answer(found: Any, status: int = 200) -> Response:
    """An answer of JSON. Half of a pair of a character, which no text of bytes has, is an escape in
    it: a user's decoder may have raised an error about one."""
    text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    data = text.encode(errors="backslashreplace")
    return Response(data, status, media_type="application/json")


async def answered(ask: Callable[[Request], Awaitable[Any]], request: Request) -> Response:
    """What ``ask`` returns, as JSON unless it is a response; or the error that it raises."""
    try:
        found = await ask(request)
    except NotLoggedIn as error:
        return json_answer({"error": str(error), "login": error.way}, 401)
    except Forged:
        return json_answer({"error": "this act does not come from the page"}, 403)
    except (BadRequest, ConfigError) as error:
        return json_answer({"error": str(error)}, 400)
    except KafkaError as error:
        return json_answer({"error": str(error)}, _STATUS.get(error.name, 502))
    except SharegroupError as error:  # the broker does not answer
        return json_answer({"error": str(error)}, 502)
    return found if isinstance(found, Response) else json_answer(found)


async def body_of(request: Request) -> dict[str, Any]:
    """The JSON object that a request carries. Raises BadRequest."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > BODY_BYTES_MAX:
            raise BadRequest(f"the request has more than {BODY_BYTES_MAX} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadRequest("the request is no JSON object")
    return found


def text_of(request: Request, name: str) -> str:
    """A text of the query. Raises BadRequest."""
    found = request.query_params.get(name)
    if not found:
        raise BadRequest(f"the address lacks {name}=…")
    return found


def number_of(request: Request, name: str) -> int:
    """A number of the query. Raises BadRequest."""
    text = text_of(request, name)
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise BadRequest(f"{name} is {text[:40]!r}: write a whole number")
    return int(text)
