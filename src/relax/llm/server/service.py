"""State of a server: its engine, the names of its models, the requests under way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar, final

from ...runtime.records import dataclass
from ..answer_parts import CallForm, form_of, reasons
from ..embedding_model import EmbeddingModel
from ..engine.engine import Engine, Generation
from ..engine.requests import EngineBusy, Event, Request, Usage
from .body import Body, shown
from .errors import CONTEXT, RequestError, invalid
from .metrics import Metrics
from .tools import knows_tools

Result = TypeVar("Result")

BODY: Final = 8 << 20
TIMEOUT: Final = 600.0
SHORT: Final = 16384
"""Bytes of a body up to which it is read, and its prompt made into tokens, between other work of the event loop."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a server."""

    body: int = BODY
    """Bytes of a body."""
    timeout: float = TIMEOUT
    """Seconds of a request, from its arrival to the end of its answer."""


@final
class Service:
    """Engine, models and counts that the routes of a server share."""

    def __init__(
        self, engine: Engine, names: Sequence[str], *, adapters: Sequence[str] = (),
        embedding: EmbeddingModel | None = None, embedding_name: str = "embedding", limits: Limits | None = None,
        has_reasoning: bool = True,
    ) -> None:  # fmt: skip
        self.engine, self.model, self.tokenizer = engine, engine.model, engine.model.tokenizer
        self.names, self.adapters = tuple(names), tuple(adapters)
        self.embedding, self.embedding_name = embedding, embedding_name
        self.limits = Limits() if limits is None else limits
        self.created = int(time.time())
        self.metrics = Metrics(engine.stats)
        self.is_draining = False
        """True once no further requests are taken."""
        template = self.tokenizer.tool_template
        self.call_form: CallForm = form_of(template)
        self.knows_tools = knows_tools(template)
        self.reasons = has_reasoning and reasons(self.tokenizer.chat_template)
        self._pool = ThreadPoolExecutor(2, "relax-server")
        self._embedding_pool = ThreadPoolExecutor(1, "relax-embedding")
        self._generations: set[Generation] = set()

    # ------------------------------------------------------------------------------------ models

    def models(self) -> dict[str, dict[str, Any]]:
        """Return the description of each model by its name."""
        names = [*self.names, *self.adapters, *([self.embedding_name] if self.embedding is not None else [])]
        made: dict[str, dict[str, Any]] = {}
        for name in names:
            made[name] = {"id": name, "object": "model", "created": self.created, "owned_by": "relax"}
            if name in self.adapters:
                made[name]["parent"] = self.names[0]
            if name != self.embedding_name:
                made[name]["max_model_len"] = self.model.context
        return made

    def named(self, body: Body) -> tuple[str, str | None]:
        """Read `model`; return its name, and its adapter. Raises RequestError, with status 404 for an unknown model."""
        name = body.text("model")
        if name is None:
            return self.names[0], None
        if name in self.names:
            return name, None
        if name in self.adapters:
            return name, name
        if self.embedding is not None and name == self.embedding_name:
            raise invalid("model", f"{name!r} embeds texts, it does not answer", "model_not_supported")
        expected = ", ".join(map(repr, (*self.names, *self.adapters)))
        raise RequestError(
            f"The model {shown(name)} does not exist; there is {expected}",
            status=404,
            param="model",
            code="model_not_found",
        )

    def room(self, tokens: Sequence[int], param: str) -> int:
        """Return how many tokens an answer to a prompt may have. Raises RequestError if there is no room for any."""
        room = self.model.context - len(tokens)
        if room < 1:
            message = (
                f"This model's maximum context length is {self.model.context} tokens. However, your {param} resulted in"
            )
            raise RequestError(f"{message} {len(tokens)} tokens.", param=param, code=CONTEXT)
        return room

    # ------------------------------------------------------------------------------------ work

    async def prepared(self, data: bytes, prepare: Callable[[Service, Body], Result]) -> Result:
        """Read a body and prepare the work that it asks for; on another thread if it is long."""
        if len(data) <= SHORT:
            return prepare(self, Body.parse(data))
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: prepare(self, Body.parse(data)))

    async def started(self, requests: Sequence[Request]) -> list[Generation]:
        """Give all of some requests to the engine, or none.

        Raises RequestError: 429 if too many requests wait, 503 if the engine is closed, 400 for what it cannot do.
        """
        if any(request.json_schema is not None or request.regex or request.grammar for request in requests):
            loop = asyncio.get_running_loop()  # large schemas take time
            return await loop.run_in_executor(self._pool, self._started, requests)
        return self._started(requests)

    def _started(self, requests: Sequence[Request]) -> list[Generation]:
        started: list[Generation] = []
        try:
            for request in requests:
                started.append(self.engine.add(request))
        except EngineBusy as error:
            self.end(started)
            message = f"The server is busy: {error}"
            raise RequestError(
                message, status=429, kind="rate_limit_error", code="rate_limit_exceeded", retry_after=error.retry_after
            ) from None
        except ValueError as error:
            self.end(started)
            raise invalid(None, str(error)) from None
        except RuntimeError:
            self.end(started)
            raise unavailable() from None
        self._generations.update(started)
        return started

    async def merged(self, generations: Sequence[Generation]) -> AsyncIterator[tuple[int, Event]]:
        """Return the events of some generations as they come, each with the index of its generation."""
        if len(generations) == 1:
            async for event in generations[0]:
                yield 0, event
            return
        events: asyncio.Queue[tuple[int, Event] | None] = asyncio.Queue()

        async def forward(index: int, generation: Generation) -> None:
            try:
                async for event in generation:
                    events.put_nowait((index, event))
            finally:
                events.put_nowait(None)

        tasks = [asyncio.ensure_future(forward(*pair)) for pair in enumerate(generations)]
        try:
            left = len(tasks)
            while left:
                item = await events.get()
                if item is None:
                    left -= 1
                else:
                    yield item
            for task in tasks:
                task.result()
        finally:
            for task in tasks:
                task.cancel()

    def ended(self, generation: Generation, finish: str) -> None:
        """Count an answer that is complete."""
        self._generations.discard(generation)
        self.metrics.ended(finish, generation.usage)

    def end(self, generations: Sequence[Generation]) -> None:
        """Abort generations that are not complete."""
        for generation in generations:
            if generation in self._generations:
                self.ended(generation, "abort")
            generation.abort()

    async def embedded(self, texts: Sequence[str]) -> Any:
        """Return the vectors of some texts; one request after another."""
        assert self.embedding is not None
        return await asyncio.get_running_loop().run_in_executor(self._embedding_pool, self.embedding.embed, texts)

    async def drained(self, seconds: float) -> bool:
        """Take no further requests, and wait for those under way; False, with all aborted, if that takes too long."""
        self.is_draining = True
        end = time.monotonic() + seconds
        while self.metrics.active and time.monotonic() < end:
            await asyncio.sleep(0.02)
        if not self.metrics.active:
            return True
        self.abort_all()
        return False

    def abort_all(self) -> None:
        """Abort the answers under way."""
        for generation in [*self._generations]:
            generation.abort()


def unavailable() -> RequestError:
    """Return the refusal of a server that is shutting down."""
    return RequestError(
        "The server is shutting down.", status=503, kind="server_error", code="unavailable", retry_after=5
    )


def failed(finish: str, error: str) -> RequestError | None:
    """Return the refusal for an answer that ended otherwise than by itself, None for others."""
    if finish == "timeout":
        return RequestError("The request took too long.", status=504, kind="timeout_error", code="timeout")
    if finish == "abort":
        return unavailable()
    if finish == "error":
        return RequestError(f"The answer failed: {error}", status=500, kind="server_error", code="engine_error")
    return None


def usage_of(usages: Sequence[Usage], prompt_tokens: int) -> dict[str, Any]:
    """Return the numbers of tokens of a response, for the usages of its answers."""
    new = sum(usage.new_tokens for usage in usages)
    cached = max((usage.cached_tokens for usage in usages), default=0)
    return {
        "prompt_tokens": prompt_tokens, "completion_tokens": new, "total_tokens": prompt_tokens + new,
        "prompt_tokens_details": {"cached_tokens": cached},
    }  # fmt: skip


__all__ = ["BODY", "TIMEOUT", "Limits", "Service", "failed", "unavailable", "usage_of"]
