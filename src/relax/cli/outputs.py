"""Results of a run: summarised in a table, or saved to a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..runtime import NDArray, ShapeTuple
from .failures import UNSUITABLE, failure
from .tables import figure, text_table

Array = np.ndarray[Any, Any]


def parts_of(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Values of which a result consists, named by index: ``output[0]``, ``output[1][0]``."""
    if isinstance(value, tuple) and not isinstance(value, ShapeTuple):
        for index, field in enumerate(cast("tuple[Any, ...]", value)):
            yield from parts_of(field, f"{name}[{index}]")
    else:
        yield name, value


def named_parts(value: Any, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Values of which a result consists, under its output names if there is one for each."""
    outputs: tuple[Any, ...] = (value,)
    if isinstance(value, tuple) and len(names) != 1:
        outputs = cast("tuple[Any, ...]", value)
    if len(outputs) != len(names):
        yield from parts_of(value, "output")
        return
    for name, output in zip(names, outputs, strict=True):
        yield from parts_of(output, name)


def array_of(value: Any) -> Array | None:
    """Convert a value to an array, None if it has no such form."""
    if isinstance(value, NDArray):
        return cast("Array", value.numpy())
    if isinstance(value, np.ndarray):
        return cast("Array", value)
    if isinstance(value, bool | int | float | np.generic):
        return np.asarray(value)
    if isinstance(value, ShapeTuple):
        return np.array(tuple(cast("tuple[int, ...]", value)), "int64")
    return None


def summary(values: Sequence[tuple[str, Any, str]]) -> str:
    """Table of values with their names, and a last column of remarks."""
    rows = [[name, *_described(value), remark] for name, value, remark in values]
    header = ["name", "shape", "dtype", "min", "mean", "max", "nan", ""]
    if not any(remark for *_, remark in values):
        rows, header = [row[:-1] for row in rows], header[:-1]
    return text_table(header, rows, right={3, 4, 5, 6})


def _described(value: Any) -> list[str]:
    """Row of shape, dtype, minimum, mean, maximum and number of NaNs."""
    array = array_of(value)
    if array is None:
        return ["", type(value).__name__ if value is not None else "null", "", "", "", ""]
    shape = " x ".join(map(str, array.shape)) or "scalar"
    if not array.size:
        return [shape, str(array.dtype), "", "", "", ""]
    numbers = array.astype("float64")
    missing = np.isnan(numbers)
    shown = numbers[~missing]
    figures = [figure(number) for number in (shown.min(), shown.mean(), shown.max())] if shown.size else ["nan"] * 3
    return [shape, str(array.dtype), *figures, str(int(missing.sum()))]


def save(path: Path, values: Sequence[tuple[str, Any]]) -> None:
    """Write values to a .npz archive, or a single one to a .npy file."""
    arrays: dict[str, Array] = {}
    for name, value in values:
        array = array_of(value)
        if array is None:
            raise failure(UNSUITABLE, f"{name} cannot be saved: it is a {type(value).__name__}, not an array")
        arrays[name] = array
    if path.suffix == ".npy" and len(arrays) == 1:
        np.save(path, next(iter(arrays.values())), allow_pickle=False)
    elif path.suffix == ".npz":
        np.savez(path, **cast("Any", arrays))
    else:
        subject = "several outputs are" if path.suffix == ".npy" else "outputs are"
        raise failure(UNSUITABLE, f"cannot write {path}: {subject} saved to a .npz file")
