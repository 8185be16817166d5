"""Cached answers of LLVM about machines, so that a build that finds its program in the cache does not load LLVM.

Loading LLVM takes 50 ms and 50 MB, and compiling anything 30 MB more. Its answers depend on the library; those about
this machine also on the system's description of the processor:

    key     the query, llvmlite's library file (size and time), its version, the files that query it;
            for this machine: the system, the processor's description
    note    the answer, as JSON

Answers about this machine are cached on Linux only, which describes processors in a file. On other systems, and with
the cache disabled, each process queries LLVM.
"""

from __future__ import annotations

import importlib.util
import json
import platform
import sys
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from ..runtime.cpu_features import grants_tiles
from ..target import isa
from ..target.isa import isa_of
from . import cache
from .store import digest
from .worker import llvm

_ASKING: Final = ("host.py", "llvm_queries.py", "worker.py")
"""Files, beside those of `isa`, that determine the queries and the use of the answers."""

_CHANGING: Final = frozenset(
    {"processor", "cpu MHz", "bogomips", "BogoMIPS", "physical id", "siblings", "core id", "cpu cores", "apicid"}
    | {"initial apicid"}
)
"""Lines of a processor's description that identify it among others or show its present speed."""


class HostFacts(NamedTuple):
    """Facts about this machine and LLVM."""

    triple: str
    """The triple of this process."""
    cpu: str
    """Name of this CPU in LLVM."""
    features: str
    """Features of this CPU as LLVM text, including those switched off by the system or a hypervisor."""
    llvm_version: str


@lru_cache(maxsize=1)
def host_facts() -> HostFacts:
    """Facts about this machine, from the cache or from LLVM."""
    processor = _processor()
    key = None if processor is None else question("host", processor, *platform.uname(), str(grants_tiles()))
    kept = answered(key)
    if isinstance(kept, list) and len(cast("list[Any]", kept)) == len(HostFacts._fields):
        return HostFacts(*map(str, cast("list[Any]", kept)))
    facts = HostFacts(
        str(llvm.get_process_triple()),
        str(llvm.get_host_cpu_name()),
        _features(),
        ".".join(map(str, llvm.llvm_version_info)),
    )
    answer(key, facts)
    return facts


def question(*words: str) -> cache.Key | None:
    """Cache key of a query to LLVM; None if LLVM's version cannot be identified."""
    asking = _asking()
    return None if asking is None else cache.key_of("\n".join(words), "LLVM says", asking, kind=cache.ANSWER)


def answered(key: cache.Key | None) -> Any:
    """Cached answer; None if there is none."""
    data = None if key is None else cache.noted(key)
    try:
        return None if data is None else json.loads(data)
    except ValueError:  # a note of some other form
        return None


def answer(key: cache.Key | None, value: Any) -> None:
    """Cache an answer, which must be JSON-serialisable."""
    if key is not None:
        cache.note_beside(key, json.dumps(value).encode())


@lru_cache(maxsize=1)
def _asking() -> str | None:
    """LLVM library and contents of the files that query it, as text; None if they cannot be read."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return None
    libraries = sorted((Path(spec.origin).parent / "binding").glob("*llvmlite.*"))
    try:
        files = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in libraries]
        paths = [Path(__file__).with_name(name) for name in _ASKING]
        asking = [path.read_bytes() for path in (*paths, *sorted(Path(isa.__file__).parent.glob("*.py")))]
    except OSError:
        return None
    code = digest([b"\0".join(asking)], 16).hex()
    return "\n".join([*files, version("llvmlite"), code]) if files else None


def _processor() -> str | None:
    """Linux's description of the first processor; None on other systems."""
    if sys.platform != "linux":
        return None
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    lines = text.partition("\n\n")[0].splitlines()
    return "\n".join(line for line in lines if line.partition("\t")[0] not in _CHANGING)


def _features() -> str:
    try:
        features = str(llvm.get_host_cpu_features().flatten())
        tiles = isa_of(str(llvm.get_process_triple())).tiles
        if tiles is None or f"+{tiles.prefix}" not in features or grants_tiles():
            return features
        return features.replace(f"+{tiles.prefix}", f"-{tiles.prefix}")
    except RuntimeError:  # LLVM does not know how to ask on this system: the processor's name has to do
        return ""
