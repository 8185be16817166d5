"""Section 6: what is known of values before a program runs, how it is derived, and what is left to be checked.

Virtual devices have a file of their own, test_virtual_devices.py.
"""

from __future__ import annotations

import warnings

import pytest
from programs import compiled, floats, i64, module, ones, packed, refused, truth, warned

import relax
from relax.info.relations import Verdict, check_compatible, struct_info_lca, subtype
from relax.ir import RelaxWarning
from relax.ir.transform import PassContext
from relax.script import from_source

YES, POSSIBLY, NO = Verdict.YES, Verdict.POSSIBLY, Verdict.NO
F = '"float32"'


@packed("language.info.same")
def _same(value):
    return value


def infos(*texts):
    """Struct infos as they are written; n and m mean the same in all."""
    params = ", ".join(f"p{i}: {text}" for i, text in enumerate(texts))
    text = f"""
@R.function
def main(s: R.Shape(["n", "m"]), {params}):
    n, m = T.int64(), T.int64()
    return s
"""
    return [p.struct_info for p in from_source(text).params[1:]]


def shown(info):
    return str(info)


def derived(body, params='x: R.Tensor(("n", 4), "float32")', header="", more=""):
    """The struct info of the variable r of a function, as text."""
    lines = "\n        ".join(body.splitlines())
    mod = module(f"""
@I.ir_module
class M:
    {more}

    @R.function({header})
    def main({params}):
        n, m, k = T.int64(), T.int64(), T.int64()
        {lines}
        return r
""")
    return shown(mod["main"].body.body.struct_info)


# -------------------------------------------------------------------------------------------- the forms

FORMS = [
    *("R.Object", 'R.Prim("int64")', "R.Prim(value=n)", "R.Prim(value=n + 1)", "R.Shape([n, 4])", "R.Shape(ndim=2)"),
    *("R.Shape", 'R.Tensor((n, 4), "float32")', 'R.Tensor("float32", ndim=2)', "R.Tensor((n,))", "R.Tensor"),
    *('R.Tensor((), "int8")', "R.Tuple()", "R.Tuple(R.Object, R.Tuple(R.Shape))"),
    *('R.Callable((R.Tensor((n,), "float32"),), R.Tensor((n,), "float32"), True)', "R.Callable"),
]  # fmt: skip


@pytest.mark.parametrize("text", FORMS)
def test_every_form_is_written_and_printed(text):
    """Struct info is Object, Prim, Shape, Tensor, Tuple or Func, with parts that may be left out; it prints as it is
    written."""
    (info,) = infos(text)
    written, printed = infos(text, shown(info))
    assert subtype(written, printed) is subtype(printed, written) is YES


def test_parts_that_are_left_out():
    """Struct info is Object, Prim, Shape, Tensor, Tuple or Func; what is left out is not known."""
    tensor, shape = infos("R.Tensor", "R.Shape")
    assert (tensor.shape, str(tensor.dtype), tensor.ndim, tensor.vdevice) == (None, "", -1, None)
    assert (shape.values, shape.ndim) == (None, -1)
    prim, function = infos('R.Prim("int64")', "R.Callable()")
    assert prim.value is None
    assert function.params is None
    assert not function.purity


# ---------------------------------------------------------------------------------------------- proving

PROOFS = [
    ("n + n", "2 * n", YES),
    ("(n + 1) * (n - 1)", "n * n - 1", YES),
    ("n * m", "m * n", YES),
    ("T.max(n, 0)", "n", YES),
    ("T.min(n, n + 1)", "n", YES),
    ("(4 * n + 3) // 4", "n", YES),
    ("(4 * n + 3) % 4", "3", YES),
    ("n", "m", POSSIBLY),
    ("n", "4", POSSIBLY),
    ("n * n", "n", POSSIBLY),
    ("n", "n + 1", NO),
    ("n + 1", "0", NO),
    ("2 * n", "2 * m + 1", NO),
    ("3", "4", NO),
]


@pytest.mark.parametrize("a, b, answer", PROOFS)
def test_dimensions_are_proved_equal_or_different(a, b, answer):
    """Two dimensions are definitely equal, possibly equal or definitely different; every dimension is at least 0."""
    assert check_compatible(*infos(f"R.Shape([{a}])", f"R.Shape([{b}])")).verdict is answer


@pytest.mark.parametrize("a, b, answer", PROOFS)
def test_everybody_asks_the_same_prover(a, b, answer):
    """Parser, passes and checker ask the same prover: a text is refused, warned of or taken as the prover says."""
    text = f"""
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    n, m = T.int64(), T.int64()
    s: R.Shape([{b}]) = R.shape([{a}])
    return s
"""
    if answer is NO:
        with pytest.raises(relax.DiagnosticError, match="E3006"):
            module(text)
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from_source(text)
    assert bool(caught) is (answer is POSSIBLY)


@pytest.mark.parametrize("a, b, answer", [p for p in PROOFS if p[2] is not NO])
def test_what_was_proved_holds(run, a, b, answer):
    """What is proved equal is equal whatever the sizes are; what is possibly equal is checked."""
    text = f"""
@R.function
def main(x: R.Tensor(("n", "m"), "float32")):
    n, m = T.int64(), T.int64()
    s: R.Shape([{b}]) = R.shape([{a}])
    return s
"""
    failed = 0
    for n in (0, 1, 4):
        for m in (0, 1, 4):
            try:
                run(text, "main", ones(n, m))
            except ValueError as error:  # a negative size is another thing
                failed += "cannot have a negative dimension" not in str(error)
    assert (failed > 0) is (answer is POSSIBLY)


# -------------------------------------------------------------------------------------------- subtyping

SUBTYPES = [
    ("R.Tensor((n,), 'float32')", "R.Object", YES),
    ("R.Object", "R.Tensor", NO),
    ("R.Tensor((n, 4), 'float32')", "R.Tensor('float32', ndim=2)", YES),
    ("R.Tensor('float32', ndim=2)", "R.Tensor('float32')", YES),
    ("R.Tensor('float32', ndim=2)", "R.Tensor(ndim=2)", YES),
    ("R.Tensor('float32', ndim=2)", "R.Tensor((n, 4), 'float32')", NO),
    ("R.Tensor((n + n,), 'float32')", "R.Tensor((2 * n,), 'float32')", YES),
    ("R.Tensor((n,), 'float32')", "R.Tensor((m,), 'float32')", POSSIBLY),
    ("R.Tensor((n,), 'float32')", "R.Tensor((n,), 'int8')", NO),
    ("R.Shape([n, m])", "R.Shape(ndim=2)", YES),
    ("R.Shape(ndim=2)", "R.Shape", YES),
    ("R.Prim(value=n)", "R.Prim('int64')", YES),
    ("R.Prim('int64')", "R.Prim('int32')", NO),
    ("R.Tuple(R.Tensor((n,)), R.Shape)", "R.Tuple(R.Tensor, R.Object)", YES),
    ("R.Tuple(R.Tensor)", "R.Tuple(R.Tensor, R.Tensor)", NO),
    ("R.Callable((R.Tensor,), R.Tensor((n,)), True)", "R.Callable((R.Tensor((n,)),), R.Tensor, True)", YES),
    ("R.Callable((R.Tensor((n,)),), R.Tensor, True)", "R.Callable((R.Tensor,), R.Tensor, True)", NO),
    ("R.Callable((), R.Object, True)", "R.Callable((), R.Object, False)", YES),
    ("R.Callable((), R.Object, False)", "R.Callable((), R.Object, True)", NO),
    ("R.Callable(derive_func='some.derivation')", "R.Callable()", YES),
    ("R.Callable()", "R.Callable(derive_func='some.derivation')", NO),
]


@pytest.mark.parametrize("a, b, answer", SUBTYPES)
def test_subtyping(a, b, answer):
    """S1 <: S2: everything <: Object; forgetting goes up; tuples fieldwise; functions contravariant in parameters,
    covariant in the result, pure <: impure; packed functions by their derivation."""
    assert subtype(*infos(a, b)) is answer


@pytest.mark.parametrize("text", FORMS)
def test_subtyping_is_reflexive(text):
    """S1 <: S2 is reflexive."""
    assert subtype(*infos(text, text)) is YES


def test_subtyping_is_transitive():
    """S1 <: S2 is transitive."""
    samples = infos(*FORMS, *dict.fromkeys(text for a, b, _ in SUBTYPES for text in (a, b)))
    above = {id(a): [b for b in samples if subtype(a, b) is YES] for a in samples}
    assert sum(map(len, above.values())) > 2 * len(samples)
    for a in samples:
        for b in above[id(a)]:
            assert all(subtype(a, c) is YES for c in above[id(b)])


# -------------------------------------------------------------------------------------- least upper bound

LUBS = [
    ("R.Tensor((n, 4), 'float32')", "R.Tensor((n, 4), 'float32')", "R.Tensor((n, 4), 'float32')"),
    ("R.Tensor((n, 4), 'float32')", "R.Tensor((m, 4), 'float32')", "R.Tensor('float32', ndim=2)"),
    ("R.Tensor((n + n,), 'float32')", "R.Tensor((2 * n,), 'float32')", "R.Tensor((n + n,), 'float32')"),
    ("R.Tensor((4,), 'int8')", "R.Tensor((4,), 'int32')", "R.Tensor((4,))"),
    ("R.Tensor((4,))", "R.Shape([4])", "R.Object"),
    ("R.Tensor", "R.Object", "R.Object"),
    ("R.Shape([n])", "R.Shape([m])", "R.Shape(ndim=1)"),
    ("R.Tuple(R.Shape([n]), R.Shape)", "R.Tuple(R.Shape([m]), R.Shape)", "R.Tuple(R.Shape(ndim=1), R.Shape)"),
    ("R.Tuple(R.Object)", "R.Tuple()", "R.Object"),
    (
        "R.Callable((R.Object,), R.Shape([n]), True)",
        "R.Callable((R.Object,), R.Shape([m]), False)",
        "R.Callable((R.Object,), R.Shape(ndim=1), False)",
    ),
    ("R.Callable((R.Object,), R.Object, True)", "R.Callable((R.Shape,), R.Object, True)", "R.Object"),
]


@pytest.mark.parametrize("a, b, expected", LUBS)
def test_least_upper_bound(a, b, expected):
    """The least upper bound keeps what both agree on; of different kinds, or of functions with other parameters, it is
    Object."""
    left, right, wanted = infos(a, b, expected)
    bound = struct_info_lca(left, right)
    assert type(bound) is type(wanted)
    assert subtype(bound, wanted) is subtype(wanted, bound) is YES


def test_an_if_has_the_least_upper_bound_of_its_branches(run):
    """The info of an If is the least upper bound of the branches."""
    text = """
    @R.function
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
        if c:
            r = x
        else:
            r = R.concat([x, x])
        return r
    """
    assert shown(module(text)["main"].ret_struct_info) == 'R.Tensor(dtype="float32", ndim=1)'
    assert run(text, "main", ones(3), truth(True)).shape == (3,)
    assert run(text, "main", ones(3), truth(False)).shape == (6,)


# ---------------------------------------------------------------------------------------------- erasure


def test_a_functions_result_is_erased():
    """Erasure: what a local function returns says nothing of variables bound inside it; ndim and dtype stay."""
    body = """@R.function
def f(y: R.Tensor(ndim=2, dtype="float32")):
    z = R.match_cast(y, R.Tensor((k, n), "float32"))
    return (z, R.shape([k, n]), R.shape([n]))
r = f(x)"""
    assert derived(body) == ('R.Tuple(R.Tensor(dtype="float32", ndim=2), R.Shape(ndim=2), R.Shape([n]))')


def test_what_a_branch_gives_is_erased():
    """Erasure: what a branch gives says nothing of shape variables bound in it."""
    body = """if c:
    r = R.match_cast(x, R.Tensor((k, 4), "float32"))
else:
    r = R.match_cast(x, R.Tensor((k, 4), "float32"))"""
    params = 'x: R.Tensor(ndim=2, dtype="float32"), c: R.Tensor((), "bool")'
    assert derived(body, params) == 'R.Tensor(dtype="float32", ndim=2)'


def test_a_functions_own_variables_stay():
    """Erasure: a function's own parameter variables count as in scope inside it."""
    body = """@R.function
def r(y: R.Tensor(("p", n), "float32")) -> R.Tensor(("p", n), "float32"):
    return y"""
    info = derived(body)
    assert info.count("(p, n)") == 2


def test_erasure_goes_through_functions():
    """Erasure: through tuples and functions."""
    body = """@R.function
def f(y: R.Tensor(ndim=1, dtype="float32")):
    z = R.match_cast(y, R.Tensor((k,), "float32"))
    @R.function
    def inner(w: R.Tensor((k, n), "float32")) -> R.Tensor((k, n), "float32"):
        return w
    return (inner, z)
r = f(R.reshape(x, (n * 4,)))"""
    assert derived(body) == (
        'R.Tuple(R.Callable((R.Tensor(dtype="float32", ndim=2),), R.Tensor(dtype="float32", ndim=2), True), '
        'R.Tensor(dtype="float32", ndim=1))'
    )


# --------------------------------------------------------------------------------- compatibility, checks

COMPATIBLE = [
    ("R.Tensor((n, 4), 'float32')", "R.Tensor('float32', ndim=2)", YES),
    ("R.Tensor((n, 4), 'float32')", "R.Object", YES),
    ("R.Object", "R.Tensor('float32', ndim=2)", POSSIBLY),
    ("R.Tensor('float32')", "R.Tensor('float32', ndim=2)", POSSIBLY),
    ("R.Tensor((n, 4))", "R.Tensor((n, 4), 'float32')", POSSIBLY),
    ("R.Tensor('float32', ndim=2)", "R.Tensor((n, 4), 'float32')", POSSIBLY),
    ("R.Tensor((m, 4), 'float32')", "R.Tensor((n, 4), 'float32')", POSSIBLY),
    ("R.Prim('int64')", "R.Prim(value=n)", POSSIBLY),
    ("R.Tensor((n, 4), 'float32')", "R.Tensor((n, 5), 'float32')", NO),
    ("R.Tensor((n, 4), 'float32')", "R.Tensor((n, 4), 'int8')", NO),
    ("R.Tensor(ndim=1)", "R.Tensor(ndim=2)", NO),
    ("R.Tensor", "R.Shape", NO),
    ("R.Tuple(R.Shape)", "R.Tuple()", NO),
    ("R.Callable((R.Shape,), R.Shape, True)", "R.Callable((R.Shape([n]),), R.Object, True)", YES),
    ("R.Callable((R.Shape([n]),), R.Shape, True)", "R.Callable((R.Object,), R.Object, True)", POSSIBLY),
    ("R.Callable((R.Shape,), R.Shape, True)", "R.Callable((R.Tensor,), R.Object, True)", NO),
]


@pytest.mark.parametrize("value, expected, answer", COMPATIBLE)
def test_compatibility(value, expected, answer):
    """Compatibility: kind must agree unless Object is expected; void or missing parts of the value make it "possibly";
    parts proved different make it "incompatible"; functions contravariant in parameters, covariant in results."""
    assert check_compatible(*infos(value, expected)).verdict is answer


POSSIBLY_AT = {
    "at a call": (
        """
        @I.ir_module
        class M:
            @R.function(private=True)
            def f(y: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
                return y

            @R.function
            def main(x: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor((3,), "float32"):
                y = M.f(x)
                return y
        """,
        "W3001",
        "f: parameter y: dimension 0 is 2, expected 3",
    ),
    "at a binding annotation": (
        """
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor((3,), "float32"):
            y: R.Tensor((3,), "float32") = x
            return y
        """,
        "W3006",
        "main: match_cast of x: dimension 0 is 2, expected 3",
    ),
    "at a return": (
        """
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor((3,), "float32"):
            return x
        """,
        "W3007",
        "main: result: dimension 0 is 2, expected 3",
    ),
}


@pytest.mark.parametrize("text, code, message", POSSIBLY_AT.values(), ids=POSSIBLY_AT)
def test_what_may_not_fit_is_warned_of(text, code, message):
    """★ Possibly compatible at a call, a binding annotation or a return: a warning that names the place and suggests a
    match_cast."""
    with pytest.warns(RelaxWarning, match=code) as caught:
        from_source(text)
    (warning,) = {str(w.message) for w in caught}
    assert "match_cast" in warning
    assert "--> <string>:" in warning


@pytest.mark.parametrize("text, code, message", POSSIBLY_AT.values(), ids=POSSIBLY_AT)
def test_what_may_not_fit_is_checked(run, text, code, message):
    """★ Possibly compatible at a call, a binding annotation or a return: a run-time check."""
    assert run(text, "main", ones(3)).shape == (3,)
    with pytest.raises(ValueError, match=message):
        run(text, "main", ones(2))


@pytest.mark.parametrize("text, code, message", POSSIBLY_AT.values(), ids=POSSIBLY_AT)
def test_under_the_strict_option_it_is_an_error(text, code, message):
    """★ Possibly compatible under the option relax.strict: an error."""
    with PassContext(config={"relax.strict": True}), pytest.raises(relax.DiagnosticError) as caught:
        from_source(text)
    assert [d.code for d in caught.value.diagnostics] == [code.replace("W", "E")]


def test_a_match_cast_silences_the_warning(run):
    """★ Possibly compatible: with the match_cast that the warning suggests there is none."""
    text = """
    @R.function
    def main(x: R.Tensor(ndim=1, dtype="float32")) -> R.Tensor((3,), "float32"):
        y = R.match_cast(x, R.Tensor((3,), "float32"))
        return y
    """
    assert warned(text) == []
    with pytest.raises(ValueError, match="main: match_cast of x: dimension 0 is 2, expected 3"):
        run(text, "main", ones(2))


@pytest.mark.parametrize("declared", ["R.Tensor((5,), 'float32')", "R.Tensor((4,), 'int8')", "R.Shape([4])"])
def test_only_what_is_proved_wrong_is_an_error(declared):
    """Incompatible is a compile error: at a call, a binding annotation and a return alike."""
    texts = {
        "E3006": f"y: {declared} = x\n    return x",
        "E3001": f"@R.function\n    def f(p: {declared}) -> R.Object:\n        return p\n    return f(x)",
    }
    for code, body in texts.items():
        with pytest.raises(relax.DiagnosticError, match=code):
            module(f"@R.function\ndef main(x: R.Tensor((4,), 'float32')):\n    {body}\n")
    with pytest.raises(relax.DiagnosticError, match="E3007"):
        module(f"@R.function\ndef main(x: R.Tensor((4,), 'float32')) -> {declared}:\n    return x\n")


def test_functions_are_compared_with_their_variables_matched():
    """Compatibility: functions match their shape variables positionally first."""
    generic = "R.Callable((R.Tensor(('p',), 'float32'),), R.Tensor(('p',), 'float32'), True)"
    four = "R.Callable((R.Tensor((4,), 'float32'),), R.Tensor(({},), 'float32'), True)"
    assert check_compatible(*infos(generic, four.format(4))).verdict is YES
    assert check_compatible(*infos(generic, four.format(5))).verdict is NO


def test_an_impure_function_is_no_pure_one():
    """Compatibility: an impure function is incompatible where a pure one is expected."""
    text = """
    @R.function
    def main(f: R.Callable((R.Object,), R.Object, False)) -> R.Object:
        @R.function
        def g(h: R.Callable((R.Object,), R.Object, True)) -> R.Object:
            return h

        return g(f)
    """
    with pytest.raises(relax.DiagnosticError, match="E3001.*purity: expected a pure function"):
        module(text)


# -------------------------------------------------------------------------------------------- derivation

DERIVED = {
    "Constant": ("r = R.const([[1, 2]], 'int8')", 'R.Tensor((1, 2), dtype="int8")'),
    "PrimValue": ("r = R.prim_value(n + 1)", "R.Prim(value=n + 1)"),
    "StringImm": ("r = R.str('a')", "R.Object"),
    "DataTypeImm": ("r = R.dtype('int8')", "R.Object"),
    "Tuple": ("r = (R.shape([n]), x)", 'R.Tuple(R.Shape([n]), R.Tensor((n, 4), dtype="float32"))'),
    "ShapeExpr": ("r = R.shape([n, 2])", "R.Shape([n, 2])"),
    "Var": ("r = x", 'R.Tensor((n, 4), dtype="float32")'),
    "ExternFunc": ("r = R.ExternFunc('f')", "R.Callable"),
    "TupleGetItem": ("t = (x, R.shape([n]))\nr = t[1]", "R.Shape([n])"),
    "Call of an Op": ("r = R.reshape(x, (n * 4,))", 'R.Tensor((n * 4,), dtype="float32")'),
    "MatchCast": ("r = R.match_cast(x, R.Tensor((n, m), 'float32'))", 'R.Tensor((n, m), dtype="float32")'),
    "annotated binding": ("r: R.Tensor(ndim=2) = x", "R.Tensor(ndim=2)"),
}


@pytest.mark.parametrize("body, expected", DERIVED.values(), ids=DERIVED)
def test_derivation(body, expected):
    """Each kind of expression has the struct info its rule derives."""
    assert derived(body) == expected


def test_a_match_cast_proved_never_to_succeed():
    """MatchCast: a cast proved never to succeed is an error."""
    with pytest.raises(relax.DiagnosticError, match="E3008: this match_cast can never succeed|E3008"):
        derived("r = R.match_cast(x, R.Tensor((n + 1, 4), 'float32'))")


def test_only_tuples_have_fields():
    """TupleGetItem: not a tuple, or an index out of range, is an error."""
    for body, message in (("r = x[0]", "only tuples have fields"), ("r = (x, x)[2]", "out of range")):
        with pytest.raises(relax.DiagnosticError, match=message):
            derived(body)


def test_the_condition_of_an_if():
    """If: the condition must be a bool scalar."""
    with pytest.raises(relax.DiagnosticError, match="E3010"):
        derived("if x:\n    r = x\nelse:\n    r = x")


def test_an_annotation_is_kept():
    """VarBinding: with an annotation, the value must be compatible with it, and the annotation is kept."""
    assert derived("r: R.Object = x") == "R.Object"


def test_an_annotation_that_claims_more(run):
    """★ VarBinding: a warning when the annotation claims more than was derived, and a run-time check."""
    text = """
    @R.function
    def main(x: R.Tensor("float32", ndim=2)):
        y: R.Tensor((2, 2), "float32") = x
        return y
    """
    ((code, message),) = warned(text)
    assert code == "W3006"
    assert "claims more than was derived" in message
    assert run(text, "main", ones(2, 2)).shape == (2, 2)
    with pytest.raises(ValueError, match="main: match_cast of x: dimension 1 is 3, expected 2"):
        run(text, "main", ones(2, 3))


def test_an_annotation_that_claims_more_in_a_program_built_by_api(run):
    """★ VarBinding: a run-time check also where nothing has been normalised yet."""
    x = relax.Var("x", relax.TensorStructInfo(None, "float32", ndim=1))
    y = relax.Var("y", relax.TensorStructInfo((2,), "float32"))
    body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(y, x)])], y)
    mod = relax.IRModule({"main": relax.Function([x], body, attrs={"global_symbol": "main"})})
    assert run(mod, "main", ones(2)).shape == (2,)
    with pytest.raises(ValueError, match="main: .*dimension 0 is 3, expected 2"):
        run(mod, "main", ones(3))


def test_a_literal_bound_to_an_annotated_variable_may_recurse():
    """VarBinding: a function literal bound to an annotated variable may recurse."""
    info = relax.FuncStructInfo([relax.ObjectStructInfo()], relax.ObjectStructInfo())
    f, p, x = (relax.Var("f", info), relax.Var("p", relax.ObjectStructInfo()), relax.Var("x", relax.ObjectStructInfo()))
    literal = relax.Function([p], relax.Call(f, [p]))
    main = relax.Function(
        [x], relax.SeqExpr([relax.BindingBlock([relax.VarBinding(f, literal)])], x), attrs={"global_symbol": "main"}
    )
    relax.analysis.assert_well_formed(relax.transform.Normalize()(relax.IRModule({"main": main})))


def test_an_operator_complains_with_names_and_infos():
    """Call of an Op: arguments that break the op's rules are an error with its name, the argument, both infos."""
    with pytest.raises(relax.DiagnosticError) as caught:
        derived("r = R.matmul(x, y)", 'x: R.Tensor(("n", 3), "float32"), y: R.Tensor((4, "m"), "float32")')
    text = str(caught.value)
    assert "matmul" in text
    assert 'R.Tensor((n, 3), "float32")' in text
    assert 'R.Tensor((4, m), "float32")' in text


CALLEE = """@R.function(private=True)
    def f(y: R.Tensor(("p", "q"), "float32")) -> R.Tensor(("p * q",), "float32"):
        p, q = T.int64(), T.int64()
        return R.reshape(y, (p * q,))"""


def test_a_call_fills_in_dimensions():
    """Call of a Func: parameter variables are matched to argument dimensions and substituted in the result."""
    assert derived("r = M.f(x)", more=CALLEE) == 'R.Tensor((n * 4,), dtype="float32")'


def test_what_no_argument_says_is_erased():
    """Call of a Func: what is said in variables that no argument determines is erased."""
    assert derived("r = M.f(x)", 'x: R.Tensor("float32", ndim=2)', more=CALLEE) == 'R.Tensor(dtype="float32", ndim=1)'


def test_the_number_of_arguments_must_agree():
    """Call of a Func: the number of arguments must agree."""
    with pytest.raises(relax.DiagnosticError, match="f takes 1 argument, found 2"):
        derived("r = M.f(x, x)", more=CALLEE)


@pytest.mark.parametrize(
    "infos, expected",
    [
        ("", "R.Object"),
        (", sinfo_args=R.Shape([n])", "R.Shape([n])"),
        (", sinfo_args=[R.Shape([n]), R.Object]", "R.Tuple(R.Shape([n]), R.Object)"),
    ],
)
def test_packed_calls(infos, expected):
    """Call of a packed function: Object for no sinfo_args, the one given, or a Tuple of several."""
    assert derived(f"r = R.call_packed('f', x{infos})", header="pure=False") == expected


def test_a_derivation_of_its_own():
    """Call of a packed function: its derive_func gives the result."""
    relax.struct_info.register_derivation(
        "language.info.rows", lambda call, _: relax.ShapeStructInfo(call.args[0].struct_info.dims[:1])
    )
    params = 'x: R.Tensor(("n", 4), "float32"), f: R.Callable(derive_func="language.info.rows")'
    assert derived("r = f(x)", params, header="pure=False") == "R.Shape([n])"


def test_functions():
    """Function: Func of the parameters, the annotation or else the erased info of the body, and the purity."""
    body = "@R.function\ndef r(y: R.Tensor(('p',), 'float32')):\n    return R.exp(y)"
    info = derived(body)
    assert info == 'R.Callable((R.Tensor((p,), dtype="float32"),), R.Tensor((p,), dtype="float32"), True)'


def test_prim_funcs():
    """PrimFunc: Func of a Tensor or Prim per parameter, giving a unit, impure."""
    mod = module("""
    @I.ir_module
    class M:
        @T.prim_func
        def f(a: T.handle, k: T.int64, B: T.Buffer((2,), "int8")):
            A = T.match_buffer(a, (k,), "float32")
            B[0] = T.int8(0)

        @R.function
        def main() -> R.Object:
            f = M.f
            return f
    """)
    info = mod["main"].body.blocks[0].bindings[0].var.struct_info
    kinds = [type(p).__name__ for p in info.params]
    assert kinds == ["TensorStructInfo", "PrimStructInfo", "TensorStructInfo"]
    assert isinstance(info.ret, relax.TupleStructInfo)
    assert info.ret.fields == ()
    assert info.purity is False


def test_sinfo_args_belong_to_intrinsics():
    """sinfo_args belongs to intrinsic calls only."""
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    call = relax.op.add(x, x).replace(sinfo_args=[relax.ObjectStructInfo()])
    mod = relax.IRModule({"main": relax.Function([x], call, attrs={"global_symbol": "main"})})
    ((_, message),) = refused(mod)
    assert "sinfo_args" in message


def test_sinfo_args_never_bind():
    """sinfo_args may mention only variables in scope, and never binds."""
    with pytest.raises(relax.DiagnosticError, match="the shape variable k is not bound here"):
        derived("r = R.call_pure_packed('f', x, sinfo_args=R.Tensor((k,), 'float32'))")


# ------------------------------------------------------------------------------------------------ purity


@pytest.mark.parametrize("call", ["R.print(x, format='{}')", "R.call_packed('language.info.same', x)", "M.effect(x)"])
@pytest.mark.parametrize("place, code", [("pure function", "E3005"), ("dataflow block", "E3004")])
def test_impure_calls(run, call, place, code):
    """Purity: an impure call is an error in a pure function and in a dataflow block."""
    effect = """@R.function(private=True, pure=False)
    def effect(x: R.Object) -> R.Object:
        R.print(x, format="")
        return x"""
    body = (
        f"_ = {call}"
        if place == "pure function"
        else f"with R.dataflow():\n    _ = {call}\n    r = R.add(x, x)\n    R.output(r)"
    )
    rest = "r = x" if place == "pure function" else ""
    header = "" if place == "pure function" else "pure=False"
    with pytest.raises(relax.DiagnosticError, match=code):
        derived(f"{body}\n{rest}", header=header, more=effect)
    if place == "pure function":
        text = f"""
@I.ir_module
class M:
    {effect}

    @R.function(pure=False)
    def main(x: R.Object) -> R.Object:
        _ = {call}
        return x
"""
        assert run(text, "main", "seen") == "seen"


def test_force_pure(run):
    """Purity: with relax.force_pure a function vouches for the impure calls in it."""
    text = """
    @R.function
    def main(x: R.Object) -> R.Object:
        R.func_attr({"relax.force_pure": True})
        y = R.call_packed("language.info.same", x)
        return y
    """
    assert run(text, "main", 3) == 3


def test_errors_are_no_effects(run):
    """Purity: raising an error is not an effect, nor is not terminating."""
    text = """
    @R.function
    def main(n: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        with R.dataflow():
            r = R.floor_divide(R.const(1, "int64"), n)
            R.output(r)
        return r
    """
    assert run(text, "main", i64(1)).numpy() == 1
    with pytest.raises(ZeroDivisionError):
        run(text, "main", i64(0))


def test_warnings_are_of_one_category():
    """★ Possibly compatible: the warning is a RelaxWarning, silenced as Python's warnings are."""
    text = POSSIBLY_AT["at a return"][0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RelaxWarning)
        from_source(text)
    assert compiled(text, "main", floats(1, 2, 3)).shape == (3,)
