"""A server in a thread, and an engine that answers as it is told, for tests of the interface alone."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from typing import Any

import uvicorn

from relax.llm.engine.engine import EngineStats
from relax.llm.engine.requests import Completion, EngineBusy, Event, Request, Usage
from relax.llm.sampling import Choice
from relax.llm.server.running import address_of, listening
from relax.llm.tokenizer import Tokenizer


@contextlib.contextmanager
def served(application: Any) -> Generator[str]:
    """Context manager: the URL of a server of an application, which a thread runs."""
    bound = listening("127.0.0.1", 0)
    settings = {"log_level": "error", "lifespan": "off", "timeout_graceful_shutdown": 1}
    config = uvicorn.Config(application, timeout_keep_alive=75, **settings)  # clients keep connections for 5 s, too
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        yield address_of(bound)
    finally:
        server.should_exit = True
        thread.join(10)


class ScriptedModel:
    """The part of a model that a server asks for."""

    def __init__(self, tokenizer: Tokenizer, context: int = 1024) -> None:
        self.tokenizer, self.context = tokenizer, context


class ScriptedGeneration:
    """Answer of a `ScriptedEngine`."""

    def __init__(self, engine: ScriptedEngine, request: Request, events: list[Event]) -> None:
        self.engine, self.request, self.events = engine, request, events
        self.is_aborted = False
        new = sum(len(event.tokens) for event in events)
        self.usage = Usage(len(request.prompt), 0, new, started=0.0, first_token=0.25, finished=0.5)

    async def __aiter__(self) -> AsyncIterator[Event]:
        for event in self.events:
            await asyncio.sleep(self.engine.pause)
            if self.is_aborted:
                yield Event("", (), "abort")
                return
            yield event

    async def wait(self) -> Completion:
        events = [event async for event in self]
        text = "".join(event.text for event in events)
        tokens = tuple(token for event in events for token in event.tokens)
        return Completion(text, tokens, events[-1].finish, events[-1].error, self.usage)

    def abort(self) -> None:
        self.is_aborted = True


class ScriptedEngine:
    """Engine whose answers a function makes: pieces of text, or events. It keeps the requests that came."""

    def __init__(self, tokenizer: Tokenizer, answer: Callable[[Request], Iterable[Any]], context: int = 1024) -> None:
        self.model = ScriptedModel(tokenizer, context)
        self.answer, self.pause = answer, 0.0
        self.requests: list[Request] = []
        self.generations: list[ScriptedGeneration] = []
        self.busy = False

    def add(self, request: Request) -> ScriptedGeneration:
        if self.busy:
            raise EngineBusy("4 requests wait", 2.5)
        self.requests.append(request)
        pieces = [*self.answer(request)]
        events = [piece if isinstance(piece, Event) else self.event(piece, request) for piece in pieces]
        if not events or events[-1].finish is None:
            events.append(Event("", (), "stop"))
        self.generations.append(ScriptedGeneration(self, request, events))
        return self.generations[-1]

    def event(self, text: str, request: Request) -> Event:
        """An event with a token for each byte of a text; the likeliest tokens are the same and the next one."""
        count = request.sampling.get("logprobs", 0)
        tokens = self.model.tokenizer.encode(text)
        pairs = [((token, -0.5), (token + 1, -1.5))[:count] for token in tokens]
        logprob = -0.5 if count else math.nan
        return Event(text, tuple(Choice(token, logprob, tops) for token, tops in zip(tokens, pairs)))

    def stats(self) -> EngineStats:
        return EngineStats(
            running=1, waiting=2, finished={}, prompt_tokens=9, cached_tokens=1, new_tokens=5, drafted_tokens=0,
            accepted_tokens=0, preemptions=0, steps=3, step_seconds=0.5, free_tokens=100, total_tokens=128,
        )  # fmt: skip
