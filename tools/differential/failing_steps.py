"""Steps that fail on some inputs, in programs that may fail; often nobody uses what they compute."""

from __future__ import annotations

from dataclasses import replace

from .kinds import Shape, Tensor, annotation, is_static
from .value_steps import weak_helper
from .writer import Core, step


class FailingSteps(Core):
    """What fails unless sizes or elements happen to be right."""

    def sizes(self) -> tuple[str, str] | None:
        """Two shape variables that are equal for some inputs."""
        if len(self.dims) < 2:
            return None
        return self.choices.pick(self.dims), self.choices.pick(self.dims)

    @step("failing", weight=3)
    def cast_that_fails(self) -> bool | None:
        """A match_cast of a tensor whose shape has been forgotten, to one that it may not have."""
        v = self.tensor(ndim=(1, 2))
        if v is None:
            return False
        name, text = weak_helper(v.kind)
        u, w = self.fresh("u"), self.fresh("w")
        self.line(f"{u} = {self.helper(name, text)}({v.name})")
        axis = self.choices.integer(0, len(v.kind.dims) - 1)
        wrong = self.dim(simple=self.choices.chance(60))
        kind = replace(v.kind, dims=(*v.kind.dims[:axis], wrong, *v.kind.dims[axis + 1 :]))
        self.line(f"{w} = R.match_cast({u}, {annotation(kind)})")
        if self.choices.chance(50) and self.fits(kind.dims):
            self.pool.append(replace(v, name=w, kind=kind, fresh=False))
        return None

    @step("failing", weight=2)
    def shape_that_fails(self) -> bool | None:
        """A size that may be negative, or may divide by zero."""
        found = self.sizes()
        if found is None:
            return False
        n, m = found
        dim = self.choices.pick((f"({n} - {m})", f"({n} - 1)", f"({n} // {m})", f"({n} % {m})"))
        if self.choices.chance(40):
            self.bind(f"R.shape([{dim}])", Shape((dim,)))
        elif self.fits((dim,)):
            self.bind(f'R.zeros(({dim},), "int64")', Tensor((dim,), "int64"), 1, True, True)
        return None

    @step("failing", weight=2)
    def division_that_fails(self) -> bool | None:
        v = self.tensor("int64", "int32", "int8")
        w = v and self.tensor(v.kind.dtype, accept=lambda w: w.kind == v.kind)
        if w is None:
            return False
        name = self.choices.pick(("divide", "floor_divide", "mod", "floor_mod"))
        self.bind(f"R.{name}({v.name}, {w.name})", v.kind, v.bound, True, True)
        return None

    @step("failing", weight=2)
    def index_that_fails(self) -> bool | None:
        v, index = self.tensor(ndim=(1, 2)), self.tensor("int64", "int32", ndim=(0, 1), exact=True)
        if v is None or index is None or is_static(v.kind.dims[0]):
            return False
        result = (*index.kind.dims, *v.kind.dims[1:])
        if not self.fits(result):
            return False
        kind = replace(v.kind, dims=result)
        self.bind(f"R.take({v.name}, {index.name}, axis=0)", kind, v.bound, v.exact, True)
        return None

    @step("failing", weight=2)
    def call_that_fails(self) -> bool | None:
        v = self.tensor("int64", "int32", "float32", accept=lambda v: v.bound < 1000)
        if v is None:
            return False
        text = f'R.call_pure_packed("fuzz.fail", {v.name}, sinfo_args={annotation(v.kind)})'
        self.bind(text, v.kind, v.bound * 2, v.exact)
        return None

    @step("failing", weight=1)
    def extreme_that_fails(self) -> bool | None:
        v = self.tensor("int64", "float32", ndim=(1, 2), exact=True)
        if v is None:
            return False
        self.bind(f"R.argmax({v.name}, axis=0)", Tensor(v.kind.dims[1:], "int64"), 99, True, True)
        return None
