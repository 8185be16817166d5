"""The examples of the document, evaluated and compiled, with the values that it states."""

from __future__ import annotations

import numpy as np
import pytest

from relax import DiagnosticError, relay

KINDS = ("debug", "vm")


def value_of(text, kind):
    return relay.create_executor(kind).evaluate(relay.parse_expr(text)).numpy()


def main_of(text, kind):
    return relay.create_executor(kind, relay.parse(f'#[version = "0.0.5"]\n{text}')).evaluate()


@pytest.mark.parametrize("kind", KINDS)
class TestDocument:
    def test_local_variable(self, kind):
        assert value_of("let %a = 1; let %b = 2 * %a; let %a = %a + %a; %a + %b", kind) == 4

    def test_functions(self, kind):
        add = main_of(
            """
def @main(%x : Tensor[(10, 10), float32], %y : Tensor[(10, 10), float32]) -> Tensor[(10, 10), float32] {
  add(%x, %y)
}""",
            kind,
        )
        x, y = np.full((10, 10), 1, "float32"), np.full((10, 10), 2, "float32")
        assert (add(x, y).numpy() == 3).all()

    def test_functions_recursion(self, kind):
        fact = """
let %fact = fn(%x : int32) -> int32 {
  if (%x == 0) { 1 } else { %x * %fact(%x - 1) }
};
%fact(10)"""
        assert value_of(fact, kind) == 3628800

    def test_closures(self, kind):
        text = """
let %g = fn() {
  let %x = zeros(shape=[10, 10], dtype="float32");
  fn(%y : Tensor[(10, 10), float32]) { %y * %x }
};
let %f = %g();
let %x = ones(shape=[10, 10], dtype="float32");
%f(%x)"""
        assert (value_of(text, kind) == np.zeros((10, 10), "float32")).all()

    def test_call(self, kind):
        text = """
let %c = 1f;
let %f = fn(%x : Tensor[(), float32], %y : Tensor[(), float32]) { %x + %y + %c };
%f(10f, 11f)"""
        assert value_of(text, kind) == 22

    @pytest.mark.parametrize(("m", "n", "expected"), [(0, 0, 1), (1, 2, 4), (2, 3, 9)])
    def test_module_and_global_functions(self, kind, m, n, expected):
        ackermann = """
def @ackermann(%m : Tensor[(), int32], %n : Tensor[(), int32]) -> Tensor[(), int32] {
  if (%m == 0) {
    %n + 1
  } else if (%m > 0 && %n == 0) {
    @ackermann(%m - 1, 1)
  } else {
    @ackermann(%m - 1, @ackermann(%m, %n - 1))
  }
}
def @main(%m : int32, %n : int32) -> int32 { @ackermann(%m, %n) }"""
        assert main_of(ackermann, kind)(m, n).numpy() == expected

    def test_tuples(self, kind):
        tuples = main_of(
            """
def @main(%a : Tensor[(10, 10), float32], %b : float32, %c : Tensor[(100, 100), float32]) {
  let %tup = (%a, %b);
  ((%tup.0 + %tup.1), %c)
}""",
            kind,
        )
        c = np.zeros((100, 100), "float32")
        first, second = tuples(np.ones((10, 10), "float32"), np.float32(2), c)
        assert (first.numpy() == 3).all()
        assert (second.numpy() == c).all()
        assert value_of("(1, 2, 3).1", kind) == 2

    def test_let_bindings(self, kind):
        text = 'let %x : Tensor[(10, 10), float32] = ones(shape=[10, 10], dtype="float32"); %x + %x'
        assert (value_of(text, kind) == np.full((10, 10), 2)).all()

    def test_graph_bindings(self, kind):
        a, b = relay.const(2.0), relay.const(3.0)
        sum1 = relay.add(a, b)
        sum2 = relay.add(sum1, sum1)
        assert relay.create_executor(kind).evaluate(relay.multiply(sum2, sum2)).numpy() == 100
        assert value_of("%1 = 2f + 3f; %2 = %1 + %1; %2 * %2", kind) == 100

    def test_if_then_else(self, kind):
        choose = main_of(
            "def @main(%t : int32, %u : int32) -> int32 { if (%t == %u) { %t } else { %u * 2 } }", kind
        )
        assert choose(3, 3).numpy() == 3
        assert choose(3, 4).numpy() == 8


def test_a_graph_node_is_evaluated_once():
    reference = relay.var("r")
    count = relay.RefWrite(reference, relay.add(relay.RefRead(reference), relay.const(1)))
    value = relay.Tuple([count, count, relay.RefRead(reference)])
    *_, result = relay.create_executor().evaluate(
        relay.Let(reference, relay.RefCreate(relay.const(0)), value)
    )
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
    assert (fields[0].numpy(), fields[1].numpy(), str(fields[2])) == (
        12,
        2,
        "Cons(9, Cons(4, Cons(49, Nil)))",
    )


def test_references():
    text = (
        "let %r = ref(1); let %u = ref_write(%r, 2); let %v = ref_write(%r, ref_read(%r) * 5); ref_read(%r)"
    )
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
        'import "prelude.rly"\ndef @main(%l : List[int32]) -> int32 { match? (%l) { Cons(%h, _) => %h } }',
        "debug",
    )
    nil = relay.create_executor("debug", relay.prelude.Prelude().mod).evaluate(
        relay.prelude.Prelude().mod.get_type("List")[2]
    )
    with pytest.raises(DiagnosticError, match=r"E9030.*no clause of the match takes Nil"):
        head(nil)
