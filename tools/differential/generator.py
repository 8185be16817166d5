"""Random well-formed Relax modules as text, with inputs that match them.

    program = random_program(seed)            # or, with hypothesis: @given(programs())
    mod = program.module()                    # parsed
    args = inputs(program, {"n": 2, "m": 0}, seed)

`main` has parameters of random kinds over the shape variables `n` and `m`, and returns a tuple of what was computed.
Elements are small whole numbers (and inf, NaN, -0.0 in some floats), on which operators are exact in any order; where
a function of the reals took part, `Program.exact` is False, and results are compared up to a tolerance.
"""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

import relax
from relax.ir import DiagnosticError, IRModule, RelaxWarning

from .call_steps import CallSteps
from .choices import Choices, Drawn, Seeded
from .control_steps import ControlSteps, weak
from .failing_steps import FailingSteps
from .held_steps import HeldSteps
from .kinds import FLOATS, Func, Kind, Object, Prim, Shape, Tensor, Tuple, Value, annotation, evaluate, hide
from .network_steps import NetworkSteps
from .repeated_steps import RepeatedSteps
from .sample_steps import SampleSteps
from .scalar_steps import NAMED, ScalarSteps
from .size_steps import SizeSteps
from .tensor_steps import TensorSteps
from .writer import LARGEST, STEPS, Draft

HEADER = "from relax.script import ir as I\nfrom relax.script import relax as R\nfrom relax.script import tir as T\n"

DEVICES = '    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})\n\n'

SIZES: tuple[dict[str, int], ...] = tuple(
    {"n": n, "m": m} for n, m in ((2, 3), (0, 2), (1, 1), (3, 0), (1, 4), (2, 2), (0, 0), (4, 1))
)
"""Sizes worth trying, the telling ones first."""


class Scope(
    TensorSteps,
    NetworkSteps,
    HeldSteps,
    ScalarSteps,
    RepeatedSteps,
    ControlSteps,
    CallSteps,
    FailingSteps,
    SizeSteps,
    SampleSteps,
):
    """All steps."""


PROVED = ("E31", "E3008")
"""Codes of what is proved to fail: of an operator; of a match_cast."""


@dataclass(frozen=True)
class Program:
    """A module as text, and what it takes and gives."""

    text: str
    params: tuple[tuple[str, Kind], ...]
    result: Kind
    exact: bool = True
    """Whether results are the same for every order of computing."""
    features: Counter[str] = field(default_factory=Counter)
    """The constructs it uses, with how often."""
    failing: bool = False
    """Whether it may fail on some inputs; then it may even be proved to fail, and be refused (`is_refused`)."""

    def is_refused(self) -> bool:
        """Whether a part of a program that may fail is proved to fail always: then it is no program."""
        try:
            self.module()
        except DiagnosticError as error:
            return self.failing and all(d.code.startswith(PROVED) for d in error.diagnostics)
        return False

    def module(self) -> IRModule:
        """The module. Raises DiagnosticError if it is not well-formed, which is then an error of the generator."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RelaxWarning)  # much is left to checks at run time
            mod = relax.script.from_source(HEADER + self.text)
        assert isinstance(mod, IRModule)
        return mod

    @property
    def shape_variables(self) -> tuple[str, ...]:
        """The shape variables of main's signature, for which `inputs` wants sizes."""
        return ("n", "m")


# ------------------------------------------------------------------------------------------ programs


@st.composite
def programs(draw: Callable[[Any], Any], effects: bool | None = None, failing: bool | None = None) -> Program:
    """A program, shrunk by hypothesis. `effects` and `failing` say what it may contain; None: whatever comes."""
    return _program(Drawn(draw), effects, failing)


def random_program(seed: int | str, effects: bool | None = None, failing: bool | None = None) -> Program:
    """The program that follows from a seed."""
    return _program(Seeded(seed), effects, failing)


def _program(choices: Choices, effects: bool | None, failing: bool | None) -> Program:
    effects = choices.chance(50) if effects is None else effects
    failing = choices.chance(35) if failing is None else failing
    draft = Draft(choices, effects, failing, sizes={"n": LARGEST, "m": LARGEST}, devices=choices.chance(12))
    scope = Scope(draft, pure=not effects, signature={"n", "m"})
    scope.dims = ["n", "m"]
    params = _parameters(choices)
    scope.pool = [Value(name, weak(kind), 255 if _is_uint8(kind) else 3) for name, kind in params]
    scope.scalars = [(kind.name, kind.dtype) for _, kind in params if isinstance(kind, Prim) and kind.name]
    named = tuple(scope.scalars)
    scope.steps(choices.integer(2, 11))
    chosen = [scope.find(lambda _: True) for _ in range(choices.integer(2, 5))]
    results = [value for value in chosen if value is not None]
    kind = Tuple(tuple(hide(value.kind, {"n", "m"}) for value in results))
    scope.line(f"return ({''.join(value.name + ', ' for value in results)})")
    arrow = f" -> {annotation(kind, True)}" if choices.chance(75) else ""
    shown = ", ".join(f"{name}: {annotation(param, True)}" for name, param in params)
    head = f"    @R.function{'' if not effects else '(pure=False)'}\n    def main({shown}){arrow}:\n"
    head += "        n = T.int64()\n        m = T.int64()\n"
    head += "".join(f"        {name} = T.{dtype}()\n" for name, dtype in named)
    devices = DEVICES if draft.devices else ""
    text = "\n@I.ir_module\nclass Module:\n" + devices + head + "\n".join(scope.lines) + "\n" + "".join(draft.functions)
    features = Counter(draft.features)
    features.update(f"R.{name}" for name in re.findall(r"\bR\.([a-z][\w.]*)\(", text))
    return Program(text, tuple(params), kind, draft.exact, features, failing)


def _is_uint8(kind: Kind) -> bool:
    return isinstance(kind, Tensor) and kind.dtype == "uint8"


def _parameters(choices: Choices) -> list[tuple[str, Kind]]:
    """The parameters of main: a matrix that binds the sizes, a condition, and what else comes."""
    first = choices.pick(("float32", "float32", "int64", "float64"))
    params: list[tuple[str, Kind]] = [("x", Tensor(("n", "m"), first)), ("b", Tensor((), "bool"))]
    options: list[Kind] = [
        Tensor(("m",), first),
        Tensor(("n",), "int64"),
        Tensor(("m", "n"), "float32"),
        Tensor(("n", "m"), "bool"),
        Tensor(("(n * m)",), "float32"),
        Tensor(("(n + 1)", "2"), "int32"),
        Tensor(("m", "2"), "float16"),
        Tensor(("3",), "int8"),
        Tensor(("n",), "uint8"),
        Tensor(("T.max(n, m)",), "int16"),
        Tensor(("m",), "int32", True),
        Tensor(("n", "m"), "float32", True),
        Tensor((), "int64"),
        Shape(("n", "(m + 1)")),
        Shape(("m",), True),
        Prim("int64", "n"),
        Prim("int64"),
        Prim("bool"),
        Tuple((Tensor(("n",), "float32"), Tuple((Tensor(("m",), "int64"),)))),
        Object("string"),
        Object("packed"),
        Object(Tensor(("n",), "float32")),
    ]
    for i in range(choices.integer(0, 4)):
        params.append((f"a{i}", choices.pick(options)))
    if choices.chance(35):
        for i in range(choices.integer(1, 3)):
            params.append((f"s{i}", Prim(choices.pick(NAMED), None, f"q_{i}")))
    return params if choices.chance(70) else params[1:] + params[:1]


# -------------------------------------------------------------------------------------------- inputs


def inputs(program: Program, sizes: Mapping[str, int], seed: int, broken: bool = False) -> list[Any]:
    """Arguments of main: NumPy arrays, ShapeTuples, numbers, tuples, strings, functions.

    Every third seed puts NaN, infinities and -0.0 into floats; every fourth gives one tensor as several arguments, where
    parameters are of one kind. `broken`: one tensor does not match the signature, or one shape is none.
    """
    rng = np.random.default_rng(seed)
    args = [value_of(kind, sizes, rng, seed % 3 == 2) for _, kind in program.params]
    if seed % 4 == 1:  # one tensor as several arguments
        known: dict[Kind, Any] = {}
        args = [known.setdefault(kind, arg) for (_, kind), arg in zip(program.params, args)]
    if broken:
        at = [i for i, arg in enumerate(args) if isinstance(arg, (np.ndarray, relax.ShapeTuple))]
        index = at[int(rng.integers(len(at)))]
        args[index] = _wrong(args[index], rng) if isinstance(args[index], np.ndarray) else _no_shape(args[index], rng)
    return args


NO_SIZES = (-1, -(2**40), -(2**63), 2**48, 2**50 + 1, 2**62, 2**63 - 1)


def _no_shape(shape: Sequence[int], rng: np.random.Generator) -> relax.ShapeTuple:
    """A shape value with a dimension that is no size."""
    dims = list(shape)
    dims[int(rng.integers(len(dims)))] = NO_SIZES[int(rng.integers(len(NO_SIZES)))]
    return relax.ShapeTuple(dims)


def _wrong(array: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    options = [np.zeros(array.shape, "int32" if array.dtype != np.int32 else "int64"), array[None]]
    if array.ndim > 1:  # without elements an array may be as long as it likes
        options += [np.zeros((size, *[0] * (array.ndim - 1)), array.dtype) for size in (2**48, 2**59)]
    if array.ndim:
        options += [np.concatenate([array, array[:1]]), np.concatenate([array, np.zeros_like(array)]), array[:-1]]
    return np.array(options[int(rng.integers(len(options)))])


def value_of(kind: Kind, sizes: Mapping[str, int], rng: np.random.Generator, special: bool) -> Any:
    """A value of a kind."""
    match kind:
        case Tensor(dims, dtype):
            return array_of(tuple(evaluate(dim, sizes) for dim in dims), dtype, rng, special)
        case Shape(dims):
            return relax.ShapeTuple([evaluate(dim, sizes) for dim in dims])
        case Prim("bool", _):
            return bool(rng.integers(2))
        case Prim(dtype, None) if dtype in FLOATS:
            return float(rng.choice([0.0, -0.5, 1.5, 2.0, *((math.inf, math.nan, -0.0) if special else ())]))
        case Prim(dtype, None, name) if name and dtype != "uint8":
            return int(rng.integers(-3, 4))
        case Prim(_, None):
            return int(rng.integers(0, 5))
        case Prim(_, value):
            return evaluate(value or "0", sizes)
        case Tuple(fields):
            return tuple(value_of(field, sizes, rng, special) for field in fields)
        case Object(what) if not isinstance(what, str):
            return value_of(what, sizes, rng, special)
        case Object("packed"):
            return relax.get_global_func("fuzz.sum")
        case Object("string"):
            return "given"
        case _:
            return None


def array_of(shape: tuple[int, ...], dtype: str, rng: np.random.Generator, special: bool) -> np.ndarray[Any, Any]:
    """Small whole numbers, and if wanted the special floats."""
    if dtype == "bool":
        return np.asarray(rng.integers(2, size=shape), "bool")
    low = 0 if dtype == "uint8" else -3
    array = np.asarray(rng.integers(low, 4, size=shape)).astype(dtype)
    if special and dtype in FLOATS and array.size:
        values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype)
        array.flat[rng.integers(array.size)] = values[rng.integers(len(values))]
    return array


def all_features() -> set[str]:
    """Every construct the generator knows: each is to occur when enough programs are made."""
    return {feature for steps in STEPS.values() for _, _, feature in steps}


__all__ = ["FLOATS", "SIZES", "Func", "Program", "all_features", "inputs", "programs", "random_program"]
