"""``relax serve``: answer requests to a language model over HTTP, as OpenAI's servers do."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ..llm import LanguageModel, load_embedding
from ..runtime.rooms import ModuleWhenUsed
from .failures import FAILURE, NO_PACKAGE, SUCCESS, UNREADABLE, UNSUITABLE, failure
from .language_models import add_draft_argument, add_model_arguments, drafter_of, loaded, positive, unsuitable
from .progress import Meter

if TYPE_CHECKING:
    from ..llm import server as _server
    from ..llm.engine import engine as _engine
    from ..llm.server import cluster as _cluster
    from ..llm.server import running as _running
else:
    _server = ModuleWhenUsed("relax.llm.server")
    _running = ModuleWhenUsed("relax.llm.server.running")
    _cluster = ModuleWhenUsed("relax.llm.server.cluster")
    _engine = ModuleWhenUsed("relax.llm.engine.engine")

DESCRIPTION = """\
Answer requests to a language model, a GGUF file or a folder of Hugging Face, over HTTP, in the form of OpenAI's
interface: /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models, and /health and /metrics. Requests are
answered together. Ctrl-C or SIGTERM lets those under way finish and ends the server; a second one ends it at once."""
EXAMPLES = """
  relax serve model.gguf
  relax serve model.gguf --host 0.0.0.0 --port 8080 --api-key secret --max-sequences 32
  relax serve model.gguf --embedding all-MiniLM-L6-v2
  relax serve model.gguf --workers 4 --threads 8 --ray-address auto
"""

CACHE = 32768
"""Tokens of the cache, where options do not say. Memory is taken as tokens come."""
LOCAL = ("127.0.0.1", "localhost", "::1")
"""Addresses that only this computer reaches."""
KEY = "RELAX_API_KEY"
"""Environment variable of the key that requests must have."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model_arguments(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at; 0.0.0.0: all (default: %(default)s)")
    parser.add_argument("--port", type=port, default=8000, help="port; 0: any free one (default: %(default)s)")
    parser.add_argument(
        "--name", action="append", metavar="NAME", help="name of the model; several are allowed (default: the file's)"
    )
    parser.add_argument(
        "--api-key",
        action="append",
        metavar="KEY",
        help=f"key that requests must have; several are allowed (default: {KEY}, or none)",
    )
    parser.add_argument(
        "--max-sequences", type=positive, default=16, metavar="N", help="answers at once (default: %(default)s)"
    )
    parser.add_argument(
        "--max-waiting", type=positive, default=256, metavar="N",
        help="answers that wait, at most: status 429 beyond (default: %(default)s)",
    )  # fmt: skip
    add_draft_argument(parser)
    parser.add_argument(
        "--adapter", action="append", default=[], type=adapter, metavar="NAME=PATH",
        help="LoRA adapter, which requests choose as the model NAME: a folder of PEFT, or a GGUF file",
    )  # fmt: skip
    parser.add_argument(
        "--cache-tokens", type=positive, metavar="N",
        help=f"tokens of all answers in the cache, and of prompts that may come again (default: {CACHE}, or a context)",
    )  # fmt: skip
    parser.add_argument("--embedding", type=Path, metavar="FOLDER", help="model of /v1/embeddings")
    parser.add_argument("--embedding-name", metavar="NAME", help="name of that model (default: the folder's)")
    parser.add_argument(
        "--workers", type=positive, metavar="N",
        help="replicas of the model on a cluster of Ray, each with --threads processors (pip install relax[ray])",
    )  # fmt: skip
    parser.add_argument(
        "--ray-address", metavar="ADDRESS", help="cluster to join: auto, or HOST:PORT (default: a new one, here)"
    )
    parser.add_argument(
        "--timeout", type=seconds, default=600.0, metavar="SECONDS", help="longest answer (default: %(default)g)"
    )
    parser.add_argument(
        "--drain-seconds", type=seconds, default=30.0, metavar="SECONDS",
        help="time for answers under way when the server ends (default: %(default)g)",
    )  # fmt: skip
    parser.add_argument(
        "--body-limit", type=positive, default=8, metavar="MIB", help="largest request (default: %(default)s MiB)"
    )
    parser.add_argument("--cors", action="append", default=[], metavar="ORIGIN", help="pages that may ask; '*': all")
    parser.add_argument(
        "--no-reasoning", action="store_true", help="leave <think>…</think> in the text, not in reasoning_content"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    try:
        make_app = _server.app
    except ImportError as error:
        message, _, hint = str(error).partition(": ")
        raise failure(NO_PACKAGE, message, hint=hint) from None
    if options.host not in LOCAL and not _keys(options.api_key):
        sys.stderr.write(f"{options.host} can be reached by others, who need no key: --api-key sets one\n")
    if options.workers is not None:
        return _run_replicas(options)
    with _listening(options.host, options.port) as bound:  # before what takes long
        model = loaded(options, **_loading(options))
        embedding = None if options.embedding is None else _embedding(options.embedding)
        drafter = drafter_of(options, options.max_sequences)
        with unsuitable(), _engine.Engine(model, max_waiting=options.max_waiting, drafter=drafter) as engine:
            application = make_app(engine, embedding=embedding, **_serving(options))
            said = f"{_names(options)[0]}, {options.max_sequences} answers at once, {_context(model)}"
            is_complete = _server.run(
                application, bound=bound, drain_seconds=options.drain_seconds, ready=lambda url: _say(url, said)
            )
    if not is_complete:
        sys.stderr.write("answers under way were aborted\n")
    return SUCCESS if is_complete else FAILURE


def _run_replicas(options: argparse.Namespace) -> int:
    """Serve by several replicas of the model."""
    if options.draft is not None:
        raise failure(UNSUITABLE, "--draft: not with --workers")
    replicas = _cluster.Replicas(
        str(options.model.resolve()), options.workers, options.threads or 1,
        None if options.embedding is None else str(options.embedding.resolve()),
        loading={"dtype": options.dtype, "context": options.context, **_loading(options)},
        engine={"max_waiting": options.max_waiting}, serving=_serving(options),
    )  # fmt: skip
    with _listening(options.host, options.port) as bound:  # Ray would start the replicas before it looks at the port
        port = bound.getsockname()[1]
    said = f"{_names(options)[0]} by {options.workers} workers"
    try:
        _cluster.run_replicas(
            replicas, options.host, port, drain_seconds=options.drain_seconds, address=options.ray_address,
            ready=lambda url: _say(url, said),
        )  # fmt: skip
    except ImportError as error:
        message, _, hint = str(error).partition(": ")
        raise failure(NO_PACKAGE, message, hint=hint) from None
    except ConnectionError as error:
        raise failure(UNSUITABLE, f"--ray-address {options.ray_address}: {error}") from None
    except RuntimeError as error:
        raise failure(UNSUITABLE, f"the workers did not start: {error}") from None
    return SUCCESS


def _loading(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `relax.llm.load` that the options of a server give."""
    tokens = options.cache_tokens or max(CACHE, options.context or 0)
    return {"max_sequences": options.max_sequences, "cache_tokens": tokens, "adapters": dict(options.adapter)}


def _serving(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `relax.llm.server.app` that options give."""
    return {
        "name": _names(options), "adapters": [name for name, _ in options.adapter],
        "embedding_name": options.embedding_name or _name(options.embedding or Path("embedding")),
        "api_keys": _keys(options.api_key), "cors": options.cors, "body_limit": options.body_limit << 20,
        "timeout": options.timeout, "reasoning": not options.no_reasoning,
    }  # fmt: skip


def _names(options: argparse.Namespace) -> list[str]:
    return options.name or [_name(options.model)]


def port(text: str) -> int:
    """Port number of a word of the command line."""
    number = int(text)
    if not 0 <= number < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text} is not a port, from 0 to 65535")
    return number


def adapter(text: str) -> tuple[str, str]:
    """Name and absolute path of an adapter, of a word of the command line."""
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{text} is not NAME=PATH")
    return name, str(Path(path).resolve())


def seconds(text: str) -> float:
    """Time, above 0, of a word of the command line."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return number


def _say(url: str, said: str) -> None:
    sys.stdout.write(f"serving {said}\n{url}/v1   Ctrl-C ends\n")
    sys.stdout.flush()


def _context(model: LanguageModel) -> str:
    return f"a context of {model.context} tokens"


def _name(path: Path) -> str:
    """Name of a model, by its file or folder."""
    resolved = path.resolve()
    return resolved.name.removesuffix(".gguf") or "model"


def _keys(given: Iterable[str] | None) -> tuple[str, ...]:
    """Return the keys of the command line, else that of the environment. An empty key is none."""
    keys = [os.environ.get(KEY, "")] if given is None else given
    return tuple(filter(None, keys))


def _listening(host: str, number: int) -> socket.socket:
    """Return a socket that listens. Raises DiagnosticError if the address is taken, or none of this computer."""
    try:
        return _running.listening(host, number)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "another server runs there; --port 0 takes any free port" if "in use" in reason else ""
        raise failure(UNSUITABLE, f"{host} port {number}: {reason}", hint=hint) from None


def _embedding(path: Path) -> Any:
    """Load the model of embeddings. Raises DiagnosticError if it cannot be read."""
    with Meter(f"loading {path.name}", None, Console(file=sys.stderr)):
        try:
            return load_embedding(path)
        except OSError as error:
            raise failure(UNREADABLE, f"{path} cannot be read: {error.strerror or error}") from None
        except ValueError as error:
            raise failure(UNREADABLE, f"{path} is not run: {error}") from None
