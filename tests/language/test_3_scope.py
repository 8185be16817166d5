"""Section 3: where variables are seen."""

from __future__ import annotations

import pytest
from programs import floats, i64, module, ones, refused, truth

import relax
from relax.script import from_source


def rejects(text):
    """(code, message) of what the parser reports."""
    with pytest.raises(relax.DiagnosticError) as caught:
        module(text)
    return [(d.code, d.message) for d in caught.value.diagnostics]


# ----------------------------------------------------------------------------------------------- scopes


def test_global_variables_are_seen_everywhere(run):
    """Global variables are visible in every function, local ones included."""
    program = """
    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
            @R.function
            def local(y: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
                z = M.double(y)
                return z

            w = local(x)
            return w

        @R.function(private=True)
        def double(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
            y = R.add(x, x)
            return y
    """
    assert run(program, "main", floats(3)).numpy().tolist() == [6]


def test_parameters_are_seen_in_their_function_only(run):
    """A function's parameters are visible in it, and nowhere else."""
    program = """
    @R.function
    def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        @R.function
        def f(p: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
            q = R.add(p, x)
            return q

        y = f({})
        return y
    """
    assert run(program.format("x"), "main", floats(3)).numpy().tolist() == [6]
    assert [code for code, _ in rejects(program.format("p"))] == ["E1002"]


def test_a_local_function_sees_its_own_variable(run):
    """A function bound to a local variable sees that variable: local recursion."""
    program = """
    @R.function
    def main(n: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        @R.function
        def sum_to(k: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
            if R.equal(k, R.const(0, "int64")):
                r = k
            else:
                r = R.add(k, sum_to(R.subtract(k, R.const(1, "int64"))))
            return r

        s = sum_to(n)
        return s
    """
    assert [int(run(program, "main", i64(n)).numpy()) for n in (0, 1, 4)] == [0, 1, 10]


def test_a_var_is_seen_in_later_bindings_blocks_and_the_body(run):
    """A Var is visible in later bindings of its block, in later blocks and in the body."""
    program = """
    @R.function
    def main(x: R.Tensor((1,), "float32")):
        a = R.add(x, x)
        b = R.add(a, x)
        with R.dataflow():
            c = R.add(a, b)
            d = R.add(c, a)
            R.output(d)
        e = R.add(d, a)
        return (a, b, d, e)
    """
    assert [t.numpy().item() for t in run(program, "main", floats(1))] == [2, 3, 7, 9]


def test_a_dataflow_var_is_seen_in_its_block_only(run):
    """A DataflowVar is visible in later bindings of its DataflowBlock only."""
    program = """
    @R.function
    def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        with R.dataflow():
            a = R.add(x, x)
            b = R.add(a, a)
            R.output(b)
        c = R.add({}, x)
        return c
    """
    assert run(program.format("b"), "main", floats(1)).numpy().tolist() == [5]
    ((code, message),) = rejects(program.format("a"))
    assert (code, message) == ("E1002", "`a` is not defined")


def test_what_a_branch_binds_does_not_escape(run):
    """A branch of an If is a SeqExpr of its own: what it binds does not escape."""
    program = """
    @R.function
    def main(x: R.Tensor((1,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((1,), "float32"):
        if c:
            inner = R.add(x, x)
            r = R.add(inner, x)
        else:
            r = x
        return {}
    """
    for chosen, value in ((True, 3), (False, 1)):
        assert run(program.format("r"), "main", floats(1), truth(chosen)).numpy().tolist() == [value]
    with pytest.raises(relax.DiagnosticError) as caught:
        module(program.format("inner"))
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("E1002", "`inner` is not defined")
    assert diagnostic.hint == "what a branch or a local function binds is seen only there; make it the result"


# -------------------------------------------------------------------------------------------- shadowing


def test_every_variable_is_bound_once():
    """Every variable is bound exactly once: two bindings of one name are two variables."""
    function = from_source("""
    @R.function
    def main(x: R.Tensor((1,), "float32")):
        x = R.add(x, x)
        x = R.add(x, x)
        return x
    """)
    first, second = function.body.blocks[0].bindings
    variables = [function.params[0], first.var, second.var]
    assert [v.name_hint for v in variables] == ["x", "x", "x"]
    assert len(set(variables)) == 3
    assert first.value.args[0] is function.params[0]
    assert second.value.args[0] is first.var
    assert function.body.body is second.var


SHADOWS = """
@R.function
def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")) -> R.Tuple(
    R.Tensor(("n",), "float32"), R.Tensor(("n",), "float32"), R.Tensor(("n",), "float32")
):
    n = T.int64()

    @R.function
    def inner(x: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
        x = R.add(x, x)
        x = R.add(x, x)
        return x

    r = inner(x)
    if c:
        x = R.add(x, R.const(10, "float32"))
        b = R.add(x, x)
    else:
        b = x
    return (x, r, b)
"""


@pytest.mark.parametrize("size", [0, 1, 2])
@pytest.mark.parametrize("chosen, branch", [(True, 22), (False, 1)])
def test_rebinding_a_name_shadows_it_until_the_scope_ends(run, chosen, branch, size):
    """★ Rebinding a name is shadowing: a new variable; the old one is visible again when the inner scope ends."""
    x, inner, b = (t.numpy().tolist() for t in run(SHADOWS, "main", ones(size), truth(chosen)))
    assert (x, inner, b) == ([1] * size, [4] * size, [branch] * size)


def test_shadowing_leaves_closures_alone(run):
    """★ Rebinding a name is shadowing: a closure keeps the variable it captured."""
    program = """
    @R.function
    def main(x: R.Tensor((1,), "float32")) -> R.Tensor((1,), "float32"):
        @R.function
        def get() -> R.Tensor((1,), "float32"):
            y = R.add(x, x)
            return y

        x = R.add(x, R.const([10], "float32"))
        z = get()
        return z
    """
    assert run(program, "main", floats(1)).numpy().tolist() == [2]


# ------------------------------------------------------------------------------------- shape variables


def test_parameters_bind_shape_variables(run):
    """A function's parameter annotations bind shape variables for the function, return annotation included."""
    program = """
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("m + n",), "float32"):
        n, m = T.int64(), T.int64()
        y = R.zeros((m + n,), "float32")
        return y
    """
    for n, m in ((0, 0), (1, 0), (2, 3)):
        assert run(program, "main", ones(n, m)).shape == (n + m,)


def test_a_match_cast_binds_shape_variables(run):
    """A MatchCast binds shape variables for the SeqExpr it stands in."""
    program = """
    @R.function
    def main(x: R.Tensor(ndim=1, dtype="float32"), c: R.Tensor((), "bool")) -> R.Shape(ndim=1):
        k = T.int64()
        if c:
            y = R.match_cast(x, R.Tensor((k,), "float32"))
            s = R.shape([k + 1])
        else:
            s = R.shape([0])
        return {}
    """
    assert run(program.format("s"), "main", ones(2), truth(True)) == (3,)
    assert run(program.format("s"), "main", ones(2), truth(False)) == (0,)
    assert ("E2005", "rule 5: the shape variable k is not bound here") in rejects(program.format("R.shape([k])"))


def test_a_shape_variable_is_bound_where_it_stands_alone(run):
    """A shape variable is bound only where it stands alone in a dimension; `2 * n` is a use."""
    program = """
    @R.function
    def main(y: R.Tensor(("2 * n",), "float32"), x: R.Tensor(("{}",), "float32")) -> R.Shape(["n"]):
        n = T.int64()
        return R.shape([n])
    """
    assert run(program.format("n"), "main", ones(4), ones(2)) == (2,)
    with pytest.raises(ValueError, match=r"main: parameter y: dimension 0 is 5, expected"):
        run(program.format("n"), "main", ones(5), ones(2))
    assert [code for code, _ in rejects(program.format("n + 1"))][:1] == ["E2006"]


def test_shape_variables_are_bound_in_shapes_and_prims(run):
    """Shape variables are bound by tensors, shapes, prims and tuples of them alike."""
    program = """
    @R.function
    def main(
        s: R.Shape(["a"]), p: R.Prim(value="b"), t: R.Tuple(R.Tensor(("c",), "float32"), R.Shape(["d"]))
    ) -> R.Shape(["a", "b", "c", "d"]):
        a, b, c, d = T.int64(), T.int64(), T.int64(), T.int64()
        return R.shape([a, b, c, d])
    """
    assert run(program, "main", (1,), 2, (ones(3), (4,))) == (1, 2, 3, 4)


def test_closures_capture_shape_variables_of_every_scope(run):
    """★ Closures capture shape variables: of the parameters, of a match_cast, of functions further out."""
    program = """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(ndim=1, dtype="float32")) -> R.Object:
        n, m = T.int64(), T.int64()
        z = R.match_cast(y, R.Tensor((m,), "float32"))

        @R.function
        def outer(s: R.Shape(["k"])) -> R.Object:
            k = T.int64()

            @R.function
            def inner() -> R.Shape([n, m, k]):
                return R.shape([n, m, k])

            return inner

        return outer
    """
    outer = run(program, "main", ones(1), ones(0))
    assert outer((5,))() == (1, 0, 5)


def test_two_calls_have_two_scopes(run):
    """Entering a function is a new scope: its shape variables are bound anew each time."""
    program = """
    @I.ir_module
    class M:
        @R.function(private=True)
        def size(x: R.Tensor(("n",), "float32")) -> R.Shape(["n"]):
            n = T.int64()
            return R.shape([n])

        @R.function
        def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
            a = M.size(x)
            b = M.size(y)
            c = M.size(x)
            return (a, b, c)
    """
    assert run(program, "main", ones(2), ones(0)) == ((2,), (0,), (2,))


def test_a_variable_of_an_api_program_does_not_escape_either():
    """A branch of an If is a SeqExpr of its own: rule 2 holds it to that in programs built by API too."""
    x = relax.Var("x", relax.TensorStructInfo((1,), "float32"))
    c = relax.Var("c", relax.TensorStructInfo((), "bool"))
    y, z, w = relax.Var("y"), relax.Var("z"), relax.Var("w")
    branch = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(y, relax.op.add(x, x))])], y)
    block = relax.BindingBlock([relax.VarBinding(z, relax.If(c, branch, x)), relax.VarBinding(w, y)])
    main = relax.Function([x, c], relax.SeqExpr([block], w), attrs={"global_symbol": "main"})
    assert refused(relax.IRModule({"main": main})) == [("E2002", "rule 2: the variable y is not bound here")]
