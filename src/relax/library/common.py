"""Calls that many programs have, whose kernels `relax cache warm` compiles beforehand.

Each is a line of text: the operator, its operands, its attributes.

    nn.conv2d | n c h w, k c 3 3 | padding=1        float32 tensors (n, c, h, w) and (k, c, 3, 3)
    take | v c, n:int64 | axis=0                    of another dtype
    reshape | n c, [s t] |                          a shape
    strided_slice | n c, (1), (b), (e) |            numbers: a constant, and sizes
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from typing import Any, Final

from ..block_builder import BlockBuilder
from ..expr import PrimValue, ShapeExpr, Tuple, Var
from ..ir import IRModule
from ..op.operator import public_function
from ..prim import IntImm, PrimExpr, SizeVar
from ..prim.expr import Var as PrimVar
from ..struct_info import PrimStructInfo, TensorStructInfo

_AXES: Final = ("a b c d", "a b c", "a b", "a")
_UNARY: Final = ("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "abs", "negative", "square", "cos", "sin",
                 "nn.relu", "nn.silu", "nn.gelu")  # fmt: skip
_BINARY: Final = ("add", "subtract", "multiply", "divide")
_MORE_BINARY: Final = ("power", "maximum", "minimum")
_COMPARE: Final = ("equal", "less", "greater", "greater_equal", "less_equal", "not_equal")

_ASYMMETRIC: Final = 'coordinate_transformation_mode="asymmetric"'

WINDOWS: Final = f"""
nn.conv2d | n c h w, k c 1 1 | strides=2
nn.conv2d | n c h w, k c 3 3 |
nn.conv2d | n c h w, k c 3 3 | padding=1
nn.conv2d | n c h w, k c 3 3 | padding=1, strides=2
nn.conv2d | n c h w, k c 3 3 | strides=2
nn.conv2d | n c h w, k c 3 3 | padding=2, dilation=2
nn.conv2d | n c h w, k c 3 3 | padding=(0, 0, 1, 1), strides=2
nn.conv2d | n c h w, k c 5 5 | padding=2
nn.conv2d | n c h w, k c 5 5 | padding=2, strides=2
nn.conv2d | n c h w, k c 7 7 | padding=3
nn.conv2d | n c h w, k c 7 7 | padding=3, strides=2
nn.conv2d | n c h w, k c 1 3 | padding=(0, 1, 0, 1)
nn.conv2d | n c h w, k c 3 1 | padding=(1, 0, 1, 0)
nn.conv2d | n 96 h w, 96 1 3 3 | padding=1, groups=96
nn.conv2d | n 96 h w, 96 1 3 3 | padding=1, groups=96, strides=2
nn.conv2d | n 96 h w, 96 1 5 5 | padding=2, groups=96
nn.conv2d | n 96 h w, 96 1 5 5 | padding=2, groups=96, strides=2
nn.conv2d | n 96 h w, 96 1 7 7 | padding=3, groups=96
nn.conv1d | n c w, k c 1 |
nn.conv1d | n c w, k c 3 | padding=1
nn.conv1d | n c w, k c 3 | padding=1, strides=2
nn.conv1d | n c w, k c 5 | padding=2
nn.conv1d | n c w, k c 7 | padding=3
nn.conv2d_transpose | n c h w, c k 2 2 | strides=2
nn.conv2d_transpose | n c h w, c k 4 4 | strides=2, padding=1
nn.max_pool2d | n c h w | pool_size=2, strides=2
nn.max_pool2d | n c h w | pool_size=3, strides=2
nn.max_pool2d | n c h w | pool_size=3, strides=2, padding=1
nn.max_pool2d | n c h w | pool_size=5, padding=2
nn.avg_pool2d | n c h w | pool_size=2, strides=2
nn.avg_pool2d | n c h w | pool_size=3, padding=1
nn.adaptive_avg_pool2d | n c h w | output_size=1
image.resize | n c h w, [y x] | axes=(2, 3), method="nearest_neighbor", {_ASYMMETRIC}, rounding_method="floor"
image.resize | n c h w, [y x] | axes=(2, 3), method="nearest_neighbor", {_ASYMMETRIC}
image.resize | n c h w, [y x] | axes=(2, 3), method="linear"
"""

PRODUCTS: Final = """
matmul | m k, k n |
matmul | 1 k, k n |
matmul | b m k, k n |
matmul | 1 m k, k n |
matmul | 1 1 k, k n |
matmul | b m k, b k n |
matmul | m k, b k n |
matmul | 1 k, b k n |
matmul | b h m k, b h k n |
matmul | 1 h m k, 1 h k n |
matmul | 1 h 1 k, 1 h k n |
nn.attention | b s h d, b t h d, b t h d |
nn.attention | b s h d, b t h d, b t h d, b 1 s t |
nn.attention | b s h d, b t h d, b t h d, b 1 s t | scale=0.125
"""

NORMALISATIONS: Final = """
nn.layer_norm | a b, b, b | axes=[-1]
nn.layer_norm | a b c, c, c | axes=[-1]
nn.layer_norm | a b c, c, c | axes=[-1], epsilon=1e-06
nn.layer_norm | a b c, c, c | axes=[-1], epsilon=1e-12
nn.rms_norm | a b, b | axes=[-1]
nn.rms_norm | a b c, c | axes=[-1]
nn.rms_norm | a b c, c | axes=[-1], epsilon=1e-06
variance | a b | axis=[1], keepdims=True
variance | a b c | axis=[2], keepdims=True
variance | a b c d | axis=[0, 2, 3]
mean | a b c d | axis=[0, 2, 3]
nn.softmax | a b | axis=-1
nn.softmax | a b c | axis=-1
nn.softmax | a b c d | axis=-1
nn.softmax | a b | axis=1
nn.softmax | a b c | axis=1
nn.softmax | a b c | axis=2
nn.softmax | a b c d | axis=1
nn.softmax | a b c d | axis=3
nn.log_softmax | a b | axis=-1
"""

MOVES: Final = """
permute_dims | a b |
permute_dims | a b | axes=[1, 0]
permute_dims | a b c | axes=[0, 2, 1]
permute_dims | a b c | axes=[1, 0, 2]
permute_dims | a b c d | axes=[0, 2, 1, 3]
permute_dims | a b c d | axes=[1, 0, 2, 3]
permute_dims | a b c d | axes=[0, 2, 3, 1]
permute_dims | a b c d | axes=[0, 3, 1, 2]
permute_dims | a b c d | axes=[0, 1, 3, 2]
permute_dims | a b c d e | axes=[2, 0, 3, 1, 4]
flip | a b c d | axis=[2]
flip | a b c d | axis=[3]
take | v c, n:int64 | axis=0
take | v c, b n:int64 | axis=0
take | v c, n:int32 | axis=0
take | v c, b n:int32 | axis=0
take | n:int64, :int64 | axis=0
take | n:int64, m:int64 | axis=0
take | a b c, :int64 | axis=1
concat | (a b c d / a e f g) | axis=1
strided_slice | a b:int64, (1), (0), (e), (1) |
strided_slice | a b c d:uint8, (2), (s), (e), (1) |
strided_slice | a b c d:uint8, (3), (0), (e), (1) |
astype | a b c d:uint8 | dtype='bool'
index_put | v c, (b n:int64), b n c | accumulate=True
gather_elements | a b:int64, c d:int64 | axis=1
concat | (a b:int64 / a c:int64) | axis=1
broadcast_to | 1 b:int64, [a b] |
broadcast_to | a b 1 1, [a b c d] |
broadcast_to | a b 1 c d, [a b e c d] |
astype | a b c:int64 | dtype='float32'
"""

MASKS: Final = """
cumsum | a b:int64 | axis=1
index_tensor | a b:int64, (a 1 1 1:int64 / 1 1 b 1:int64) |
index_tensor | a b:int64, (a 1 1 1:int64 / 1 1 1 b:int64) |
less_equal | a 1 1 b:int64, a 1 b 1:int64 |
equal | a 1 b 1:int64, a 1 1 b:int64 |
bitwise_and | :bool, a 1 b c:bool |
bitwise_and | a 1 b c:bool, a 1 b c:bool |
where | a 1 b c:bool, , |
add | a b c d, a 1 c d |
multiply | a b c d, 1 1 c d |
"""
"""Calls that transformers makes of masks and positions."""


def common_calls() -> list[str]:
    """Return the lines of all calls."""
    lines = [line for text in (WINDOWS, PRODUCTS, NORMALISATIONS, MOVES, MASKS) for line in text.strip().splitlines()]
    return [*lines, *_elementwise(), *_reductions(), *_pieces(), *_conversions()]


def _elementwise() -> Iterator[str]:
    for name, axes in itertools.product(_UNARY, _AXES[:3]):
        yield f"{name} | {axes} |"
    for axes in _AXES[:3]:
        yield f"clip | {axes}, 0.0, 6.0 |"
    last = {"a b c d": ("a b c d", "1 b 1 1", "a b 1 1", "a b c 1", "a 1 1 d", "b 1 1", ""),
            "a b c": ("a b c", "c", "a b 1", "1 b c", ""), "a b": ("a b", "b", "a 1", ""), "a": ("a", "")}  # fmt: skip
    for axes, others in last.items():
        for name, other in itertools.product(_BINARY, others):
            yield f"{name} | {axes}, {other} |"
        for name in _BINARY:
            yield f"{name} | , {axes} |"
        for name, other in itertools.product(_MORE_BINARY, (axes, "")):
            yield f"{name} | {axes}, {other} |"
    for name, axes in itertools.product(("add", "multiply"), ("a b c", "a b")):
        yield f"{name} | {axes[-1]}, {axes} |"
    for name, axes in itertools.product(("add", "subtract", "multiply", *_COMPARE), ("", "a")):
        yield f"{name} | {axes}:int64, {axes}:int64 |"
    for name, axes in itertools.product(_COMPARE[:3], _AXES[1:3]):
        yield f"{name} | {axes}, |"
    for axes in _AXES[1:3]:
        for name in ("multiply", "subtract"):
            yield f"{name} | {axes[:-1]}1, {axes} |"
    for name, axes in itertools.product(("add", "subtract", "maximum", "minimum", *_COMPARE), ("a b", "a")):
        yield f"{name} | {axes}:int64, :int64 |"
    for name, axes in itertools.product(("bitwise_and", "bitwise_or"), ("a b", "a b c", "a b c d")):
        yield f"{name} | {axes}:bool, {axes}:bool |"
    for axes in ("a b", "a b c", "a b c d"):
        yield f"bitwise_not | {axes}:bool |"
        yield f"less_equal | {axes}, |"
    yield "equal | a b c d, |"
    yield "subtract | a b:int64, a b:int64 |"
    yield "rsqrt | a |"
    for axes in _AXES:
        yield f"where | {axes}:bool, {axes}, {axes} |"
        yield f"where | {axes}:bool, {axes}, |"
        yield f"where | {axes}:bool, , {axes} |"
    yield "where | a b 1:bool, , a b c |"


def _reductions() -> Iterator[str]:
    for name, axes, keep in itertools.product(("mean", "sum", "max"), _AXES[:3], (True, False)):
        yield f"{name} | {axes} | axis=[-1], keepdims={keep}"
        yield f"{name} | {axes} | axis=[{len(axes) // 2}], keepdims={keep}"
    for name, keep in itertools.product(("mean", "max"), (True, False)):
        yield f"{name} | a b c d | axis=[2, 3], keepdims={keep}"
    yield "mean | a b c | axis=[1], keepdims=False"
    yield "sum | a b | axis=[0], keepdims=True"
    yield "sum | a b | axis=[0], keepdims=False"
    yield "sum | a b c | axis=[0], keepdims=True"
    yield "sum | a b c | axis=[0, 1], keepdims=False"
    yield "sum | a b c d | axis=[0, 2, 3], keepdims=False"
    for axes in _AXES[1:3]:
        yield f"argmax | {axes} | axis=-1"


def _pieces() -> Iterator[str]:
    for count, (rank, axes) in itertools.product((2, 3, 4), enumerate(_AXES[::-1], 1)):
        for axis in range(rank):
            parts = " / ".join(axes.replace("abcd"[axis], f"{'abcd'[axis]}{i}") for i in range(count))
            yield f"concat | ({parts}) | axis={axis}"
    for count in (5, 6, 8):
        yield f"concat | ({' / '.join(f'a b{i} c d' for i in range(count))}) | axis=1"
    for rank, axes in enumerate(_AXES[::-1], 1):
        for axis in range(rank):
            yield f"strided_slice | {axes}, ({axis}), (0), (e) |"
            yield f"strided_slice | {axes}, ({axis}), (0), (e) | assume_inbound=True"
            yield f"strided_slice | {axes}, ({axis}), (s), (e) | assume_inbound=True"
    yield "strided_slice | a:int64, (0), (0), (1) |"
    for before, after in itertools.product(_AXES, _AXES):
        yield f"reshape | {before}, [{after.translate(str.maketrans('abcd', 'wxyz'))}] |"
    for before, after in (("1 b c", "b c"), ("b c", "1 b c"), ("1 c", "c"), ("a b 1 1", "a b")):
        yield f"reshape | {before}, [{after}] |"
    for axes in _AXES[1:3]:
        yield f"broadcast_to | {axes}, [{axes}] |"


def _conversions() -> Iterator[str]:
    for axes, (source, target) in itertools.product(
        ("a b c d", "a b", "a", ""), itertools.permutations(("float32", "int64", "int32", "bool"), 2)
    ):
        yield f"astype | {axes}:{source} | dtype='{target}'"


# ------------------------------------------------------------------------------------- lines to functions


def module_of(lines: list[str]) -> IRModule:
    """Return a module with a function for each line."""
    builder = BlockBuilder()
    for number, line in enumerate(lines):
        _Line(line).add_to(builder, f"call{number}")
    return builder.get()


class _Line:
    """A call as text."""

    def __init__(self, text: str) -> None:
        name, operands, attributes = (part.strip() for part in text.split("|"))
        self.name = name
        self.sizes: dict[str, PrimVar] = {}
        self.params: list[Var] = []
        self.operands = [self._operand(word.strip()) for word in _split(operands)]
        tree = ast.parse(f"f({attributes})", mode="eval").body
        assert isinstance(tree, ast.Call)
        self.attributes = {str(item.arg): ast.literal_eval(item.value) for item in tree.keywords}

    def add_to(self, builder: BlockBuilder, name: str) -> None:
        """Add a function that makes the call."""
        function: Any = public_function(f"relax.{self.name}")
        bound = {size for param in self.params for size in self._dims(param)}
        scope = [Var(size.name, PrimStructInfo(value=size)) for size in self.sizes.values() if size not in bound]
        with builder.function(name, [*scope, *self.params]):
            with builder.dataflow():
                result = builder.emit_output(function(*self.operands, **self.attributes))
            builder.emit_func_output(result)

    @staticmethod
    def _dims(param: Var) -> tuple[PrimExpr, ...]:
        info = param.struct_info
        assert isinstance(info, TensorStructInfo)
        return info.dims or ()

    def _operand(self, word: str) -> Any:
        if word.startswith("["):
            return ShapeExpr([self._size(size) for size in word[1:-1].split()])
        if word.startswith("("):
            if "/" in word or ":" in word or self.name == "concat":
                return Tuple([self._operand(part.strip()) for part in word[1:-1].split("/")])
            return Tuple([PrimValue(self._size(size)) for size in word[1:-1].split()])
        if "." in word:
            return float(word)
        axes, _, dtype = word.partition(":")
        info = TensorStructInfo([self._size(size) for size in axes.split()], dtype or "float32")
        self.params.append(Var(f"x{len(self.params)}", info))
        return self.params[-1]

    def _size(self, word: str) -> PrimExpr:
        if word.isdigit():
            return IntImm("int64", int(word))
        return self.sizes.setdefault(word, SizeVar(word, "int64"))


def _split(operands: str) -> Iterator[str]:
    """Operands at commas outside of brackets."""
    depth, start = 0, 0
    for place, letter in enumerate(operands):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            yield operands[start:place]
            start = place + 1
    yield operands[start:]
