"""Random programs keep their results, their effects on arguments, and which of their results share storage."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

import relax
from relax import op
from relax.analysis import assert_well_formed
from relax.prim import SizeVar
from relax.struct_info import ObjectStructInfo, TensorStructInfo
from relax.transform import (
    CallTIRRewrite,
    CanonicalizeBindings,
    DeadCodeElimination,
    EliminateCommonSubexpr,
    FoldConstant,
    LambdaLift,
    LegalizeOps,
    RemovePurityChecking,
    Sequential,
    ToNonDataflow,
)
from support import PLAIN_LOOPS

GRAPH_PASSES = (CanonicalizeBindings, FoldConstant, EliminateCommonSubexpr, DeadCodeElimination, LambdaLift)


@relax.register_func("test.random.increment", override=True)
def increment(tensor: relax.nd.NDArray) -> None:
    tensor.copyfrom(tensor.numpy() + 1)


class Program:
    """A random function of two tensors and a condition; `made` holds the values to choose from, by kind."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.n = SizeVar("n", "int64")
        self.info = TensorStructInfo((self.n, 4), "float32")
        x, y = relax.Var("x", self.info), relax.Var("y", self.info)
        self.cond = relax.Var("c", TensorStructInfo((), "bool"))
        self.bb = relax.BlockBuilder()
        self.impure = self.random.random() < 0.6
        self.made = {"matrix": [x, y], "flat": [], "pair": []}
        with self.bb.function("main", [x, y, self.cond], pure=not self.impure):
            for _ in range(self.random.randrange(1, 4)):
                self.dataflow_block() if self.random.random() < 0.6 else self.steps(2, 8, self.effects)
                if self.random.random() < 0.4:
                    self.branch()
            wanted = ["matrix"] * self.random.randrange(1, 4) + [k for k, v in self.made.items() if v]
            self.bb.emit_func_output(relax.Tuple([self.pick(kind) for kind in wanted]))

    @property
    def module(self):
        return self.bb.get()

    def pick(self, kind="matrix"):
        return self.random.choice(self.made[kind])

    def add(self, expr, kind="matrix"):
        self.made[kind].append(self.bb.emit(expr))

    def steps(self, least, most, extra=()):
        table = [*self.arithmetic, *extra]
        for _ in range(self.random.randrange(least, most)):
            self.random.choice(table)(self)

    def dataflow_block(self):
        outside = self.made
        self.made = {kind: list(values) for kind, values in outside.items()}
        with self.bb.dataflow():
            self.steps(3, 12)
            for kind in ("matrix", "matrix", "flat", "pair"):
                if self.made[kind] and self.random.random() < 0.7:
                    outside[kind].append(self.bb.emit_output(self.pick(kind)))
        self.made = outside

    def branch(self):
        yes, no = (relax.SeqExpr([], self.random.choice([op.negative, lambda v: v])(self.pick())) for _ in "ab")
        self.add(relax.If(self.cond, yes, no))

    # ------------------------------------------------------------------------------------- single steps

    def alias(self):
        self.add(self.pick())

    def sum(self):
        self.add(op.add(self.pick(), self.pick()))

    def negative(self):
        self.add(op.negative(self.pick()))

    def flatten(self):
        self.add(op.reshape(self.pick(), relax.ShapeExpr([self.n * 4])), "flat")

    def unflatten(self):
        if self.made["flat"]:
            self.add(op.reshape(self.pick("flat"), relax.ShapeExpr([self.n, 4])))

    def pair(self):
        self.add(relax.Tuple([self.pick(), self.pick()]), "pair")

    def field(self):
        if self.made["pair"]:
            self.add(relax.TupleGetItem(self.pick("pair"), self.random.randrange(2)))

    def cast(self):
        named = self.bb.match_cast(self.pick(), TensorStructInfo((SizeVar("m", "int64"), 4), "float32"))
        self.made["matrix"].append(self.bb.match_cast(named, self.info))

    def constant(self):
        constant = self.bb.emit(relax.const(np.array([[1, 2, 3, 4]], "float32")))
        square = self.bb.emit(op.multiply(constant, constant))
        if self.impure and not self.bb.current_block_is_dataflow():
            self.increment(constant)
        self.add(op.add(self.pick(), op.add(square, constant)))

    def increment(self, value=None):
        if self.impure:
            target = self.pick() if value is None else value
            self.bb.emit(op.call_packed("test.random.increment", target, sinfo_args=ObjectStructInfo()))

    def closure(self):
        param = relax.Var("z", self.info)
        body = op.add(param, op.multiply(self.pick(), relax.const(0.5, "float32")))
        function = self.bb.emit(relax.Function([param], relax.SeqExpr([], body), self.info))
        self.add(relax.Call(function, [self.pick()]))

    arithmetic = (alias, sum, sum, negative, flatten, unflatten, pair, field, cast, constant)
    effects = (increment, closure)


def plain(value):
    return value.numpy().copy() if hasattr(value, "numpy") else [plain(item) for item in value]


def tensors(value):
    return [value] if hasattr(value, "numpy") else [t for item in value for t in tensors(item)]


def run(mod, pipeline, args):
    """The results, the arguments afterwards, and for each result the first that shares its storage."""
    given = [relax.nd.array(a.copy()) for a in args]
    executable = relax.build(mod, PLAIN_LOOPS, pipeline=pipeline)
    result = relax.VirtualMachine(executable, relax.cpu())["main"](*given)
    places = [t.numpy().__array_interface__["data"][0] for t in tensors(result)]
    return plain(tensors(result)), plain(given), [places.index(p) for p in places]


LEAST = Sequential([LegalizeOps(), ToNonDataflow(), RemovePurityChecking(), CallTIRRewrite(), LambdaLift()])


@pytest.mark.parametrize("seed", range(24))
def test_results_effects_and_sharing_stay(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", relax.ir.RelaxWarning)
        mod = Program(seed).module
    assert_well_formed(mod)
    for factory in GRAPH_PASSES:
        after = factory()(mod)
        assert_well_formed(after)
        assert factory()(after) is after
    numbers = np.random.RandomState(seed)
    args = [numbers.rand(3, 4).astype("float32") for _ in range(2)] + [np.array(bool(seed % 2))]
    expected, found = run(mod, LEAST, args), run(mod, "default", args)
    for one, other in zip(expected[0] + expected[1], found[0] + found[1], strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5)
    assert found[2] == expected[2]
