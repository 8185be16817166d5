"""Modules of other kinds than ours in an executable, such as a library's graph, found by kind in a table of loaders.

    register_loader("npu", load)                            load(module) -> {"f": function}, functions by symbol
    module = Module("npu", b"…", ("f",), {"f_const_0": tensor})
    module.functions()["f"](x, y)                           writes its output to y

A function takes arguments, and outputs to write, as NDArrays. It comes before a packed function of the process that has
its name. A loader is registered by the program or is named by an installed package: an entry point of the group
``relax.modules``, whose name is the kind.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final, TypeAlias

import tvm_ffi

from .encoding import ExecutableError, Pieces, Reader, Writer
from .format import Section, read_constant, write_constant
from .records import dataclass
from .tensor import tensor_of
from .values import packed

GROUP: Final = "relax.modules"
"""Entry-point group in which installed packages declare loaders, by kind."""
_LIBRARIES: Final = frozenset({"onnxruntime", "openblas", "openvino", "shared_library", "torch"})
"""Kinds whose loaders are `load` of a module in `relax.runtime.libraries`."""


@dataclass(frozen=True, eq=False)
class Module:
    """Code of one kind.

    Raises TypeError for data that are no bytes, and constants that are no tensors.
    """

    kind: str
    data: bytes
    symbols: tuple[str, ...]
    """Names of the functions that `data` defines."""
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Tensors by name; any array that DLPack describes is accepted."""

    def __post_init__(self) -> None:
        if not isinstance(self.data, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the data of a module must be bytes, not {type(self.data).__name__}")
        constants: dict[str, tvm_ffi.Tensor] = {}
        for name, value in self.constants.items():
            tensor = tensor_of(value)
            if tensor is None:
                raise TypeError(f"the constant {name!r} of a module must be a tensor, not {type(value).__name__}")
            constants[name] = tensor
        object.__setattr__(self, "symbols", tuple(self.symbols))
        object.__setattr__(self, "constants", constants)

    def functions(self) -> dict[str, tvm_ffi.Function]:
        """Load the module, and return its functions by symbol.

        Raises ExecutableError if no loader of the kind is known, if a library is not installed that it needs, and if
        the loader fails or knows less functions than the module.
        """
        try:
            functions = dict(_loader(self.kind)(self))
        except ExecutableError:
            raise
        except ImportError as error:
            raise ExecutableError(f"{self._described()}: {error}") from error
        except Exception as error:
            raise ExecutableError(f"{self._described()}: {type(error).__name__}: {error}") from error
        missing = [symbol for symbol in self.symbols if symbol not in functions]
        if missing:
            raise ExecutableError(f"{self._described()}: its loader returned no function {', '.join(missing)}")
        return {
            symbol: function if isinstance(function, tvm_ffi.Function) else packed(function)
            for symbol, function in ((symbol, functions[symbol]) for symbol in self.symbols)
        }

    def _described(self) -> str:
        return f"cannot load the module of kind {self.kind!r} with the functions {', '.join(self.symbols) or 'none'}"


Loader: TypeAlias = "Callable[[Module], Mapping[str, Callable[..., Any]]]"
"""Makes the functions of a module, by symbol. ImportError says which library to install."""

_loaders: Final[dict[str, Loader]] = {}


def register_loader(kind: str, loader: Loader, *, override: bool = False) -> Loader:
    """Register the loader of a kind of modules, and return it. Raises ValueError if the kind has one already."""
    if kind in _loaders and not override:
        raise ValueError(f"modules of kind {kind!r} have a loader already; override=True replaces it")
    _loaders[kind] = loader
    return loader


def _loader(kind: str) -> Loader:
    loader = _loaders.get(kind)
    if loader is not None:
        return loader
    if kind in _LIBRARIES:
        return _loaders.setdefault(kind, importlib.import_module(f"{__package__}.libraries.{kind}").load)
    for entry in importlib.metadata.entry_points(group=GROUP, name=kind):
        return _loaders.setdefault(kind, entry.load())
    raise ExecutableError(
        f"no loader of modules of kind {kind!r} is known; install the package that has it, or register one: "
        f"relax.runtime.modules.register_loader({kind!r}, …)"
    )


def required(module: str, package: str) -> Any:
    """Import a module of a library. Raises ImportError that names the package to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"it needs the library {module}: pip install {package} ({error})") from error


def functions_of(modules: tuple[Module, ...]) -> dict[str, tvm_ffi.Function]:
    """Load modules, and return their functions by symbol. Raises ExecutableError, also for a symbol that two have."""
    functions: dict[str, tvm_ffi.Function] = {}
    for module in modules:
        for symbol, function in module.functions().items():
            if symbol in functions:
                raise ExecutableError(f"two modules have a function {symbol}")
            functions[symbol] = function
    return functions


def write_modules(w: Writer, data: Pieces, modules: tuple[Module, ...]) -> None:
    """Append modules to a section; tensors' elements and code go to `data`."""
    w.uint(len(modules))
    for module in modules:
        w.text(module.kind)
        w.uint(len(module.data))
        w.uint(data.length)
        data.add(module.data)
        w.uint(len(module.symbols))
        for symbol in module.symbols:
            w.text(symbol)
        w.uint(len(module.constants))
        for name, value in module.constants.items():
            w.text(name)
            write_constant(w, data, value)


def read_modules(r: Reader, data: Section) -> tuple[Module, ...]:
    """Read modules from a section. Raises ExecutableError for what is malformed."""
    return r.many(lambda r: _read_module(r, data))


def _read_module(r: Reader, data: Section) -> Module:
    kind, size, offset = r.text(), r.uint(), r.uint()
    if offset > data.size or size > data.size - offset:
        raise r.fail(f"the code of a module of kind {kind!r} lies outside of the section DATA")
    data.file.seek(data.offset + offset)
    code = data.file.read(size)
    if len(code) != size:
        raise r.fail("the file is truncated")
    symbols = r.many(Reader.text)
    constants: dict[str, tvm_ffi.Tensor] = {}
    for _ in range(r.count()):
        name = r.text()
        value = read_constant(r, data)
        if not isinstance(value, tvm_ffi.Tensor):
            raise r.fail(f"the constant {name!r} of a module is no tensor")
        constants[name] = value
    return Module(kind, code, symbols, constants)
