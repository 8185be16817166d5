"""OpenAI's interface over an engine, as an ASGI application: `app`.

    with relax.llm.Engine(model) as engine:
        relax.llm.server.run(relax.llm.server.app(engine, name="small"))

| route | |
|---|---|
| POST /v1/chat/completions, /v1/completions, /v1/embeddings | answers, whole or as server-sent events |
| GET /v1/models, /v1/models/{name} | the models |
| GET /health | 200, or 503 while the server shuts down |
| GET /metrics | counts in Prometheus's format |
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, TypeAlias, final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from ..embedding_model import EmbeddingModel
from ..engine.engine import Engine, Generation
from ..engine.requests import Completion
from .body import shown
from .chat import ChatAnswer, ChatRequest, chat_request
from .completions import CompletionAnswer, CompletionRequest, completion_request
from .embeddings import embedding_object, embedding_request
from .errors import RequestError
from .gate import Gate
from .metrics import CONTENT_TYPE_LATEST
from .responses import DONE, ClientGoneError, EventStream, error_response, event, json_response, unless_gone
from .service import BODY, TIMEOUT, Limits, Service, failed, usage_of

TextRequest: TypeAlias = "ChatRequest | CompletionRequest"
TextAnswer: TypeAlias = "ChatAnswer | CompletionAnswer"

_PATHS: Final = (
    "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/models", "/health", "/metrics",
)  # fmt: skip
"""Paths of the routes, for the errors of other paths."""


def app(
    engine: Engine,
    *,
    name: str | Sequence[str] = "model",
    adapters: Sequence[str] = (),
    embedding: EmbeddingModel | None = None,
    embedding_name: str = "embedding",
    api_keys: Sequence[str] = (),
    cors: Sequence[str] = (),
    body_limit: int = BODY,
    timeout: float = TIMEOUT,
    reasoning: bool = True,
) -> Starlette:
    """Return the ASGI application that serves an engine; run it by `run`, or mount it in another application.

    Parameters
    ----------
    engine
        The engine; it stays the caller's, who closes it.
    name
        Name of the model in requests, or several names for it; the first one stands in answers to requests without one.
    adapters
        Names of LoRA adapters of the engine, which are further models.
    embedding, embedding_name
        Model of /v1/embeddings, and its name.
    api_keys
        Keys, one of which a request to /v1 must have in its header Authorization; none: no key is needed.
    cors
        Origins whose pages may use the server in a browser; ("*",): all.
    body_limit
        Bytes of a request, at most: others are refused with status 413.
    timeout
        Seconds of an answer, at most.
    reasoning
        True separates text between <think> and </think> as `reasoning_content` where the chat template has these marks.

    Raises ValueError for an engine of a model without a tokenizer, and for names that are given twice.
    """
    names = (name,) if isinstance(name, str) else tuple(name)
    models = [*names, *adapters, *([embedding_name] if embedding is not None else [])]
    if not names or len(set(models)) < len(models):
        raise ValueError(f"models have different names, and at least one, found {', '.join(models) or 'none'}")
    service = Service(
        engine, names, adapters=adapters, embedding=embedding, embedding_name=embedding_name,
        limits=Limits(body_limit, timeout), has_reasoning=reasoning,
    )  # fmt: skip
    routes = _Routes(service)
    middleware = [Middleware(Gate, service=service, api_keys=tuple(api_keys))]
    if cors:
        allowed: Any = {"allow_origins": list(cors), "allow_methods": ["GET", "POST"], "allow_headers": ["*"]}
        middleware.insert(0, Middleware(CORSMiddleware, **allowed))
    made = Starlette(
        routes=[
            Route("/v1/chat/completions", routes.chat, methods=["POST"]),
            Route("/v1/completions", routes.complete, methods=["POST"]),
            Route("/v1/embeddings", routes.embed, methods=["POST"]),
            Route("/v1/models", routes.models),
            Route("/v1/models/{name:path}", routes.model),
            Route("/health", routes.health),
            Route("/metrics", routes.metrics),
        ],
        middleware=middleware,
        exception_handlers={
            RequestError: _refused, HTTPException: _not_found, ClientDisconnect: _vanished, ClientGoneError: _vanished,
            Exception: _broken,
        },
    )  # fmt: skip
    made.state.service = service
    return made


@final
class _Routes:
    """Endpoints of a server."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def chat(self, request: Request) -> Response:
        """Answer messages."""
        asked = await self._service.prepared(await self._body(request), chat_request)
        return await self._answered(request, asked, ChatAnswer(self._service, asked))

    async def complete(self, request: Request) -> Response:
        """Continue texts."""
        asked = await self._service.prepared(await self._body(request), completion_request)
        return await self._answered(request, asked, CompletionAnswer(self._service, asked))

    async def embed(self, request: Request) -> Response:
        """Return vectors of texts."""
        asked = await self._service.prepared(await self._body(request), embedding_request)
        vectors = await unless_gone(self._service.embedded(asked.texts), request.receive)
        return json_response(embedding_object(self._service, asked, vectors))

    async def models(self, request: Request) -> Response:
        """List the models."""
        return json_response({"object": "list", "data": list(self._service.models().values())})

    async def model(self, request: Request) -> Response:
        """Describe a model."""
        name = request.path_params["name"]
        found = self._service.models().get(name)
        if found is None:
            message = f"The model {shown(name)} does not exist"
            raise RequestError(message, status=404, param="model", code="model_not_found")
        return json_response(found)

    async def health(self, request: Request) -> Response:
        """Return 200 while requests are taken."""
        if self._service.is_draining:
            return json_response({"status": "draining"}, 503)
        return json_response({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        """Return the counts of the server."""
        return Response(self._service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    # ------------------------------------------------------------------------------------ work

    async def _body(self, request: Request) -> bytes:
        """Return the body of a request. Raises RequestError for one that is too large, or does not come."""
        limits = self._service.limits
        too_large = RequestError(f"The body has more than {limits.body} bytes.", status=413, code="request_too_large")
        if int(request.headers.get("content-length", "0")) > limits.body:
            raise too_large

        async def read() -> bytes:
            data = bytearray()
            async for piece in request.stream():
                data += piece
                if len(data) > limits.body:
                    raise too_large
            return bytes(data)

        try:
            return await asyncio.wait_for(read(), limits.timeout)
        except asyncio.TimeoutError:
            raise RequestError("The body did not come in time.", status=408, code="timeout") from None

    async def _answered(self, request: Request, asked: TextRequest, answer: TextAnswer) -> Response:
        """Return the answer to a request, whole or as a stream."""
        service = self._service
        generations = await service.started(asked.requests(service.limits.timeout))
        if asked.parameters.stream:
            seconds = 2 * service.limits.timeout  # as much again for a client that reads slowly
            return EventStream(self._events(asked, answer, generations), lambda: service.end(generations), seconds)
        try:
            answers = await unless_gone(self._complete(generations), request.receive)
        finally:
            service.end(generations)
        usage = usage_of([answer.usage for answer in answers], asked.prompt_tokens)
        return json_response(answer.whole(answers, usage))

    async def _complete(self, generations: Sequence[Generation]) -> list[Completion]:
        """Return whole answers. Raises RequestError if one of them failed."""
        answers: list[Completion] = []
        for generation in generations:
            completed = await generation.wait()
            self._service.ended(generation, completed.finish)
            failure = failed(completed.finish, completed.error)
            if failure is not None:
                raise failure
            answers.append(completed)
        return answers

    async def _events(
        self, asked: TextRequest, answer: TextAnswer, generations: Sequence[Generation]
    ) -> AsyncIterator[bytes]:
        """Return server-sent events. A failure is an event with an error object, the last one but `DONE`."""
        first = answer.first_chunks()
        if first:
            yield b"".join(map(event, first))
        async for index, part in self._service.merged(generations):
            if part.finish is not None:
                self._service.ended(generations[index], part.finish)
                failure = failed(part.finish, part.error)
                if failure is not None:
                    yield event(failure.body()) + DONE
                    return
            chunks = answer.chunks(index, part)
            if chunks:
                yield b"".join(map(event, chunks))
        last = b""
        if asked.parameters.include_usage:
            usage = usage_of([generation.usage for generation in generations], asked.prompt_tokens)
            last = event(answer.usage_chunk(usage))
        yield last + DONE


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_response(error)


async def _not_found(request: Request, error: Exception) -> Response:
    """Return the response for a path that is none, or a method that it does not take."""
    assert isinstance(error, HTTPException)
    message = f"{error.detail}: {request.method} {request.url.path}{_meant(request, error.status_code)}"
    response = error_response(RequestError(message, status=error.status_code, code="unknown_url"))
    response.headers.update(error.headers or {})
    return response


def _meant(request: Request, status: int) -> str:
    """Return the end of the message for a path that is none: the path that was meant, if one is alike."""
    if status != 404:
        return ""
    path = request.url.path.rstrip("/")
    if not path or path == "/v1":
        return f"; the paths are {', '.join(_PATHS)}"
    close = difflib.get_close_matches(path[:64], _PATHS, 1, 0.7)
    return f"; did you mean {close[0]}?" if close else ""


async def _vanished(request: Request, error: Exception) -> Response:
    """Return an empty response: the client has closed the connection."""
    return Response(status_code=499)


async def _broken(request: Request, error: Exception) -> Response:
    """Return the response for a fault of the server, which the log describes."""
    return error_response(RequestError("The server had an internal error.", status=500, kind="server_error"))


__all__ = ["app"]
