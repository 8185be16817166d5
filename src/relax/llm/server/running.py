"""Running of a server until it is told to end: `run`.

SIGTERM and SIGINT let the requests under way finish, up to a limit; further ones are refused. A second signal ends the
server, with all requests aborted.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any, cast, final

import uvicorn
from starlette.applications import Starlette

from .service import Service


@final
class _Server(uvicorn.Server):
    """Server that drains its application before it ends."""

    def __init__(self, config: uvicorn.Config, service: Service, drain_seconds: float) -> None:
        super().__init__(config)
        self.signals = 0
        self.is_complete = True
        """False if requests were aborted."""
        self._service, self._drain_seconds = service, drain_seconds
        self._draining: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note a signal."""
        self.signals += 1
        self._service.is_draining = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Context manager: signals come to `handle_exit`, and are not raised again behind it."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def on_tick(self, counter: int) -> bool:
        """Start to drain once a signal has come; True when the server ends."""
        if self.signals and self._draining is None:
            self._draining = asyncio.ensure_future(self._drain())
        if self.signals > 1 and not self.should_exit:
            self.is_complete, self.should_exit = False, True
            self._service.abort_all()
        return await super().on_tick(counter)

    async def _drain(self) -> None:
        self.is_complete = await self._service.drained(self._drain_seconds) and self.is_complete
        self.should_exit = True


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 is any free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) on sockets that say that they are TCP's; on others, a client of Linux waits
    # 40 ms for the second packet of a response.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(2048)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


def address_of(bound: socket.socket) -> str:
    """Return the URL of a socket."""
    host, port = cast("tuple[str, int]", bound.getsockname()[:2])
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(
    application: Starlette, host: str = "127.0.0.1", port: int = 8000, *, drain_seconds: float = 30.0,
    ready: Callable[[str], Any] | None = None, log_level: str = "warning", bound: socket.socket | None = None,
) -> bool:  # fmt: skip
    """Serve an application of `app` until SIGTERM or SIGINT; requests under way have `drain_seconds` to finish.

    `ready` is called with the server's URL before the first request; port 0 takes any free port; `bound` is a socket
    that listens already. Must be called in the main thread. Returns False if requests had to be aborted. Raises OSError
    if the address is taken.
    """
    bound = listening(host, port) if bound is None else bound
    service: Service = application.state.service
    config = uvicorn.Config(
        application, log_level=log_level, access_log=False, timeout_keep_alive=75, timeout_graceful_shutdown=2,
        lifespan="off", backlog=2048, server_header=False,
    )  # fmt: skip
    server = _Server(config, service, drain_seconds)
    if ready is not None:
        ready(address_of(bound))
    with bound:
        server.run(sockets=[bound])
    service.abort_all()
    return server.is_complete


__all__ = ["address_of", "listening", "run"]
