"""Steps that make and take apart values that are not tensors, and that cast what has been forgotten."""

from __future__ import annotations

from dataclasses import replace

from .kinds import DTYPES, Func, Kind, Object, Prim, Shape, Tensor, Tuple, Value, annotation, free_names, is_static
from .writer import Core, step

HELPERS = {
    "forget": """
    @R.function(private=True)
    def forget(v: R.Object) -> R.Object:
        return v
""",
    "forget_shape": """
    @R.function(private=True)
    def forget_shape(v: R.Shape) -> R.Shape:
        return v
""",
}


def weak_helper(kind: Tensor) -> tuple[str, str]:
    """A function that forgets the shape of a tensor of some rank and dtype: its name and text."""
    name = f"forget_{len(kind.dims)}_{kind.dtype}"
    weak = annotation(replace(kind, hidden=True))
    return name, (f"\n    @R.function(private=True)\n    def {name}(v: {weak}) -> {weak}:\n        return v\n")


class ValueSteps(Core):
    """Tuples, shapes, scalars, objects, casts."""

    def helper(self, name: str, text: str = "") -> str:
        """The way to call a helper function, which joins the module when it is first needed."""
        if name not in self.draft.helpers:
            self.draft.helpers.add(name)
            self.draft.functions.append(text or HELPERS[name])
        return f"Module.{name}"

    # ------------------------------------------------------------------------------ names and tuples

    @step()
    def alias(self) -> bool | None:
        v = self.find()
        if v is None:
            return False
        name = self.fresh()
        self.line(f"{name} = {v.name}")
        self.pool.append(replace(v, name=name, fresh=False))

    @step()
    def tuple_of_values(self) -> bool | None:
        a, b = self.find(), self.find()
        if a is None or b is None:
            return False
        options: list[tuple[str, tuple[Kind, ...]]] = [
            (f"({a.name}, {b.name})", (a.kind, b.kind)),
            (f"({a.name}, ({b.name}, {a.name}))", (a.kind, Tuple((b.kind, a.kind)))),
            (f"({a.name}, ())", (a.kind, Tuple(()))),
            ("()", ()),
            (f"R.tuple({a.name})", (a.kind,)),
        ]
        text, fields = self.choices.pick(options)
        if len(text) > 400:
            return False
        exact = a.exact and b.exact
        self.bind(text, Tuple(fields), max(a.bound, b.bound), exact)

    @step()
    def tuple_field(self) -> bool | None:
        t = self.find(lambda v: isinstance(v.kind, Tuple) and bool(v.kind.fields))
        if t is None:
            return False
        index = self.choices.integer(0, len(t.kind.fields) - 1)
        self.bind(f"{t.name}[{index}]", t.kind.fields[index], t.bound, t.exact)

    @step(weight=1)
    def pairs_of_pairs(self) -> bool | None:
        """One value in 2**depth places of a tuple that is a few objects, and one of the places taken."""
        v = self.find()
        if v is None:
            return False
        self.note("shared tuples")
        name = v.name
        inside = isinstance(v.kind, Tensor) and self.choices.chance(40)
        depth = 40 if self.choices.chance(15) else self.choices.integer(2, 6)
        if inside:  # the result of a function is matched, with all that is in it
            function, name = self.fresh("f"), self.fresh("p")
            self.line("@R.function")
            self.line(f"def {function}({name}: {annotation(v.kind)}):")
        for _ in range(depth):
            outer = self.fresh("t")
            self.line(f"{'    ' * inside}{outer} = ({name}, {name})")
            name = outer
        if inside:
            self.line(f"    return {name}")
            name = self.fresh("t")
            self.line(f"{name} = {function}({v.name})")
        for _ in range(depth):
            inner = self.fresh("t")
            self.line(f"{inner} = {name}[{self.choices.integer(0, 1)}]")
            name = inner
        self.pool.append(replace(v, name=name, fresh=False))

    # ------------------------------------------------------------------------------ shapes and scalars

    @step()
    def shape_value(self) -> bool | None:
        v = self.tensor()
        if v is not None and self.choices.chance(50):
            self.bind(f"R.shape_of({v.name})", Shape(v.kind.dims))
            return None
        dims = tuple(self.dim() for _ in range(self.choices.integer(0, 3)))
        self.bind(f"R.shape([{', '.join(dims)}])", Shape(dims))

    @step()
    def shape_as_tensor(self) -> bool | None:
        s = self.find(lambda v: isinstance(v.kind, Shape) and not v.kind.hidden)
        if s is None:
            return False
        if self.fits(s.kind.dims) and self.choices.chance(40):
            self.note("shape as an argument")
            self.bind(f'R.zeros({s.name}, "int64")', Tensor(s.kind.dims, "int64"), 1, True, True)
            return None
        t = self.bind(f"R.shape_to_tensor({s.name})", Tensor((str(len(s.kind.dims)),), "int64"), 99, True, True)
        if not self.choices.chance(60):
            return None
        self.note("tensor to shape")
        back = self.fresh("u")
        self.line(f"{back} = R.tensor_to_shape({t.name})")
        bound = []
        for dim in s.kind.dims:
            name = dim if is_static(dim) else self.shape_variable(min(self.size(dim), 8))
            bound.append(name)
        self.match_value(back, Shape(tuple(bound)))

    @step(weight=1)
    def scalar(self) -> bool | None:
        if not self.dims:
            return False
        n = self.dim()
        options = [
            (f"R.prim_value({n})", Prim("int64", n)),
            (f"R.prim_value({n} > 2)", Prim("bool")),
            (f"R.prim_value({n} == {self.dim()})", Prim("bool")),
            (f'R.prim_value(T.Cast("float64", {n}))', Prim("float64")),
            (f'R.prim_value(T.Cast("int32", {n}))', Prim("int32")),
            ("R.prim_value(True)", Prim("bool")),
            ("R.prim_value(2.5)", Prim("float64")),
        ]
        text, kind = self.choices.pick(options)
        if is_static(n) and text.startswith(("R.prim_value(T.", f"R.prim_value({n} ")):
            return False
        self.bind(text, kind)

    # ------------------------------------------------------------------------------ objects

    @step(weight=1)
    def object(self) -> bool | None:
        text, what = self.choices.pick(
            (
                ('R.str("text")', "string"),
                (f'R.dtype("{self.choices.pick(DTYPES)}")', "dtype"),
                ("R.null_value()", "null"),
                ('R.ExternFunc("fuzz.sum")', "packed"),
            )
        )
        self.note(what)
        self.bind(text, Object(what))

    @step(weight=1)
    def forgotten(self) -> bool | None:
        """A value that went through a function of which only says that it gives an object."""
        v = self.find(lambda v: not isinstance(v.kind, Object))
        if v is None:
            return False
        self.bind(f"{self.helper('forget')}({v.name})", Object(v.kind), v.bound, v.exact)

    @step(weight=2)
    def forgotten_shape(self) -> bool | None:
        v = self.tensor()
        if v is None:
            return False
        name, text = weak_helper(v.kind)
        call = f"{self.helper(name, text)}({v.name})"
        self.bind(call, replace(v.kind, hidden=True), v.bound, v.exact)

    # ------------------------------------------------------------------------------ casts

    def match_value(self, source: str, kind: Kind, bound: float = 3, exact: bool = True) -> Value:
        """A match_cast to a kind."""
        name = self.fresh("w")
        self.line(f"{name} = R.match_cast({source}, {annotation(kind)})")
        return self.add(Value(name, kind, bound, exact))

    @step(weight=3)
    def cast(self) -> bool | None:
        """A match_cast of something forgotten: to what it is, under known names, or new ones for dimensions."""
        v = self.find(
            lambda v: (
                (isinstance(v.kind, (Tensor, Shape)) and v.kind.hidden)
                or (isinstance(v.kind, Object) and not isinstance(v.kind.what, str))
            )
        )
        if v is None:
            return False
        kind = v.kind.what if isinstance(v.kind, Object) else replace(v.kind, hidden=False)
        if isinstance(kind, (Tensor, Shape)):
            kind = replace(kind, hidden=False, dims=self.pattern(kind.dims))
        elif any(dim for dim in free_names(kind) if dim not in self.dims) or isinstance(kind, Func):
            return False
        elif isinstance(kind, Prim):
            kind = replace(kind, value=None)
        elif isinstance(kind, Tuple):
            self.note("cast of a tuple")
        if any(hidden for hidden in _hidden(kind)):
            return False
        cast = self.match_value(v.name, kind, v.bound, v.exact)
        del cast

    def pattern(self, dims: tuple[str, ...]) -> tuple[str, ...]:
        """The dimensions of a cast: what they are, or new names for them."""
        found: list[str] = []
        for dim in dims:
            known = self.visible((dim,))
            if known and self.failing and self.choices.chance(15):
                self.note("cast that may fail")
                found.append(self.dim(simple=True))
            elif known and self.choices.chance(50):
                found.append(dim)
            else:
                limit = 12 if not known else self.size(dim)
                found.append(self.shape_variable(limit))
                self.note("cast that binds")
        return tuple(found)

    @step(weight=1)
    def device(self) -> bool | None:
        """A tensor goes to another device of the host and back; or a hint where it is."""
        v = self.tensor()
        if v is None or not self.draft.devices:
            return False
        if self.choices.chance(40):
            self.bind(f'R.hint_on_device({v.name}, "llvm:0")', v.kind, v.bound, v.exact)
            return None
        there = self.fresh("u")
        self.line(f'{there} = R.to_vdevice({v.name}, "llvm:1")')
        self.bind(f'R.to_vdevice({there}, "llvm:0")', v.kind, v.bound, v.exact, True)
        return None

    @step(weight=1)
    def cast_of_the_known(self) -> bool | None:
        """A match_cast of a tensor whose shape is known, that gives its dimensions further names."""
        v = self.tensor(ndim=(1, 2))
        if v is None:
            return False
        dims = self.pattern(v.kind.dims)
        if all((is_static(a) and is_static(b) and a != b) or False for a, b in zip(dims, v.kind.dims)):
            return False
        if any(is_static(a) and is_static(b) and a != b for a, b in zip(dims, v.kind.dims)):
            return False  # proved to fail: an error
        self.match_value(v.name, replace(v.kind, dims=dims), v.bound, v.exact)

    @step(weight=1)
    def cast_without_a_variable(self) -> bool | None:
        v = self.tensor(ndim=(1, 2))
        if v is None or self.dataflow:
            return False
        name, text = weak_helper(v.kind)
        u = self.fresh("u")
        self.line(f"{u} = {self.helper(name, text)}({v.name})")
        dims = self.pattern(v.kind.dims)
        self.line(f"R.match_cast({u}, {annotation(replace(v.kind, dims=dims))})")


def _hidden(kind: Kind) -> list[bool]:
    match kind:
        case Tensor() | Shape():
            return [kind.hidden]
        case Tuple(fields):
            return [flag for field in fields for flag in _hidden(field)]
        case Object():
            return [not isinstance(kind.what, str)]
        case _:
            return []
