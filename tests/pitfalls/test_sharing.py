"""Objects in many places: every walk takes time by objects, not by paths. And walks of what nests deeply.

``e = e + e``, sixty times, is sixty objects and 2**60 paths. Nothing here looks at a clock: Python calls are counted, and
a walk that makes too many of them is stopped.
"""

from __future__ import annotations

import copy
import pickle
import sys

import numpy as np
import pytest
from pitfall_helpers import parse

import relax
from relax import analysis, prim, tir, transform
from relax.derive.substitution import copy_with_new_vars
from relax.info.mapping import bound_in, map_struct_info, shape_expressions, substitute_struct_info, used_in
from relax.info.relations import Verdict, check_castable, erase, erase_to_well_defined, match_dimensions
from relax.info.runtime import InfoMaker
from relax.info.text import prim_text, struct_info_text
from relax.interpreter import Interpreter
from relax.ir import DiagnosticError, load_json, save_json, structural_equal, structural_hash, walk
from relax.prim import intrin
from relax.script import from_source
from relax.tir.interpret import interpret

DEEP = 60
CALLS = 10_000_000


class TooMuchWork(BaseException):
    """More calls than any walk of so few objects needs; no `except Exception` takes it."""


def limited(walk, calls=CALLS):
    """What a walk returns. Raises TooMuchWork if it makes too many Python calls."""
    left = calls

    def count(frame, event, argument):
        nonlocal left
        left -= event == "call"
        if left < 0:
            sys.setprofile(None)
            raise TooMuchWork

    outer = sys.getprofile()
    sys.setprofile(count)
    try:
        return walk()
    finally:
        sys.setprofile(outer)


def test_the_limit_stops_a_walk_by_paths():
    def paths(e):
        return 1 if isinstance(e, tir.Var) else paths(e.a) + paths(e.b)

    with pytest.raises(TooMuchWork):
        limited(lambda: paths(deep(PRIMS["add"], tir.SizeVar("n", "int64"))), 10_000)


def let(value, body):
    var = tir.Var("v", "int64")
    return tir.Let(var, value, body(var))


PRIMS = {
    "add": lambda e: e + e,
    "mul": lambda e: e * e,
    "mod": lambda e: (e % 7) + (e % 5),
    "mod itself": lambda e: (e + 1) % (e + 2),
    "floordiv": lambda e: e // 2 + e // 3,
    "max": lambda e: tir.Max(e * 2, e + 3),
    "cast": lambda e: tir.Cast("int64", tir.Cast("int32", e)) + e,
    "select": lambda e: tir.Select(e > 3, e + 1, e - 1),
    "if_then_else": lambda e: tir.if_then_else(e > e * e, e + e, e),
    "shift": lambda e: intrin.shift_left(e, e),
    "let": lambda e: let(e, lambda v: v + v * e),
    "let twice": lambda e: let(e, lambda v: let(v + e, lambda w: tir.Max(w, v + e))),
    "let in two": lambda e: let(e, lambda v: v + e) + let(e + 1, lambda v: v * e),
}
X, Y = tir.SizeVar("x", "int64"), tir.SizeVar("y", "int64")


def deep(step, e, times=DEEP):
    for _ in range(times):
        e = step(e)
    return e


def copied(e):
    return load_json(save_json(e))


PRIM_WALKS = {
    "free_vars": lambda e, step: prim.free_vars(e) == [X],
    "uses": lambda e, step: prim.uses(e, X) and not prim.uses(e, Y),
    "substitute": lambda e, step: structural_equal(prim.substitute(e, {X: Y}), deep(step, Y)),
    "evaluate": lambda e, step: isinstance(prim.evaluate(e, {X: 7}), int),
    "post_order": lambda e, step: prim.post_order(e, lambda _: None) is None,
    "rewrite": lambda e, step: prim.rewrite(e, lambda _: None) is e,
    "walk": lambda e, step: walk(e, lambda _: None) is None,
    "tir substitute": lambda e, step: structural_equal(tir.substitute(e, {X: Y}), deep(step, Y)),
    "equal": lambda e, step: structural_equal(e, deep(step, X)) and not structural_equal(e, deep(step, Y)),
    "hash": lambda e, step: structural_hash(e, True) == structural_hash(deep(step, Y), True),
    "json": lambda e, step: structural_equal(copied(e), e, True),
    "pickle": lambda e, step: structural_equal(pickle.loads(pickle.dumps(e)), e, True),
    "deepcopy": lambda e, step: structural_equal(copy.deepcopy(e), e, True),
    "message": lambda e, step: len(prim_text(e)) < 5_000,
    "repr": lambda e, step: len(repr(e)) < 20_000,
    "script": lambda e, step: len(e.script()) < 20_000,
    "run-time info": lambda e, step: InfoMaker().dim(e) == ("unknown",),
}


@pytest.mark.parametrize("walk", PRIM_WALKS)
@pytest.mark.parametrize("step", PRIMS)
def test_walks_of_scalar_expressions(step, walk):
    e = deep(PRIMS[step], X)
    assert limited(lambda: PRIM_WALKS[walk](e, PRIMS[step]))


def under_facts(e, other):
    analyzer = prim.Analyzer()
    analyzer.assume(e > 5)
    analyzer.assume(other < 9)
    return analyzer.simplify(e + other), analyzer.can_prove(other < e)


QUESTIONS = {
    "simplify": lambda e, other: prim.simplify(e),
    "equal": lambda e, other: prim.prove_equal(e, other),
    "less": lambda e, other: prim.prove(e < other),
    "bound": lambda e, other: prim.const_int_bound(e),
    "under facts": under_facts,
}


@pytest.mark.parametrize(
    ("step", "question"),
    [
        ("select", "simplify"),
        ("if_then_else", "equal"),
        ("let twice", "bound"),
        ("let in two", "less"),
        ("let in two", "under facts"),
        ("mod itself", "simplify"),
    ],
)
def test_questions_about_shared_expressions(step, question):
    times = 14 if step == "let in two" else DEEP  # it is a polynomial of many terms, but 2**14 paths would be too many
    e, other = deep(PRIMS[step], X, times), deep(PRIMS[step], Y, times)
    limited(lambda: QUESTIONS[question](e, other), 30_000_000)


def test_text_of_a_shared_expression_names_what_is_shared():
    text = deep(PRIMS["add"], X, 20).script()
    assert "e = T.meta_var(x + x)\n" in text
    assert text.endswith("\ne_18 + e_18")
    assert deep(PRIMS["add"], X, 3).script() == "x + x + (x + x) + (x + x + (x + x))"


def test_a_program_of_shared_expressions_reads_back():
    buffer, handle = tir.decl_buffer((4,), "float32", "A"), tir.Var("a", "handle")
    e = buffer[0]
    for _ in range(DEEP):
        e = e * e
    func = tir.PrimFunc([handle], tir.BufferStore(buffer, e, [1]), buffer_map={handle: buffer})
    func = func.with_attr("global_symbol", "f")
    text = limited(func.script)
    assert len(text) < 10_000
    assert structural_equal(limited(lambda: from_source(text)), func)


def test_a_function_of_shared_shapes_reads_back():
    builder = relax.BlockBuilder()
    n = tir.SizeVar("n", "int64")
    x = relax.Var("x", relax.TensorStructInfo((n,), "float32"))
    with builder.function("main", [x]):
        e = deep(lambda e: tir.Max(e * 2, e + 3), n)
        builder.emit_func_output(builder.emit(relax.ShapeExpr([e, n])))
    mod = builder.get()
    text = limited(mod.script)
    assert len(text) < 100_000


@pytest.mark.parametrize("depth", [8, 9, 10, 12])
def test_pairs_of_pairs_print_the_same_when_read_back(depth):
    lines = ["t0 = (x, x)", *(f"t{i + 1} = (t{i}, t{i})" for i in range(depth)), f"return t{depth}"]
    text = "from relax.script import relax as R\n@R.function\ndef f(x: R.Tensor((4,))):\n    "
    func = from_source(text + "\n    ".join(lines))
    shown = func.script()
    again = from_source(shown)
    assert structural_equal(again, func)
    assert again.script() == shown


def test_devices_of_shared_tuples():
    lines = ["t0 = (x, x)", *(f"t{i + 1} = (t{i}, t{i})" for i in range(DEEP))]
    lines += [f"y{DEEP} = t{DEEP}", *(f"y{i} = y{i + 1}[1]" for i in reversed(range(DEEP))), "return y0"]
    head = """from relax.script import ir as I, relax as R
@I.ir_module
class Module:
    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})
    @R.function
    def main(x: R.Tensor((4,), "float32", "llvm:1")):
        """
    mod = from_source(head + "\n        ".join(lines))
    made = limited(lambda: relax.transform.RealizeVDevice()(mod), 3_000_000)
    assert made["main"].ret_struct_info.fields[0].vdevice.vdevice_id == 1


# -------------------------------------------------------------------------------------------- struct info


def tuples(info, times=DEEP):
    for _ in range(times):
        info = relax.TupleStructInfo([info, info])
    return info


def functions(info, times=DEEP):
    for i in range(times):
        own = relax.TensorStructInfo((tir.SizeVar(f"k{i}", "int64"),), "float32")
        info = relax.FuncStructInfo([own, info], info)
    return info


def info_of(var):
    return relax.TensorStructInfo((var, var * 2), "float32")


INFOS = {"tuples": tuples, "functions": functions}
INFO_WALKS = {
    "bound_in": lambda a, b, c: X in bound_in(a) or isinstance(a, relax.FuncStructInfo),
    "used_in": lambda a, b, c: list(used_in(a)) == [X],
    "shape_expressions": lambda a, b, c: list(shape_expressions(a)) == [],
    "map": lambda a, b, c: map_struct_info(a, lambda dim: dim) is a,
    "substitute": lambda a, b, c: Y in used_in(substitute_struct_info(a, {X: Y})),
    "compatible": lambda a, b, c: relax.info.relations.check_compatible(a, b).verdict is not Verdict.NO,
    "incompatible": lambda a, b, c: relax.info.relations.check_compatible(a, c).verdict is not Verdict.YES,
    "castable": lambda a, b, c: check_castable(a, c).verdict is not None,
    "matched": lambda a, b, c: match_dimensions([a], [b]) is not None,
    "lca": lambda a, b, c: analysis.struct_info_lca(a, b) is not None,
    "lca of others": lambda a, b, c: analysis.struct_info_lca(a, c) is not None,
    "erase": lambda a, b, c: X not in used_in(erase(a, [X])),
    "erase_to_well_defined": lambda a, b, c: X not in used_in(erase_to_well_defined(a)),
    "static": lambda a, b, c: analysis.get_static_struct_info(a) is not None,
    "equal": lambda a, b, c: structural_equal(a, b) and not structural_equal(a, c),
    "hash": lambda a, b, c: structural_hash(a, True) == structural_hash(c, True),
    "json": lambda a, b, c: structural_equal(copied(a), a, True),
    "text": lambda a, b, c: len(struct_info_text(a)) < 20_000,
    "script": lambda a, b, c: len(a.script()) < 20_000,
    "run-time info": lambda a, b, c: len(str(InfoMaker().info(a))) < 3_000_000,
}


# The innermost parameters of the function types bind the variable: it is not used in them. That two function types
# bind the same variables is compared, and hashed, for each place where one stands.
NOT_OF_FUNCTIONS = {"used_in", "substitute", "equal", "hash", "json"}


@pytest.mark.parametrize(
    "kind, walk", [(k, w) for k in INFOS for w in INFO_WALKS if k == "tuples" or w not in NOT_OF_FUNCTIONS]
)
def test_walks_of_struct_info(kind, walk):
    make = INFOS[kind]
    a, b, c = make(info_of(X)), make(info_of(X)), make(info_of(Y))
    assert limited(lambda: INFO_WALKS[walk](a, b, c))


def nested_pairs(count):
    lines = "\n".join(f"        a{i + 1} = (a{i}, a{i})" for i in range(count))
    return f"""
@I.ir_module
class Module:
    @R.function
    def main(a0: R.Tensor(("n",), "float32")):
{lines}
        return a{count}
"""


def test_pairs_of_pairs_are_parsed_printed_and_built():
    mod = limited(lambda: from_source(nested_pairs(DEEP)))
    text = limited(mod.script)
    assert len(text) < 100_000
    assert structural_equal(limited(lambda: from_source(text)), mod)
    executable = limited(lambda: relax.build(mod, "llvm"))
    assert limited(lambda: len(executable.as_text())) < 10_000_000


PROGRAM_WALKS = {
    "well_formed": analysis.well_formed,
    "free_vars": lambda mod: analysis.free_vars(mod["main"]),
    "all_symbolic_vars": lambda mod: analysis.all_symbolic_vars(mod["main"]),
    "visitor": lambda mod: relax.ExprVisitor().visit_expr(mod["main"]),
    "mutator": lambda mod: relax.ExprMutator(mod).visit_expr(mod["main"]),
    "copy": lambda mod: copy_with_new_vars(mod["main"]),
    "json": lambda mod: copied(mod),
    "deepcopy": copy.deepcopy,
    "hash": structural_hash,
    **{
        name: lambda mod, name=name: getattr(transform, name)()(mod)
        for name in (
            "Normalize", "CanonicalizeBindings", "EliminateCommonSubexpr", "DeadCodeElimination", "FoldConstant",
            "LegalizeOps", "LambdaLift", "ToNonDataflow", "CallTIRRewrite", "RemovePurityChecking",
        )
    },
    "BindSymbolicVars": lambda mod: transform.BindSymbolicVars({"n": 4})(mod),
}  # fmt: skip


@pytest.mark.parametrize("walk", PROGRAM_WALKS)
def test_walks_of_a_program_of_pairs(walk):
    mod = from_source(nested_pairs(DEEP))
    limited(lambda: PROGRAM_WALKS[walk](mod))


def test_fields_of_pairs_of_pairs_are_taken():
    fields = "\n".join(f"        b{i + 1} = b{i}[{i % 2}]" for i in range(40))
    text = nested_pairs(40).replace("        return a40", f"        b0 = a40\n{fields}\n        return b40")
    mod, x = parse(text), np.arange(5, dtype="float32")
    machine = relax.VirtualMachine(limited(lambda: relax.build(mod, "llvm")), relax.cpu())
    assert machine["main"](x).numpy().tolist() == x.tolist()
    assert limited(lambda: Interpreter(mod)["main"](x)).numpy().tolist() == x.tolist()


def test_results_of_functions_that_are_pairs_of_pairs():
    """A result, an argument, a branch and a cast: by paths, none of them would end."""
    pairs = "\n".join(f"            p{i + 1} = (p{i}, p{i})" for i in range(DEEP))
    taken = "\n".join(f"        b{i + 1} = b{i}[{i % 2}]" for i in range(DEEP))
    text = f"""
@I.ir_module
class Module:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
        @R.function
        def nested(p0: R.Tensor((4,), "float32")):
{pairs}
            return p{DEEP}
        a = nested(x)
        if c:
            r = nested(a{"[0]" * DEEP})
        else:
            r = a
        b0 = r
{taken}
        return b{DEEP}
"""
    mod, x = parse(text), np.arange(4, dtype="float32")
    machine = relax.VirtualMachine(limited(lambda: relax.build(mod, "llvm")), relax.cpu())
    for c in (True, False):
        assert machine["main"](np.array(c), x).numpy().tolist() == x.tolist()
        assert limited(lambda c=c: Interpreter(mod)["main"](np.array(c), x)).numpy().tolist() == x.tolist()


def test_tuples_of_different_branches_that_are_shared():
    """What a branch gives is compared field by field, of each object once."""
    pairs = "\n".join(f"            p{i + 1} = (p{i}, p{i})\n" for i in range(DEEP))
    other = pairs.replace("p", "q")
    text = f"""
@I.ir_module
class Module:
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
        if c:
            p0 = (x, x)
{pairs}
            r = p{DEEP}
        else:
            q0 = (x, x)
{other}
            r = q{DEEP}
        return r
"""
    limited(lambda: relax.build(parse(text), "llvm"))


# -------------------------------------------------------------------------------------------- deep nests


def concat(count, symbolic):
    sizes = [f'("n{i}",)' if symbolic else "(2,)" for i in range(count)]
    params = ", ".join(f'x{i}: R.Tensor({size}, "float32")' for i, size in enumerate(sizes))
    return f"""
@I.ir_module
class Module:
    @R.function
    def main({params}):
        return R.concat([{", ".join(f"x{i}" for i in range(count))}], axis=0)
"""


@pytest.mark.parametrize(("count", "symbolic"), [(150, False), (66, True), (7, True)])
def test_a_concat_of_many_is_built_saved_and_loaded(count, symbolic, tmp_path):
    executable = relax.build(parse(concat(count, symbolic)), "llvm")
    path = tmp_path / "concat"
    executable.export_library(str(path))
    loaded = relax.VirtualMachine(relax.runtime.load_module(str(path)), relax.cpu())
    sizes = [i % 3 if symbolic else 2 for i in range(count)]
    parts = [np.full((size,), i, "float32") for i, size in enumerate(sizes)]
    np.testing.assert_array_equal(loaded["main"](*parts).numpy(), np.concatenate(parts))


def test_operands_of_a_concat_nest_by_their_logarithm():
    from_te = relax.topi.concatenate([relax.te.placeholder((2,), "float32", f"x{i}") for i in range(1600)])
    body = relax.te.create_prim_func([*from_te.op.input_tensors, from_te]).body
    depths = {}

    def measure(node):
        below = [depths[id(part)] for part in relax.ir.children_of(node) if id(part) in depths]
        is_choice = isinstance(node, tir.Call) and node.intrinsic == "if_then_else"
        depths[id(node)] = max(below, default=0) + is_choice

    tir.post_order_visit(body, measure)
    assert max(depths.values()) == 11


def nested_ifs(count):
    cond = relax.Var("c", relax.TensorStructInfo((), "bool"))
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    value = x
    for i in range(count):
        var = relax.Var(f"v{i}")
        block = relax.BindingBlock([relax.VarBinding(var, value)])
        value = relax.If(cond, relax.SeqExpr([block], var), relax.SeqExpr([], x))
    return relax.IRModule({"main": relax.Function([cond, x], value).with_attr("global_symbol", "main")})


@pytest.mark.parametrize(
    "walk",
    [structural_hash, save_json, lambda m: structural_equal(m, nested_ifs(1_000)), lambda m: m.script()],
    ids=["hash", "json", "equal", "script"],
)
def test_a_thousand_nested_ifs(walk):
    assert walk(nested_ifs(1_000))


def test_what_nests_too_deeply_is_told():
    with pytest.raises(DiagnosticError, match="E2106.*nested too deeply"):
        relax.build(nested_ifs(5_000), "llvm")


def test_thousands_of_loops_in_sequence():
    buffer, handle = tir.decl_buffer((4,), "float32", "A"), tir.Var("a", "handle")
    loops = []
    for _ in range(3_000):
        i = tir.Var("i", "int32")
        store = tir.BufferStore(buffer, buffer[i] + tir.FloatImm("float32", 1.0), [i])
        loops.append(tir.For(i, 0, 4, tir.ForKind.SERIAL, store))
    func = tir.PrimFunc([handle], tir.SeqStmt(loops), buffer_map={handle: buffer})
    func = func.with_attr("global_symbol", "f")
    assert structural_equal(load_json(save_json(func)), func, True)
    tir.verify_well_formed(func)
    tir.lower(func)
    out = np.zeros(4, "float32")
    interpret(func, out)
    assert out.tolist() == [3_000] * 4


# -------------------------------------------------------------------------------------------- saved infos


@pytest.mark.parametrize("depth", [65, 70, 300])
def test_infos_nested_deeply_are_saved_and_loaded(depth, tmp_path):
    annotation = 'R.Tensor((4,), "float32")'
    for _ in range(depth):
        annotation = f"R.Tuple({annotation})" if depth < 100 else annotation
    lines = "\n".join(f"        a{i + 1} = (a{i},)" for i in range(depth))
    mod = from_source(f"""
@I.ir_module
class Module:
    @R.function
    def main(a0: R.Tensor((4,), "float32")):
{lines}
        return a{depth}
""")
    path = tmp_path / "nested"
    relax.build(mod, "llvm").export_library(str(path))
    result = relax.VirtualMachine(relax.runtime.load_module(str(path)), relax.cpu())["main"](np.ones(4, "float32"))
    for _ in range(depth):
        (result,) = result
    assert result.numpy().tolist() == [1] * 4
