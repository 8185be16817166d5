"""Random loop nests: compiled code computes what the interpreter computes, and fails where it fails.

Half of the accesses may be out of bounds, some are guarded, some are provably inside: an access whose check was left
out wrongly shows as a missing IndexError (or a crash).
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from relax import codegen, tir
from relax.tir import interpret

ERRORS = (IndexError, ZeroDivisionError, OverflowError)


class Generator:
    """Makes one program."""

    def __init__(self, seed):
        self.pick = random.Random(seed)
        self.n, self.m, self.scalar = tir.Var("n", "int64"), tir.Var("m", "int64"), tir.Var("s", "int32")
        self.a = tir.decl_buffer((self.n, self.m), "float32", "A")
        self.b = tir.decl_buffer((self.n,), "float32", "B")
        self.c = tir.decl_buffer((4, self.m), "float32", "C")
        self.index = tir.decl_buffer((self.n,), "int32", "I")
        self.readable, self.writable = [self.a, self.b, self.c], [self.b, self.c]
        self.vars, self.sizes = [self.n, self.m, self.scalar], {}

    def number(self, depth, dtype):
        """An integer: of variables, constants, arithmetic, and what the index buffer holds."""
        pick, kind = self.pick, self.pick.random()
        known = [v for v in self.vars if v.dtype == dtype]
        if depth <= 0 or kind < 0.25:
            if known and pick.random() < 0.7:
                return pick.choice(known)
            return tir.const(pick.choice([0, 1, 2, 3, 7, -1, 8]), dtype)
        if kind < 0.28:
            loaded = self.index[self.number(depth - 1, "int64")]
            return loaded if dtype == "int32" else tir.Cast("int64", loaded)
        if kind < 0.32:
            return tir.Cast(dtype, self.number(depth - 1, "int64" if dtype == "int32" else "int32"))
        a, b = self.number(depth - 1, dtype), self.number(depth - 1, dtype)
        divisor = pick.choice([tir.const(pick.choice([1, 2, 3, 4]), dtype), b])
        return pick.choice([
            lambda: a + b, lambda: a - b, lambda: a * tir.const(pick.choice([2, 3, -1]), dtype),
            lambda: tir.FloorDiv(a, divisor), lambda: tir.FloorMod(a, divisor), lambda: tir.Div(a, divisor),
            lambda: tir.Min(a, b), lambda: tir.Max(a, b),
            lambda: tir.if_then_else(self.condition(depth - 1), a, b),
        ])()  # fmt: skip

    def condition(self, depth):
        pick, dtype = self.pick, self.pick.choice(["int32", "int64"])
        compare = pick.choice([tir.LT, tir.LE, tir.GT, tir.GE, tir.EQ, tir.NE])
        made = compare(self.number(depth - 1, dtype), self.number(depth - 1, dtype))
        if depth > 0 and pick.random() < 0.4:
            made = pick.choice([tir.And, tir.Or])(made, self.condition(depth - 1))
        return tir.Not(made) if pick.random() < 0.1 else made

    def indices(self, buffer):
        found = []
        for size in buffer.shape:
            loops = [v for v, s in self.sizes.items() if s is size]
            dtype = self.pick.choice(["int32", "int64"])
            found.append(self.pick.choice(loops) if loops and self.pick.random() < 0.5 else self.number(2, dtype))
        return found

    def inside(self, buffer, indices):
        """The condition that indices are within bounds."""
        tests = []
        for at, size in zip(indices, buffer.shape):
            wide = at if at.dtype == "int64" else tir.Cast("int64", at)
            tests += [tir.GE(at, tir.const(0, at.dtype)), tir.LT(wide, size)]
        return tir.all(*tests)

    def value(self, depth):
        pick, kind = self.pick, self.pick.random()
        if depth <= 0 or kind < 0.2:
            return tir.const(pick.choice([0.5, 1, 2, -1.5]), "float32")
        if kind < 0.6:
            buffer = pick.choice(self.readable)
            at = self.indices(buffer)
            if pick.random() < 0.4:
                return tir.if_then_else(self.inside(buffer, at), buffer[tuple(at)], tir.const(-7.0, "float32"))
            return buffer[tuple(at)]
        if kind < 0.7:
            return tir.Select(self.condition(1), self.value(depth - 1), self.value(depth - 1))
        if kind < 0.8:
            return tir.Cast("float32", self.number(2, "int32"))
        return self.value(depth - 1) + self.value(depth - 1)

    def store(self):
        buffer = self.pick.choice(self.writable)
        at, value = self.indices(buffer), self.value(2)
        if self.pick.random() < 0.3:
            value = buffer[tuple(at)] + value
        made = tir.BufferStore(buffer, value, at)
        return tir.IfThenElse(self.inside(buffer, at), made) if self.pick.random() < 0.5 else made

    def loop(self, depth):
        pick = self.pick
        if pick.random() < 0.6:
            size = pick.choice([self.n, self.m, self.n * self.m, tir.const(4, "int64")])
            var, start, extent = tir.Var("i", "int64"), 0, size
            self.sizes[var] = size
        else:
            var = tir.Var("j", pick.choice(["int32", "int64"]))
            start, extent = (tir.const(pick.choice(c), var.dtype) for c in ([0, 0, 1, -1], [1, 2, 4, 8]))
        self.vars.append(var)
        body = self.statement(depth - 1)
        self.vars.remove(var)
        self.sizes.pop(var, None)
        return tir.For(var, start, extent, pick.choice(["serial", "serial", "unrolled"]), body)

    def statement(self, depth):
        kind = self.pick.random()
        if depth <= 0 or kind < 0.35:
            return self.store()
        if kind < 0.7:
            return self.loop(depth)
        if kind < 0.8:
            other = self.statement(depth - 1) if self.pick.random() < 0.5 else None
            return tir.IfThenElse(self.condition(2), self.statement(depth - 1), other)
        if kind < 0.9:
            var = tir.Var("t", self.pick.choice(["int32", "int64"]))
            value = self.number(2, var.dtype)
            self.vars.append(var)
            body = self.statement(depth - 1)
            self.vars.remove(var)
            return tir.LetStmt(var, value, body)
        return tir.SeqStmt((self.statement(depth - 1), self.statement(depth - 1)))

    def function(self):
        params = [tir.Var(f"p{i}", "handle") for i in range(4)]
        buffers = dict(zip(params, [self.a, self.b, self.c, self.index]))
        return tir.PrimFunc((*params, self.scalar), self.statement(4), buffer_map=buffers)


def outcome(run, arrays, scalar):
    """The arrays after a run, and the error it ended with."""
    copies = [a.copy() for a in arrays]
    try:
        run(*copies, scalar)
    except ERRORS as error:
        return copies, type(error)
    return copies, None


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_compiled_code_does_what_the_interpreter_does(first):
    seeds = range(first, first + 20)
    funcs = {f"f{seed}": Generator(seed).function() for seed in seeds}
    module = codegen.build_module(funcs)
    for seed, (n, m) in [(seed, size) for seed in seeds for size in ((3, 5), (1, 1), (0, 2), (5, 0))]:
        func = funcs[f"f{seed}"]
        rng = np.random.default_rng(seed)
        arrays = [rng.integers(-4, 5, shape).astype("float32") for shape in ((n, m), (n,), (4, m))]
        arrays.append(rng.integers(-2, 7, n).astype("int32"))
        scalar = int(rng.integers(-2, 6))
        found, error = outcome(module[f"f{seed}"], arrays, scalar)
        expected, reason = outcome(lambda *args: interpret(func, *args), arrays, scalar)  # noqa: B023
        assert (error is None) == (reason is None), f"seed {seed}, sizes {n, m}: {error} and {reason}"
        if error is None:
            for a, b in zip(found, expected):
                np.testing.assert_array_equal(a, b, err_msg=f"seed {seed}, sizes {n, m}")
