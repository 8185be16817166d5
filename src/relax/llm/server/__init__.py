"""Server with OpenAI's interface over an engine.

    application = relax.llm.server.app(engine, name="small", api_keys=["secret"])
    relax.llm.server.run(application, port=8000)           or mount it in another ASGI application

`application` has the routes; `chat`, `completions` and `embeddings` read the bodies of requests and make the objects of
answers; `service` is the state that routes share. `cluster` runs several servers on the machines of a Ray cluster.

Needs the packages ``starlette``, ``uvicorn`` and ``prometheus-client``: ``pip install relax[llm]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.rooms import load_when_used
from ..packages import needed
from ._homes import HOMES

if TYPE_CHECKING:
    from .application import app
    from .running import run

__all__ = ["app", "run"]

needed("starlette", "the server")
needed("uvicorn", "the server")
needed("prometheus_client", "the server")
load_when_used(__name__, HOMES)
