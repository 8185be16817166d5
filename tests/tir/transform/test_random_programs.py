"""Random programs with storage, loops and branches: every pass, and all in a row, keep what they compute."""

from __future__ import annotations

import random

import pytest

from relax import tir
from relax.ir import IRModule
from relax.ir.transform import PassContext
from relax.tir import transform

PASSES = {
    "RemoveNoOp": transform.RemoveNoOp,
    "ConvertSSA": transform.ConvertSSA,
    "HoistIfThenElse": transform.HoistIfThenElse,
    "HoistExpression": transform.HoistExpression,
    "LoopPartition": transform.LoopPartition,
    "CompactBufferAllocation": transform.CompactBufferAllocation,
    "FlattenBuffer": transform.FlattenBuffer,
    "StorageRewrite": transform.StorageRewrite,
    "NarrowDataType": lambda: transform.NarrowDataType(16),
    "RenormalizeSplitPattern": transform.RenormalizeSplitPattern,
    "CommonSubexprElimTIR": transform.CommonSubexprElimTIR,
    "ConvertForLoopsToSerial": transform.ConvertForLoopsToSerial,
}
CONFIG = {"tir.LoopPartition": {"partition_const_loop": True}}
HEAD = """
@T.prim_func
def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), m: T.int32):
"""


class Writer:
    """The text of a program. A buffer is read only once all of it was written."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.count = 0

    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def line(self, depth, text):
        self.lines.append("    " * depth + text)

    def index(self, i):
        choices = [i, i, i, f"15 - {i}", f"({i} + 3) % 16", f"{i} // 4 * 4 + {i} % 4", f"{i} % 8", "5"]
        return self.random.choice(choices)

    def place(self, name, i):
        """An element of a buffer; those called q are of two dimensions."""
        return f"{name}[({i}) // 4, ({i}) % 4]" if name[0] == "q" else f"{name}[{i}]"

    def value(self, i, ready):
        terms = [self.place(self.random.choice(ready), self.index(i)) for _ in range(self.random.randint(1, 2))]
        if self.random.random() < 0.3:
            first = self.place(self.random.choice(ready), i)
            condition = self.random.choice(["m > 2", f"{i} < m", f"{i} // 2 + m < 9"])
            terms.append(f"T.if_then_else(T.likely({condition}), {first}, {i} * 3)")
        return " + ".join(terms)

    def fill(self, depth, target, ready):
        """A loop that writes all of a buffer."""
        i = self.name("i")
        value = self.value(i, ready)
        kind = self.random.choice(["range(16)", "range(T.int32(16))", "T.unroll(16)", "split"])
        if kind == "split":
            self.line(depth, f"for {i}o in range(4):")
            self.line(depth + 1, f"for {i}i in range(4):")
            self.line(depth + 2, f"with T.LetStmt({i}o * 4 + {i}i) as {i}:")
            self.line(depth + 3, f"{self.place(target, i)} = {value}")
            return
        self.line(depth, f"for {i} in {kind}:")
        self.line(depth + 1, f"{self.place(target, i)} = {value}")

    def update(self, depth, target, ready):
        """A loop that writes some of a buffer."""
        i = self.name("i")
        condition = self.random.choice([f"{i} < m", f"{i} * 2 + 1 < m + 3", "m > 3", f"{i} >= 2 and {i} < 12"])
        self.line(depth, f"for {i} in range(16):")
        self.line(depth + 1, f"if T.likely({condition}):")
        self.line(depth + 2, f"{self.place(target, i)} = {self.value(i, ready)}")

    def statements(self, depth, number, ready, others):
        """Statements over buffers that are written, and others that are not yet; returns those written now."""
        for _ in range(number):
            kind = self.random.random()
            if others and kind < 0.35:
                target = others.pop(0)
                self.fill(depth, target, ready)
                ready = [*ready, target]
            elif kind < 0.5:
                self.fill(depth, self.random.choice(ready[1:]), ready[:1])
            elif kind < 0.65:
                self.update(depth, self.random.choice(ready[1:]), ready)
            elif kind < 0.75 and depth < 5:
                k = self.name("k")
                self.line(depth, f"for {k} in range(2):")
                self.statements(depth + 1, 2, ready, [])
            elif kind < 0.85 and depth < 5:
                self.line(depth, "if m > 2:")
                self.statements(depth + 1, 2, ready, [])
            else:
                ready = self.storage(depth, ready)
        return ready

    def storage(self, depth, ready):
        """Storage that is used in these statements only."""
        name = self.name(self.random.choice("pq"))
        shape = "(4, 4)" if name[0] == "q" else self.random.choice(["(16,)", "(20,)", "(32,)"])
        self.line(depth, f'with T.allocate({shape}, "int32") as {name}:')
        self.statements(depth + 1, 1, self.filled(depth + 1, name, ready), [])
        self.fill(depth + 1, "B", [name, *ready])
        return ready

    def filled(self, depth, name, ready):
        self.fill(depth, name, ready)
        return [*ready, name]

    def program(self):
        names = [self.name(self.random.choice("pq")) for _ in range(self.random.randint(1, 3))]
        for depth, name in enumerate(names):
            shape = "(4, 4)" if name[0] == "q" else "(16,)"
            self.line(depth + 1, f'with T.allocate({shape}, "int32") as {name}:')
        depth = len(names) + 1
        ready = self.statements(depth, self.random.randint(2, 4), ["A", "B"], list(names))
        for name in ready[2:]:
            i = self.name("i")
            self.line(depth, f"for {i} in range(16):")
            self.line(depth + 1, f"B[{i}] = B[{i}] + {self.place(name, i)}")
        return HEAD + "\n".join(self.lines) + "\n"


@pytest.mark.parametrize("seed", range(6))
def test_random_programs(parse, seed, outcome_of):
    func = parse(Writer(seed).program())
    module = IRModule({"f": func})
    expected = [outcome_of(func, {"m": m}) for m in (0, 3, 16)]

    def keeps(made, name):
        tir.verify_well_formed(made)
        found = [outcome_of(made["f"], {"m": m}) for m in (0, 3, 16)]
        assert found == expected, f"{name}\n{func.script()}\n{made.script()}"

    with PassContext(config=CONFIG):
        together = module
        for name, make in PASSES.items():
            alone = make()(module)
            assert make()(alone) is alone, name
            keeps(alone, name)
            together = make()(together)
    keeps(together, "all passes")
