"""What all steps of the generator use: a scope to write lines into, and the values there are to choose from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from .choices import Choices
from .kinds import FLOATS, Kind, Tensor, Value, annotation, elements, evaluate, free_names, names_in

Step = TypeVar("Step", bound=Callable[..., bool | None])

LARGEST = 4
"""The largest size of a shape variable that inputs have."""
MOST_ELEMENTS = 1500
"""Steps that would make a larger tensor are not taken."""


@dataclass
class Draft:
    """The module being written."""

    choices: Choices
    effects: bool
    """Whether main is impure."""
    failing: bool
    """Whether steps may be taken that fail on some inputs."""
    devices: bool = False
    """Whether the module has two virtual devices."""
    functions: list[str] = field(default_factory=list)
    helpers: set[str] = field(default_factory=set)
    features: Counter[str] = field(default_factory=Counter)
    exact: bool = True
    count: int = 0
    made: int = 0
    """How many functions have been written."""
    sizes: dict[str, int] = field(default_factory=dict)
    """For every shape variable the largest it may be."""
    called: list[tuple[str, Kind]] = field(default_factory=list)
    """Global functions that are complete, with their kinds."""

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"


STEPS: dict[str, list[tuple[str, int, str]]] = {"any": [], "binding": [], "impure": [], "failing": []}
"""For each place a step may be taken in: its method, its weight, and the feature it stands for.

"any": everywhere; "binding": not in dataflow blocks; "impure": where effects are allowed; "failing": everywhere, in
programs that may fail.
"""


def step(place: str = "any", weight: int = 2) -> Callable[[Step], Step]:
    """Register a method as a step. It returns False when there are no operands for it."""

    def register(function: Step) -> Step:
        STEPS[place].append((function.__name__, weight, function.__name__.replace("_", " ")))
        return function

    return register


class Core:
    """A scope of a function: its lines, and the values and shape variables that are visible."""

    def __init__(self, draft: Draft, pure: bool, indent: int = 2, signature: set[str] | None = None) -> None:
        self.draft = draft
        self.choices = draft.choices
        self.pure = pure
        self.indent = indent
        self.lines: list[str] = []
        self.pool: list[Value] = []
        self.dims: list[str] = []
        """The shape variables in scope."""
        self.scalars: list[tuple[str, str]] = []
        """Variables of scalars that are no sizes, with their dtypes."""
        self.signature = signature if signature is not None else set()
        """Those of them that the function's own signature, or one around it, binds."""
        self.dataflow = False
        self.outside: list[Value] = []
        """In a dataflow block, what was visible before it: local functions capture nothing else."""
        self.failing = draft.failing
        """Whether steps may be taken here that fail on some inputs: not where a condition tells of sizes."""
        self.depth = 0
        self.last: Value | None = None
        """The value that was just bound, if its memory is its own; nobody can have used it yet."""
        self.busy: set[str] = set()
        """Names that are not to be shadowed, being needed by a statement under way."""

    # ------------------------------------------------------------------------------------ lines

    def line(self, text: str) -> None:
        self.last = None
        self.lines.append("    " * self.indent + text)

    def fresh(self, prefix: str = "v") -> str:
        return self.draft.fresh(prefix)

    def note(self, feature: str) -> None:
        self.draft.features[feature] += 1

    def bind(
        self, text: str, kind: Kind, bound: float = 3, exact: bool = True, fresh: bool = False, keep: bool = True
    ) -> Value:
        """Bind a new variable (or, sometimes, one of a name that is in use: that shadows it)."""
        name = self.fresh()
        old = self.pool[-1].name if self.pool else ""
        if keep and old.startswith("v") and old not in self.busy and self.choices.chance(6):
            name = old
            self.note("shadowed name")
        hint = ""
        if (self.choices.chance(8) and not isinstance(kind, Tensor)) or self.choices.chance(12):
            hint = self.annotated(kind)
        self.line(f"{name}{hint} = {text}")
        value = self.add(Value(name, kind, bound, exact, fresh), keep)
        self.last = value if fresh and keep else None
        return value

    def nested(self, text: str) -> str:
        """The text of an operator's call, sometimes with a call in the place of an operand."""
        found = re.match(r"R\.(add|subtract|multiply|maximum|less|concat|stack|where|sum|max|cumsum)\(", text)
        if found is None or not self.choices.chance(15):
            return text
        operands = {value.name for value in self.pool if isinstance(value.kind, Tensor) and value.kind.dims}
        names = [name for name in re.findall(r"\b[a-z]\d+\b|\bx\b", text) if name in operands]
        if not names:
            return text
        name = self.choices.pick(names)
        call = self.choices.pick(("R.flip({}, axis=0)", "R.permute_dims(R.permute_dims({}))"))
        self.note("nested call")
        return re.sub(rf"\b{name}\b", call.format(name), text, count=1)

    def annotated(self, kind: Kind) -> str:
        """An annotation for a binding; it may claim a shape that is only known at run time."""
        if not free_names(kind) <= set(self.dims):
            return ""
        if isinstance(kind, Tensor) and kind.hidden and self.choices.chance(50):
            self.note("annotation that claims more")
            kind = replace(kind, hidden=False)
        self.note("annotated binding")
        return f": {annotation(kind)}"

    def add(self, value: Value, keep: bool = True) -> Value:
        """Make a variable visible."""
        if not value.exact:
            self.draft.exact = False
        self.pool = [other for other in self.pool if other.name != value.name]
        if keep:
            self.pool.append(value)
        return value

    @contextmanager
    def using(self, *values: Value | None):
        """No shadowing of these while the block runs."""
        before = set(self.busy)
        self.busy |= {value.name for value in values if value is not None}
        yield
        self.busy = before

    # ----------------------------------------------------------------------------------- choosing

    def find(self, accept: Callable[[Value], bool] = lambda _: True) -> Value | None:
        """A value of those wanted, recent ones preferred."""
        candidates = [value for value in self.pool if accept(value)]
        if not candidates:
            return None
        recent = candidates[-6:]
        return self.choices.pick(candidates if self.choices.chance(30) else recent)

    def tensor(
        self,
        *dtypes: str,
        ndim: tuple[int, ...] | None = None,
        exact: bool = False,
        accept: Callable[[Value], bool] = lambda _: True,
    ) -> Value | None:
        """A tensor of known shape, of these dtypes (any by default), and ranks."""

        def fits(value: Value) -> bool:
            kind = value.kind
            return (
                isinstance(kind, Tensor)
                and not kind.hidden
                and (not dtypes or kind.dtype in dtypes)
                and (ndim is None or len(kind.dims) in ndim)
                and (value.exact or not exact)
                and accept(value)
            )

        return self.find(fits)

    def fits(self, dims: tuple[str, ...]) -> bool:
        """Whether a tensor is small enough to be made."""
        if any(len(dim) > 40 for dim in dims) or len(dims) > 4:
            return False
        try:
            return elements(dims, self.draft.sizes) <= MOST_ELEMENTS
        except ZeroDivisionError:
            return False

    def size(self, dim: str) -> int:
        """About the largest a dimension can be."""
        return max(1, evaluate(dim, self.draft.sizes))

    def visible(self, dims: tuple[str, ...]) -> bool:
        return all(names_in(dim) <= set(self.dims) for dim in dims)

    def dim(self, simple: bool = False) -> str:
        """A dimension: a small number, a variable, or an expression."""
        choices = self.choices
        if not self.dims or choices.chance(20):
            return choices.pick(("1", "2", "3", "0"))
        a, b = choices.pick(self.dims), choices.pick(self.dims)
        if simple or choices.chance(55):
            return a
        forms = [
            f"({a} + {b})",
            f"({a} * {b})",
            f"({a} + 1)",
            f"({a} * 2)",
            f"T.max({a}, {b})",
            f"T.min({a}, {b})",
            f"({a} // 2)",
            f"(({a} + 1) // 2)",
            f"({a} % 2 + 1)",
            f"T.max({a} - 1, 0)",
        ]
        if self.failing and choices.chance(15):
            forms = [f"({a} - 1)", f"({a} // {b})", f"({a} % {b})"]
        text = choices.pick(forms)
        self.note("shape expression")
        return text

    def shape_variable(self, size: int, signature: bool = False) -> str:
        """A new shape variable."""
        name = self.fresh("k")
        self.draft.sizes[name] = size
        self.dims.append(name)
        if signature:
            self.signature.add(name)
        else:
            self.line(f"{name} = T.int64()")
        return name

    # ----------------------------------------------------------------------------------- steps

    def available(self) -> list[tuple[str, int, str]]:
        """The steps that may be taken here."""
        found = list(STEPS["any"])
        if not self.dataflow:
            found += STEPS["binding"]
            if not self.pure:
                found += STEPS["impure"]
        if self.failing:
            found += STEPS["failing"]
        return found

    def steps(self, count: int) -> None:
        """Take so many steps."""
        table = [entry for entry in self.available() for _ in range(entry[1])]
        for _ in range(count):
            name, _, feature = self.choices.pick(table)
            if getattr(self, name)() is not False:
                self.note(feature)

    def settle(self, text: str, kind: Tensor, bound: float, exact: bool = True, fresh: bool = True) -> Value:
        """Bind the result of arithmetic; where it grows large, clipped, so that floats stay exact."""
        limit = {"float16": 200, "float32": 4000, "float64": 4000}.get(kind.dtype)
        if limit is not None and bound > limit:
            text, bound = f"R.clip({text}, -9, 9)", 9
        return self.bind(text, kind, bound, exact, fresh)


def is_float(dtype: str) -> bool:
    """Whether a dtype is a float's."""
    return dtype in FLOATS
