"""Random graphs of kernels: fused, they give the same bits."""

from __future__ import annotations

import random

import numpy as np
import pytest

import relax
from relax import op
from relax.prim import SizeVar
from relax.struct_info import TensorStructInfo
from support import values

from .conftest import fused, legalized, same_bits

DTYPES = ("float32", "float16", "int32")


class Graph:
    """A random dataflow block over tensors of shapes (n, 4), (4,), (n, 1) and (4, n)."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.dtype = self.random.choice(DTYPES)
        self.n = SizeVar("n", "int64")
        self.shapes = {"row": (4,), "matrix": (self.n, 4), "column": (self.n, 1), "turned": (4, self.n)}
        params = [relax.Var(name, TensorStructInfo(self.shapes[name], self.dtype)) for name in self.shapes]
        self.values = {param.name_hint: [param] for param in params}
        self.bb = relax.BlockBuilder()
        with self.bb.function("main", params):
            with self.bb.dataflow():
                for _ in range(self.random.randrange(3, 14)):
                    self.random.choice(self.steps)(self)
                results = [
                    self.bb.emit_output(self.pick(kind))
                    for kind in ("matrix", *self.random.sample(list(self.shapes), 2))
                ]
            self.bb.emit_func_output(relax.Tuple(results))

    def pick(self, kind):
        values = self.values[kind]
        return self.random.choice(values[-4:])

    def add(self, kind, expr):
        self.values[kind].append(self.bb.emit(expr))

    def unary(self):
        kind = self.random.choice(list(self.shapes))
        self.add(kind, self.random.choice([op.negative, op.abs, op.square, op.sign])(self.pick(kind)))

    def expensive(self):
        kind = self.random.choice(list(self.shapes))
        if self.dtype != "int32":
            self.add(
                kind,
                self.random.choice([op.exp, op.nn.gelu, op.nn.silu, op.tanh])(op.minimum(self.pick(kind), self.one)),
            )

    @property
    def one(self):
        return relax.const(1, self.dtype)

    def binary(self):
        a, b = (self.pick(self.random.choice(["matrix", "matrix", "row", "column"])) for _ in "ab")
        self.add(
            "matrix",
            self.random.choice([op.add, op.multiply, op.subtract, op.maximum])(op.add(self.pick("matrix"), a), b),
        )

    def turn(self):
        self.add("turned", op.permute_dims(self.pick("matrix")))
        self.add("matrix", op.permute_dims(self.pick("turned")))

    def reshape(self):
        self.add("turned", op.reshape(self.pick("matrix"), relax.ShapeExpr([4, self.n])))

    def reduce(self):
        reduction = self.random.choice([op.sum, op.max, op.mean if self.dtype != "int32" else op.min])
        self.add("column", reduction(self.pick("matrix"), axis=[1], keepdims=True))

    def product(self):
        if self.dtype != "int32":
            square = self.bb.emit(op.matmul(self.pick("turned"), self.pick("matrix")))
            self.add("matrix", op.matmul(self.pick("matrix"), square))

    def softmax(self):
        if self.dtype != "int32":
            self.add("matrix", op.nn.softmax(self.pick("matrix")))

    def split(self):
        parts = self.bb.emit(op.split(self.pick("matrix"), 2, axis=1))
        left, right = (self.bb.emit(relax.TupleGetItem(parts, i)) for i in range(2))
        self.add("matrix", op.concat([right, self.random.choice([left, right])], axis=1))

    def take(self):
        self.add("matrix", op.take(self.pick("matrix"), relax.const([3, 0, 0, -1], "int64"), axis=1))

    steps = (unary, unary, expensive, binary, binary, turn, reshape, reduce, product, softmax, split, take)


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed):
    graph = Graph(seed)
    before = legalized(graph.bb.get())
    after = fused(before)
    for n in (0, 1, 3):
        shapes = [(4,), (n, 4), (n, 1), (4, n)]
        random_numbers = np.random.default_rng(seed)
        args = [(random_numbers.normal(size=shape) * 2).astype(graph.dtype) for shape in shapes]
        same_bits(values(outcome(before, args)), values(outcome(after, args)))


def outcome(mod, args):
    """The results; of a program that fails, none."""
    try:
        return relax.interpret(mod, "main", *args)
    except (IndexError, ValueError) as error:
        return [np.array(type(error).__name__)]
