"""Responses: JSON objects, and server-sent events that stop when the client is gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar, final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .errors import RequestError

Result = TypeVar("Result")
Close: TypeAlias = "Callable[[], None]"

DONE: Final = b"data: [DONE]\n\n"
"""Last event of a stream."""


class ClientGoneError(Exception):
    """The client has closed its connection before the answer was complete."""


def encoded(value: Any) -> bytes:
    """Return a value as JSON. Surrogates that are no pairs, which a client may have sent, become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def event(value: Any) -> bytes:
    """Return a server-sent event with a JSON object."""
    return b"data: " + encoded(value) + b"\n\n"


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response of a JSON object."""
    return Response(encoded(value), status, dict(headers or {}), "application/json")


def error_response(error: RequestError) -> Response:
    """Return the response of a refusal."""
    return json_response(error.body(), error.status, error.headers())


async def gone(receive: Receive) -> None:
    """Wait until the client closes its connection; the body of its request must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_gone(work: Awaitable[Result], receive: Receive, seconds: float | None = None) -> Result:
    """Return the result of some work.

    Cancels it, and raises ClientGoneError, if the client goes away before, or behind this many seconds.
    """
    task, watch = asyncio.ensure_future(work), asyncio.ensure_future(gone(receive))
    try:
        await asyncio.wait({task, watch}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        return task.result()
    finally:
        await _cancelled(task, watch)


async def _cancelled(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks, and wait for their ends."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@final
class EventStream(Response):
    """Response of server-sent events. `close` is called at its end, however it ends.

    A client that has not read them after `seconds` is taken for one that is gone.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], close: Close, seconds: float) -> None:
        super().__init__(None, 200, {"cache-control": "no-cache", "x-accel-buffering": "no"})
        self.raw_headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        self._events, self._close, self._seconds = events, close, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events; stop if the client goes away."""
        try:
            with contextlib.suppress(ClientGoneError, OSError):  # a server may raise OSError for a client that is gone
                await unless_gone(self._written(send), receive, self._seconds)
        finally:
            self._close()

    async def _written(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for data in self._events:
            await send({"type": "http.response.body", "body": data, "more_body": True})
            await asyncio.sleep(0)  # events that wait already are no reason to keep others waiting
        await send({"type": "http.response.body", "body": b"", "more_body": False})


__all__ = [
    "DONE",
    "ClientGoneError",
    "EventStream",
    "encoded",
    "error_response",
    "event",
    "json_response",
    "unless_gone",
]
