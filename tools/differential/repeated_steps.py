"""Steps for what optimisers compute once: equal computations, constants, and operators on scalars."""

from __future__ import annotations

from .kinds import FLOATS, Prim, Tensor
from .writer import Core, step


class RepeatedSteps(Core):
    """Work that EliminateCommonSubexpr and FoldConstant take away, or must leave."""

    @step(weight=3)
    def computed_twice(self) -> bool | None:
        """One computation twice, with something between that may change its operand, or be an If."""
        v = self.tensor("float32", "int32", "int64", exact=True)
        if v is None or v.bound > 4000:
            return False
        text = f"R.{self.choices.pick(('negative', 'abs'))}({v.name})"
        first = self.bind(text, v.kind, v.bound, True, True, keep=False)
        if self.choices.chance(60):
            with self.using(v):
                self.steps(1)
        second = self.bind(text, v.kind, v.bound, True, True, keep=False)
        if self.choices.chance(50):
            self.settle(f"R.add({first.name}, {second.name})", v.kind, v.bound * 2, True)
        return None

    @step(weight=2)
    def operator_on_constants(self) -> bool | None:
        """An operator that is folded by its kernel."""
        dtype = self.choices.pick(("int32", "int8", "float16", "float32"))
        a, b = (f'R.const([[{self.choices.integer(0, 3)}, 1], [2, 3]], "{dtype}")' for _ in range(2))
        kind = Tensor(("2", "2"), dtype)
        forms = [f"R.matmul({a}, {b})", f"R.add({a}, {b})", f"R.cumsum({a}, axis=0)", f"R.maximum({a}, {b})"]
        if dtype in FLOATS:
            self.bind(f"R.{self.choices.pick(('exp', 'sigmoid'))}({a})", kind, 21, False, True)
        self.bind(self.choices.pick(forms), kind, 20, True, True)

    @step(weight=3)
    def operator_on_scalars(self) -> bool | None:
        """An operator whose operands are both scalars."""
        v = self.find(lambda v: isinstance(v.kind, Prim))
        if v is None or not isinstance(v.kind, Prim):
            return False
        dtype = v.kind.dtype
        w = self.find(lambda w: isinstance(w.kind, Prim) and w.kind.dtype == dtype) or v
        compared = ("less", "less_equal", "greater", "equal", "not_equal")
        if dtype == "bool":
            name = self.choices.pick(("logical_and", "logical_or", "logical_xor", "equal"))
            self.bind(f"R.{name}({v.name}, {w.name})", Prim("bool"))
        elif self.choices.chance(25):
            self.bind(f"R.{self.choices.pick(compared)}({v.name}, {w.name})", Prim("bool"))
        else:
            name = self.choices.pick(("add", "subtract", "maximum", "minimum"))
            self.bind(f"R.{name}({v.name}, {w.name})", Prim(dtype))
        return None
