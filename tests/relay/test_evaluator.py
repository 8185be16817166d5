"""The evaluator: sharing, references, the prelude, depth, and errors; tests/relay/test_document.py has the document."""

from __future__ import annotations

import numpy as np
import pytest

from relax import DiagnosticError, relay


def value_of(text, kind):
    return relay.create_executor(kind).evaluate(relay.parse_expr(text)).numpy()


def main_of(text, kind):
    return relay.create_executor(kind, relay.parse(f'#[version = "0.0.5"]\n{text}')).evaluate()


def test_a_graph_node_is_evaluated_once():
    reference = relay.var("r")
    count = relay.RefWrite(reference, relay.add(relay.RefRead(reference), relay.const(1)))
    value = relay.Tuple([count, count, relay.RefRead(reference)])
    *_, result = relay.create_executor().evaluate(relay.Let(reference, relay.RefCreate(relay.const(0)), value))
    assert result.numpy() == 1


def test_the_prelude():
    fields = main_of(
        """
import "prelude.rly"
def @main(%n : int32) -> (int32, int32, List[int32]) {
  let %l = Cons(%n, Cons(2, Cons(3, Nil)));
  (@sum(%l), @length(@filter(fn(%x : int32) -> bool { %x > 2 }, %l)), @rev(@map(fn(%x : int32) -> int32 { %x * %x }, %l)))
}""",
        "debug",
    )(7)
    assert (fields[0].numpy(), fields[1].numpy(), str(fields[2])) == (12, 2, "Cons(9, Cons(4, Cons(49, Nil)))")


def test_references():
    text = "let %r = ref(1); let %u = ref_write(%r, 2); let %v = ref_write(%r, ref_read(%r) * 5); ref_read(%r)"
    assert value_of(text, "debug") == 10


def test_nothing_recurses():
    chain = relay.var("x0")
    variables = [relay.var(f"x{i}") for i in range(2000)]
    body = variables[-1]
    for before, after in zip(variables[-2::-1], variables[:0:-1], strict=True):
        body = relay.Let(after, relay.Tuple([before]), body)
    value = relay.create_executor().evaluate(relay.Let(variables[0], relay.const(1), body))
    for _ in range(1999):
        (value,) = value
    assert value.numpy() == 1
    deep = chain
    for _ in range(2000):
        deep = relay.Tuple([deep])
    value = relay.create_executor().evaluate(relay.Let(chain, relay.const(2), deep))
    for _ in range(2000):
        (value,) = value
    assert value.numpy() == 2

    prelude = relay.Prelude().mod
    _, cons, nil = prelude.get_type("List")
    items = relay.ConstructorValue(nil, ())
    for i in range(2000):
        items = relay.ConstructorValue(cons, (np.array(i), items))
    evaluator = relay.create_executor("debug", prelude)
    copied = evaluator.evaluate(prelude.get_global_var("concat"))(items, items)
    assert str(copied).startswith("Cons(1999, Cons(1998, ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("let %f = 1; %f(2)", "E9031.*a tensor is called, which is no function"),
        ("let %f = fn(%x : int32) { %x }; %f(1, 2)", "E9031.*the function takes 1 arguments, found 2"),
        ("1 + (2, 3)", "E3101.*x2 must be a tensor"),
    ],
)
def test_what_fails(text, message):
    with pytest.raises(DiagnosticError, match=f"(?s){message}"):
        relay.create_executor().evaluate(relay.parse_expr(text))


def test_a_function_that_the_module_does_not_have():
    with pytest.raises(DiagnosticError, match="E9003.*no Relay function @nobody"):
        relay.create_executor().evaluate(relay.Call(relay.GlobalVar("nobody"), []))


def test_no_clause():
    head = main_of(
        'import "prelude.rly"\ndef @main(%l : List[int32]) -> int32 { match? (%l) { Cons(%h, _) => %h } }', "debug"
    )
    nil = relay.create_executor("debug", relay.prelude.Prelude().mod).evaluate(
        relay.prelude.Prelude().mod.get_type("List")[2]
    )
    with pytest.raises(DiagnosticError, match=r"E9030.*no clause of the match takes Nil"):
        head(nil)
