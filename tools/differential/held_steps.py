"""Steps on tensors whose shape a variable holds: ``R.Tensor(s, "float32")``."""

from __future__ import annotations

from dataclasses import replace

from .control_steps import MOST_FUNCTIONS
from .kinds import Object, Shape, Tensor, Value, annotation
from .value_steps import ValueSteps
from .writer import step


class HeldSteps(ValueSteps):
    """What is said by a shape value is only known at run time."""

    def held(self) -> tuple[Value, str, Tensor] | None:
        """A tensor, a variable that holds its shape (perhaps another, in a program that may fail), and what is left known."""
        v = self.tensor(ndim=(1, 2, 3))
        if v is None or not isinstance(v.kind, Tensor):
            return None
        of, rank = v, len(v.kind.dims)
        if self.failing and self.choices.chance(20):
            of = self.tensor(ndim=(rank,)) or v
        s = self.bind(f"R.shape_of({of.name})", Shape(of.kind.dims), keep=False)
        name = s.name
        if self.choices.chance(50):
            name = self.fresh("u")
            self.line(f"{name} = {self.helper('forget_shape')}({s.name})")
            if self.choices.chance(50):
                self.line(f"{name}_r = R.match_cast({name}, R.Shape(ndim={rank}))")
                name = f"{name}_r"
        return v, name, replace(v.kind, hidden=True)

    @step(weight=1)
    def shape_held_by_a_variable(self) -> bool | None:
        """A match_cast to a tensor of a shape that a variable holds."""
        found = self.held()
        if found is None:
            return False
        v, shape, kind = found
        u = self.bind(f"{self.helper('forget')}({v.name})", Object(v.kind), v.bound, v.exact, keep=False)
        w = self.fresh("w")
        self.line(f'{w} = R.match_cast({u.name}, R.Tensor({shape}, "{kind.dtype}", ndim={len(kind.dims)}))')
        self.add(Value(w, kind, v.bound, v.exact))
        return None

    @step(weight=1)
    def shape_held_by_a_parameter(self) -> bool | None:
        """A function, local or global, of a shape and a tensor of that shape."""
        if self.draft.made >= MOST_FUNCTIONS:
            return False
        found = self.held()
        if found is None:
            return False
        v, shape, kind = found
        self.draft.made += 1
        name, p, t, rank = self.fresh("f"), self.fresh("p"), self.fresh("p"), len(kind.dims)
        param = self.choices.pick(("R.Shape", f"R.Shape(ndim={rank})"))
        arrow = f" -> {annotation(kind)}" if self.choices.chance(60) else ""
        params = [f"{p}: {param}", f'{t}: R.Tensor({p}, "{kind.dtype}", ndim={rank})']
        order = params[::-1] if self.choices.chance(30) else params
        operation = "logical_not" if kind.dtype == "bool" else "abs"
        text = [f"def {name}({', '.join(order)}){arrow}:", f"    r = R.{operation}({t})", "    return r"]
        if self.choices.chance(50):
            self.draft.functions.append(
                "\n" + "\n".join(f"    {line}" for line in ("@R.function(private=True)", *text)) + "\n"
            )
            name = f"Module.{name}"
        else:
            for line in ("@R.function", *text):
                self.line(line)
        args = [shape, v.name] if order is params else [v.name, shape]
        self.bind(f"{name}({', '.join(args)})", kind, v.bound, v.exact)
        return None
