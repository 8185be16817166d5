"""Random ONNX models with `If` nodes whose branches return other shapes and ranks, compared with ONNX Runtime.

    python tools/differential/onnx_branches.py --count 1000 --seed 0      prints one model for each sort of difference

A model is a sequence of steps: an `If`, then operators on its results, at times a second `If`. Branches read values of
the graph, and one in five ends with an `If` of its own. `check` calls a model at three shapes, with each value of each
condition. Where ONNX Runtime returns tensors, the module must return equal ones, compiled and interpreted; where ONNX
Runtime raises, the module must raise too, except for values inside of a branch, which may be unused. A model may be
rejected if ONNX Runtime raises in every call, and with E6004 or E6005: a rank or size is not known. The same seed makes
the same model.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnxruntime as ort
from onnx import GraphProto, ModelProto, TensorProto, helper

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])

import relax
from differential.properties import Failure
from relax.frontend.onnx import from_onnx

UNKNOWN = ("E6004", "E6005")
"""Codes of diagnostics for a rank or a size that is not known at import time."""

CHANGES = {
    "V = Identity(X)": 0, "V = Relu(X)": 0, "V = Transpose(X)": 0, "V = Concat<axis = 0>(X, X)": 0,
    "V = Unsqueeze(X, at0)": 1, "V = Unsqueeze(X, back)": 1, "V = Unsqueeze(X, twice)": 2,
    "V = Squeeze(X, at1)": -1, "V = Gather<axis = 0>(X, zero)": -1, "V = Gather<axis = -1>(X, pair)": 0,
    "V = ReduceSum<keepdims = 0>(X, back)": -1, "V = ReduceMax<keepdims = 0>(X, at0)": -1,
    "V = Add(X, Y)": 0, "V = Identity(Y)": 0, "T = Shape(Y); V = Reshape(X, T)": 0,
}  # fmt: skip
"""Nodes of branches with the change of rank, with operands X and Y, the result V and a temporary T."""

CONDITIONS = (
    "T_s = Size(X); V = Equal(T_s, two)",
    "T_s = Shape(X); T_n = Gather(T_s, zero); V = Equal(T_n, one)",
    "T_s = Shape(X); T_n = Gather(T_s, minus); V = Equal(T_n, one)",
    "T_s = Shape(X); T_r = Size(T_s); V = Equal(T_r, two)",
    "T_s = ReduceSum<keepdims = 0>(X); V = Less(T_s, half)",
)
"""Conditions on the size, the shape, the rank and the elements of X."""

OPERATORS = """
V = Neg(X)
V = Tanh(X)
V = Clip(X, low, high)
V = Add(X, half)
V = Mul(X, Y)
V = Add(X, x)
V = Where(bits, X, half)
V = Softmax<axis = -1>(X)
V = LogSoftmax<axis = 0>(X)
V = Softmax<axis = 1>(X)
V = Hardmax<axis = -1>(X)
V = ReduceSum<keepdims = 0>(X)
V = ReduceSum<keepdims = 0>(X, back)
V = ReduceMax(X, at0)
V = ReduceMean<keepdims = 0>(X, at1)
V = ReduceL2(X, back)
V = Flatten(X)
V = Flatten<axis = -1>(X)
V = Flatten<axis = 0>(X)
V = Reshape(X, all)
V = Reshape(X, column)
V = Reshape(X, keep)
V = Unsqueeze(X, at0)
V = Unsqueeze(X, back)
V = Squeeze(X)
V = Squeeze(X, at1)
V = Transpose(X)
V = Transpose<perm = [1, 0]>(X)
V = Transpose<perm = [0, 2, 1]>(X)
V = Concat<axis = 0>(X, X)
V = Concat<axis = -1>(X, Y)
V = Gather<axis = 0>(X, zero)
V = Gather<axis = -1>(X, pair)
V = Gather<axis = 1>(X, zero)
V = Slice(X, at0, at1, at0)
V = Slice(X, at0, at1, back)
V = CumSum(X, zero)
V = Expand(X, column2)
V = Pad(X, ones2, half, back)
V = Trilu(X)
V = MatMul(X, Y)
T = Transpose(X); V = MatMul(X, T)
T = Shape(X); V = Cast<to = 1>(T)
T = Size(X); V = Cast<to = 1>(T)
T = Shape<start = -1>(X); V = Cast<to = 1>(T)
T = Shape(X); V = ConstantOfShape(T)
T = Shape(X); V = Expand(half, T)
T = Shape(X); V = Reshape(Y, T)
T = ArgMax<axis = 0>(X); V = GatherElements<axis = 0>(X, T)
T_d = Concat<axis = 0>(X, X); T = NonZero(T_d); V = Cast<to = 1>(T)
V, T = TopK<axis = -1>(X, at1)
V = Split<axis = 0, num_outputs = 1>(X)
V = Einsum<equation = "...i->...">(X)
V = Einsum<equation = "ij->ji">(X)
V = LpNormalization<axis = -1>(X)
V = DepthToSpace<blocksize = 1>(X)
""".strip().splitlines()
"""Nodes after an `If`, with operands X and Y, the result V and a temporary T.

Against ONNX, ONNX Runtime accepts an axis of a scalar in ArgMax, and NonZero of a scalar has one row there: both stand
only with a node that rejects scalars.
"""

CONSTANTS = """
    int64[1] at0 = {0}, int64[1] at1 = {1}, int64[1] back = {-1}, int64[2] twice = {0, 1}, int64 zero = {0},
    int64 one = {1}, int64 two = {2}, int64 minus = {-1}, int64[2] pair = {0, -1}, int64[1] all = {-1},
    int64[2] column = {-1, 1}, int64[2] keep = {0, -1}, int64[2] column2 = {2, 1}, int64[2] ones2 = {1, 1},
    float half = {0.5}, float low = {-1.0}, float high = {1.0}, bool bits = {1}
"""

SHAPES = ((2, 3, 2), (2, 1, 1), (1, 2, 2))
"""Shapes of the input, of which a graph takes as many dimensions as it has."""

_INSIDE = re.compile(r"Name:'\w+_i' Status")
"""Part of ONNX Runtime's message for a value inside of a branch, where an error of an unused value may vanish."""

Arrays: TypeAlias = "list[np.ndarray[Any, Any]]"


@dataclass(frozen=True)
class Step:
    """Nodes in text form, and the names of their results of unknown shape."""

    text: str
    results: tuple[str, ...]


@dataclass
class Graph:
    """A random graph of an input `x`, all results of whose steps are outputs.

    ONNX Runtime may remove a value that is no output, and with it the exception that computing it raises.
    """

    rank: int
    conditions: int = 0
    steps: list[Step] = field(default_factory=list[Step])

    @property
    def values(self) -> list[str]:
        """The names of the outputs."""
        return [name for step in self.steps for name in step.results]

    @property
    def text(self) -> str:
        """The nodes, one a line."""
        return "\n".join(step.text for step in self.steps)

    def model(self) -> ModelProto:
        """The graph as a model, whose outputs have no declared shape."""
        dims = ", ".join("NMK"[: self.rank])
        flags = "".join(f", bool c{i}" for i in range(self.conditions))
        text = f"agraph (float[{dims}] x{flags}) => (float z) <{CONSTANTS}> {{ {self.text}\n z = Identity(half) }}"
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]>\n{text}')
        del model.graph.output[:], model.graph.node[-1]
        model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in self.values)
        _name_nodes(model.graph)
        return model

    def calls(self, seed: str) -> list[Arrays]:
        """Arguments: each shape with each value of each condition."""
        data = np.random.default_rng(random.Random(seed).randrange(1 << 32))
        flags = list(itertools.product((True, False), repeat=self.conditions))
        return [
            [data.integers(-4, 5, shape[: self.rank]).astype("float32") / 2, *map(np.array, case)]
            for shape in SHAPES
            for case in flags
        ]


def _name_nodes(graph: GraphProto) -> None:
    """Give each node the name of its first result, which messages of ONNX Runtime contain."""
    for node in graph.node:
        node.name = node.output[0]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _name_nodes(attribute.g)


def random_graph(seed: str) -> Graph:
    """The graph of a seed."""
    chosen = random.Random(seed)
    graph = Graph(chosen.choice((2, 2, 3)))
    graph.steps.append(_branches(chosen, graph, "h", "x"))
    second = chosen.randrange(12)
    for number in range(chosen.randint(1, 6)):
        values = graph.values
        if number == second:
            graph.steps.append(_branches(chosen, graph, f"k{number}", chosen.choice(values)))
            continue
        x, y = chosen.choice(values[-2:]), chosen.choice(values)
        graph.steps.append(Step(_named(chosen.choice(OPERATORS), f"v{number}", x, y), (f"v{number}",)))
    return graph


def _named(template: str, result: str, x: str, y: str = "x") -> str:
    """A template of nodes with its names."""
    names = {"V": result, "X": x, "Y": y, "T": f"{result}_t"}
    return re.sub(r"\b([VXYT])(?=\b|_[a-z]\b)", lambda found: names[found[0]], template.replace("; ", "\n"))


def _branches(chosen: random.Random, graph: Graph, name: str, x: str, depth: int = 0) -> Step:
    """An `If` on `x` with one or two results; its condition is an input of the graph, or computed from `x`."""
    lines: list[str] = []
    if chosen.random() < 0.6 and graph.conditions < 3:
        condition = f"c{graph.conditions}"
        graph.conditions += 1
    else:
        condition = f"{name}_c"
        lines.append(_named(chosen.choice(CONDITIONS), condition, x))
    results = (name, f"{name}_b") if chosen.random() < 0.25 and not depth else (name,)
    y = chosen.choice(["x", *graph.values])
    pairs = [_different(chosen) for _ in results]
    graphs: list[str] = []
    for side, kind in enumerate(("then", "else")):
        inner = [f"{result}_{side}" for result in results]
        body = [_body(chosen, graph, out, x, y, pair[side], depth) for out, pair in zip(inner, pairs, strict=True)]
        outputs = ", ".join(f"float[] {out}" for out in inner)
        graphs.append(f"{kind}_branch = {name}_{kind} () => ({outputs}) {{ {' '.join(body)} }}")
    lines.append(f"{', '.join(results)} = If ({condition}) <{', '.join(graphs)}>")
    return Step("\n".join(lines), results)


def _different(chosen: random.Random) -> list[str]:
    """Nodes for two branches, most of which change the rank differently."""
    pair = chosen.sample(list(CHANGES), 2)
    while chosen.random() < 0.9 and CHANGES[pair[0]] == CHANGES[pair[1]]:
        pair = chosen.sample(list(CHANGES), 2)
    return pair


def _body(chosen: random.Random, graph: Graph, name: str, x: str, y: str, template: str, depth: int) -> str:
    """The nodes of a branch that compute `name`: those of the template, at times followed by an operator or an `If`."""
    if chosen.random() < 0.2 and depth < 2:
        first = _named(template, f"{name}_i", x, y)
        return f"{first}\n{_branches(chosen, graph, name, f'{name}_i', depth + 1).text}\n"
    if chosen.random() < 0.3:
        first = _named(template, f"{name}_i", x, y)
        return f"{first}\n{_named(chosen.choice(OPERATORS), name, f'{name}_i', y)}\n"
    return _named(template, name, x, y) + "\n"


# ------------------------------------------------------------------------------------- checks


def check(seed: str) -> Counter[str]:
    """Compare the model of a seed with ONNX Runtime; return the number of calls by outcome. Raises Failure."""
    graph = random_graph(seed)
    try:
        return check_graph(graph, seed)
    except Failure as failure:
        small = _reduced(graph, seed, failure)
        raise Failure(failure.kind, f"{small[1]}\n{small[0].text}") from failure


def check_graph(graph: Graph, seed: str) -> Counter[str]:
    """Compare a graph with ONNX Runtime, called with the arguments of a seed."""
    model = graph.model()
    try:
        session = _session(model)
    except Exception:  # noqa: BLE001 (ONNX Runtime has a class for each status)
        return Counter({"not loaded by ONNX Runtime": 1})
    names = [item.name for item in model.graph.input]
    cases = graph.calls(seed)
    expected = [_outcome(partial(session.run, None, dict(zip(names, case, strict=True)))) for case in cases]
    try:
        mod = from_onnx(model)
    except relax.DiagnosticError as error:
        code = error.diagnostics[0].code
        if code not in UNKNOWN and any(isinstance(right, list) for right in expected):
            raise Failure(f"rejected with {code}", str(error)) from error
        return Counter({f"rejected with {code}": 1})
    vm = relax.VirtualMachine(relax.build(mod, "llvm -opt-level=1"), relax.cpu())
    modes: dict[str, Callable[..., Any]] = {
        "compiled": vm["main"],
        "interpreted": lambda *args: relax.interpret(mod, "main", *args),
    }
    outcomes: Counter[str] = Counter()
    for case, right in zip(cases, expected, strict=True):
        for mode, function in modes.items():
            result = _outcome(partial(_called, function, case, len(graph.values)))
            outcomes[_compared(mode, result, right, graph.values)] += 1
    return outcomes


def _session(model: ModelProto) -> Any:
    """ONNX Runtime's session, without optimisations: they assume that both branches of an `If` have the same rank."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _called(function: Callable[..., Any], case: Arrays, count: int) -> Arrays:
    """The `count` results of a function of the module."""
    result = function(*map(relax.nd.array, case))
    return [tensor.numpy() for tensor in ([result] if count == 1 else result)]


def _outcome(run: Callable[[], Arrays]) -> Arrays | Exception:
    """The results of a call, or the exception that it raised."""
    try:
        return run()
    except Exception as error:  # noqa: BLE001 (ONNX Runtime has a class for each status)
        return error


def _compared(mode: str, found: Arrays | Exception, right: Arrays | Exception, values: Sequence[str]) -> str:
    """The outcome of a call; raises Failure where the results differ."""
    if isinstance(right, Exception):
        if isinstance(found, Exception):
            return "both raise"
        if _INSIDE.search(str(right)):
            return "raises in ONNX Runtime, for a value inside of a branch"
        raise Failure(f"{mode} returns", f"ONNX Runtime raises {right}")
    if isinstance(found, Exception):
        raise Failure(f"{mode} raises {type(found).__name__}", str(found)) from found
    for name, result, other in zip(values, found, right, strict=True):
        if (result.dtype, result.shape) != (other.dtype, other.shape):
            text = f"{name} is {result.dtype}{result.shape}, not {other.dtype}{other.shape}"
            raise Failure(f"{mode} shape", text)
        if not np.allclose(result, other, 1e-4, 1e-5, equal_nan=True):
            raise Failure(f"{mode} values", f"{name} is {result}, not {other}")
    return "equal"


def _reduced(graph: Graph, seed: str, failure: Failure) -> tuple[Graph, Failure]:
    """Remove unread steps while the same sort of failure stays; return the graph and its failure."""
    for step in reversed(graph.steps):
        rest = [other for other in graph.steps if other is not step]
        words = set(re.findall(r"\w+", "\n".join(other.text for other in rest)))
        if not rest or not words.isdisjoint(step.results):
            continue
        smaller = replace(graph, steps=rest)
        try:
            check_graph(smaller, seed)
        except Failure as other:
            if other.kind == failure.kind:
                graph, failure = smaller, other
    return graph, failure


def main() -> int:
    """Check models; print one failure of each sort, and the outcomes."""
    parser = argparse.ArgumentParser(description="Random ONNX models whose branches differ in rank.")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    outcomes: Counter[str] = Counter()
    sorts: Counter[str] = Counter()
    for index in range(args.count):
        seed = f"{args.seed}:{index}"
        try:
            outcomes.update(check(seed))
        except Failure as failure:
            sorts[failure.kind] += 1
            if sorts[failure.kind] == 1:
                print(f"{seed}: {str(failure)[:2000]}\n", flush=True)
    print(f"{args.count} models: {dict(outcomes)}")
    print(f"failures: {dict(sorts)}")
    return 1 if sorts else 0


if __name__ == "__main__":
    sys.exit(main())
