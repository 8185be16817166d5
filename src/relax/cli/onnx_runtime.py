"""ONNX Runtime as an optional engine for comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..frontend.given import array_of
from ..runtime import NDArray
from .failures import UNSUITABLE, failure, installed_package, optional_package
from .onnx_models import variable_name

NAME: Final = "onnxruntime"

_DTYPES: Final[Mapping[str, str]] = {"float": "float32", "double": "float64"}
"""Dtypes that ONNX Runtime calls otherwise."""

_ERRORS_ONLY: Final = 3
"""ONNX Runtime's log level that suppresses warnings."""


def is_installed() -> bool:
    """True if ONNX Runtime is installed."""
    return installed_package(NAME) is not None


class OnnxRuntime:
    """An ONNX Runtime session for one model, callable like a function of the compiled program."""

    def __init__(self, path: Path, fixed: Mapping[str, Any], extra_outputs: Sequence[str] = ()) -> None:
        """Load a model; `fixed` are values of inputs that calls leave out, `extra_outputs` inner values to return after
        the model's own outputs."""
        if path.suffix != ".onnx":
            raise failure(UNSUITABLE, f"ONNX Runtime runs .onnx files, not {path}")
        self._package = optional_package(NAME, NAME, "comparing with ONNX Runtime")
        options = self._package.SessionOptions()
        options.log_severity_level = _ERRORS_ONLY
        providers = ["CPUExecutionProvider"]
        source = _with_outputs(path, extra_outputs) if extra_outputs else str(path)
        try:
            self._session = self._package.InferenceSession(source, options, providers=providers)
        except Exception as error:  # noqa: BLE001 (its errors have no class of their own)
            raise failure(UNSUITABLE, f"ONNX Runtime cannot load {path}: {_first_line(error)}") from None
        self._fixed: dict[str, Any] = {}
        for entry in [*self._session.get_inputs(), *self._session.get_overridable_initializers()]:
            if entry.name in fixed:
                word = str(entry.type).removeprefix("tensor(").removesuffix(")")
                self._fixed[entry.name] = array_of(fixed[entry.name], _DTYPES.get(word, word))
        self._names: list[str] = [entry.name for entry in self._session.get_inputs() if entry.name not in fixed]

    def feeds(self, values: Sequence[Any]) -> Mapping[str, Any]:
        """Inputs by name, for ONNX Runtime."""
        if len(values) != len(self._names):
            raise failure(UNSUITABLE, f"ONNX Runtime takes {len(self._names)} inputs, the program {len(values)}")
        return self._fixed | {name: _array(value) for name, value in zip(self._names, values, strict=True)}

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs, in order."""
        return list(self._session.run(None, feeds))

    def __call__(self, *values: Any) -> Any:
        outputs = self.run(self.feeds(values))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _array(value: Any) -> Any:
    return value.numpy() if isinstance(value, NDArray) else np.asarray(value)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def inner_values(path: Path) -> dict[str, str]:
    """Values that a model's nodes compute, except its outputs, under the names of their variables."""
    model = _model(path)
    outputs = {output.name for output in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name and name not in outputs]
    return {variable_name(name): name for name in names}


def rounded_otherwise(path: Path, fixed: Mapping[str, Any], values: Sequence[Any]) -> list[str]:
    """Sentences on the Resize nodes of a model whose sizes ONNX Runtime rounds otherwise than the standard's reference.

    ONNX Runtime multiplies a size and its scale in float32 before it rounds down: 10 × 2.3 is 23, and not 22.
    """
    onnx = optional_package("onnx", "relax[onnx]", "looking inside an ONNX model")
    model = _model(path)
    nodes = [node for node in model.graph.node if _scales_of(node)]
    outputs = {output.name for output in model.graph.output}
    computed = {name for node in model.graph.node for name in node.output}
    used = dict.fromkeys(name for node in nodes for name in (node.input[0], _scales_of(node), node.output[0]))
    inner = [name for name in used if name in computed and name not in outputs]
    session = OnnxRuntime(path, fixed, inner)
    feeds = session.feeds(values)
    known = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    known |= feeds
    known |= zip([*(output.name for output in model.graph.output), *inner], session.run(feeds), strict=True)
    return [sentence for node in nodes for sentence in _rounded_sizes(node, known)]


def _scales_of(node: Any) -> str:
    """Name of the scales of a node that resizes; empty for other nodes and for sizes."""
    if node.op_type not in ("Resize", "Upsample"):
        return ""
    place = 2 if len(node.input) > 2 else 1
    return node.input[place] if place < len(node.input) else ""


def _rounded_sizes(node: Any, known: Mapping[str, Any]) -> list[str]:
    """Sentences on the sizes of the result of one Resize that differ by the rounding of size × scale."""
    shape: tuple[int, ...] = known[node.input[0]].shape
    result: tuple[int, ...] = known[node.output[0]].shape
    scales: list[float] = known[_scales_of(node)].tolist()
    axes: list[int] = next((list(a.ints) for a in node.attribute if a.name == "axes"), list(range(len(shape))))
    single: Any = np.float32
    sentences: list[str] = []
    for axis, scale in zip(axes, scales, strict=False):
        expected = int(shape[axis] * scale)
        if result[axis] != expected and result[axis] == int(single(shape[axis]) * single(scale)):
            sentences.append(
                f"{node.op_type} {node.name or node.output[0]!r} has {result[axis]} elements in dimension {axis} "
                f"in ONNX Runtime, which rounds {shape[axis]} * {scale:g} in float32; they are {expected} by the "
                "standard's reference"
            )
    return sentences


def _model(path: Path) -> Any:
    return optional_package("onnx", "relax[onnx]", "looking inside an ONNX model").load(str(path))


def _with_outputs(path: Path, names: Sequence[str]) -> bytes:
    """Serialised model with additional outputs."""
    onnx = optional_package("onnx", "relax[onnx]", "looking inside an ONNX model")
    model = _model(path)
    model.graph.output.extend([onnx.ValueInfoProto(name=name) for name in names])
    return model.SerializeToString()
