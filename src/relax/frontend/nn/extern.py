"""Modules of other code, whose functions the methods of a module call.

    kernels = nn.SourceModule(
        symbols={"scale": lambda x: nn.Tensor.placeholder(x.shape, "float32")},     the result's shape and dtype
        source_code=Path("scale.cc"), source_format="cpp",
    )
    y = kernels["scale"](x)             emits R.call_dps_packed("scale", (x,), …); y is its last argument

Functions are those of tvm-ffi (`TVM_FFI_DLL_EXPORT_TYPED_FUNC`), in a shared library that the executable holds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm_ffi import libinfo

from ...extern_modules import with_extern_modules
from ...ir import IRModule
from ...runtime.modules import Module
from .exporter import add_extern
from .op.kernels import extern

KIND = "shared_library"
"""Kind of the modules: the bytes of a shared library, which `relax.runtime.libraries.shared_library` loads."""


class ExternModule:
    """Functions of other code, by symbol.

    `symbols` has for each function one that is called with the arguments and returns the results as Tensors: their
    shapes and dtypes count. Subclasses say where the code is, by `load`.
    """

    def __init__(self, symbols: Mapping[str, Callable[..., Any]]) -> None:
        self.symbols = dict(symbols)

    def __getitem__(self, func_name: str) -> Callable[..., Any]:
        """Return a function of Tensors, sizes, numbers and strings. Raises KeyError for an unknown symbol."""
        if func_name not in self.symbols:
            raise KeyError(f"the module has no function {func_name!r}; it has {', '.join(self.symbols) or 'none'}")
        infer = self.symbols[func_name]

        def call(*args: Any) -> Any:
            add_extern(self)
            return extern(func_name, args, infer(*args))

        call.__name__ = func_name
        return call

    def load(self) -> Module:
        """Return the code, to be part of an executable."""
        raise NotImplementedError(f"{type(self).__name__} does not say where its code is (load)")


class ObjectModule(ExternModule):
    """Functions in a compiled file: a shared library, or an object file (.o), which a C++ compiler makes one.

    Raises FileNotFoundError if there is no such file.
    """

    def __init__(self, symbols: Mapping[str, Callable[..., Any]], filepath: str | os.PathLike[str]) -> None:
        super().__init__(symbols)
        self.filepath = Path(filepath)
        if not self.filepath.is_file():
            raise FileNotFoundError(f"there is no file {self.filepath}")

    def load(self) -> Module:
        """Return the code. Raises RuntimeError if an object file cannot be linked."""
        if self.filepath.suffix != ".o":
            return Module(KIND, self.filepath.read_bytes(), tuple(self.symbols))
        return Module(KIND, _linked([str(self.filepath)], [], None), tuple(self.symbols))


class SourceModule(ExternModule):
    """Functions in C or C++ source text, which a compiler of the system compiles when the module is loaded.

    `source_code` is the text, or a Path to it; `source_format` is "c" or "cpp". `compiler` is a command: by default
    that of the variable CXX, c++, g++ or clang++. Raises ValueError for another format.
    """

    def __init__(
        self,
        symbols: Mapping[str, Callable[..., Any]],
        source_code: str | Path,
        source_format: str,
        compile_options: Sequence[str] | None = None,
        compiler: str | None = None,
        output_format: str = "obj",
    ) -> None:
        super().__init__(symbols)
        if source_format not in ("c", "cpp"):
            raise ValueError(f'source_format must be "c" or "cpp", found {source_format!r}')
        if output_format != "obj":
            raise ValueError(f'output_format must be "obj", found {output_format!r}')
        self.source_code = source_code.read_text() if isinstance(source_code, Path) else source_code
        self.source_format, self.compiler = source_format, compiler
        options = self.get_compile_options(source_format) if compile_options is None else compile_options
        self.compile_options = [*options]

    @staticmethod
    def get_includes() -> list[Path]:
        """Return the folders of tvm-ffi's headers."""
        return _include_paths()

    @staticmethod
    def get_compile_options(source_format: str) -> list[str]:
        """Return the options of the compiler that are given where a module has none of its own."""
        return ["-O3", *(["-std=c++17"] if source_format == "cpp" else [])]

    def load(self) -> Module:
        """Return the compiled code. Raises RuntimeError if there is no compiler, and with its messages if it fails."""
        suffix = ".c" if self.source_format == "c" else ".cc"
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, f"source{suffix}")
            source.write_text(self.source_code)
            includes = [f"-I{path}" for path in _include_paths()]
            code = _linked([str(source)], [*includes, *self.compile_options], self.compiler)
        return Module(KIND, code, tuple(self.symbols))


def attach_extern_modules(mod: IRModule, modules: Sequence[ExternModule]) -> IRModule:
    """Return a program with the modules of other code that `export_tvm(..., allow_extern=True)` returned beside it."""
    return with_extern_modules(mod, [module.load() for module in modules])


def _include_paths() -> list[Path]:
    return [Path(path) for path in libinfo.include_paths()]


def _linked(files: Sequence[str], options: Sequence[str], compiler: str | None) -> bytes:
    """Return the shared library that a compiler makes of files. Raises RuntimeError as `SourceModule.load` does."""
    names = [compiler] if compiler else [os.environ.get("CXX", "c++"), "g++", "clang++"]
    command = next((found for name in names if name and (found := shutil.which(name))), None)
    if command is None:
        raise RuntimeError(f"no C++ compiler was found ({', '.join(map(str, names))}); set CXX, or pass compiler=")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "library.so")
        arguments = [command, "-shared", "-fPIC", *options, *files, "-o", str(output)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stderr.strip()}")
        return output.read_bytes()
