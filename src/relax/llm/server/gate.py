"""Middleware before all routes: keys, refusal while the server shuts down, counts of requests."""

from __future__ import annotations

import hmac
from typing import Final, final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import RequestError
from .responses import error_response
from .service import Service, unavailable

PREFIX: Final = "/v1/"
"""Beginning of the paths that need a key, and that a server which shuts down refuses."""
_PATHS: Final = frozenset(
    {"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/models", "/health", "/metrics"}
)
"""Paths that are counted; all others together, since clients make up as many as they like."""


@final
class Gate:
    """ASGI middleware of a service."""

    def __init__(self, app: ASGIApp, service: Service, api_keys: tuple[str, ...]) -> None:
        self._app, self._service = app, service
        self._keys = tuple(key.encode() for key in api_keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on and count its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        metrics = self._service.metrics
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        label = path if path in _PATHS else "other"

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                metrics.responded(label, message["status"])
            await send(message)

        refusal = self._refusal(scope, path)
        if refusal is not None:
            await error_response(refusal)(scope, receive, counted)
            return
        is_work = scope["method"] == "POST"
        metrics.active += is_work
        try:
            await self._app(scope, receive, counted)
        finally:
            metrics.active -= is_work

    def _refusal(self, scope: Scope, path: str) -> RequestError | None:
        if not path.startswith(PREFIX):
            return None
        if self._keys and not self._has_key(Headers(scope=scope).get("authorization", "")):
            message = "Incorrect or missing API key: send the header Authorization: Bearer KEY"
            return RequestError(message, status=401, code="invalid_api_key")
        return unavailable() if self._service.is_draining and scope["method"] == "POST" else None

    def _has_key(self, header: str) -> bool:
        kind, _, key = header.partition(" ")
        given = key.strip().encode("utf-8", "surrogateescape")
        fits = [hmac.compare_digest(given, each) for each in self._keys]  # all are compared: time tells nothing
        return kind.lower() == "bearer" and any(fits)


__all__ = ["Gate"]
