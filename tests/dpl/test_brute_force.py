"""The matcher against its definition: random patterns over random blocks, all assignments enumerated.

`denotes` is the definition of each kind of pattern, written without the matcher: it is asked of a complete assignment of
expressions to the nodes of a pattern, and `assignments` enumerates these over all variables and values of a block.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest

import relax
from relax.analysis import get_var2val, well_formed
from relax.dpl import (
    AndPattern,
    CallPattern,
    ConstantPattern,
    DataflowVarPattern,
    DataTypePattern,
    DFPattern,
    ExprPattern,
    NotPattern,
    OrPattern,
    PatternContext,
    PatternMatchingRewriter,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    VarPattern,
    WildcardPattern,
    is_const,
    is_dfv,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    rewrite_bindings,
    rewrite_call,
    wildcard,
)
from relax.expr import Call, Constant, DataflowVar, Tuple, TupleGetItem, Var
from relax.ir import Op
from support import main, same, values

UNARY = ("exp", "negative", "sin")
BINARY = ("add", "subtract", "multiply")
COMMUTATIVE = ("relax.add", "relax.multiply")
PARAMS = 'x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")'

# ------------------------------------------------------------------------------------------------ random programs


def random_block(rng: random.Random, count: int) -> relax.IRModule:
    """A function of one dataflow block of `count` random bindings, some of them outputs."""
    lines, tensors, tuples = [], ["x", "y"], []
    for index in range(count):
        name = f"v{index}"
        kind = rng.choice("uubbbbtgaco")
        if kind == "u":
            lines.append(f"{name} = R.{rng.choice(UNARY)}({rng.choice(tensors)})")
        elif kind == "t":
            lines.append(f"{name} = ({rng.choice(tensors)}, {rng.choice(tensors)})")
        elif kind == "g" and tuples:
            lines.append(f"{name} = {rng.choice(tuples)}[{rng.randrange(2)}]")
        elif kind == "a":
            lines.append(f"{name} = {rng.choice(tensors)}")
        elif kind == "c":
            lines.append(f"{name} = R.multiply({rng.choice(tensors)}, R.const({rng.choice([2, 3])}, 'float32'))")
        else:
            lines.append(f"{name} = R.{rng.choice(BINARY)}({rng.choice(tensors)}, {rng.choice(tensors)})")
        (tuples if kind == "t" else tensors).append(name)
    named = [name for name in tensors if name.startswith("v")] or ["x"]
    outputs = list(dict.fromkeys([named[-1], *rng.sample(named, min(len(named), rng.randrange(1, 3)))]))
    if outputs == ["x"]:
        lines.append("v = R.exp(x)")
        outputs = ["v"]
    body = "\n    ".join([*lines, f"R.output({', '.join(outputs)})"])
    return main(f"with R.dataflow():\n    {body}\nreturn ({', '.join(outputs)},)", PARAMS)


def random_pattern(rng: random.Random, depth: int, shared: list[DFPattern]) -> DFPattern:
    """A random pattern; subpatterns are sometimes used twice."""
    if shared and rng.random() < 0.2:
        return rng.choice(shared)
    part = lambda: random_pattern(rng, depth - 1, shared)  # noqa: E731
    leaves = [wildcard, wildcard, wildcard, is_const, is_dfv, lambda: is_var(rng.choice(["", "x", "v1"]))]
    kinds = [
        lambda: is_op(f"relax.{rng.choice(UNARY)}")(part()),
        *[lambda: is_op(f"relax.{rng.choice(BINARY)}")(part(), part())] * 4,
        lambda: part() | part(),
        lambda: part() & part(),
        lambda: ~part(),
        lambda: is_tuple([part(), part()], unordered=rng.random() < 0.5),
        lambda: is_tuple_get_item(part(), rng.choice([None, 0, 1])),
        lambda: part().has_dtype(rng.choice(["float32", "float32", "int64"])),
        lambda: part().has_shape(rng.choice([(2, 3), (2, 3), ()])),
    ]
    new = rng.choice(leaves if depth == 0 or rng.random() < 0.2 else kinds)()
    shared.append(new)
    return new


# ------------------------------------------------------------------------------------------- what a pattern denotes


class Definition:
    """The definition of patterns, for the values of one block."""

    def __init__(self, var2val: dict[Var, relax.Expr]) -> None:
        self.var2val = var2val

    def value(self, expr):
        while isinstance(expr, Var) and expr in self.var2val:
            expr = self.var2val[expr]
        return expr

    def alike(self, a, b):
        """True for two expressions of one value: one variable, aliases of it, or one value."""
        return a is b or self.value(a) is self.value(b)

    def solutions(self, pattern, expr, chosen) -> Iterator[dict]:
        """All assignments, as extensions of `chosen`, under which a pattern denotes an expression."""
        if pattern in chosen:
            if self.alike(chosen[pattern], expr):
                yield chosen
            return
        for solution in self.ways(pattern, expr, chosen):
            yield {**solution, pattern: expr}

    def all_of(self, patterns, exprs, chosen) -> Iterator[dict]:
        solutions = [chosen]
        for pattern, expr in zip(patterns, exprs, strict=True):
            solutions = [new for old in solutions for new in self.solutions(pattern, expr, old)]
        yield from solutions

    def ways(self, pattern, expr, chosen) -> Iterator[dict]:
        value = self.value(expr)
        match pattern:
            case WildcardPattern():
                yield chosen
            case ExprPattern(expr=Op() as operator):
                if value is operator:
                    yield chosen
            case DataflowVarPattern(name=name):
                if isinstance(expr, DataflowVar) and name in ("", expr.name_hint):
                    yield chosen
            case VarPattern(name=name):
                if isinstance(expr, Var) and name in ("", expr.name_hint):
                    yield chosen
            case ConstantPattern():
                if isinstance(value, Constant):
                    yield chosen
            case OrPattern(left=left, right=right):
                yield from self.solutions(left, expr, chosen)
                yield from self.solutions(right, expr, chosen)
            case AndPattern(left=left, right=right):
                yield from self.all_of([left, right], [expr, expr], chosen)
            case NotPattern(reject=reject):
                if not any(True for _ in self.solutions(reject, expr, chosen)):
                    yield chosen
            case DataTypePattern(pattern=inner, dtype=dtype):
                if getattr(expr.struct_info, "dtype", None) == dtype:
                    yield from self.solutions(inner, expr, chosen)
            case ShapePattern(pattern=inner, shape=shape):
                dims = getattr(expr.struct_info, "dims", None)
                if dims is not None and [int(d) for d in dims] == [int(d) for d in shape]:
                    yield from self.solutions(inner, expr, chosen)
            case CallPattern(op=callee, args=args):
                if isinstance(value, Call) and len(value.args) == len(args):
                    orders = [value.args]
                    if getattr(value.op, "name", "") in COMMUTATIVE:
                        orders.append(value.args[::-1])
                    for order in orders:
                        yield from self.all_of([callee, *args], [value.op, *order], chosen)
            case TuplePattern(fields=fields):
                if isinstance(value, Tuple) and len(value.fields) == len(fields):
                    yield from self.all_of(fields, value.fields, chosen)
            case UnorderedTuplePattern(fields=fields):
                if isinstance(value, Tuple) and len(value.fields) == len(fields):
                    for order in itertools.permutations(value.fields):
                        yield from self.all_of(fields, order, chosen)
            case TupleGetItemPattern(tuple=inner, index=index):
                if isinstance(value, TupleGetItem) and index in (None, value.index):
                    yield from self.solutions(inner, value.tuple_value, chosen)
            case _:
                raise AssertionError(f"no definition of {type(pattern).__name__}")


SEEDS = range(300)


def program(seed: int):
    rng = random.Random(seed)
    mod = random_block(rng, rng.randrange(3, 9))
    func = mod["main"]
    return rng, mod, func.body.blocks[0], get_var2val(func)


def test_a_pattern_matches_what_it_denotes():
    found = 0
    for seed in SEEDS:
        rng, _, block, var2val = program(seed)
        pattern = random_pattern(rng, rng.randrange(1, 4), [])
        definition = Definition(var2val)
        for binding in block.bindings:
            for expr in (binding.var, binding.value):
                solutions = list(definition.solutions(pattern, expr, {}))
                matched = pattern.extract_matched_expr(expr, var2val)
                assert (matched is not None) == bool(solutions), (seed, pattern, expr)
                if matched is not None:
                    found += 1
                    assert any(
                        matched.keys() == solution.keys() and all(matched[p] is solution[p] for p in matched)
                        for solution in solutions
                    ), (seed, pattern, expr)
    assert found > 300


# -------------------------------------------------------------------------------------------- patterns that are related


def users_of(block, definition, source):
    """Variables whose values use a variable, by any of its names; aliases are no users."""
    users = []
    for binding in block.bindings:
        value = binding.value
        operands = (*value.args,) if isinstance(value, Call) else ()
        operands = value.fields if isinstance(value, Tuple) else operands
        operands = (value.tuple_value,) if isinstance(value, TupleGetItem) else operands
        if any(isinstance(used, Var) and first_name(definition, used) is source for used in operands):
            users.append(binding.var)
    return users


def first_name(definition, var):
    while isinstance(definition.var2val.get(var), Var):
        var = definition.var2val[var]
    return var


def related(block, definition, used, user, only):
    """True if the value of `used` is an operand of that of `user`, and, with `only`, has no other use."""
    source, target = first_name(definition, used), first_name(definition, user)
    users = users_of(block, definition, source)
    if target not in users:
        return False
    leaves = any(not isinstance(b.var, DataflowVar) and first_name(definition, b.var) is source for b in block.bindings)
    return not only or (len(users) == 1 and not leaves)


def operators_in_a_chain(rng, block, definition):
    """Names of operators of which each uses the one before, as far as the block has them; sometimes of others."""
    calls = [b.var for b in block.bindings if isinstance(b.value, Call)]
    chain = [rng.choice(calls)] if calls else []
    while chain and len(chain) < 3:
        operands = [first_name(definition, arg) for arg in definition.value(chain[0]).args if isinstance(arg, Var)]
        before = [var for var in operands if var in calls]
        if not before:
            break
        chain.insert(0, rng.choice(before))
    names = [definition.value(var).op.name.removeprefix("relax.") for var in chain]
    return names if len(names) > 1 and rng.random() < 0.8 else [rng.choice([*UNARY, *BINARY]) for _ in range(2)]


def test_related_patterns_match_what_they_denote():
    found = 0
    for seed in SEEDS:
        rng, _, block, var2val = program(seed)
        definition = Definition(var2val)
        x, y = wildcard(), wildcard()
        names = operators_in_a_chain(rng, block, definition)
        with PatternContext() as context:
            roots = [
                is_op(f"relax.{name}")(*([wildcard()] if name in UNARY else [wildcard(), rng.choice([x, y])]))
                for name in names
            ]
            uses = [(at, at + 1, rng.random() < 0.4) for at in range(len(roots) - 1)]
            for first, second, only in uses:
                (roots[first].only_used_by if only else roots[first].used_by)(roots[second])
        matched = context.match_dfb(block)
        solutions = []
        for chosen in itertools.permutations([b.var for b in block.bindings], len(roots)):
            if all(related(block, definition, chosen[a], chosen[b], only) for a, b, only in uses):
                solutions += [(chosen, s) for s in definition.all_of(roots, chosen, {})]
        assert (matched is not None) == bool(solutions), seed
        if matched is not None:
            found += 1
            mine = tuple(matched[root] for root in roots)
            assert any(mine == chosen for chosen, _ in solutions), seed
    assert found > 40


# -------------------------------------------------------------------------------------------------- results are kept


ARGS = (np.float32([[1, 2, 3], [4, 5, 6]]) / 8, np.float32([[3, 1, 2], [0, 7, 5]]) / 8)


def results(mod):
    return values(relax.interpret(mod, "main", *ARGS))


def computed(value):
    """A value anew, with the same result and rounding."""
    if not isinstance(value.struct_info, relax.TensorStructInfo):
        return value
    return relax.op.negative(relax.op.negative(value))


@pytest.mark.parametrize("chunk", range(4))
def test_what_is_moved_computes_the_same(chunk):
    grouped = replaced = 0
    for seed in SEEDS[chunk::4]:
        rng, mod, _, _ = program(seed)
        patterns = [random_pattern(rng, rng.randrange(1, 4), []) for _ in range(2)]
        expected = results(mod)
        fused = relax.transform.FuseOpsByPattern([("lib.f", p) for p in patterns])(mod)
        merged = relax.transform.MergeCompositeFunctions()(fused)
        called = rewrite_call(patterns[0], lambda expr, _: computed(expr), mod["main"])
        with PatternContext() as context:
            root = is_op(f"relax.{rng.choice(BINARY)}")(wildcard(), wildcard())
        bound = rewrite_bindings(context, lambda m, vals, root=root: {m[root]: computed(vals[m[root]])}, mod["main"])
        again = []

        def once(expr, matched, again=again):
            again.append(expr)
            return computed(expr) if len(again) < 6 else None

        pure = PatternMatchingRewriter.from_pattern(patterns[1], once)(mod)
        outcomes = [fused, merged, relax.IRModule({"main": called}), relax.IRModule({"main": bound}), pure]
        for outcome in outcomes:
            assert well_formed(outcome), seed
            same(results(outcome), expected)
        grouped += len(fused.functions) - 1
        replaced += called is not mod["main"]
    assert grouped > 20
    assert replaced > 10
