"""Steps on scalars of every dtype, and on the variables that signatures and match_casts name them by."""

from __future__ import annotations

from dataclasses import replace

from .kinds import FLOATS, Prim, Tensor
from .writer import Core, step

NAMED = ("float32", "float64", "float16", "int64", "int8", "uint8", "int32", "bool")
"""Dtypes of scalars that get a name."""
CONSTANTS = {"bool": ("True", "False"), "uint8": ("0", "1", "7"), "float": ("0.5", "-2.0", "0.0")}


class ScalarSteps(Core):
    """Arithmetic, names, casts, and closures over scalars."""

    def operand(self, dtype: str) -> str:
        """A scalar variable, a size converted, or a constant."""
        named = [name for name, other in self.scalars if other == dtype]
        if named and self.choices.chance(75):
            return self.choices.pick(named)
        if self.dims and dtype != "bool" and self.choices.chance(30):
            dim = self.choices.pick(self.dims)
            return dim if dtype == "int64" else f'T.Cast("{dtype}", {dim})'
        known = CONSTANTS.get("float" if dtype in FLOATS else dtype, ("0", "-3", "2"))
        return f"T.{dtype}({self.choices.pick(known)})"

    def expression(self, dtype: str) -> str:
        """A scalar expression of variables in scope."""
        choices = self.choices
        if dtype == "bool" and choices.chance(60):
            other = choices.pick(tuple(name for name in NAMED if name != "bool"))
            operator = choices.pick(("<", "<=", ">", ">=", "==", "!="))
            return f"({self.operand(other)} {operator} {self.operand(other)})"
        a, b = self.operand(dtype), self.operand(dtype)
        forms = [f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"T.max({a}, {b})", f"T.min({a}, {b})", a]
        if dtype == "bool":
            forms = [f"T.And({a}, {b})", f"T.Or({a}, {b})", f"T.Not({a})", a]
        elif dtype not in FLOATS:
            forms += [f"({a} // T.{dtype}(3))", f"({a} % T.{dtype}(2))"]
        if choices.chance(15) and self.scalars:
            name, other = choices.pick(self.scalars)
            if not (other in FLOATS and dtype not in FLOATS):  # what a conversion gives of inf is not said
                forms = [f'T.Cast("{dtype}", {name})']
        return choices.pick(forms)

    @step(weight=2)
    def scalar_arithmetic(self) -> bool | None:
        dtype = self.choices.pick(NAMED)
        self.bind(f"R.prim_value({self.expression(dtype)})", Prim(dtype))

    @step(weight=2)
    def scalar_beside_a_tensor(self) -> bool | None:
        """A scalar expression as an operand of a tensor operator, or as what fills a tensor."""
        v = self.tensor(*NAMED)
        if v is None or not isinstance(v.kind, Tensor):
            return False
        text = f"R.prim_value({self.expression(v.kind.dtype)})"
        if v.kind.dtype == "bool":
            self.bind(f"R.logical_xor({v.name}, {text})", v.kind, 1, True, True)
            return None
        call = self.choices.pick(("add", "multiply", "minimum", "less", "full"))
        sure = v.exact and v.kind.dtype not in FLOATS
        if call == "less":
            self.bind(f"R.less({v.name}, {text})", replace(v.kind, dtype="bool"), 1, v.exact, True)
        elif call == "full":
            dims = ", ".join(v.kind.dims) + ("," if v.kind.dims else "")
            self.bind(f'R.full(({dims}), {text}, "{v.kind.dtype}")', v.kind, 300, sure, True)
        else:
            self.bind(f"R.{call}({v.name}, {text})", v.kind, v.bound * 300, sure, True)
        return None

    @step(weight=2)
    def named_scalar(self) -> bool | None:
        """A match_cast that gives a scalar a name."""
        v = self.find(lambda v: isinstance(v.kind, Prim) and v.kind.value is None)
        if v is None or not isinstance(v.kind, Prim):
            return False
        dtype, name = v.kind.dtype, self.fresh("q")
        self.line(f"{name} = T.{dtype}()")
        self.bind(f'R.match_cast({v.name}, R.Prim("{dtype}", value={name}))', Prim(dtype))
        self.scalars.append((name, dtype))

    @step(weight=1)
    def compared_scalar(self) -> bool | None:
        """A scalar that is said to be what it is, where it has been forgotten."""
        dtype = self.choices.pick(NAMED)
        text = self.expression(dtype)
        v = self.bind(f"R.prim_value({text})", Prim(dtype))
        u = self.fresh("u")
        self.line(f"{u} = {self.helper('forget')}({v.name})")
        self.bind(f'R.match_cast({u}, R.Prim("{dtype}", value={text}))', Prim(dtype))

    @step(weight=3)
    def closure_over_scalars(self) -> bool | None:
        """A function that asks for one scalar only, where its type has been forgotten."""
        if not self.scalars:
            return False
        dtype, name = self.choices.pick(self.scalars)[1], self.fresh("f")
        text = self.expression(dtype)
        info = f'R.Prim("{dtype}", value={text})'
        p, u, g = self.fresh("p"), self.fresh("u"), self.fresh("f")
        self.line("@R.function")
        self.line(f'def {name}({p}: {info}) -> R.Prim("{dtype}"):')
        inner = self.inner()
        inner.line(f"return {p}")
        self.line(f"{u} = {self.helper('forget')}({name})")
        self.line(f'{g} = R.match_cast({u}, R.Callable(({info},), R.Prim("{dtype}")))')
        self.bind(f"{g}(R.prim_value({text}))", Prim(dtype))
