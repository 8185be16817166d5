"""Replicas of a server on the machines of a Ray cluster, behind one address: `run_replicas`.

    replicas = Replicas("model.gguf", count=4, threads=8)
    run_replicas(replicas, host="0.0.0.0", port=8000)       until SIGTERM or SIGINT

An ingress reads requests and passes them to a replica, each with a model and an engine of its own. Requests that begin
alike go to the same replica, whose cache has their prefix, unless it is busy: the beginning of the text is the id by
which Ray Serve multiplexes. Ray starts replicas on machines with free processors, and new ones for those that die.

Needs the package ``ray``: ``pip install relax[ray]``. Machines join the cluster by ``ray start``, and need the model's
files under the same path.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import signal
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import field
from types import FrameType
from typing import Any, Final, TypeAlias, cast, final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ...runtime.records import dataclass
from ..engine.engine import Engine
from ..loading import load, load_embedding
from ..packages import needed
from .application import app

Headers: TypeAlias = "list[tuple[bytes, bytes]]"

PREFIX: Final = 512
"""Characters of a prompt's beginning by which a replica is chosen."""
PREFIXES: Final = 4096
"""Beginnings that a replica is known for, the latest ones."""
ONGOING: Final = 1024
"""Requests that a replica takes, those that wait in its engine included."""


@dataclass(frozen=True)
class Replicas:
    """Replicas of a server: their number, and what each of them is made of."""

    model: str
    """Path of the model, on all machines."""
    count: int = 2
    threads: int = 1
    """Processors that each replica takes, and threads that it computes with."""
    embedding: str | None = None
    """Path of the model of /v1/embeddings."""
    loading: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further arguments of `relax.llm.load`."""
    engine: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments of `relax.llm.Engine`."""
    serving: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments of `relax.llm.server.app`."""


def prefix_of(body: bytes) -> str:
    """Return an id of the beginning of a request's text; "" for what has none.

    The id is equal for all turns of a conversation of which the first messages have `PREFIX` characters.
    """
    try:
        asked: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(asked, dict):
        return ""
    fields = cast("dict[str, Any]", asked)
    text = fields.get("messages", fields.get("prompt"))
    if text is None:
        return ""
    beginning = json.dumps([fields.get("model"), fields.get("tools"), text])[:PREFIX]
    return hashlib.sha256(beginning.encode()).hexdigest()[:16]


@final
class Replica:
    """Server without sockets, in a process of Ray's."""

    def __init__(self, replicas: Replicas) -> None:
        loading: dict[str, Any] = {"threads": replicas.threads, **replicas.loading}
        self._engine = Engine(load(replicas.model, **loading), **replicas.engine)
        embedding = None if replicas.embedding is None else load_embedding(replicas.embedding)
        self._application = app(self._engine, embedding=embedding, **replicas.serving)
        serve = needed("ray.serve", "a server with several workers", "ray")
        self._prefix_id: Callable[[], str] = serve.get_multiplexed_model_id
        self._note: Any = serve.multiplexed(max_num_models_per_replica=PREFIXES)(_noted)

    def __del__(self) -> None:
        engine = getattr(self, "_engine", None)
        if engine is not None:
            engine.close(drain=False)

    async def answer(
        self, method: str, path: str, query: bytes, headers: Headers, body: bytes
    ) -> AsyncIterator[tuple[int, Headers] | bytes]:
        """Answer a request: yield status and headers first, then the parts of the body."""
        if self._prefix_id():
            await self._note(self._prefix_id())
        gone = asyncio.Event()
        sent: asyncio.Queue[Any] = asyncio.Queue()
        unread: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if unread:
                return unread.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        scope: dict[str, Any] = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "method": method,
            "path": path, "raw_path": path.encode(), "root_path": "", "query_string": query, "headers": headers,
            "client": None, "server": None,
        }  # fmt: skip
        task = asyncio.ensure_future(self._application(scope, receive, sent.put))
        task.add_done_callback(lambda _: sent.put_nowait(None))
        try:
            while (message := await sent.get()) is not None:
                if message["type"] == "http.response.start":
                    yield message["status"], list(message["headers"])
                elif message.get("body"):
                    yield bytes(message["body"])
        finally:
            gone.set()  # the application aborts the answer
            await asyncio.wait([task], timeout=5)
            task.cancel()


async def _noted(prefix: str) -> str:
    """Return the id of a prefix: Ray Serve remembers that this replica has seen it."""
    return prefix


@final
class Ingress:
    """Application that passes requests to replicas."""

    def __init__(self, replica: Any, body_limit: int) -> None:
        self._replica, self._body_limit = replica, body_limit

    def application(self) -> Starlette:
        """Return the ASGI application."""
        return Starlette(
            routes=[
                Route("/metrics", _no_metrics),
                Route("/{path:path}", self._pass, methods=["GET", "POST", "OPTIONS"]),
            ]
        )

    async def _pass(self, request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > self._body_limit:  # the replica refuses it
                break
        prefix = prefix_of(body) if request.method == "POST" else ""
        options = {"stream": True, "method_name": "answer"} | ({"multiplexed_model_id": prefix} if prefix else {})
        headers: Headers = request.scope["headers"]
        parts = self._replica.options(**options).remote(
            request.method, request.url.path, request.scope["query_string"], headers, body
        )
        status, answered = await anext(parts)
        response = StreamingResponse(_rest(parts), status)
        response.raw_headers = answered
        return response


async def _rest(parts: Any) -> AsyncIterator[bytes]:
    """Yield the parts of a body; a client that vanishes cancels the request."""
    try:
        async for part in parts:
            yield part
    finally:
        parts.cancel()


async def _no_metrics(_: Request) -> Response:
    return PlainTextResponse("off for several workers: Ray's metrics count requests\n", 404)


def start_replicas(replicas: Replicas, host: str, port: int, drain_seconds: float = 30.0) -> None:
    """Start replicas on the Ray cluster that this process has joined, and return once they answer.

    Raises RuntimeError if Ray cannot start them.
    """
    serve = needed("ray.serve", "a server with several workers", "ray")
    serving = dict(replicas.serving)
    body_limit = int(serving.get("body_limit", 8 << 20))
    quiet = {"log_level": "WARNING", "enable_access_log": False}
    serve.start(http_options={"host": host, "port": port})
    replica = serve.deployment(Replica).options(
        num_replicas=replicas.count, ray_actor_options={"num_cpus": replicas.threads}, max_ongoing_requests=ONGOING,
        graceful_shutdown_timeout_s=drain_seconds, logging_config=quiet,
    )  # fmt: skip

    def application() -> Starlette:  # made in the ingress's process
        return Ingress(serve.get_deployment_handle("Replica", "relax"), body_limit).application()

    ingress = serve.deployment(serve.ingress(application)(), name="Ingress").options(
        ray_actor_options={"num_cpus": 0}, max_ongoing_requests=64 * ONGOING, graceful_shutdown_timeout_s=drain_seconds,
        logging_config=quiet,
    )  # fmt: skip
    serve.run(ingress.bind(replica.bind(replicas)), name="relax", route_prefix="/", logging_config=quiet)


def run_replicas(
    replicas: Replicas, host: str = "127.0.0.1", port: int = 8000, *, drain_seconds: float = 30.0,
    address: str | None = None, ready: Callable[[str], Any] | None = None,
) -> None:  # fmt: skip
    """Serve by replicas until SIGTERM or SIGINT; must be called in the main thread.

    `address` is that of the Ray cluster: "auto", or "ray-head:6379"; None starts one on this machine. `ready` is called
    with the URL once the replicas answer. Raises ConnectionError if there is no cluster at `address`, and RuntimeError
    if Ray cannot start the replicas.
    """
    ray, serve = (needed(name, "a server with several workers", "ray") for name in ("ray", "ray.serve"))
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    ray.init(address=address, log_to_driver=False, logging_level="warning")
    try:
        start_replicas(replicas, host, port, drain_seconds)
        for number in (signal.SIGINT, signal.SIGTERM):  # behind ray.init, which sets handlers of its own
            signal.signal(number, end)
        if ready is not None:
            ready(f"http://{host}:{port}")
        ended.wait()
    finally:
        with contextlib.suppress(Exception):
            serve.shutdown()
        ray.shutdown()


__all__ = ["Replicas", "prefix_of", "run_replicas", "start_replicas"]
