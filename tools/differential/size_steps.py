"""Steps that make sizes of numbers that may be none: negative ones, and such as leave 48 or 64 bits."""

from __future__ import annotations

from .control_steps import MOST_FUNCTIONS
from .kinds import Prim, Shape, Tensor, Value
from .value_steps import ValueSteps
from .writer import step

FACTORS = ("1", "1", "-1", "-5", "1000000007", "70368744177664", "140737488355328", "4611686018427387904")
"""What numbers are multiplied with: 2^46, 2^47 and 2^62 are among them."""
CONSTANTS = ("1", "3", "-1", "-5", "4611686018427387904")
"""Sizes that are written down: none of which a product, computed at compile time, leaves 64 bits."""
USES = (
    "R.strided_slice({v}, axes=[0], begin=[{k}], end=[8])",
    "R.strided_slice({v}, axes=[0], begin=[T.min({k}, 1)], end=[{k} + 2])",
    "R.take({v}, R.prim_value(T.min({k} * 4, 0)), axis=0)",
    "R.take({v}, R.prim_value(T.min({k} * {k}, 0)), axis=0)",
    "R.exp(R.astype(R.full((2,), R.prim_value({k} * {k} % 3), 'int64'), 'float32'))",
    "R.full((2,), R.prim_value({k} * {k} * {k}), 'int64')",
    "R.shape([{k}, {k} * {k}])",
    "R.shape([{k} * 1000000])",
    "R.shape([{k} - 3])",
    "R.shape([T.min({k}, 3)])",
    "R.prim_value({k} * {k} * {k})",
    "R.prim_value({k} * {k} * 0)",
    "R.prim_value({k} * {k} - {k} * {k})",
    "R.prim_value({k} - 1)",
)
"""What is made with a size `k` and a tensor `v` of at least one dimension. That a value is 0 in the end is no excuse."""


ALIKE = (
    "R.strided_slice({v}, axes=[0], begin=[{k}], end=[8])",
    "R.take({v}, R.prim_value(T.min({k}, 0)), axis=0)",
    "R.full((2,), R.prim_value({k}), 'int64')",
    "R.full((2,), R.prim_value(T.max({k}, 1) // 2), 'int64')",
)
"""What is made with a number `k`, be it a size or not, and a tensor `v`."""


class SizeSteps(ValueSteps):
    """What is no size is refused where a shape is made, or where a variable that is a size is bound."""

    def number(self) -> Value:
        """An int64 tensor of one element, which may be anything."""
        factor = self.choices.pick(FACTORS)
        v = self.tensor("int64", exact=True)
        if v is None or self.choices.chance(20):
            factor = self.choices.pick(CONSTANTS)
            return self.bind(f'R.const([{factor}], "int64")', Tensor(("1",), "int64"), keep=False)
        sum_ = self.bind(f"R.reshape(R.sum({v.name}), (1,))", Tensor(("1",), "int64"), keep=False)
        text = f'R.multiply({sum_.name}, R.const([{factor}], "int64"))'
        return self.bind(text, Tensor(("1",), "int64"), keep=False)

    def scalar(self) -> str:
        """A scalar expression that may be no size."""
        options = [f"T.int64({self.choices.pick(CONSTANTS)})"]
        if self.dims:
            n, m = self.choices.pick(self.dims), self.choices.pick(self.dims)
            options += [f"({n} - {m})", f"({n} - 2)", f"({n} * {m} * T.int64({self.choices.pick(FACTORS)}))"]
        return self.choices.pick(options)

    def shape(self) -> str:
        """A shape of one dimension: from elements, written down, or from a packed function."""
        which = self.choices.integer(0, 2)
        if which == 0:
            return f"R.tensor_to_shape({self.number().name})"
        if which == 1:
            return f"R.shape([{self.scalar()}])"
        text = f"R.prim_value({self.scalar()})"
        return f'R.call_pure_packed("fuzz.make_shape", {text}, sinfo_args=R.Shape(ndim=1))'

    def use(self, size: str) -> str | None:
        """An expression in which a size is trusted."""
        v = self.tensor(ndim=(1, 2))
        text = self.choices.pick(USES)
        if v is None:
            return f"R.shape([{size}])"
        return text.format(v=v.name, k=size)

    @step("failing", weight=3)
    def size_that_is_matched(self) -> bool | None:
        """A match_cast of a shape that binds a size, which is then used."""
        s = self.bind(self.shape(), Shape(("0",), True), keep=False)
        k = self.fresh("k")
        self.line(f"{k} = T.int64()")
        self.line(f"{self.fresh('u')} = R.match_cast({s.name}, R.Shape([{k}]))")
        self.line(f"{self.fresh('u')} = {self.use(k)}")

    @step("failing", weight=2)
    def scalar_that_is_a_size(self) -> bool | None:
        """A match_cast of a scalar that binds a variable, which is used, and is a dimension later."""
        p = self.bind(f"R.prim_value({self.scalar()})", Prim("int64"), keep=False)
        v = self.tensor(ndim=(1,))
        k = self.fresh("k")
        self.line(f"{k} = T.int64()")
        self.line(f'{self.fresh("u")} = R.match_cast({p.name}, R.Prim("int64", value={k}))')
        self.line(f"{self.fresh('u')} = {self.use(k)}")
        if v is not None and self.choices.chance(70):
            w = self.bind(f"{self.helper('forget')}({v.name})", v.kind, keep=False)
            self.line(f'{self.fresh("u")} = R.match_cast({w.name}, R.Tensor(({k},), "{v.kind.dtype}"))')

    @step("failing", weight=2)
    def size_of_a_shape_argument(self) -> bool | None:
        """A function, local or global, that takes a shape."""
        if self.draft.made >= MOST_FUNCTIONS:
            return False
        self.draft.made += 1
        name, s, x, k = self.fresh("f"), self.fresh("p"), self.fresh("p"), self.fresh("k")
        use = self.choices.pick(USES).format(v=x, k=k)
        text = [
            f'def {name}({s}: R.Shape(["{k}"]), {x}: R.Tensor((8,), "float32")) -> R.Object:',
            f"    {k} = T.int64()",
            f"    return {use}",
        ]
        if self.choices.chance(50):
            whole = "\n".join(f"    {line}" for line in ("@R.function(private=True)", *text))
            self.draft.functions.append(f"\n{whole}\n")
            name = f"Module.{name}"
        else:
            for line in ("@R.function", *text):
                self.line(line)
        x = self.bind('R.zeros((8,), "float32")', Tensor(("8",), "float32"), 0, keep=False)
        self.line(f"{self.fresh('u')} = {name}({self.shape()}, {x.name})")

    @step("failing", weight=2)
    def number_used_like_a_size(self) -> bool | None:
        """A size and a number that is none, in the same expression: what is made for one may not fit the other."""
        v = self.tensor(ndim=(1, 2))
        if v is None or not self.dims:
            return False
        use, size, number = self.choices.pick(ALIKE), self.fresh("k"), self.fresh("k")
        s = self.bind(f"R.shape([{self.choices.pick(self.dims)} + 1])", Shape(("1",), True), keep=False)
        p = self.bind(
            f'R.call_pure_packed("fuzz.identity", R.prim_value({self.scalar()}), sinfo_args=R.Prim("int64"))',
            Prim("int64"),
            keep=False,
        )
        lines = [
            (size, f"R.match_cast({s.name}, R.Shape([{size}]))"),
            (number, f'R.match_cast({p.name}, R.Prim("int64", value={number}))'),
        ]
        for k, cast in lines if self.choices.chance(70) else lines[::-1]:
            self.line(f"{k} = T.int64()")
            self.line(f"{self.fresh('u')} = {cast}")
            self.line(f"{self.fresh('u')} = {use.format(v=v.name, k=k)}")
