"""Steps that make control flow, dataflow blocks, and functions: global, local, recursive, passed around."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .kinds import (
    Func,
    Kind,
    Object,
    Prim,
    Shape,
    Tensor,
    Tuple,
    Value,
    annotation,
    free_names,
    hide,
    is_static,
    map_dims,
    names_in,
    rename,
)
from .writer import Core, step

MOST_FUNCTIONS = 6
DEEPEST = 3


class ControlSteps(Core):
    """Branches, blocks, functions."""

    def inner(self, pure: bool | None = None, **changes: Any) -> Any:
        """A scope within this one."""
        made = type(self)(self.draft, self.pure if pure is None else pure, self.indent + 1, set(self.signature))
        made.lines = self.lines
        made.pool = list(self.pool)
        made.dims = list(self.dims)
        made.scalars = list(self.scalars)
        made.depth = self.depth + 1
        made.dataflow = self.dataflow
        made.busy = set(self.busy)
        made.outside = self.outside
        made.failing = self.failing
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    # ------------------------------------------------------------------------------ branches

    def condition(self) -> str | None:
        """Something that is true for some inputs."""
        c = self.tensor("bool", ndim=(0,))
        p = self.find(lambda v: isinstance(v.kind, Prim) and v.kind.dtype == "bool")
        if p is not None and self.choices.chance(40):
            self.note("if on a scalar")
            return p.name
        if c is not None and self.choices.chance(70):
            return c.name
        if self.dims:
            self.note("if on a scalar")
            return f"R.prim_value({self.choices.pick(self.dims)} > {self.choices.integer(0, 2)})"
        return None if c is None else c.name

    @step("binding", weight=4)
    def branch(self) -> bool | None:
        v = self.find()
        if v is None or self.depth >= DEEPEST:
            return False
        condition = self.condition()
        if condition is None:
            return False
        if not self.pure and self.choices.chance(25):
            return self.effects_only(condition)
        name, kinds, values = self.fresh("r"), [], []
        sure = self.failing and not condition.startswith("R.prim_value")  # there, what fails may be proved to
        for word in (f"if {condition}:", "else:"):
            self.line(word)
            inner = self.inner(failing=sure)
            inner.busy.add(v.name)  # the branch may end in it
            inner.steps(self.choices.integer(0, 3))
            chosen = inner.find(lambda w: alike(w.kind, v.kind)) or v
            inner.line(f"{name} = {chosen.name}")
            kinds.append(chosen.kind)
            values.append(chosen)
        kind = kinds[0] if kinds[0] == kinds[1] else loosened(v.kind)
        kind = hide(kind, set(self.dims))
        if kinds[0] != kinds[1]:
            self.note("branches that differ")
        self.add(Value(name, kind, max(w.bound for w in values), all(w.exact for w in values)))
        return None

    def effects_only(self, condition: str) -> None:
        """An if of which only the effects matter."""
        self.note("if for its effects")
        for word in (f"if {condition}:", "else:"):
            self.line(word)
            inner = self.inner(failing=self.failing and not condition.startswith("R.prim_value"))
            before = len(self.lines)
            inner.steps(self.choices.integer(0, 3))
            if len(self.lines) == before:
                inner.line("pass")
            else:
                inner.line("_ = ()")

    # ------------------------------------------------------------------------------ dataflow blocks

    @step("binding", weight=5)
    def dataflow_block(self) -> bool | None:
        if not self.pool:
            return False
        self.line("with R.dataflow():")
        inner = self.inner(dataflow=True, outside=list(self.pool))
        start = {id(value) for value in inner.pool}
        inner.steps(self.choices.integer(2, 6))
        made = [value for value in inner.pool if id(value) not in start]
        if not made:
            made = [inner.bind('R.zeros((2,), "float32")', Tensor(("2",), "float32"), 1, True, True)]
        chosen = []
        for _ in range(self.choices.integer(1, 3)):
            value = self.choices.pick(made)
            if value not in chosen:
                chosen.append(value)
        inner.line(f"R.output({', '.join(value.name for value in chosen)})")
        # A shape variable that a match_cast of the block binds is visible until the sequence ends.
        self.dims, self.scalars = list(inner.dims), list(inner.scalars)
        for value in chosen:
            self.add(value)

    # ------------------------------------------------------------------------------ functions

    def signature_of(self, values: list[Value]) -> tuple[list[Kind], dict[str, str]] | None:
        """Kinds for parameters that take these values, and what their shape variables stand for here.

        Dimensions become new variables; equal ones the same, so that a function may rely on it. A product or sum of
        dimensions that are there too stays what it is.
        """
        table: dict[str, str] = {}
        alone = {dim for v in values for t in _tensors(v.kind) for dim in t.dims if not is_static(dim)}

        def generalised(dim: str) -> str:
            if is_static(dim) and not self.choices.chance(30):
                return dim
            if dim not in table:
                parts = names_in(dim)
                if len(dim) > 3 and parts and parts <= alone and parts <= table.keys():
                    self.note("expression in a signature")
                    return rename(dim, table)
                name = self.fresh("k")
                self.draft.sizes[name] = self.size(dim) if self.visible((dim,)) else 8
                table[dim] = name
            return table[dim]

        kinds: list[Kind] = []
        for value in sorted(values, key=lambda v: not isinstance(v.kind, (Tensor, Shape))):
            kind = value.kind
            if isinstance(kind, Func):
                if free_names(kind):
                    return None
            elif isinstance(kind, Tensor) and not kind.hidden and self.choices.chance(10):
                kind = replace(kind, hidden=True)
            elif isinstance(kind, Prim):
                kind = replace(kind, value=None)
            elif isinstance(kind, Object):
                kind = Object("null") if not isinstance(kind.what, str) else kind
            elif not hides(kind):
                kind = map_dims(kind, generalised)
            elif isinstance(kind, Tuple) and free_names(kind):
                return None  # its annotation would use names of here, which need not stand alone in it
            kinds.append(kind)
        return kinds, table

    def arguments(self, most: int) -> list[Value]:
        """Values to pass to a function."""
        found: list[Value] = []
        for _ in range(self.choices.integer(1, most)):
            value = self.find(lambda v: v not in found)
            if value is not None:
                found.append(value)
        return sorted(found, key=lambda v: not isinstance(v.kind, (Tensor, Shape)))

    def body(self, scope: Any, count: int, wanted: Callable[[Value], bool], known: set[str]) -> Value | None:
        """Steps, and a value to return."""
        scope.steps(count)
        return scope.find(lambda v: wanted(v) and hide(v.kind, known) is not None)

    @step("binding", weight=3)
    def global_function(self) -> bool | None:
        """A new global function, and a call of it; pure ones can be called in dataflow blocks too."""
        return self.call_new_function()

    def call_new_function(self) -> bool | None:
        if self.draft.made >= MOST_FUNCTIONS or self.depth >= DEEPEST:
            return False
        args = self.arguments(3)
        made = self.signature_of(args)
        if made is None or not args:
            return False
        self.draft.made += 1
        kinds, table = made
        name, pure = self.fresh("f"), self.pure or self.choices.chance(50)
        signature = set(table.values())
        scope = type(self)(self.draft, pure, 2, set(signature))
        scope.dims, scope.depth = sorted(signature), self.depth + 1
        params = [Value(self.fresh("p"), kind, v.bound, v.exact) for kind, v in zip(kinds, args)]
        scope.pool = list(params)
        entry = len(scope.lines)
        scope.steps(self.choices.integer(1, 4))
        result = scope.find() or params[0]
        kind = hide(result.kind, signature)
        scope.line(f"return {result.name}")
        arrow = f" -> {annotation(kind, True)}" if self.choices.chance(70) else ""
        options = [] if pure else ["pure=False"]
        if self.choices.chance(80):
            options.append("private=True")
        else:
            self.note("another entry point")
        head = f"    @R.function{'(' + ', '.join(options) + ')' if options else ''}\n    def {name}("
        head += ", ".join(f"{p.name}: {annotation(p.kind, True)}" for p in params) + f"){arrow}:\n"
        head += "".join(f"        {var} = T.int64()\n" for var in sorted(signature))
        del entry
        self.draft.functions.append("\n" + head + "\n".join(scope.lines) + "\n")
        self.draft.called.append((name, Func(tuple(kinds), kind, pure, tuple(sorted(signature)))))
        back = {var: dim for dim, var in table.items()}
        outer = hide(map_dims(kind, lambda dim: rename(dim, back)), set(self.dims))
        call = f"Module.{name}({', '.join(v.name for v in args)})"
        self.bind(call, outer, result.bound, result.exact)
        return None

    @step("any", weight=2)
    def call_again(self) -> bool | None:
        """Another call of a function, global or local, if there are arguments for it."""
        known = [(f"Module.{name}", kind) for name, kind in self.draft.called]
        local = [(v.name, v.kind) for v in self.pool if isinstance(v.kind, Func)]
        candidates = [
            (name, kind) for name, kind in [*local, *local, *known] if kind.pure or not (self.pure or self.dataflow)
        ]
        if not candidates:
            return False
        name, kind = self.choices.pick(candidates)
        table: dict[str, str] = {}
        args: list[Value] = []
        for param in kind.params:
            arg = self.find(lambda v: v.exact and unify(param, v.kind, kind.own, dict(table)))  # noqa: B023
            if arg is None or not unify(param, arg.kind, kind.own, table):
                return False
            args.append(arg)
        result = hide(map_dims(kind.result, lambda dim: rename(dim, table)), set(self.dims))
        if not all(self.fits(t.dims) for t in _tensors(result) if not t.hidden):
            return False
        bound = 1e9 if any(v.bound > 50 for v in args) else 5000
        self.note("closure called" if not name.startswith("Module.") else "function called again")
        self.bind(f"{name}({', '.join(v.name for v in args)})", result, bound, self.draft.exact)
        return None

    @step("any", weight=2)
    def local_function(self) -> bool | None:
        """A closure over tensors and shape variables, and perhaps a call of it."""
        if self.depth >= DEEPEST:
            return False
        args = [v for v in self.arguments(2) if free_names(v.kind) <= set(self.dims)]
        name = self.fresh("f")
        pure = self.pure or self.dataflow or self.choices.chance(50)
        params = [Value(self.fresh("p"), weak(v.kind), v.bound, v.exact) for v in args]
        self.line("@R.function" if pure else "@R.function(pure=False)")
        header = len(self.lines)
        self.line("")  # known when the body is
        visible = [v for v in self.pool if not self.dataflow or any(v is other for other in self.outside)]
        scope = self.inner(pure=pure, pool=[*visible, *params], dataflow=False, signature=set(self.dims))
        scope.steps(self.choices.integer(1, 3))
        result = scope.find() or self.zero(scope)
        scope.line(f"return {result.name}")
        kind = hide(result.kind, set(self.dims))
        inner = ", ".join(f"{p.name}: {annotation(p.kind)}" for p in params)
        self.lines[header] = "    " * self.indent + f"def {name}({inner}) -> {annotation(kind)}:"
        func = Value(name, Func(tuple(p.kind for p in params), kind, pure), result.bound, result.exact)
        self.pool.append(func)
        if self.choices.chance(60):
            self.bind(f"{name}({', '.join(v.name for v in args)})", kind, result.bound, result.exact)
        return None

    def zero(self, scope: Any) -> Value:
        return scope.bind('R.const(0, "int64")', Tensor((), "int64"), 1)

    @step(weight=1)
    def made_closure(self) -> bool | None:
        """A closure of a global function whose last parameter is given, and a call of it."""
        candidates = [
            (name, kind)
            for name, kind in self.draft.called
            if len(kind.params) == 2 and not kind.own and kind.pure and not free_names(kind)
        ]
        v = self.tensor(exact=True)
        w = v and self.tensor(exact=True, accept=lambda w: not names_in("".join(w.kind.dims)))
        if not candidates and w is not None and self.draft.made < MOST_FUNCTIONS:
            name, a, b = self.fresh("f"), annotation(w.kind), annotation(hide(v.kind, set()))
            text = f"\n    @R.function(private=True)\n    def {name}(p: {a}, q: {b}) -> {a}:\n"
            text += "        r = R.flip(p, axis=0)\n        return r\n" if w.kind.dims else "        return p\n"
            self.draft.functions.append(text)
            self.draft.made += 1
            candidates = [(name, Func((w.kind, hide(v.kind, set())), w.kind))]
        if not candidates:
            return False
        name, kind = self.choices.pick(candidates)
        args = [self.find(lambda v: v.exact and unify(param, v.kind, (), {})) for param in kind.params]  # noqa: B023
        if None in args:
            return False
        closure = self.fresh("f")
        self.line(f"{closure} = R.make_closure(Module.{name}, ({args[1].name},))")
        info = annotation(kind.result)
        call = "invoke_pure_closure" if self.pure or self.dataflow or self.choices.chance(60) else "invoke_closure"
        self.bind(f"R.{call}({closure}, ({args[0].name},), sinfo_args={info})", kind.result, 5000, self.draft.exact)

    # ------------------------------------------------------------------------------ recursion

    @step("binding", weight=2)
    def recursion(self) -> bool | None:
        """A function that calls itself, or another that calls it back, a few times."""
        v = self.tensor()
        if v is None or self.draft.made + 1 >= MOST_FUNCTIONS or self.depth >= 2:
            return False
        made = self.signature_of([v])
        if made is None or (isinstance(made[0][0], Tensor) and made[0][0].hidden):
            return False
        kinds, table = made
        mutual, pure = self.choices.chance(40), self.pure or self.choices.chance(60)
        names = [self.fresh("f") for _ in range(1 + mutual)]
        self.draft.made += len(names)
        self.note("mutual recursion" if mutual else "recursion of a global function")
        on_scalar = self.choices.chance(40)
        signature = sorted(table.values())
        for i, name in enumerate(names):
            other = names[(i + 1) % len(names)]
            self.recursive_function(name, other, kinds[0], signature, pure, on_scalar, v)
        start = self.choices.integer(0, 3)
        counter = f"R.prim_value({start})" if on_scalar else f'R.const({start}, "int64")'
        call = f"Module.{names[0]}({v.name}, {counter})"
        back = {var: dim for dim, var in table.items()}
        kind = map_dims(kinds[0], lambda dim: rename(dim, back))
        self.bind(call, kind, 5000, v.exact)
        return None

    def recursive_function(
        self, name: str, other: str, kind: Kind, signature: list[str], pure: bool, on_scalar: bool, v: Value
    ) -> None:
        scope = type(self)(self.draft, pure, 3, set(signature))
        scope.dims, scope.depth = list(signature), DEEPEST
        p, i = Value(self.fresh("p"), kind, 5000, v.exact), self.fresh("i")
        scope.pool = [p]
        shown = annotation(kind, True)
        counter = 'R.Prim("int64")' if on_scalar else 'R.Tensor((), "int64")'
        if on_scalar:
            counter = f'R.Prim(value="{i}")'
            parameter, condition = f"c{i}", f"R.prim_value({i} <= 0)"
            following = f"R.prim_value({i} - 1)"
        else:
            parameter, condition = i, f'R.less_equal({i}, R.const(0, "int64"))'
            following = f'R.subtract({i}, R.const(1, "int64"))'
        head = f"\n    @R.function({'' if pure else 'pure=False, '}private=True)\n"
        head += f"    def {name}({p.name}: {shown}, {parameter}: {counter}) -> {shown}:\n"
        head += "".join(f"        {var} = T.int64()\n" for var in signature)
        if on_scalar:
            head += f"        {i} = T.int64()\n"
        result = self.fresh("r")
        head += f"        if {condition}:\n            {result} = {p.name}\n        else:\n"
        scope.steps(self.choices.integer(0, 2))
        passed = scope.find(lambda w: w.kind == kind and w.exact == v.exact) or p
        scope.line(f"{result} = Module.{other}({passed.name}, {following})")
        self.draft.functions.append(head + "\n".join(scope.lines) + f"\n        return {result}\n")

    @step("binding", weight=1)
    def local_recursion(self) -> bool | None:
        """A local function that calls itself, over what it captured."""
        v = self.tensor()
        if v is None or self.depth >= DEEPEST - 1:
            return False
        name, p, i, r = (self.fresh(prefix) for prefix in "fpir")
        shown = annotation(v.kind)
        self.line("@R.function")
        self.line(f'def {name}({p}: {shown}, {i}: R.Tensor((), "int64")) -> {shown}:')
        scope = self.inner(pure=True, depth=DEEPEST, signature=set(self.dims))
        scope.pool.append(Value(p, v.kind, 5000, v.exact))
        scope.line(f'if R.less_equal({i}, R.const(0, "int64")):')
        scope.line(f"    {r} = {p}")
        scope.line("else:")
        scope.indent += 1
        scope.steps(self.choices.integer(0, 2))
        passed = scope.find(lambda w: w.kind == v.kind and w.exact == v.exact)
        scope.line(f'{r} = {name}({passed.name if passed else p}, R.subtract({i}, R.const(1, "int64")))')
        self.lines.append("    " * (self.indent + 1) + f"return {r}")
        start = self.choices.integer(0, 3)
        self.bind(f'{name}({v.name}, R.const({start}, "int64"))', v.kind, 5000, v.exact)
        return None


def _tensors(kind: Kind) -> list[Tensor]:
    match kind:
        case Tensor():
            return [kind]
        case Tuple(fields):
            return [tensor for field in fields for tensor in _tensors(field)]
        case _:
            return []


def hides(kind: Kind) -> bool:
    """Whether a part of a kind is not said by its annotation."""
    match kind:
        case Tensor() | Shape():
            return kind.hidden
        case Tuple(fields):
            return any(hides(field) for field in fields)
        case Object() | Func():
            return True
        case Prim(_, value):
            return value is None
        case _:
            return False


def weak(kind: Kind) -> Kind:
    """A kind for a parameter: what a scalar is worth is not part of it."""
    return replace(kind, value=None, name="") if isinstance(kind, Prim) else kind


def alike(a: Kind, b: Kind) -> bool:
    """Whether values of two kinds can be what the branches of an if give."""
    match a, b:
        case (Tensor(d, t), Tensor(e, u)):
            return t == u and len(d) == len(e)
        case (Shape(d), Shape(e)):
            return len(d) == len(e)
        case (Prim(t), Prim(u)):
            return t == u
        case _:
            return a == b


def loosened(kind: Kind) -> Kind:
    """What two kinds that are alike have in common."""
    match kind:
        case Tensor() | Shape():
            return replace(kind, hidden=True)
        case Prim():
            return replace(kind, value=None)
        case _:
            return kind


def unify(param: Kind, arg: Kind, own: tuple[str, ...], table: dict[str, str]) -> bool:
    """Whether a value surely fits a parameter; `table` learns what the function's shape variables stand for."""
    match param, arg:
        case (Tensor(), Tensor()) if param.dtype == arg.dtype and len(param.dims) == len(arg.dims):
            # What is hidden of an argument is checked at run time, where no variable depends on it.
            known = not arg.hidden or not any(names_in(dim) & set(own) for dim in param.dims)
            return param.hidden or (known and _unify_dims(param.dims, arg.dims, own, table))
        case (Shape(), Shape()) if len(param.dims) == len(arg.dims):
            return param.hidden or (not arg.hidden and _unify_dims(param.dims, arg.dims, own, table))
        case (Prim(_, None), Prim()):
            return param.dtype == arg.dtype
        case (Tuple(), Tuple()):
            return len(param.fields) == len(arg.fields) and all(
                unify(p, a, own, table) for p, a in zip(param.fields, arg.fields)
            )
        case (Object(), _):
            return param == arg
        case _:
            return param == arg and not free_names(param)


def _unify_dims(params: tuple[str, ...], args: tuple[str, ...], own: tuple[str, ...], table: dict[str, str]) -> bool:
    for param, arg in zip(params, args):
        if param in own:
            if table.setdefault(param, arg) != arg:
                return False
        elif rename(param, table) != arg:
            return False
    return True
