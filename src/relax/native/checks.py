"""Writers of checks: functions that load values and reject them under conditions."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from .builder import FunctionBuilder, ModuleBuilder, Operand
from .formula import Val


class CheckWriter:
    """Writer of one checking function."""

    def __init__(self, module: ModuleBuilder, head: str) -> None:
        self.b = FunctionBuilder(module, head)

    def load(self, at: Operand, offset: int = 0, type_: str = "i64") -> Val:
        """Load a number at `offset` bytes from an address."""
        place = self.b.op(f"getelementptr i8, ptr {at}, i64 {offset}")
        return Val(self.b, type_, 1, self.b.op(f"load {type_}, ptr {place}, align {4 if type_ == 'i32' else 8}"))

    def element(self, array: Operand, index: Val) -> Val:
        """Load an element of an array of numbers."""
        return self.load(self.b.op(f"getelementptr i64, ptr {array}, i64 {index.ref}"))

    def parameter(self, name: str, type_: str = "i64") -> Val:
        """A numeric parameter."""
        return Val(self.b, type_, 1, f"%{name}")

    def refuse_unless(self, condition: Val, refuse: Callable[[], None]) -> None:
        """Continue if the condition holds; otherwise run the code written by `refuse`, which ends the function."""
        good, bad = self.b.label("fits"), self.b.label("bad")
        self.b.branch_if(condition.ref, good, bad)
        with self.b.cold(bad):
            refuse()
        self.b.start(good)

    @contextmanager
    def when(self, condition: Val) -> Generator[None]:
        """Context manager: write code that runs if the condition holds."""
        yes, after = self.b.label("when"), self.b.label("after")
        self.b.branch_if(condition.ref, yes, after)
        self.b.start(yes)
        yield
        self.b.branch(after)
        self.b.start(after)

    @contextmanager
    def loop(self, count: Val) -> Generator[Val]:
        """Context manager: write a loop over the numbers below `count`."""
        test, body, step, end = (self.b.label(hint) for hint in ("test", "body", "step", "end"))
        before, index = self.b.block, Val(self.b, "i64", 1, f"%{test}.i")
        self.b.branch(test)
        self.b.start(test)
        self.b.do(f"{index.ref} = phi i64 [ 0, %{before} ], [ {index.ref}.next, %{step} ]")
        self.b.branch_if(index.lt(count).ref, body, end)
        self.b.start(body)
        yield index
        self.b.branch(step)
        self.b.start(step)
        self.b.do(f"{index.ref}.next = add i64 {index.ref}, 1")
        self.b.branch(test)
        self.b.start(end)

    def variable(self, start: Val) -> Variable:
        """Variable that changes between iterations of a loop."""
        variable = Variable(self.b, self.b.alloca("i64", 8))
        variable.set(start)
        return variable


class Variable:
    """A number in stack memory."""

    def __init__(self, b: FunctionBuilder, at: Operand) -> None:
        self.b = b
        self.at = at

    def get(self) -> Val:
        """Load the number."""
        return Val(self.b, "i64", 1, self.b.op(f"load i64, ptr {self.at}"))

    def set(self, value: Val) -> None:
        """Store a new value."""
        self.b.do(f"store i64 {value.ref}, ptr {self.at}")


def fits_integer(value: Val, bits: Val, is_signed: Val) -> Val:
    """Condition that a 64-bit value fits an integer dtype of `bits` bits."""
    # All bits above those of the dtype are the same; of an unsigned one they are 0.
    above = value >> (bits - is_signed.to(bits.type, signed=False)).intrinsic("smin", 63).to("i64")
    return above.eq(0) | (is_signed & above.eq(-1))
