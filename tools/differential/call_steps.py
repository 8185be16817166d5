"""Steps that call what is not Relax: PrimFuncs that are generated too, packed functions, and what has effects.

The packed functions (`fuzz.…`) are those of `harness`, which says what each does.
"""

from __future__ import annotations

from dataclasses import replace

from .kinds import (
    INTS,
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
    is_static,
    literal,
    names_in,
)
from .writer import Core, step


def number(value: int, dtype: str) -> str:
    """A number in TIR."""
    return f"T.bool({bool(value)})" if dtype == "bool" else f"T.{dtype}({value})"


class CallSteps(Core):
    """Calls."""

    # ------------------------------------------------------------------------------ PrimFuncs

    def prim_func(self, name: str, params: list[tuple[str, Tensor]], scalars: list[str], body: list[str]) -> None:
        """Write a PrimFunc of buffers; those whose dimensions all are numbers are declared in the signature."""
        inputs = params[:-1] if scalars else params
        head, lines, names = [], [], set()
        parts: list[str] = []
        for buffer, kind in inputs:
            if all(map(is_static, kind.dims)):
                comma = "," if len(kind.dims) == 1 else ""
                parts.append(f'{buffer}: T.Buffer(({", ".join(kind.dims)}{comma}), "{kind.dtype}")')
            else:
                parts.append(f"{buffer}_p: T.handle")
        parts += [f"{scalar}: T.int64" for scalar in scalars]
        for buffer, kind in params[len(inputs) :]:
            if all(map(is_static, kind.dims)):
                comma = "," if len(kind.dims) == 1 else ""
                parts.append(f'{buffer}: T.Buffer(({", ".join(kind.dims)}{comma}), "{kind.dtype}")')
            else:
                parts.append(f"{buffer}_p: T.handle")
        for buffer, kind in params:
            if not all(map(is_static, kind.dims)):
                for dim in kind.dims:
                    names |= names_in(dim)
                lines.append(
                    f'        {buffer} = T.match_buffer({buffer}_p, ({"".join(d + ", " for d in kind.dims)}), "{kind.dtype}")'
                )
        head = [f"        {n} = T.int64()" for n in sorted(names - set(scalars))]
        private = "(private=True)" if self.choices.chance(70) else ""
        text = f"\n    @T.prim_func{private}\n    def {name}({', '.join(parts)}):\n"
        self.draft.functions.append(text + "\n".join([*head, *lines, *body]) + "\n")

    def loops(self, dims: tuple[str, ...], statement: str) -> list[str]:
        """A loop nest over dimensions with a block (or without) around a statement over i0, i1, …"""
        indices = [f"i{k}" for k in range(len(dims))]
        if not dims:
            return [f"        {statement}"]
        grid = f"        for {', '.join(indices)} in T.grid({', '.join(dims)}):"
        if self.choices.chance(40):
            return [grid, f"            {statement}"]
        block = [grid, f'            with T.block("b{self.fresh("")}"):']
        inner = statement
        for index, dim in zip(indices, dims):
            block.append(f"                v{index} = T.axis.spatial({dim}, {index})")
            inner = inner.replace(f"[{index}", f"[v{index}").replace(f", {index}", f", v{index}")
        return [*block, f"                {inner}"]

    def element(self, buffer: str, rank: int) -> str:
        return f"{buffer}[{', '.join(f'i{k}' for k in range(rank))}]" if rank else f"{buffer}[()]"

    def formula(self, terms: list[str], dtype: str) -> tuple[str, float]:
        """An expression over elements, and how it grows."""
        a, b = terms[0], terms[-1]
        if dtype == "bool":
            return self.choices.pick((f"not {a}", f"{a} or {b}", f"{a} and {b}")), 1
        two, one = number(2, dtype), number(1, dtype)
        options = [
            (f"{a} + {one}", 2.0),
            (f"{a} * {two}", 2.0),
            (f"T.max({a}, {b})", 1.0),
            (f"T.min({a}, {b} - {one})", 2.0),
            (f"T.if_then_else({a} < {b}, {a}, {b} + {one})", 2.0),
            (f"{a} - {b}", 2.0),
            (f"T.Select({a} > {one}, {a}, {two})", 1.0),
        ]
        return self.choices.pick(options)

    def kernel_operands(self, same: bool = True) -> list[Value] | None:
        v = self.tensor(accept=lambda v: v.bound < 2000 and len(v.kind.dims) <= 3)
        if v is None:
            return None
        w = self.tensor(accept=lambda w: w.kind == v.kind and w.bound < 2000)
        return [v, w] if w is not None and self.choices.chance(50) else [v]

    def kernel_kind(self, kind: Tensor) -> tuple[Tensor, dict[str, str]]:
        """The kind of a buffer for a tensor: numbers stay, everything else gets a name of the PrimFunc's own."""
        table: dict[str, str] = {}
        for dim in kind.dims:
            if not is_static(dim):
                table.setdefault(dim, f"m{len(table)}")
        return replace(kind, dims=tuple(table.get(dim, dim) for dim in kind.dims)), table

    @step(weight=3)
    def call_tir(self) -> bool | None:
        """A generated kernel, element by element, with one or two results, and perhaps an integer of tir_vars."""
        operands = self.kernel_operands()
        if operands is None:
            return False
        v = operands[0]
        kind, _ = self.kernel_kind(v.kind)
        name, rank, dtype = self.fresh("g"), len(kind.dims), kind.dtype
        buffers = [("a", kind), ("b", kind)][: len(operands)]
        terms = [self.element(buffer, rank) for buffer, _ in buffers]
        text, growth = self.formula(terms, dtype)
        bound = growth * max(w.bound for w in operands) + 2
        scalars: list[str] = []
        if self.dims and dtype != "bool" and self.choices.chance(30):
            scalars, text = ["s"], f'({text}) + T.Cast("{dtype}", s)'
            self.note("tir_vars")
        two = self.choices.chance(25) and not scalars
        outputs = [("c", kind)] + ([("d", kind)] if two else [])
        body = self.loops(kind.dims, f"{self.element('c', rank)} = {text}")
        if two:
            body += self.loops(kind.dims, f"{self.element('d', rank)} = {terms[-1]}")
        self.prim_func(name, [*buffers, *outputs], scalars, body)
        args = "".join(w.name + ", " for w in operands)
        info = annotation(v.kind)
        exact = all(w.exact for w in operands)
        tir_vars = ""
        if scalars:
            n = self.choices.pick(self.dims)
            tir_vars, bound = f", tir_vars=R.shape([{n}])", bound + self.size(n)
        if two:
            self.note("call_tir with several results")
            t = self.bind(
                f"R.call_tir(Module.{name}, ({args}), out_sinfo=[{info}, {info}])",
                Tuple((v.kind, v.kind)), bound, exact,
            )  # fmt: skip
            self.bind(f"{t.name}[0]", v.kind, bound, exact, False)
            return
        call, gradient = "call_tir", ""
        if self.choices.chance(20):
            call, gradient = "call_tir_with_grad", ', te_grad_name="of_generated"'
        self.bind(
            f"R.{call}(Module.{name}, ({args}), out_sinfo={info}{gradient}{tir_vars})", v.kind, bound, exact, True
        )

    @step(weight=1)
    def call_tir_reduction(self) -> bool | None:
        v = self.tensor("float32", "int64", "int32", ndim=(2,), accept=lambda v: v.bound < 100)
        if v is None:
            return False
        kind, _ = self.kernel_kind(v.kind)
        name, (a, b) = self.fresh("g"), kind.dims
        out, zero = replace(kind, dims=(a,)), number(0, kind.dtype)
        body = [
            f"        for i, j in T.grid({a}, {b}):",
            '            with T.block("sum"):',
            f"                vi = T.axis.spatial({a}, i)",
            f"                vj = T.axis.reduce({b}, j)",
            "                with T.init():",
            f"                    c[vi] = {zero}",
            "                c[vi] = c[vi] + a[vi, vj]",
        ]
        self.prim_func(name, [("a", kind), ("c", out)], [], body)
        result = replace(v.kind, dims=v.kind.dims[:1])
        bound = v.bound * self.size(v.kind.dims[1])
        self.bind(
            f"R.call_tir(Module.{name}, ({v.name},), out_sinfo={annotation(result)})", result, bound, v.exact, True
        )

    @step(weight=1)
    def call_tir_of_changed_shape(self) -> bool | None:
        """A kernel whose result has another shape than its operand; the size may be one that does not fit."""
        v = self.tensor(ndim=(1,), accept=lambda v: v.bound < 2000)
        if v is None or is_static(v.kind.dims[0]):
            return False
        name, dtype, n = self.fresh("g"), v.kind.dtype, v.kind.dims[0]
        double = f"({n} * 2)"
        if not self.fits((double,)):
            return False
        self.prim_func(
            name,
            [("a", Tensor(("m",), dtype)), ("c", Tensor(("m * 2",), dtype))],
            [],
            ["        for i in range(m * 2):", "            c[i] = a[i // 2]"],
        )
        if self.failing and self.choices.chance(50):
            double = self.dim(simple=True)
            if is_static(double):
                return False
            self.note("call_tir that may not fit")
        kind = Tensor((double,), dtype)
        self.bind(f"R.call_tir(Module.{name}, ({v.name},), out_sinfo={annotation(kind)})", kind, v.bound, v.exact, True)

    def fresh_tensor(self) -> Value | None:
        """A tensor that nobody else knows, for a call that changes it; it is not among the values to choose."""
        v, last = self.tensor("float32", "int64", "int32", accept=lambda v: v.bound < 1000), self.last
        if last is not None and last in self.pool and self.choices.chance(50):
            known = isinstance(last.kind, Tensor) and last.kind.dtype in ("float32", "int64", "int32")
            if known and not last.kind.hidden and last.bound < 1000:
                self.note("reuse of what was just made")
                self.pool.remove(last)
                return last
        if v is None:
            return None
        made = self.bind(f"R.add({v.name}, {literal(1, v.kind.dtype)})", v.kind, v.bound + 1, v.exact, True, keep=False)
        if self.choices.chance(30):  # another name for it
            name = self.fresh()
            self.line(f"{name} = {made.name}")
            made = replace(made, name=name)
        if self.choices.chance(30):  # read before it is changed
            self.note("read before it is changed in place")
            self.bind(f"R.negative({made.name})", v.kind, v.bound + 1, v.exact, True)
        return made

    @step(weight=2)
    def call_tir_inplace(self) -> bool | None:
        v = self.fresh_tensor()
        if v is None:
            return False
        kind, _ = self.kernel_kind(v.kind)
        name, rank = self.fresh("g"), len(kind.dims)
        w = self.tensor(accept=lambda w: w.kind == v.kind and w.bound < 1000)
        element = self.element("a", rank)
        info = annotation(v.kind)
        if w is not None and self.choices.chance(50):
            text, growth = self.formula([element, self.element("b", rank)], kind.dtype)
            body = self.loops(kind.dims, f"{element} = {text}")
            if self.choices.chance(40):  # one result in place, one that is allocated
                body += self.loops(kind.dims, f"{self.element('c', rank)} = {self.element('b', rank)}")
                self.prim_func(name, [("a", kind), ("b", kind), ("c", kind)], [], body)
                bound, exact = growth * max(v.bound, w.bound) + 2, v.exact and w.exact
                t = self.bind(
                    f"R.call_tir_inplace(Module.{name}, ({v.name}, {w.name}), inplace_indices=[0, -1], "
                    f"out_sinfo=[{info}, {info}])",
                    Tuple((v.kind, v.kind)), bound, exact,
                )  # fmt: skip
                self.bind(f"{t.name}[0]", v.kind, bound, exact)
                return None
            self.prim_func(name, [("a", kind), ("b", kind)], [], body)
            args, bound, exact = (f"({v.name}, {w.name})", growth * max(v.bound, w.bound) + 2, v.exact and w.exact)
        else:
            text, growth = self.formula([element], kind.dtype)
            self.prim_func(name, [("a", kind)], [], self.loops(kind.dims, f"{element} = {text}"))
            args, bound, exact = f"({v.name},)", growth * v.bound + 2, v.exact
        self.bind(
            f"R.call_tir_inplace(Module.{name}, {args}, inplace_indices=[0], out_sinfo={info})", v.kind, bound, exact
        )
        return None

    @step("impure", weight=1)
    def direct_call_of_a_prim_func(self) -> bool | None:
        """The output is an argument, and changes under every name it has."""
        v = self.tensor("float32", "int64", "int32", accept=lambda v: v.bound < 500)
        if v is None:
            return False
        w = self.tensor(accept=lambda w: w.kind == v.kind) or v
        kind, _ = self.kernel_kind(v.kind)
        name, rank = self.fresh("g"), len(kind.dims)
        a, c = self.element("a", rank), self.element("c", rank)
        body = self.loops(kind.dims, f"{c} = T.max({a}, {number(1, kind.dtype)})")
        self.prim_func(name, [("a", kind), ("c", kind)], [], body)
        if v is w:
            made = self.bind(f"R.negative({v.name})", v.kind, v.bound, v.exact, True)
            w = made
        self.line(f"Module.{name}({v.name}, {w.name})")

    # ------------------------------------------------------------------------------ packed functions

    @step(weight=2)
    def call_dps_packed(self) -> bool | None:
        v = self.tensor(*INTS, "float32", accept=lambda v: v.bound < 1000)
        if v is None:
            return False
        info = annotation(v.kind)
        if self.choices.chance(30):
            t = self.bind(
                f'R.call_dps_packed("fuzz.both_dps", ({v.name},), out_sinfo=[{info}, {info}])',
                Tuple((v.kind, v.kind)), v.bound * 2, v.exact,
            )  # fmt: skip
            self.bind(f"{t.name}[1]", v.kind, v.bound * 2, v.exact)
            return
        self.bind(
            f'R.call_dps_packed("fuzz.double_dps", ({v.name},), out_sinfo={info})', v.kind, v.bound * 2, v.exact, True
        )

    @step(weight=2)
    def call_pure_packed(self) -> bool | None:
        v = self.tensor(*INTS, "float32", accept=lambda v: v.bound < 1000)
        if v is None:
            return False
        options = [
            (f'R.call_pure_packed("fuzz.double", {v.name}, sinfo_args={annotation(v.kind)})', v.kind),
            (f'R.call_pure_packed("fuzz.double", {v.name}, sinfo_args={annotation(replace(v.kind, hidden=True))})',
             replace(v.kind, hidden=True)),
            (f'R.call_pure_packed("fuzz.double", {v.name})', Object(v.kind)),
            (f'R.call_pure_packed("fuzz.shape", {v.name}, sinfo_args=R.Shape(ndim={len(v.kind.dims)}))',
             Shape(v.kind.dims, True)),
            (f'R.call_pure_packed("fuzz.rank", {v.name}, sinfo_args=R.Prim("int64"))', Prim("int64")),
            (f'R.call_pure_packed("fuzz.sum", {v.name}, R.prim_value(2), sinfo_args=R.Tensor((), "int64"))',
             Tensor((), "int64")),
        ]  # fmt: skip
        if self.failing:
            wrong = replace(v.kind, dims=tuple(self.dim(simple=True) for _ in v.kind.dims))
            options.append((f'R.call_pure_packed("fuzz.double", {v.name}, sinfo_args={annotation(wrong)})', wrong))
            options.append((f'R.call_pure_packed("fuzz.fail", {v.name}, sinfo_args={annotation(v.kind)})', v.kind))
        text, kind = self.choices.pick(options)
        exact = (v.exact and "fuzz.sum" not in text) or v.exact
        if not exact and "fuzz.sum" in text:
            return False
        self.bind(text, kind, v.bound * 2 if "sum" not in text else 1e6, exact)

    @step(weight=1)
    def object_to_packed(self) -> bool | None:
        """An opaque value goes to a packed function, which says what it is."""
        o = self.find(lambda v: isinstance(v.kind, (Object, Prim, Shape, Tuple)))
        if o is None:
            return False
        self.bind(
            f'R.call_pure_packed("fuzz.kind", {o.name}, sinfo_args=R.Tensor((), "int64"))', Tensor((), "int64"), 99
        )

    @step(weight=2)
    def call_inplace_packed(self) -> bool | None:
        v = self.fresh_tensor()
        w = v and self.tensor(accept=lambda w: w.kind == v.kind and w.bound < 1000)
        if v is None:
            return False
        info = annotation(v.kind)
        if w is not None:
            text = f'R.call_inplace_packed("fuzz.add_to", {v.name}, {w.name}, inplace_indices=[0], sinfo_args={info})'
            self.bind(text, v.kind, v.bound + w.bound, v.exact and w.exact)
        else:
            text = f'R.call_inplace_packed("fuzz.increment", {v.name}, inplace_indices=[0], sinfo_args={info})'
            self.bind(text, v.kind, v.bound + 1, v.exact)
        return None

    @step(weight=2)
    def function_to_packed(self) -> bool | None:
        """A closure goes to a packed function that calls it."""
        f = self.find(
            lambda v: (
                isinstance(v.kind, Func)
                and len(v.kind.params) == 1
                and isinstance(v.kind.params[0], Tensor)
                and (v.kind.pure or not (self.pure or self.dataflow))
            )
        )
        v = f and self.tensor(accept=lambda v: v.kind == f.kind.params[0] and v.exact)
        if f is None or v is None:
            return False
        result = f.kind.result
        if not free_names(result) <= set(self.dims):
            return False
        call = "call_pure_packed" if f.kind.pure else "call_packed"
        if not f.kind.pure and self.choices.chance(50):
            text = f"R.invoke_closure({f.name}, ({v.name},), sinfo_args={annotation(result)})"
        elif self.choices.chance(30) and f.kind.pure:
            text = f"R.invoke_pure_closure({f.name}, ({v.name},), sinfo_args={annotation(result)})"
        else:
            text = f'R.{call}("fuzz.apply", {f.name}, {v.name}, sinfo_args={annotation(result)})'
        self.bind(text, result, 5000, self.draft.exact)

    # ------------------------------------------------------------------------------ effects

    def recordable(self) -> Value | None:
        return self.find(lambda v: not isinstance(v.kind, Func))

    @step("impure", weight=9)
    def record(self) -> bool | None:
        """The recording packed function."""
        values = [v for v in (self.recordable() for _ in range(self.choices.integer(1, 2))) if v is not None]
        if not values:
            return False
        names = ", ".join(v.name for v in values)
        self.line(f'R.call_packed("fuzz.record", {names}, R.str("{self.fresh("e")}"), sinfo_args=R.Tuple())')

    @step("impure", weight=8)
    def mutate(self) -> bool | None:
        """A tensor changes under every name it has."""
        v = self.tensor(*INTS, "float32", accept=lambda v: v.bound < 2000)
        if v is None:
            return False
        self.line(f'R.call_packed("fuzz.increment", {v.name}, sinfo_args=R.Object)')
        self.pool = [replace(w, bound=w.bound + 1) for w in self.pool]

    @step("impure", weight=2)
    def call_packed(self) -> bool | None:
        v = self.find(lambda v: not isinstance(v.kind, (Func, Object)))
        if v is None or not free_names(v.kind) <= set(self.dims):
            return False
        kind: Kind = v.kind
        if (isinstance(kind, Tensor) and kind.hidden) or not isinstance(kind, Tensor):
            self.bind(f'R.call_packed("fuzz.identity", {v.name})', Object(kind), v.bound, v.exact)
            return None
        options = [
            (f'R.call_packed("fuzz.identity", {v.name}, sinfo_args={annotation(kind)})', kind),
            (f'R.call_packed("fuzz.pair", {v.name}, {v.name}, sinfo_args=R.Tuple({annotation(kind)}, {annotation(kind)}))',
             Tuple((kind, kind))),
        ]  # fmt: skip
        text, kind = self.choices.pick(options)
        self.bind(text, kind, v.bound, v.exact)
        return None

    @step("impure", weight=2)
    def nested_effects(self) -> bool | None:
        """Effects within an expression, which happen from left to right."""
        v = self.tensor(*INTS, "float32", accept=lambda v: v.bound < 2000)
        if v is None:
            return False
        first = f'R.call_packed("fuzz.increment", {v.name}, sinfo_args={annotation(v.kind)})'
        second = f'R.call_packed("fuzz.double", {v.name}, sinfo_args={annotation(v.kind)})'
        self.line(f'R.call_packed("fuzz.record", {second}, {first}, {v.name}, {second}, sinfo_args=R.Tuple())')
        self.pool = [replace(w, bound=w.bound + 1) for w in self.pool]

    @step("impure", weight=1)
    def print(self) -> bool | None:
        v = self.find(lambda v: isinstance(v.kind, (Tensor, Prim)) and v.exact)
        if v is None:
            return False
        self.line(f'R.print({v.name}, format="{self.fresh("e")}: {{}}")')

    @step("impure", weight=1)
    def assert_op(self) -> bool | None:
        c = self.tensor("bool", ndim=(0,))
        if c is None or not self.failing:
            n = self.dims[0] if self.dims else "0"
            self.line(f'R.assert_op(R.prim_value({n} >= 0), format="never {self.fresh("e")}")')
            return None
        v = self.tensor(exact=True)
        values = f", {v.name}" if v else ""
        self.line(f'R.assert_op({c.name}{values}, format="assertion {self.fresh("e")}{" {}" if v else ""}")')
        return None
