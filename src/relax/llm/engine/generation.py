"""Generation: the reader's side of an answer under way, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import final

from ..sampling import Choice
from .requests import Completion, Event, Request, Usage


@final
class Mailbox:
    """Events from the engine's thread to the reader of an answer."""

    def __init__(self) -> None:
        self.usage = Usage()
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None

    def put(self, event: Event, usage: Usage) -> None:
        """Append an event, and wake the reader."""
        with self._changed:
            self._events.append(event)
            self.usage = usage
            waiter, self._waiter = self._waiter, None
            self._changed.notify_all()
        if waiter is not None:
            loop, future = waiter
            with contextlib.suppress(RuntimeError):  # the reader's loop is closed
                loop.call_soon_threadsafe(_wake, future)

    def get(self, timeout: float | None) -> Event | None:
        """Return the next event; None if none comes within the seconds `timeout`."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._events, timeout):
                return None
            return self._events.popleft()

    async def wait(self) -> Event:
        """Return the next event."""
        while True:
            with self._changed:
                if self._events:
                    return self._events.popleft()
                loop = asyncio.get_running_loop()
                future = loop.create_future()
                self._waiter = loop, future
            await future


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


@final
class Generation:
    """Answer under way: an iterator of events, for one reader, sync or async.

    The engine aborts the answer when its generation is garbage collected, or left as a context manager.
    """

    def __init__(self, number: int, request: Request, mailbox: Mailbox, abort: Callable[[int], bool]) -> None:
        self.id, self.request = number, request
        self._mailbox, self._abort = mailbox, abort
        self._is_over = False

    def __del__(self) -> None:
        if not self._is_over:
            self._abort(self.id)

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *exc: object) -> None:
        self.abort()

    async def __aenter__(self) -> Generation:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.abort()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        """Return the next event, when it comes."""
        if self._is_over:
            raise StopIteration
        event = self._mailbox.get(None)
        assert event is not None
        return self._read(event)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        """Return the next event, when it comes."""
        if self._is_over:
            raise StopAsyncIteration
        return self._read(await self._mailbox.wait())

    def _read(self, event: Event) -> Event:
        self._is_over = event.finish is not None
        return event

    def result(self, timeout: float | None = None) -> Completion:
        """Return the whole answer: of events that were not read before.

        A fault is no exception: see `Completion.error`. Raises TimeoutError after `timeout` seconds, and RuntimeError
        if the last event was read.
        """
        end = None if timeout is None else time.monotonic() + timeout
        events: list[Event] = []
        while not self._is_over:
            event = self._mailbox.get(None if end is None else max(end - time.monotonic(), 0.0))
            if event is None:
                raise TimeoutError(f"no answer within {timeout} s")
            events.append(self._read(event))
        return self._whole(events)

    async def wait(self) -> Completion:
        """Return the whole answer, as `result` does."""
        return self._whole([event async for event in self])

    def _whole(self, events: list[Event]) -> Completion:
        finish = events[-1].finish if events else None
        if finish is None:
            raise RuntimeError("the answer was read to its end already")
        tokens: tuple[Choice, ...] = tuple(choice for event in events for choice in event.tokens)
        text, prompt = "".join(event.text for event in events), events[0].prompt
        return Completion(text, tokens, finish, events[-1].error, self.usage, prompt)

    def abort(self) -> None:
        """End the answer with "abort", unless it has ended."""
        self._abort(self.id)

    @property
    def usage(self) -> Usage:
        """Work so far; final once the last event is read."""
        return self._mailbox.usage


__all__ = ["Generation", "Mailbox"]
