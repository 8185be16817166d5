"""Cache of built programs, keyed by everything that determines the result of a build.

Building a model again takes seconds even if all its kernels are cached: graph passes, the choice of schedules,
constants. Therefore the kernel cache (`relax.farm.cache`) holds whole programs as well:

    key     digest of the module (names, spans and elements of constants included) and of everything else that
            determines the program: target, options, pipeline, PassContext, the compiler's files, versions
    note    digest of the executable's file, the constants that are not in it, the passes that ran
    file    the executable, as written by `Executable.save`, without constants that the module has in memory; at tier
            "now" also without those that it has in files

A program that the key cannot describe is built each time: with a user-defined pipeline, instruments that observe
passes, or operators or operator attributes registered elsewhere. A build that emitted a warning is not cached, so that
the warning is repeated.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import tvm_ffi

from ..expr import Constant, Var
from ..farm import background_writes, cache
from ..farm.host import executes, loads
from ..farm.store import environment_of
from ..farm.tuning_records import Consulted, current_database, database_in_use
from ..farm.versions import compiler_files, compiler_version, target_words, unedited
from ..ir import IRModule, Node, Op, StoredArray, program_digest, walk
from ..ir.diagnostics import warning_count
from ..ir.transform import PassContext
from ..runtime import Executable
from ..runtime.cpu_features import missing_features
from ..runtime.encoding import ExecutableError
from ..runtime.files import in_threads
from ..runtime.format import stated_digest
from ..runtime.mapping import mapped
from ..runtime.records import dataclass
from ..struct_info import DEFAULT_DERIVATION, FuncStructInfo
from ..target import Target
from ..transform.built_in import BUILT_IN

_HIGHER: Final = frozenset({"__pycache__", "cli", "explanation", "frontend", "relay", "testing", "training"})
"""Packages that `build` does not use."""

_LARGE: Final = 1 << 16
"""Size in bytes from which a constant is hashed by several threads and shared with the module."""

_LATER: Final = 16 << 20
"""Size in bytes from which a file is written in the background.

Its checksum is computed before: a constant modified in the meantime makes the file invalid.
"""

_WRONG: Final = (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError)
"""Errors of reading a note in another format, or a damaged file."""

NOW: Final = "now"
"""Mode of a program of tier "now", which is bytecode."""
_MODES: Final = ("bytecode", "compiled", NOW)

_THREADS: Final = 4
_HEAD: Final = 64

Content: TypeAlias = "np.ndarray[Any, Any] | StoredArray"
_Place: TypeAlias = tuple[int, tuple[int, ...], str]


class NotDescribed(Exception):
    """Raised for a program that cannot be described by a key."""


@dataclass
class ProgramMemory:
    """Key of a program to be built; `load` finds it in the cache, and `keep` stores it."""

    name: str
    key: cache.Key
    constants: dict[str, Constant]
    """Large constants of the module by digest."""
    leaves_files: bool = False
    """True if the program's file does not repeat constants that the module has in files, but they are read again.

    So a program of tier "now" is kept in no time; others are mapped when they are found, which takes less than reading.
    """
    consulted: Consulted = field(default_factory=Consulted)
    """Questions that the build asks of the database of tuning records."""
    warnings: int = field(default_factory=warning_count)
    """Number of warnings emitted before the build."""

    def load(self) -> Executable | None:
        """Cached program; None if there is none or it fails its checks."""
        background_writes.wait_for(self.key)  # it may have been built a moment ago
        try:
            executable, reason = self._load()
        except _WRONG:
            executable, reason = None, "its entry is corrupted"
        if executable is None:
            cache.program_missed(self.name, reason)
        else:
            cache.program_found(self.name)
        return executable

    def _load(self) -> tuple[Executable | None, str]:
        data = cache.noted(self.key)
        if data is None:
            stored = cache.was_stored_elsewhere(self.key)
            elsewhere = "it was built for another target, with other options or by another version"
            return None, elsewhere if stored else "this program was not built before"
        note = json.loads(data)
        if not Consulted.still_holds(note["records"], current_database()):
            return None, "tuning has found other schedules since"
        digest = bytes.fromhex(note["file"])
        constants = {int(index): self.constants[text] for index, text in note["constants"].items()}
        trace = [str(name) for name in note["passes"]]
        file = cache.open_program(digest)
        if file is None:
            return None, "its file is not there any more"
        with file:
            if stated_digest(file.read(_HEAD)) != digest:
                raise ValueError("the file of another program")
            try:
                executable = Executable.read(file, self.name, mapped(file))
            except ExecutableError:
                cache.remove_program(digest)
                raise
        shared = in_threads(lambda constant: constant.tensor, list(constants.values()))
        for index, tensor in zip(constants, shared, strict=True):
            executable.constants[index] = tensor
        context = PassContext.current()
        if context.depth == 0:
            context.trace[:] = trace
        return executable, ""

    def keep(self, executable: Executable) -> None:
        """Store a built program in the cache; errors only mean that it is not cached."""
        if warning_count() > self.warnings:
            return
        if not unedited(_rooms()):
            cache.say("program %s is not kept: the compiler's files were edited meanwhile", self.name)
            return
        try:
            shared = self._shared(executable.constants)
            program = executable.program
            values = [None if i in shared else value for i, value in enumerate(program.constants)]
            small = Executable(
                replace(program, constants=values),
                executable.native,
                executable.triple,
                executable.features,
                executable.modules,
            )
            small.debug = executable.debug
            pieces = small.pieces()
        except ExecutableError as problem:  # a constant that no file holds
            cache.say("program %s is not kept: %s", self.name, problem)
            return
        digest = stated_digest(pieces[0])
        note = {"file": digest.hex(), "constants": shared, "passes": PassContext.current().trace}
        note["records"] = self.consulted.as_json()

        def write() -> None:
            if cache.store_program(digest, pieces):
                cache.note(self.key, json.dumps(note).encode())

        if sum(map(len, pieces)) < _LATER:
            write()
        else:
            background_writes.do_later(self.key, write)

    def _shared(self, values: Sequence[Any]) -> dict[int, str]:
        """Constants of a program, by index, that share memory with the module's constants.

        Constants that the module has in a file are among them if `leaves_files`.
        """
        texts: dict[_Place, str] = {}
        for text, constant in self.constants.items():
            content = constant.content
            if not isinstance(content, StoredArray):
                texts[_location(content)] = text
            elif self.leaves_files and content.loaded is not None:
                texts[content.loaded.data_ptr(), content.shape, content.dtype.name] = text
        shared: dict[int, str] = {}
        for index, value in enumerate(values):
            if isinstance(value, tvm_ffi.Tensor):
                location = value.data_ptr(), tuple(value.shape), str(value.dtype)
                if location in texts:
                    shared[index] = texts[location]
        return shared


def recall_program(mod: IRModule, target: Target, pipeline: object, exec_mode: str) -> ProgramMemory | None:
    """Key of a program to be built for a resolved target; None if no key can describe it.

    `exec_mode` is one of `build`, or `NOW`.
    """
    if not cache.keeps_programs():
        return None
    name = ", ".join(g.name_hint for g in mod.functions)
    name = name if len(name) < 80 else f"{name[:77]}..."
    try:
        environment = _environment(target, pipeline, exec_mode)
        arrays = _described(mod)
        whole, digests = _digests(mod, arrays)
    except (NotDescribed, TypeError, ValueError, OSError, RuntimeError, MemoryError) as problem:
        cache.program_missed(name, f"it cannot be described: {problem}")
        return None
    constants = {digests[_location(c.content)].hex(): c for c in arrays}
    key = cache.key_of(whole.hex(), "program", *environment, kind=cache.BUILD)
    return ProgramMemory(name, key, constants, leaves_files=exec_mode == NOW)


def program_environments(target: Target) -> set[str]:
    """Environments in the keys of programs that are built for a resolved target with the default pipeline.

    Empty if no program for the target is cached.
    """
    try:
        return {environment_of("program", *_environment(target, "default", mode)) for mode in _MODES}
    except NotDescribed:
        return set()


def _environment(target: Target, pipeline: object, exec_mode: str) -> tuple[str, ...]:
    """Return everything besides the module that determines the result of a build."""
    if pipeline is not None and not (isinstance(pipeline, str) and pipeline in BUILT_IN):
        raise NotDescribed("its pipeline is not one of relax's own")
    features = [word[1:] for word in target.features.split(",") if word.startswith("+")]
    if not loads(target) or missing_features(features):
        raise NotDescribed("it is not for this machine")
    context = PassContext.current()
    if any(instrument.needs_passes for instrument in context.instruments):
        raise NotDescribed("instruments look on while it is built")
    if not all(isinstance(value, str | int | float | None) for value in context.config.values()):
        raise NotDescribed("the PassContext has a value in its configuration that is no number and no text")
    files = compiler_files(_rooms())
    if files is None:
        raise NotDescribed("the compiler's files were edited since they were loaded")
    options = (context.opt_level, context.required_pass, context.disabled_pass, sorted(context.config.items()))
    versions = [platform.python_version(), *map(version, ("numpy", "ml_dtypes", "apache-tvm-ffi"))]
    return (
        files,
        compiler_version(),
        " ".join(versions),
        target_words(target),
        repr(options),
        f"{pipeline!s} {exec_mode} {executes(target)} {_flushes_denormals()}",
        *([f"tuning records {records}"] if (records := database_in_use()) else []),
    )


def _rooms() -> tuple[str, ...]:
    """Return the package's files that determine the result of a build."""
    names = (path.name for path in Path(__file__).parent.parent.iterdir() if path.is_dir() or path.suffix == ".py")
    return tuple(sorted(name for name in names if name not in _HIGHER))


def _flushes_denormals() -> bool:
    """True if this thread, which folds constants, flushes subnormal numbers to zero."""
    return bool(np.multiply(np.finfo("float32").tiny, np.float32(0.5)) == 0)


def _described(mod: IRModule) -> list[Constant]:
    """Large constants of a module. Raises NotDescribed if it refers to objects defined outside of relax."""
    large: list[Constant] = []
    size = 0
    checked: set[type[Node]] = set()
    infos: set[int] = set()
    operators = {name for name in Op.list_loaded_names() if name.startswith("relax.") and _is_own_operator(name)}

    def see(node: Node) -> None:
        nonlocal size
        if type(node) not in checked:
            checked.add(type(node))
            if not _is_own(type(node)):
                raise NotDescribed(f"{type(node).__name__} is no class of relax")
        if isinstance(node, Constant):
            size += node.content.nbytes
            if node.content.nbytes >= _LARGE:
                large.append(node)
        elif isinstance(node, Op):
            operators.add(node.name)
        elif isinstance(node, FuncStructInfo) and node.derive_func not in (None, DEFAULT_DERIVATION):
            raise NotDescribed(f"{node.derive_func} may derive anything")
        elif isinstance(node, Var) and id(node.struct_info_) not in infos:  # a label, which `walk` passes over
            infos.add(id(node.struct_info_))
            if node.struct_info_ is not None:
                walk(node.struct_info_, see)

    walk(mod, see)
    for name in operators:  # relax's own may come in by passes
        if not all(map(_is_own, Op.get(name).facts().values())):
            raise NotDescribed(f"something was registered for operator {name}")
    if size > cache.program_limit():
        raise NotDescribed(f"its constants take {size} bytes, and there is room for {cache.program_limit()}")
    return large


def _is_own_operator(name: str) -> bool:
    """True for an operator of this package, which a pass may introduce into a program."""
    return _is_own(Op.get(name).facts().get("operator_class"))


def _is_own(value: object) -> bool:
    """True for classes and functions of this package, objects of such classes, and plain data."""
    module: object = getattr(value, "__module__", None)
    if not isinstance(module, str):
        module = type(value).__module__
    return module.partition(".")[0] in ("relax", "builtins", "numpy")


def _digests(mod: IRModule, constants: Sequence[Constant]) -> tuple[bytes, dict[_Place, bytes]]:
    """Digest of a module, and digests of its large constants by location of their elements."""
    contents = {_location(constant.content): constant.content for constant in constants}
    arrays = sorted(contents.values(), key=lambda content: -content.nbytes)
    if not arrays:
        return program_digest(mod, _digest_of), {}
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:  # they hash while it is walked
        futures = {_location(array): pool.submit(_digest_of, array) for array in arrays}

        def cached_digest(array: Content) -> bytes:
            future = futures.get(_location(array))
            return _digest_of(array) if future is None else future.result()

        whole = program_digest(mod, cached_digest)
        return whole, {location: future.result() for location, future in futures.items()}


def _digest_of(array: Content) -> bytes:
    """Digest of an array's dtype, shape and elements."""
    digest = hashlib.sha256(f"{array.dtype.name} {array.shape}\n".encode())
    if isinstance(array, StoredArray):
        digest.update(array.digest())
    else:
        plain: Any = np.ascontiguousarray(np.asarray(array))
        digest.update(hashlib.sha256(plain.reshape(-1).view(np.uint8)).digest())
    return digest.digest()


def _location(array: Content) -> _Place:
    """Location of an array: (address of the elements or identity of the stored array, shape, dtype name)."""
    address = id(array) if isinstance(array, StoredArray) else array.ctypes.data
    return address, array.shape, array.dtype.name
