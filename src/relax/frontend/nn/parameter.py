"""Parameter: a Tensor that a module owns, whose data is given after the module was made, or never.

weight = Parameter((8, 4), "float32")
weight.data = np.zeros((8, 4), "float32")       checked at once
weight.data = lambda: file["weight"]            called and checked when the data is first read
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from ...expr import Var
from ...prim import IntImm, PrimExpr
from ...prim.expr import Var as PrimVar
from ...runtime import nd
from ...runtime.nd import NDArray
from ...struct_info import TensorStructInfo
from .tensor import DimLike, Tensor, dims_of, get_default_dtype

Data: TypeAlias = Any
"""Array with a shape and a dtype: an NDArray, a NumPy array, or a tensor that DLPack can share, such as torch's."""


class Parameter(Tensor):
    """Tensor that belongs to a module.

    Sizes may be names of shape variables; in an exported function, they are the variables of the same name in its
    spec. `attrs` holds anything that belongs to the parameter, such as how it is split over devices. Raises TypeError
    or ValueError for sizes and dtypes that no tensor has.
    """

    attrs: dict[str, Any]

    def __init__(self, shape: Sequence[DimLike], dtype: str | None = None) -> None:
        dims = dims_of(shape, {})
        super().__init__(_expr=Var("param", TensorStructInfo(dims, dtype or get_default_dtype())))
        self.attrs = {}
        self._data: NDArray | None = None
        self._source: Callable[[], Data] | None = None

    @property
    def data(self) -> NDArray | None:
        """Value of the parameter, None if it has none yet.

        May be set to an array, to None, or to a function without arguments that returns an array when the data is first
        read. Arrays that cannot be written to, such as views of a file, are copied then, too; others at once. Raises
        ValueError if the shape does not fit the parameter's, TypeError if the dtype does not.
        """
        if self._source is not None:
            found = self._source()
            self._check(found)
            self._data = self._converted(found)
            self._source = None
        return self._data

    @data.setter
    def data(self, data: Data | Callable[[], Data] | None) -> None:
        self._source = self._data = None
        if callable(data) and not hasattr(data, "shape"):
            self._source = data
        elif data is not None:
            array: Data = nd.array(data) if isinstance(data, (int, float)) else data
            self._check(array)
            if isinstance(array, np.ndarray) and not array.flags.writeable:
                self._source = lambda: cast(Any, array)
            else:
                self._data = self._converted(array)

    @property
    def has_data(self) -> bool:
        """True if the parameter has data, or a function that returns it."""
        return self._data is not None or self._source is not None

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of the parameter. Raises ValueError if it has data, which is not converted."""
        if dtype is None or dtype == self.dtype:
            return
        if self.has_data:
            raise ValueError(
                f"{self!r} has data, which to({dtype!r}) does not convert; call to() before the data is set"
            )
        self._expr = Var("param", TensorStructInfo(self._info.dims, dtype))

    def _check(self, data: Data) -> None:
        """Raise TypeError or ValueError unless data is what the parameter holds."""
        dtype = dtype_of(data)
        if dtype != self.dtype:
            raise TypeError(f"{self!r} cannot have data of dtype {dtype}; convert the data, or call to({dtype!r})")
        values: dict[PrimVar, int] = {}
        dims, sizes = self._info.dims or (), tuple(data.shape)
        fits = len(sizes) == len(dims) and all(map(lambda dim, size: _fits(dim, size, values), dims, sizes))
        if not fits:
            raise ValueError(f"{self!r} cannot have data of shape {[*sizes]}")

    def _converted(self, data: Data) -> NDArray:
        """Return checked data as the parameter holds it: torch's and other libraries' memory is shared."""
        if isinstance(data, NDArray):
            return data
        if isinstance(data, np.ndarray):
            return nd.array(cast(Any, data))
        return nd.from_dlpack(data.detach() if hasattr(data, "detach") else data)


def dtype_of(data: Data) -> str:
    """Return the dtype of an array or tensor of any library, the name of its class if it has none."""
    return str(getattr(data, "dtype", type(data).__name__)).removeprefix("torch.")


def _fits(dim: PrimExpr, size: int, values: dict[PrimVar, int]) -> bool:
    """True if a size is that of a dimension; a shape variable has one value in `values`."""
    if isinstance(dim, IntImm):
        return dim.value == size
    return not isinstance(dim, PrimVar) or values.setdefault(dim, size) == size
