"""Modules for libraries that read ONNX.

Their code is a line of JSON, then the model. The line is an object: ``inputs`` and ``outputs`` are lists of pairs, name
and dtype, in the order of the arguments; ``options`` are those of the library. With ``returns``, the function returns
its results, whose sizes only the library knows; else it writes them to its last arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np
import tvm_ffi

from ..dtypes import NUMPY_DTYPES, Array
from ..encoding import ExecutableError
from ..modules import Module
from ..nd import NDArray
from ..tensor import numpy_view, tensor_of_numpy

Port: TypeAlias = "tuple[str, str]"
"""Name and dtype of an input or output."""


class OnnxFunction:
    """The function of a module; a subclass says how a library runs the model.

    Raises ExecutableError for code of another form, and what the library raises for a model that it does not run.
    """

    dtypes: ClassVar[frozenset[str]] = frozenset()
    """Dtypes of arguments that the library takes."""

    def __init__(self, module: Module) -> None:
        if len(module.symbols) != 1:
            raise ExecutableError(f"an ONNX model is one function, and the module has {len(module.symbols)}")
        self.symbol = module.symbols[0]
        head, _, model = module.data.partition(b"\n")
        try:
            found: Any = json.loads(head)
            self.inputs = [self._port(pair) for pair in found["inputs"]]
            self.outputs = [self._port(pair) for pair in found["outputs"]]
            self.returns = bool(found.get("returns"))
            self.start(model, dict(found["options"]))
        except (ValueError, TypeError, KeyError) as error:
            problem = f"the first line of a module of kind {module.kind!r} does not describe its model"
            raise ExecutableError(f"{problem}: {type(error).__name__}: {error}") from error

    def _port(self, pair: Any) -> Port:
        name, dtype = pair
        if not isinstance(name, str) or dtype not in self.dtypes:
            raise ValueError(f"there is no input or output {pair!r}")
        return name, dtype

    @classmethod
    def load(cls, module: Module) -> dict[str, Callable[..., Any]]:
        """Load a module: a loader for `register_loader`."""
        return {module.symbols[0] if module.symbols else "": cls(module).run}

    def start(self, model: bytes, options: dict[str, Any]) -> None:
        """Let the library read the model. Raises ValueError for an option of another value."""
        raise NotImplementedError

    def compute(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run the model on row-major arrays, and write the outputs."""
        raise NotImplementedError

    def results(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the model on row-major arrays, and return the outputs."""
        raise NotImplementedError

    def run(self, *args: Any) -> Any:
        """Run the model on its inputs, followed by the outputs to be written unless it returns them."""
        given, count = _leaves(args), len(self.inputs)
        ports = self.inputs if self.returns else [*self.inputs, *self.outputs]
        if len(given) != len(ports):
            wanted = f"{count} inputs" + f" and {len(self.outputs)} outputs" * (not self.returns)
            raise TypeError(f"{self.symbol} takes {wanted}, found {len(given)} arguments")
        arrays = [_array(value, dtype) for value, (_, dtype) in zip(given, ports, strict=True)]
        for array, (name, dtype) in zip(arrays, ports, strict=True):
            if array.dtype.name != dtype:
                raise TypeError(f"{self.symbol}: {name} is of {dtype}, found {array.dtype.name}")
        inputs = [np.asarray(array, order="C") for array in arrays[:count]]
        if not self.returns:
            return self.compute(inputs, arrays[count:])
        results = tuple(NDArray(tensor_of_numpy(np.asarray(result, order="C"))) for result in self.results(inputs))
        return results[0] if len(results) == 1 else results


def _array(value: Any, dtype: str) -> Array:
    """Return an argument as an array; a shape is a vector, a number has the dtype of the input."""
    if isinstance(value, NDArray):
        return numpy_view(value.tensor)
    if isinstance(value, tvm_ffi.Shape):
        return np.array(tuple(value), np.int64)
    return np.array(value, NUMPY_DTYPES[dtype])


def _leaves(values: Sequence[Any]) -> list[Any]:
    """Return arguments with the fields of tuples in their places."""
    found: list[Any] = []
    for value in values:
        nested = isinstance(value, tuple | list | tvm_ffi.Array) and not isinstance(value, tvm_ffi.Shape)
        found += _leaves(cast("Sequence[Any]", value)) if nested else [value]
    return found
