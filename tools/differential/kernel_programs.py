"""Random programs for the rules that arrange loops: one heavy operator at sizes around those of tiles, and what follows.

`kernel_program(seed)` gives the text of a function of tensors. Some sizes are symbolic, some operands are known when the
program is built (`KernelProgram.known`), so that kernels with packed and transformed weights are made too.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SIZES = (1, 2, 3, 5, 7, 8, 13, 15, 16, 17, 20, 23, 31, 32, 33, 40, 47, 48, 49, 63, 64, 65, 70, 96, 100, 127, 128, 129)
MOST_WORK = 12_000_000
"""Multiplications of one program, for the sake of the interpreter."""
FAMILIES = (
    "conv2d",
    "conv1d",
    "depthwise",
    "pointwise",
    "matmul",
    "reduction",
    "normalization",
    "movement",
    "pool",
    "narrow matmul",
    "narrow conv2d",
)
FEATURES = [f"kernel {family}" for family in FAMILIES]
FEATURES += ["kernel known operand", "kernel symbolic size", "kernel infinity or NaN"]
SPOILED = ("conv2d", "conv1d", "depthwise", "pointwise", "matmul")
"""Families of which a second case has operands with elements that are not finite: fast algorithms must not spread them."""

Array = np.ndarray[Any, Any]


@dataclass
class KernelProgram:
    """A program: its text, a case of arguments, and the names of parameters that are known when it is built."""

    text: str
    cases: list[list[Array]]
    known: tuple[str, ...]
    features: Counter[str]
    exact: bool = False
    """Sums are taken in another order than the interpreter's."""


@dataclass
class _Writer:
    chosen: random.Random
    lines: list[str] = field(default_factory=list[str])
    params: dict[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])
    symbols: dict[str, int] = field(default_factory=dict[str, int])
    known: list[str] = field(default_factory=list[str])

    def size(self, most: int = 129) -> int:
        return self.chosen.choice([size for size in SIZES if size <= most])

    def open(self, size: int) -> Any:
        """A size, or a symbolic one that has this value."""
        if self.chosen.random() < 0.6:
            return size
        name = f"n{len(self.symbols)}"
        self.symbols[name] = size
        return name

    def param(self, shape: Sequence[Any], known: float = 0.0) -> str:
        name = f"p{len(self.params)}"
        self.params[name] = tuple(shape)
        if self.chosen.random() < known and all(isinstance(size, int) for size in shape):
            self.known.append(name)
        return name

    def bind(self, value: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {value}")
        return name

    def text(self, result: str) -> str:
        def tensor(shape: Sequence[Any]) -> str:
            dims = ", ".join(f'"{size}"' if isinstance(size, str) else str(size) for size in shape)
            return f'R.Tensor(({dims}{"," if len(shape) == 1 else ""}), "float32")'

        params = ", ".join(f"{name}: {tensor(shape)}" for name, shape in self.params.items())
        body = "\n            ".join([*self.lines, f"R.output({result})"])
        return f"""@I.ir_module
class Module:
    @R.function
    def main({params}):
        with R.dataflow():
            {body}
        return {result}
"""

    def arrays(self) -> list[Array]:
        """Arguments: whole numbers, of which sums are exact."""
        generator = np.random.default_rng(self.chosen.randrange(1 << 30))
        sizes = [tuple(self.symbols.get(size, size) for size in shape) for shape in self.params.values()]
        return [generator.integers(-3, 4, shape).astype("float32") for shape in sizes]

    def spoiled(self, arrays: Sequence[Array]) -> list[Array]:
        """The same with an infinity or NaN in up to three places of each operand that is not known."""
        results: list[Array] = []
        for name, array in zip(self.params, arrays, strict=True):
            array = array.copy()
            for _ in range(0 if name in self.known or not array.size else self.chosen.randint(0, 3)):
                array.reshape(-1)[self.chosen.randrange(array.size)] = self.chosen.choice((np.inf, -np.inf, np.nan))
            results.append(array)
        return results


def kernel_program(seed: str) -> KernelProgram:
    """The program of a seed."""
    chosen = random.Random(seed)
    family = chosen.choice(FAMILIES)
    writer = _Writer(chosen)
    result, channel = _HEAVY[family](writer)
    for _ in range(chosen.choice((0, 0, 1, 2, 3))):
        result = _follower(writer, result, channel)
    features = Counter({f"kernel {family}": 1})
    features["kernel known operand"] += bool(writer.known)
    features["kernel symbolic size"] += bool(writer.symbols)
    cases = [writer.arrays()]
    if family in SPOILED:
        cases.append(writer.spoiled(cases[0]))
        features["kernel infinity or NaN"] += not all(np.isfinite(array).all() for array in cases[1])
    return KernelProgram(writer.text(result), cases, tuple(writer.known), +features)


def _follower(writer: _Writer, value: str, channel: tuple[Any, ...] | None) -> str:
    kind = writer.chosen.choice(("relu", "scale", "clip", "bias", "tanh", "twice"))
    if kind == "bias" and channel is not None:
        return writer.bind(f"R.add({value}, {writer.param(channel, known=0.7)})")
    forms = {
        "relu": f"R.nn.relu({value})",
        "clip": f"R.clip({value}, -20.0, 1000.0)",  # not below what sums are: errors are measured by the greatest
        "tanh": f'R.tanh(R.multiply({value}, R.const(0.01, "float32")))',
        "twice": f"R.add({value}, {value})",
    }
    return writer.bind(forms.get(kind, f'R.multiply({value}, R.const(0.5, "float32"))'))


NARROW = (
    ("int8", "int8", "int32"),
    ("uint8", "int8", "int32"),
    ("uint8", "uint8", "int32"),
    ("bfloat16", "bfloat16", "float32"),
)
"""Dtypes of the operands of products of narrow numbers, and of the sums."""


def _narrowed(writer: _Writer, a: str, b: str, call: str) -> str:
    """A call of two operands, as ``R.matmul({a}, {b}{more})``, on narrow numbers; its result is float32 again."""
    left, right, sums = writer.chosen.choice(NARROW)
    a, b = writer.bind(f'R.astype({a}, "{left}")'), writer.bind(f'R.astype({b}, "{right}")')
    result = writer.bind(call.format(a=a, b=b, more=f', out_dtype="{sums}"'))
    return writer.bind(f'R.astype({result}, "float32")')


def _convolution(
    writer: _Writer, rank: int, taps: Sequence[int], grouped: bool, narrow: bool = False
) -> tuple[str, Any]:
    choose = writer.chosen.choice
    inputs, outputs = writer.size(), writer.size()
    groups = 1
    if grouped:
        groups, outputs = inputs, inputs * choose((1, 1, 2))

    def axes(values: Sequence[int]) -> list[int]:
        """One of the values for each axis, or the same for all."""
        return [choose(values) for _ in range(rank)] if choose((True, False)) else [choose(values)] * rank

    kernel, stride, dilation, pad = axes(taps), axes((1, 1, 1, 2)), axes((1, 1, 1, 2)), axes((0, 0, 1, 2))
    batch = choose((1, 1, 1, 2, 3))
    while True:
        sizes = (
            [writer.size(80) for _ in range(rank)] if rank < 2 or choose((True, False)) else [writer.size(57)] * rank
        )
        out = [
            (size + 2 * before - apart * (count - 1) - 1) // step + 1
            for size, count, step, apart, before in zip(sizes, kernel, stride, dilation, pad, strict=True)
        ]
        work = batch * outputs * inputs // groups * int(np.prod(kernel)) * int(np.prod([max(o, 1) for o in out]))
        if min(out) > 0 and work <= MOST_WORK:
            break
        inputs, outputs = (inputs, outputs) if grouped else (max(1, inputs // 2), max(1, outputs // 2))
        if grouped and work > MOST_WORK:
            inputs = groups = max(1, inputs // 2)
            outputs = inputs
    data = writer.param([writer.open(batch), inputs, *(writer.open(s) for s in sizes)])
    weight = writer.param([outputs, inputs // groups, *kernel], known=0.6)
    name = {1: "conv1d", 2: "conv2d"}[rank]
    options = f"strides={stride}, padding={pad}, dilation={dilation}, groups={groups}"
    call = f"R.nn.{name}({{a}}, {{b}}, {options}{{more}})"
    channel = (1, outputs, *[1] * rank)
    if narrow:
        return _narrowed(writer, data, weight, call), channel
    return writer.bind(call.format(a=data, b=weight, more="")), channel


def _matmul(writer: _Writer, narrow: bool = False) -> tuple[str, Any]:
    choose = writer.chosen.choice
    m, n, k = writer.size(), writer.size(), writer.size()
    lead = [choose((1, 2, 3, 12))] if choose((True, False, False)) else []
    if lead and m * n * k * lead[0] > MOST_WORK:
        lead = [2]
    m_, n_, k_ = writer.open(m), writer.open(n), writer.open(k)
    first = [*lead, k_, m_] if choose((True, False, False)) else [*lead, m_, k_]
    turned = first[-2:] == [k_, m_] and first[-2:] != [m_, k_]
    behind = lead if choose((True, False)) else []
    transposed = choose((True, False))
    a = writer.param(first)
    b = writer.param([*behind, n_, k_] if transposed else [*behind, k_, n_], known=0.5)
    if turned:
        a = writer.bind(f"R.permute_dims({a}, {_swapped(len(first))})")
    if transposed:
        b = writer.bind(f"R.permute_dims({b}, {_swapped(len(behind) + 2)})")
    channel = (n_,) if isinstance(n_, int) else None
    if narrow:
        return _narrowed(writer, a, b, "R.matmul({a}, {b}{more})"), channel
    return writer.bind(f"R.matmul({a}, {b})"), channel


def _swapped(rank: int) -> list[int]:
    return [*range(rank - 2), rank - 1, rank - 2]


def _shape(writer: _Writer, most: int = 60_000) -> list[int]:
    while True:
        shape = [writer.size() for _ in range(writer.chosen.choice((1, 2, 2, 3, 4)))]
        if np.prod(shape) <= most:
            return shape


def _reduction(writer: _Writer) -> tuple[str, Any]:
    choose, shape = writer.chosen.choice, _shape(writer)
    data = writer.param([writer.open(s) for s in shape])
    axes = sorted(writer.chosen.sample(range(len(shape)), writer.chosen.randint(1, len(shape))))
    name = choose(("sum", "max", "min", "mean", "argmax", "cumsum"))
    if name in ("argmax", "cumsum"):
        value = f"R.{name}({data}, {axes[0]})"
        return writer.bind(f'R.astype({value}, "float32")' if name == "argmax" else value), None
    return writer.bind(f"R.{name}({data}, {axes}, keepdims={choose((True, False))})"), None


def _normalization(writer: _Writer) -> tuple[str, Any]:
    choose, shape = writer.chosen.choice, _shape(writer)
    data = writer.param([writer.open(s) for s in shape[:-1]] + [shape[-1]])
    name = choose(("softmax", "log_softmax", "layer_norm", "rms_norm"))
    if name.endswith("softmax"):
        return writer.bind(f"R.nn.{name}({data}, axis={choose(range(len(shape)))})"), (shape[-1],)
    gamma = writer.param([shape[-1]], known=0.5)
    if name == "rms_norm":
        return writer.bind(f"R.nn.rms_norm({data}, {gamma}, axes=-1)"), (shape[-1],)
    beta = writer.param([shape[-1]], known=0.5)
    return writer.bind(f"R.nn.layer_norm({data}, {gamma}, {beta}, axes=-1)"), (shape[-1],)


def _movement(writer: _Writer) -> tuple[str, Any]:
    choose, shape = writer.chosen.choice, _shape(writer)
    rank = len(shape)
    dims = [writer.open(s) for s in shape]
    data = writer.param(dims)
    match choose(("permute", "concat", "pad", "flip", "tile", "slice")):
        case "permute":
            order = writer.chosen.sample(range(rank), rank)
            value = f"R.permute_dims({data}, {order})"
        case "concat":
            axis = choose(range(rank))
            other = writer.param([writer.size(33) if d == axis else size for d, size in enumerate(dims)])
            value = f"R.concat(({data}, {other}, {data}), axis={axis})"
        case "pad":
            value = f"R.nn.pad({data}, {[choose((0, 1, 3)) for _ in range(2 * rank)]}, pad_value=1.5)"
        case "flip":
            value = f"R.flip({data}, {choose(range(rank))})"
        case "tile":
            value = f"R.tile({data}, {[choose((1, 2)) for _ in range(rank)]})"
        case _:
            axis = choose(range(rank))
            value = f"R.strided_slice({data}, [{axis}], [{choose((0, 1))}], [{max(1, shape[axis] - 1)}], [{choose((1, 2, 3))}])"
    return writer.bind(value), None


def _pool(writer: _Writer) -> tuple[str, Any]:
    choose = writer.chosen.choice
    height, width = writer.size(40) + 3, writer.size(40) + 3
    data = writer.param([writer.open(choose((1, 2))), writer.size(33), writer.open(height), writer.open(width)])
    kernel, stride, pad = choose((2, 3)), choose((1, 2)), choose((0, 1))
    kind = choose(("max", "avg"))
    return writer.bind(f"R.nn.{kind}_pool2d({data}, [{kernel}, {kernel}], [{stride}, {stride}], [{pad}, {pad}])"), None


_HEAVY = {
    "conv2d": lambda w: _convolution(w, 2, (1, 2, 3, 3, 3, 5), False),
    "conv1d": lambda w: _convolution(w, 1, (1, 3, 4), False),
    "depthwise": lambda w: _convolution(w, 2, (3, 3, 5), True),
    "pointwise": lambda w: _convolution(w, 2, (1,), False),
    "matmul": _matmul,
    "reduction": _reduction,
    "normalization": _normalization,
    "movement": _movement,
    "pool": _pool,
    "narrow matmul": lambda w: _matmul(w, narrow=True),
    "narrow conv2d": lambda w: _convolution(w, 2, (1, 3), w.chosen.random() < 0.3, narrow=True),
}
