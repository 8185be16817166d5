"""Relay programs as Relax programs: the evaluator, Relax's interpreter and compiled code agree."""

from __future__ import annotations

import numpy as np
import pytest

import relax
from relax import DiagnosticError, relay
from relax.relay.machine_values import MachineValues, to_machine
from support import PLAIN_LOOPS

X = np.arange(6, dtype="float32").reshape(2, 3)
LIST = "let %l = Cons(%n, Cons(2, Cons(3, Nil)));"


def parsed(text):
    return relay.parse(f'#[version = "0.0.5"]\nimport "prelude.rly"\n{text}')


def text_of(value):
    if isinstance(value, tuple):
        return [text_of(part) for part in value]
    return value.numpy().tolist() if hasattr(value, "numpy") else str(value)


PROGRAMS = {
    "filter and map": (
        f"def @main(%n: int32) {{ {LIST} @map(fn(%x: int32) {{ %x * %x }}, @filter(fn(%x: int32) {{ %x > 2 }}, %l)) }}",
        (7,),
        "Cons(49, Cons(9, Nil))",
    ),
    "folds": (
        f"def @main(%n: int32) {{ {LIST} (@foldl(subtract, 0, %l), @foldr(subtract, 0, %l), @foldr1(add, %l)) }}",
        (7,),
        [-12, 8, 12],
    ),
    "lists": (
        f"def @main(%n: int32) {{ {LIST} (@sum(%l), @length(%l), @rev(%l), @concat(%l, @tl(%l)), @nth(%l, 1), "
        "@update(%l, 1, 9)) }",
        (7,),
        [
            12,
            3,
            "Cons(3, Cons(2, Cons(7, Nil)))",
            "Cons(7, Cons(2, Cons(3, Cons(2, Cons(3, Nil)))))",
            2,
            "Cons(7, Cons(9, Cons(3, Nil)))",
        ],
    ),
    "zip": (
        f"def @main(%n: int32) {{ {LIST} @zip(%l, Cons(True, Cons(False, Nil))) }}",
        (7,),
        "Cons((7, True), Cons((2, False), Nil))",
    ),
    "iterate": ("def @main(%n: int32) { @iterate(fn(%x: int32) { %x + %x }, 4)(%n) }", (3,), 48),
    "accumulate": (
        f"def @main(%n: int32) {{ {LIST} "
        "let %f = fn(%a: int32, %b: int32) { (%a + %b, %a) }; (@map_accuml(%f, 0, %l), @map_accumr(%f, 0, %l)) }",
        (7,),
        [[12, "Cons(0, Cons(7, Cons(9, Nil)))"], [12, "Cons(5, Cons(3, Cons(0, Nil)))"]],
    ),
    "trees": (
        "def @main(%n: int32) { let %t = Rose(1, Cons(Rose(%n, Nil), Nil)); (@size(%t), @tmap(negative, %t)) }",
        (7,),
        [2, "Rose(-1, Cons(Rose(-7, Nil), Nil))"],
    ),
    "unfold": (
        "def @main(%n: int32) { @unfoldl(fn(%k: int32) { if (%k == 0) { None } else { Some((%k - 1, %k)) } }, %n) }",
        (3,),
        "Cons(1, Cons(2, Cons(3, Nil)))",
    ),
    "nested patterns": (
        "def @main(%n: int32) { match ((Cons(%n, Nil), Some(Cons(2, Nil)))) {"
        " (Cons(%a, Cons(_, _)), _) => %a, (Nil, _) => 0,"
        " (Cons(%a, Nil), Some(Cons(%b, Nil))) => %a + %b, _ => 7 } }",
        (5,),
        7,
    ),
    "closures in data": (
        "def @main(%n: int32) { let %fs = Cons(fn(%x: int32) { %x + %n }, Cons(fn(%x: int32) { %x * %n }, Nil));"
        " @map(fn(%f: fn(int32) -> int32) { %f(10) }, %fs) }",
        (3,),
        "Cons(13, Cons(30, Nil))",
    ),
    "operators as functions": (
        "def @main(%n: int32) { let %g = fn(%f: fn(int32, int32) -> int32) { %f(%n, 2) }; (%g(add), %g(multiply)) }",
        (7,),
        [9, 14],
    ),
    "mutual recursion": (
        "def @even(%n: int32) -> bool { if (%n == 0) { True } else { @odd(%n - 1) } }"
        "def @odd(%n: int32) -> bool { if (%n == 0) { False } else { @even(%n - 1) } }"
        "def @main(%n: int32) { (@even(%n), @odd(%n)) }",
        (7,),
        [False, True],
    ),
    "references in order": (
        "def @next(%r: ref(int32)) -> int32 { ref_write(%r, ref_read(%r) * 2); ref_read(%r) }"
        "def @main(%n: int32) { let %r = ref(%n); let %a = @next(%r); let %b = @next(%r); (%a, %b, ref_read(%r)) }",
        (5,),
        [10, 20, 20],
    ),
    "effects in closures": (
        "def @main(%n: int32) { let %r = ref(0); let %l = @map(fn(%x: int32) {"
        " ref_write(%r, ref_read(%r) + %x); ref_read(%r) }, Cons(1, Cons(%n, Nil))); (%l, ref_read(%r)) }",
        (5,),
        ["Cons(1, Cons(6, Nil))", 6],
    ),
    "a reference keeps its tensor": (
        "def @main(%x: Tensor[(2, 3), float32]) { let %r = ref(%x * 2f); let %a = ref_read(%r) + 1f; "
        "(ref_read(%r), sum(%a)) }",
        (X,),
        [(X * 2).tolist(), float((X * 2 + 1).sum())],
    ),
    "any": (
        "def @f(%x: Tensor[(?, 3), float32]) -> Tensor[(?, 3), float32] { nn.relu(%x) }"
        "def @main(%x: Tensor[(?, 3), float32]) { @f(@f(%x)) + %x }",
        (X,),
        (X * 2).tolist(),
    ),
    "any in data": (
        "def @main(%x: Tensor[(?, 3), float32]) {"
        " let %join = fn(%a: Tensor[(?, 3), float32], %b: Tensor[(?, 3), float32]) { concatenate((%a, %b), axis=0) };"
        " @foldl(%join, %x, Cons(%x, Cons(%x, Nil))) }",
        (X[:1],),
        [[0.0, 1.0, 2.0]] * 3,
    ),
    "sizes that differ in branches": (
        "def @main(%c: bool, %x: Tensor[(n, 3), float32], %y: Tensor[(m, 3), float32]) {"
        " let %z: Tensor[(?, 3), float32] = if (%c) { %x } else { %y }; sum(nn.relu(%z)) }",
        (False, X, X[:0]),
        0.0,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_interpreted(name):
    text, args, expected = PROGRAMS[name]
    mod = parsed(text)
    assert text_of(relay.create_executor("debug", mod).evaluate()(*args)) == expected
    result = relax.interpret(relay.to_relax(mod), "main", *map(to_machine, args))
    assert text_of(MachineValues(mod).value(result)) == expected


def test_compiled():
    """All programs in one module, built once."""
    texts = [
        text.replace("@main", f"@main{i}").replace("@next", f"@next{i}").replace("@f(", f"@f{i}(")
        for i, (text, _, _) in enumerate(PROGRAMS.values())
    ]
    mains = ", ".join(f"@main{i}" for i in range(len(texts)))
    mod = parsed("\n".join([*texts, f"def @main() {{ ({mains}) }}"]))
    functions = relay.create_executor("vm", mod).evaluate()()
    for function, (_, args, expected) in zip(functions, PROGRAMS.values(), strict=True):
        assert text_of(function(*args)) == expected


@pytest.mark.parametrize("name", ["nested patterns", "effects in closures"])
def test_compiled_ahead_of_time(name):
    text, args, expected = PROGRAMS[name]
    assert text_of(relay.create_executor("aot", parsed(text)).evaluate()(*args)) == expected


def test_a_match_becomes_ifs_over_tags():
    mod = relay.to_relax(
        relay.parse("type B { On(int32), Off } def @main(%b: B) -> int32 { match (%b) { On(%n) => %n, Off => 0 } }")
    )
    script = mod["main"].script()
    assert script.removeprefix("# from relax.script import relax as R\n\n") == (
        """@R.function
def main(b: R.Object) -> R.Tensor((), dtype="int32"):
    gv: R.Prim("bool") = R.call_pure_packed("vm.builtin.has_tag", b, R.str("On"), sinfo_args=(R.Prim("bool"),))
    if gv:
        with R.dataflow():
            gv1: R.Object = b[1]
            gv2: R.Tensor((), dtype="int32") = R.match_cast(gv1, R.Tensor((), dtype="int32"))
            R.output(gv2)
        gv3: R.Tensor((), dtype="int32") = gv2
    else:
        gv3: R.Tensor((), dtype="int32") = R.const(0, "int32")
    return gv3"""
    )


def test_pure_operators_are_fused():
    mod = relay.parse(
        "def @main(%x: Tensor[(?, 3), float32], %w: Tensor[(4, 3), float32]) { nn.relu(nn.dense(%x, %w) * 2f) }"
    )
    fused = relax.get_pipeline("default")(relay.to_relax(mod))
    assert sum(isinstance(f, relax.tir.PrimFunc) for f in fused.functions.values()) <= 3
    assert str(relay.to_relax(mod)["main"].ret_struct_info.shape) == "R.shape([d, 4])"


def test_functions_without_references_stay_pure():
    mod = relay.to_relax(
        relay.parse(
            "def @pure(%x: int32) -> int32 { %x + 1 }"
            "def @reads(%r: ref(int32)) -> int32 { ref_read(%r) }"
            "def @main(%n: int32) -> int32 { @pure(@reads(ref(%n))) }"
        )
    )
    assert {g.name_hint: f.is_pure for g, f in mod.functions.items()} == {"pure": True, "reads": False, "main": False}


def test_values_at_the_border():
    mod = parsed("def @main(%l: List[int32], %r: ref(int32)) { (fn() { ref_write(%r, @hd(%l) + ref_read(%r)) }, %r) }")
    _, cons, nil = mod.get_type("List")
    items = relay.ConstructorValue(cons, (3, relay.ConstructorValue(nil, ())))
    for kind in ("debug", "vm"):
        reference = relay.RefValue(np.array(1, "int32"))
        add, same = relay.create_executor(kind, mod).evaluate()(items, reference)
        add()
        assert add() == ()
        assert int(np.asarray(same.value.numpy() if hasattr(same.value, "numpy") else same.value)) == 7


def test_long_lists():
    mod = parsed("def @main(%l: List[int32]) -> List[int32] { @rev(%l) }")
    _, cons, nil = mod.get_type("List")
    items = relay.ConstructorValue(nil, ())
    for i in range(6_000):
        items = relay.ConstructorValue(cons, (np.array(i, "int32"), items))
    assert str(relay.create_executor("vm", mod).evaluate()(items)).startswith("Cons(0, Cons(1, ")


@pytest.mark.parametrize("kind", ["debug", "vm", "aot"])
def test_no_clause_matches(kind):
    mod = parsed("def @main(%n: int32) -> int32 { match? (Cons(%n, Cons(5, Nil))) { Cons(%x, Nil) => %x } }")
    with pytest.raises(DiagnosticError, match=r"E9030.*no clause of the match takes Cons\(3, Cons\(5, Nil\)\)"):
        relay.create_executor(kind, mod).evaluate()(3)


def test_a_value_of_another_kind_is_refused():
    mod = parsed("def @main(%l: List[int32]) -> int32 { @sum(%l) }")
    machine = relax.VirtualMachine(relay.vm.compile(mod))
    with pytest.raises(TypeError, match="expected a value of a data type, found a tensor"):
        machine["main"](X)
    with pytest.raises(TypeError, match="expected dtype int32, found float32"):
        machine["main"](("Cons", np.array(1.5, "float32"), ("Nil",)))


def test_expressions_over_a_module():
    mod = relay.parse("def @twice(%x: int32) -> int32 { %x * 2 } def @main(%n: int32) -> int32 { @twice(%n) }")
    for kind in ("debug", "vm", "graph", "aot"):
        executor = relay.create_executor(kind, mod)
        call = relay.Call(mod.get_global_var("main"), [relay.const(4)])
        assert executor.evaluate(call).numpy() == 8
        assert executor.evaluate(mod.get_global_var("twice"))(5).numpy() == 10


def test_a_module_without_main():
    mod = relay.parse("def @f(%x: int32) { %x + 1 } def @g(%x: int32) { @f(%x) }")
    machine = relax.VirtualMachine(relay.build(mod, PLAIN_LOOPS))
    assert machine["g"](np.array(1, "int32")).numpy() == 2
    assert machine["f"](np.array(1, "int32")).numpy() == 2
