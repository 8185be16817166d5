"""Weights of a model from a checkpoint: each layer takes the form in which its weights are stored.

    parts = WeightPacker(checkpoint, target).parts(model)      the arrays of the model's parameters, in order

Rows of a block format become panels for the kernels of a target; formats that differ between the matrices of one layer
become several matrices. Other weights, and all of them where activations are not to be rounded, become numbers of
float32.
"""

# NumPy's stubs leave the type of T partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ..farm.packed_weights import Part
from ..frontend import nn
from ..frontend.tensor_files import PLAIN, TensorInfo
from ..schedules.cpu.products.block_product import packed_for
from ..target import Target
from ..topi.block_formats import block_format
from ..topi.packed_blocks import PackedBlocks
from ..transform.quantize_rows import quantize_rows
from .checkpoint import IGNORED, LONG_ROTATIONS, ROTATIONS, Checkpoint
from .experts import ExpertLinear, ExpertMatrices
from .layers import Embedding, Linear, Matrix, RMSNorm

Array: TypeAlias = "NDArray[Any]"
Activations: TypeAlias = Literal["int8", "float32"]


class _Stored(NamedTuple):
    """Tensors of a checkpoint with a matrix of each expert: one for each, or one for all of them."""

    names: tuple[str, ...]
    rows: int
    is_one: bool


class WeightPacker:
    """Chooses the form of each weight of a model, and packs it when the arrays are made.

    `dtype` None keeps weights as they are stored; a block format, such as ``q4_k``, rounds matrices of numbers to it.
    With `activations` "float32", weights of block formats become numbers.
    """

    def __init__(
        self, checkpoint: Checkpoint, target: Target, dtype: str | None = None, activations: Activations = "int8"
    ) -> None:
        self.checkpoint, self.target = checkpoint, target
        self.rounds_to = None if dtype in (None, "float32") else dtype
        if self.rounds_to is not None and block_format(self.rounds_to) is None:
            raise ValueError(f"weights of dtype {dtype!r} are not made; there are float32, q8_0, q4_0, q4_k and others")
        if activations not in ("int8", "float32"):
            raise ValueError(f"activations are int8 or float32, not {activations!r}")
        self.is_packed = activations == "int8" and dtype != "float32"
        self._makers: dict[int, tuple[str, Callable[[], Array]]] = {}
        """The way the array of a parameter is made, in words and as a function, by the identity of the parameter."""
        self._used: set[str] = set()
        """Names of weights that a parameter takes."""

    def parts(self, model: nn.Module) -> list[Part]:
        """Let the layers of a model take their forms; return the arrays of its parameters, in order.

        Raises KeyError for weights that the checkpoint lacks, ValueError for those of another shape, and for weights of
        the checkpoint that no parameter takes: without them the model would compute something else.
        """
        for path, layer in list(model.named_modules()):  # a list: layers get new matrices
            match layer:
                case Linear():
                    self._linear(layer, path)
                case ExpertLinear():
                    self._experts(layer, path)
                case Embedding():
                    self._embedding(layer, path)
                case RMSNorm():
                    self._norm(layer, path)
                case _:
                    pass
        parts = [self._part(name, parameter) for name, parameter in model.named_parameters()]
        known = self._used.union((ROTATIONS, *LONG_ROTATIONS))
        unused = [name for name in self.checkpoint.names if name not in known and not IGNORED.fullmatch(name)]
        if unused:
            shown = ", ".join(unused[:3]) + (f" and {len(unused) - 3} more" if len(unused) > 3 else "")
            kind = self.checkpoint.model_type
            raise ValueError(f"{kind} models have no place for weights of the checkpoint: {shown}")
        return parts

    # ------------------------------------------------------------------------------------ layers

    def _linear(self, layer: Linear, path: str) -> None:
        above, _, _ = path.rpartition(".")
        names = [f"{above}.{name}" if above else name for name in layer.names] or [path]
        sizes = layer.sizes if len(names) == len(layer.sizes) else (layer.out_features,)
        runs: list[tuple[PackedBlocks | None, list[str], int]] = []
        for name, size in zip(names, sizes, strict=True):
            packed = self._checked_matrix(f"{name}.weight", size, layer.in_features, layer.transposed, layer.exact)
            if runs and runs[-1][0] == packed:
                runs[-1] = packed, [*runs[-1][1], name], runs[-1][2] + size
            else:
                runs.append((packed, [name], size))
        matrices: list[Matrix] = []
        for packed, joined, size in runs:
            matrix = Matrix(layer.in_features, size, packed)
            self._matrix(matrix, [f"{name}.weight" for name in joined], layer.transposed)
            matrices.append(matrix)
        layer.matrices = nn.ModuleList(cast(Any, matrices))
        if layer.bias is not None:
            biases = [
                (name if has_bias else None, size)
                for name, size, has_bias in zip(names, sizes, layer.biased, strict=True)
            ]
            for name, size in biases:
                if name is not None:
                    self._check(f"{name}.bias", (size,))
            self._makers[id(layer.bias)] = f"{biases} bias", partial(self._biases, biases)

    def _experts(self, layer: ExpertLinear, path: str) -> None:
        runs: list[tuple[PackedBlocks | None, list[_Stored]]] = []
        for stored in self._stored_experts(layer, path):
            packed = self._form_of_experts(layer, stored)
            if runs and runs[-1][0] == packed:
                runs[-1][1].append(stored)
            else:
                runs.append((packed, [stored]))
        matrices: list[ExpertMatrices] = []
        for packed, joined in runs:
            rows = sum(stored.rows for stored in joined)
            matrices.append(ExpertMatrices(layer.count, layer.in_features, rows, packed))
            names = [name for stored in joined for name in stored.names]
            form = "float32" if packed is None else str(packed)
            made = partial(self._made_experts, layer.count, joined, packed)
            self._makers[id(matrices[-1].weight)] = f"{', '.join(names)} of experts as {form}", made
        layer.matrices = nn.ModuleList(cast(Any, matrices))

    def _stored_experts(self, layer: ExpertLinear, path: str) -> list[_Stored]:
        """Return where the checkpoint has the matrices of a layer."""
        if path in self.checkpoint:
            return [_Stored((path,), sum(layer.sizes), True)]
        above = path.rpartition(".")[0]
        result: list[_Stored] = []
        for name, rows in zip(layer.names, layer.sizes, strict=True):
            of_all = f"{above}.{name}.weight"
            if of_all in self.checkpoint:
                result.append(_Stored((of_all,), rows, True))
            else:
                each = tuple(f"{above}.{expert}.{name}.weight" for expert in range(layer.count))
                result.append(_Stored(each, rows, False))
        return result

    def _form_of_experts(self, layer: ExpertLinear, stored: _Stored) -> PackedBlocks | None:
        """Return the form of the matrices of all experts; None for numbers, and where the forms of experts differ."""
        shape = (stored.rows, layer.in_features)
        expected = (layer.count, *shape) if stored.is_one else shape
        layouts = {self._layout(self._check(name, expected), layer.in_features) for name in stored.names}
        layout = layouts.pop()
        return None if layout is None or layouts else packed_for(layout, self.target)

    def _made_experts(self, count: int, joined: Sequence[_Stored], packed: PackedBlocks | None) -> Array:
        """Return the matrices of all experts: numbers (experts, in, out), or panels (experts, panels, words)."""

        def matrix(expert: int) -> Array:
            if packed is None:
                return np.transpose(self._rows_of_expert(joined, expert, None))
            return packed.pack(self._rows_of_expert(joined, expert, packed.name))

        # One expert after the other: a copy of all weights of a large model's layer would be large, too.
        first = matrix(0)
        result = np.empty((count, *first.shape), first.dtype)
        result[0] = first
        for expert in range(1, count):
            result[expert] = matrix(expert)
        return result

    def _rows_of_expert(self, joined: Sequence[_Stored], expert: int, layout: str | None) -> Array:
        """Return the rows of an expert's matrices, one below the other: of a block format, or float32 for None."""
        parts: list[Array] = []
        for stored in joined:
            name, index = (stored.names[0], expert) if stored.is_one else (stored.names[expert], None)
            if layout is None:
                parts.append(self.checkpoint.numbers(name, index).astype(np.float32))
            else:
                parts.append(self._rows(name, layout, False, index))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _embedding(self, layer: Embedding, path: str) -> None:
        name = f"{path}.weight"
        packed = self._checked_matrix(name, layer.count, layer.size, False)
        layer.matrix = Matrix(layer.size, layer.count, packed, looked_up=not layer.tied)
        self._matrix(layer.matrix, [name], False)

    def _norm(self, layer: RMSNorm, path: str) -> None:
        self._check(f"{path}.weight", (int(cast(int, layer.weight.shape[0])),))

        def make() -> Array:
            return self.checkpoint.numbers(f"{path}.weight").astype(np.float32) + np.float32(layer.offset)

        self._makers[id(layer.weight)] = f"{path} + {layer.offset}", make

    # ------------------------------------------------------------------------------------ arrays

    def _checked_matrix(
        self, name: str, rows: int, depth: int, transposed: bool, exact: bool = False
    ) -> PackedBlocks | None:  # fmt: skip
        """Return the form of stored rows; None for numbers. Raises ValueError for weights of another shape."""
        stored = self._check(name, (depth, rows) if transposed else (rows, depth))
        layout = None if exact and stored.layout == PLAIN else self._layout(stored, depth)
        return None if layout is None else packed_for(layout, self.target)

    def _check(self, name: str, expected: tuple[int, ...]) -> TensorInfo:
        """Return the description of weights. Raises KeyError if there are none, ValueError for another shape."""
        stored = self.checkpoint.stored(name)
        self._used.add(name)
        if tuple(stored.shape) != expected:
            raise ValueError(f"{name}: expected weights of shape {expected}, found {tuple(stored.shape)}")
        return stored

    def _layout(self, stored: TensorInfo, depth: int) -> str | None:
        """Return the block format in which rows are kept; None for numbers."""
        if not self.is_packed:
            return None
        layout = stored.layout
        if layout == PLAIN:
            held = None if self.rounds_to is None else block_format(self.rounds_to)
            return self.rounds_to if held is not None and depth % held.elements == 0 else None
        return layout if block_format(layout) is not None else None

    def _matrix(self, matrix: Matrix, names: Sequence[str], transposed: bool) -> None:
        packed = matrix.packed

        def numbers() -> Array:
            parts = [self.checkpoint.numbers(name) for name in names]
            if matrix.looked_up:
                return np.ascontiguousarray(parts[0], dtype=np.float32)
            joined = np.concatenate([part if transposed else part.T for part in parts], axis=1)
            return np.ascontiguousarray(joined, dtype=np.float32)

        def panels() -> Array:
            assert packed is not None
            rows = [self._rows(name, packed.name, transposed) for name in names]
            return packed.pack(rows[0] if len(rows) == 1 else np.concatenate(rows))

        form = "float32" if packed is None else str(packed)
        order = " transposed" if transposed else " by rows" if matrix.looked_up else ""
        made_as = f"{', '.join(names)}{order} as {form}"
        self._makers[id(matrix.weight)] = made_as, numbers if packed is None else panels

    def _rows(self, name: str, layout: str, transposed: bool, index: int | None = None) -> Array:
        """Return weights, or those at an index, as rows of a block format; numbers are rounded to it."""
        if self.checkpoint.stored(name).layout == layout:
            array = self.checkpoint.array(name)
            return np.asarray(array if index is None else array[index])
        numbers = self.checkpoint.numbers(name, index).astype(np.float32)
        return quantize_rows(np.ascontiguousarray(numbers.T if transposed else numbers), layout)

    def _biases(self, biases: Sequence[tuple[str | None, int]]) -> Array:
        """Return the biases of matrices, given by name and size, one behind the other; zeros where there is no name."""
        parts = [
            np.zeros(size, np.float32) if name is None else self.checkpoint.numbers(f"{name}.bias").astype(np.float32)
            for name, size in biases
        ]
        return np.concatenate(parts)

    def _part(self, name: str, parameter: nn.Parameter) -> Part:
        shape = tuple(int(cast(int, dim)) for dim in parameter.shape)
        maker = self._makers.get(id(parameter))
        if maker is None:
            self._check(name, shape)
            maker = f"{name} as {parameter.dtype}", partial(self._plain, name, parameter.dtype)
        return Part(name, shape, parameter.dtype, *maker)

    def _plain(self, name: str, dtype: str) -> Array:
        return np.ascontiguousarray(self.checkpoint.numbers(name).astype(dtype))


__all__ = ["Activations", "WeightPacker"]
