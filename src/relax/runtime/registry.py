"""Packed functions of the process, by name.

The registry is tvm-ffi's own: what C++, Rust or another Python package registers there is found here, and
the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast, overload

import tvm_ffi

from .builtin_table import BUILTINS
from .carried import ffi_function
from .closure import Closure
from .names import LIBRARIES, library_of, split
from .nd import NDArray
from .tensor import tensor_of
from .values import PackedFunc, packed

_F = TypeVar("_F", bound=Callable[..., Any])


@overload
def register_func(func_name: str, f: None = None, override: bool = False) -> Callable[[_F], _F]: ...
@overload
def register_func(func_name: str, f: _F, override: bool = False) -> _F: ...
@overload
def register_func(func_name: _F, f: None = None, override: bool = False) -> _F: ...
def register_func(func_name: Any, f: Any = None, override: bool = False) -> Any:
    """Make a Python function callable by name from compiled programs, and from every tvm-ffi user.

        @relax.register_func("custom_tile")
        def tile(a, b):
            b[:] = np.tile(a.numpy(), (1, 2))

    Tensors arrive as ``relax.nd.NDArray``, tuples as tuples, functions as callables. What is returned may
    hold those, NumPy arrays or DLPack tensors.

    Parameters
    ----------
    func_name
        The name; a function by itself is registered under its own.
    f
        The function; without it, a decorator is returned.
    override
        True replaces a function of that name.

    Raises
    ------
    ValueError
        If the name is taken and not `override`.
    """
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)

    def register(function: Any) -> Any:
        if isinstance(function, PackedFunc):
            target = function.function
        elif isinstance(function, Closure):
            target = function.__tvm_ffi_object__()
        else:
            target = function if isinstance(function, tvm_ffi.Function) else packed(function)
        if not override and tvm_ffi.get_global_func(func_name, True) is not None:
            raise ValueError(f"a packed function {func_name!r} is already registered; override=True replaces it")
        tvm_ffi.register_global_func(func_name, target, override)
        return function

    return register if f is None else register(f)


@overload
def get_global_func(name: str, allow_missing: Literal[False] = False) -> PackedFunc: ...
@overload
def get_global_func(name: str, allow_missing: bool) -> PackedFunc | None: ...
def get_global_func(name: str, allow_missing: bool = False) -> PackedFunc | None:
    """The packed function registered under a name, callable with Python values.

    The machine's own functions (``vm.builtin.…``, ``relax.run.…``) are found as well.

    Parameters
    ----------
    name
        The name.
    allow_missing
        True gives None where there is none.

    Returns
    -------
    PackedFunc | None
        The function.

    Raises
    ------
    ValueError
        If there is none and not `allow_missing`.
    """
    function = find_packed(name)
    if function is None and name in BUILTINS:
        function = ffi_function(BUILTINS[name].function)
    if function is not None:
        return PackedFunc(function)
    if allow_missing:
        return None
    raise ValueError(f"no packed function {name!r} is registered")


Resolver: TypeAlias = "Callable[[str], Callable[..., Any] | None]"
"""Finds the function of a name, None if there is none."""

_resolvers: Final[dict[str, Resolver]] = {}


def register_resolver(prefix: str, resolve: Resolver) -> None:
    """Let names that begin with `prefix`, and are not registered, be those of functions that `resolve` finds.

    The functions are given NDArrays, tuples and callables, and may return those, or what DLPack describes.
    """
    _resolvers[prefix] = resolve


def find_packed(name: str) -> tvm_ffi.Function | None:
    """Return the packed function of a name: a registered one, else what a resolver finds; None if there is none.

    A name with a number of outputs (`names.with_outputs`) is that of a function which writes to its last arguments.
    """
    plain, outputs = split(name)
    function = tvm_ffi.get_global_func(plain, True)
    if function is not None:
        return function
    for prefix, resolve in _resolvers.items():
        found = resolve(plain) if plain.startswith(prefix) else None
        if found is not None:
            return packed(found if outputs is None else _writing(plain, found, outputs))
    return None


def _writing(name: str, function: Callable[..., Any], count: int) -> Callable[..., None]:
    """Return a function that writes the results of `function` to its last `count` arguments.

    It raises ValueError unless the results have the number, shapes and dtypes of these arguments.
    """

    def call(*args: Any) -> None:
        result = function(*args[: len(args) - count])
        results = list(cast("Sequence[Any]", result)) if isinstance(result, tuple | list) else [result]
        tensors = [NDArray(tensor) for value in results if (tensor := tensor_of(value)) is not None]
        if len(tensors) != count or len(results) != count:
            found = f"{len(results)} results, {len(tensors)} of them tensors"
            raise ValueError(f"{name}: expected {count} tensor{'s' * (count != 1)}, found {found}")
        for number, (tensor, output) in enumerate(zip(tensors, args[len(args) - count :], strict=True)):
            if (tensor.shape, tensor.dtype) != (output.shape, output.dtype):
                wanted, found = (f"shape {each.shape} and dtype {each.dtype}" for each in (output, tensor))
                raise ValueError(f"{name}: result {number}: expected {wanted}, found {found}")
            output.copyfrom(tensor)

    return call


def known_by(names: Sequence[str]) -> str:
    """Return what makes packed functions known that are not: a module to import for some, else `register_func`."""
    libraries = dict.fromkeys(library for name in names if (library := library_of(name)))
    modules = [LIBRARIES[library] for library in libraries if f"{library}." not in _resolvers]
    return f"importing {', '.join(modules)}" if modules else "relax.register_func"


def remove_global_func(name: str) -> None:
    """Forget the packed function of that name, if there is one."""
    if tvm_ffi.get_global_func(name, True) is not None:
        tvm_ffi.registry.remove_global_func(name)
