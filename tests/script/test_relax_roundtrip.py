"""Relax programs: what is parsed prints, and what is printed parses to the same program."""

from __future__ import annotations

import numpy as np
import pytest
from script_helpers import body, check, parse, roundtrip

import relax
from relax.expr import Call, Constant, DataflowVar, Function, If, MatchCast, TupleGetItem, Var
from relax.ir import DiagnosticError, GlobalVar, IRModule, Op, VDevice, assert_structural_equal
from relax.script import from_source
from relax.script import relax as R
from relax.script import tir as T
from relax.struct_info import FuncStructInfo, ShapeStructInfo, TensorStructInfo


def test_dataflow_block():
    check(
        """
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 8), "float32")):
            n = T.int64()
            with R.dataflow():
                lv = R.matmul(x, w)
                gv = lv + 1.0
                R.output(gv)
            return gv
        """,
        """
        @R.function
        def main(x: R.Tensor(("n", 4), dtype="float32"), w: R.Tensor((4, 8), dtype="float32")) -> R.Tensor(("n", 8), dtype="float32"):
            n = T.int64()
            with R.dataflow():
                lv: R.Tensor((n, 8), dtype="float32") = R.matmul(x, w)
                gv: R.Tensor((n, 8), dtype="float32") = R.add(lv, R.const(1.0, "float32"))
                R.output(gv)
            return gv
        """,
    )


def test_outputs_are_vars_and_the_rest_dataflow_vars():
    func = parse("""
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            with R.dataflow():
                a = R.exp(x)
                a = R.exp(a)
                b = R.exp(a)
                R.output(a, b)
            return (a, b)
        """)
    kinds = [type(binding.var) for binding in func.body.blocks[0].bindings]
    assert kinds == [DataflowVar, Var, Var]
    roundtrip(func)


def test_a_dataflow_block_that_outputs_nothing():
    check("""
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            with R.dataflow():
                y = R.exp(x)
                R.output()
            return x
        """)


def test_shadowing_makes_a_new_variable():
    check(
        """
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            x = R.exp(x)
            x = R.exp(x)
            return x
        """,
        """
        @R.function
        def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
            x_1: R.Tensor((2,), dtype="float32") = R.exp(x)
            x_2: R.Tensor((2,), dtype="float32") = R.exp(x_1)
            return x_2
        """,
    )


def test_if_gives_the_variable_assigned_last():
    check(
        """
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
            if c:
                t = R.exp(x)
                y = R.add(t, t)
            else:
                y = x
            return y
        """,
        """
        @R.function
        def main(c: R.Tensor((), dtype="bool"), x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
            if c:
                t: R.Tensor((2,), dtype="float32") = R.exp(x)
                y_1: R.Tensor((2,), dtype="float32") = R.add(t, t)
                y: R.Tensor((2,), dtype="float32") = y_1
            else:
                y: R.Tensor((2,), dtype="float32") = x
            return y
        """,
    )


def test_if_with_returns_in_both_branches_nested():
    func = parse("""
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
            if c:
                if c:
                    return R.exp(x)
                else:
                    return x
            y = R.add(x, x)
            return y
        """)
    (block,) = func.body.blocks
    assert isinstance(block.bindings[-1].value, If)
    roundtrip(func)


def test_if_as_a_statement():
    check("""
        @R.function(pure=False)
        def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
            if c:
                R.print(x)
            else:
                pass
            return x
        """)


def test_if_with_several_results():
    func = parse("""
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
            if c:
                a, b = x, R.exp(x)
            else:
                a, b = R.exp(x), x
            return a + b
        """)
    roundtrip(func)


def test_names_of_a_branch_end_with_it():
    func = parse("""
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
            if c:
                x = R.exp(x)
                y = x
            else:
                y = x
            return x
        """)
    assert func.body.body is func.params[1]
    roundtrip(func)


def test_the_annotation_of_an_if_is_kept():
    func = parse("""
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
            if c:
                y: R.Tensor("float32", ndim=1) = x
            else:
                y: R.Tensor("float32", ndim=1) = x
            return y
        """)
    assert func.body.body.struct_info.shape is None
    roundtrip(func)


def test_match_cast_binds_shape_variables():
    func = parse("""
        @R.function
        def main(x: R.Tensor("float32", ndim=2), s: R.Shape(ndim=1), o: R.Object):
            n, m = T.int64(), T.int64()
            y = R.match_cast(x, R.Tensor((n, m), "float32"))
            k = T.int64()
            t: R.Shape([k]) = R.match_cast(s, R.Shape([k]))
            p = T.int64()
            q = R.match_cast(o, R.Tuple(R.Prim(value=p), R.Tensor((k, p * 2 + 1), "int8")))
            return (y, t, q)
        """)
    assert [type(b) for b in func.body.blocks[0].bindings] == [MatchCast] * 3
    roundtrip(func)


def test_closures_capture_shape_variables_and_recurse():
    check(
        """
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            n = T.int64()
            @R.function
            def loop(y: R.Tensor((n, "m"), "float32"), i: R.Prim("int64")) -> R.Tensor((n, "m"), "float32"):
                z = loop(y, i)
                return z
            return loop
        """,
        """
        @R.function
        def main(x: R.Tensor(("n",), dtype="float32")) -> R.Callable((R.Tensor(("n", "m"), dtype="float32"), R.Prim("int64")), R.Tensor(("n", "m"), dtype="float32"), True):
            n = T.int64()
            m = T.int64()
            @R.function
            def loop(y: R.Tensor((n, m), dtype="float32"), i: R.Prim("int64")) -> R.Tensor((n, m), dtype="float32"):
                z: R.Tensor((n, m), dtype="float32") = loop(y, i)
                return z
            return loop
        """,
    )


def test_a_local_functions_variable_of_the_same_name_is_its_own():
    func = parse("""
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            @R.function
            def inner(y: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
                return y
            return inner(x)
        """)
    inner = func.body.blocks[0].bindings[0].value
    assert inner.params[0].struct_info.shape.values[0] is not func.params[0].struct_info.shape.values[0]
    roundtrip(func)


def test_mutual_recursion_and_every_way_to_name_a_function():
    printed = check("""
        @I.ir_module
        class Mod:
            @R.function
            def even(x: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
                a = cls.odd(x)
                b = Mod.odd(x)
                c = odd(x)
                return c

            @R.function(private=True)
            def odd(x: R.Tensor((), "int64")) -> R.Tensor((), "bool"):
                return even(x)
        """)
    assert printed.count("cls.odd(x)") == 3


def test_calls_of_tir_and_packed_functions():
    check("""
        @I.ir_module
        class Mod:
            @T.prim_func(private=True)
            def double(a: T.handle, k: T.int64, b: T.handle):
                n = T.int64()
                A = T.match_buffer(a, (n,), "float32")
                B = T.match_buffer(b, (n,), "float32")
                for i in range(n):
                    B[i] = A[i] * T.float32(2)

            @T.prim_func(private=True)
            def one(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
                for i in range(4):
                    b[i] = a[i]

            @T.prim_func(private=True)
            def two(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32"), c: T.Buffer((4,), "float32")):
                for i in range(4):
                    b[i] = a[i]
                    c[i] = a[i]

            @R.function(pure=False)
            def main(x: R.Tensor(("n",), "float32"), w: R.Tensor((4,), "float32")):
                n = T.int64()
                a = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((n,), "float32"), tir_vars=R.shape([n]))
                b = R.call_tir(cls.two, w, out_sinfo=[R.Tensor((4,), "float32"), R.Tensor((4,), "float32")])
                c = b[0]
                d = R.call_packed("f", x, R.prim_value(1), sinfo_args=R.Tensor((n,), "float32"))
                e = R.call_packed("f", x, sinfo_args=[R.Object, R.Shape(ndim=2)])
                f = R.call_pure_packed("f", x, R.str("text"), R.dtype("int8"), sinfo_args=(R.Object,))
                g = R.call_dps_packed("f", (x, w), out_sinfo=R.Tensor((n, n * 2), "int32"))
                h = R.call_tir_inplace(cls.one, (w,), inplace_indices=[0, -1], out_sinfo=[R.Tensor((4,), "float32"), R.Tensor((4,), "float32")])
                R.print(x, format="{}")
                return ()
        """, check_well_formed=False)  # fmt: skip


def test_values():
    printed = check("""
        @R.function
        def main(x: R.Tensor(("n",), "float32")):
            n = T.int64()
            a = R.shape([n, 4, n * 2 + 1, T.max(n, 1)])
            b = R.prim_value(n)
            c: R.Prim("int64") = n + 1
            d = R.prim_value(T.float32(1.5))
            e = R.prim_value(True)
            f = R.prim_value(2.5)
            g = R.str("quote \\" and \\\\ back\\n")
            h = R.dtype("bfloat16")
            i = (x, (a, ()), (x,))
            j = i[1][0]
            k = R.ExternFunc("f")
            return (a, b, c, d, e, f, g, h, i, j, k)
        """)
    assert "R.shape([n, 4, n * 2 + 1, T.max(n, 1)])" in printed


def test_python_values_are_the_parsers():
    func = parse("""
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            n = T.int64()
            k = n * 4
            axes = [1, 0]
            y = R.permute_dims(x, axes)
            z: R.Tensor((k,), "float32") = R.reshape(y, (k,))
            half = 0.5
            return z * half
        """)
    assert [b.var.name_hint for b in func.body.blocks[0].bindings][:2] == ["y", "z"]
    roundtrip(func)


def test_loops_over_python_values_are_unrolled():
    func = parse("""
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            with R.dataflow():
                for i in range(3):
                    x = R.add(x, R.const(float(i)))
                R.output(x)
            return x
        """)
    assert len(func.body.blocks[0].bindings) == 3
    roundtrip(func)


def test_python_operators():
    check(
        """
        @R.function
        def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
            with R.dataflow():
                a = (x + y) * -x / 2.0 - 1.0
                b = x < y
                a **= x
                R.output(a, b)
            return (a, b)
        """
    )


def test_attributes_of_functions_and_modules():
    printed = check("""
        @I.ir_module
        class Mod:
            I.module_attrs({"name": "model", "version": 3, "list": [1, 2.5, None, True, {"k": "v"}]})
            I.module_global_infos({"vdevice": [I.vdevice("llvm", 0, "global"), I.vdevice("cuda -arch=sm_80", 1)]})
            @R.function(pure=False)
            def main(x: R.Tensor((2,), "float32", "llvm:0")) -> R.Tensor((2,), "float32", vdevice="llvm:0"):
                R.func_attr({"relax.force_pure": False, "num_input": 1, "inf": float("-inf")})
                return x
        """)
    assert 'R.func_attr({"relax.force_pure": False, "num_input": 1, "inf": float("-inf")})' in printed
    assert 'I.vdevice("cuda -arch=sm_80", 1, "global")' in printed


def test_a_global_symbol_of_another_name():
    mod = parse("""
        @I.ir_module
        class Mod:
            @R.function
            def main(x: R.Tensor((2,), "float32")):
                R.func_attr({"global_symbol": "other"})
                return x
        """, check_well_formed=False)  # fmt: skip
    assert mod["main"].attrs["global_symbol"] == "other"
    roundtrip(mod, check_well_formed=False)


@pytest.mark.parametrize(
    "text",
    [
        "R.Tensor", "R.Object", "R.Shape", "R.Tuple", "R.Callable",
        'R.Tensor(dtype="float32")', "R.Tensor(ndim=2)", 'R.Tensor(dtype="float32", ndim=2)',
        "R.Tensor(())", 'R.Tensor((), dtype="bool")', "R.Tensor((1, 2))", 'R.Tensor((3,), dtype="float8_e4m3fn")',
        'R.Tensor((2,), dtype="float32", vdevice="cuda:1")', 'R.Tensor((2,), dtype="float32", vdevice="cuda:1:shared")',
        'R.Tensor(vdevice=I.vdevice("llvm -mcpu=x", 0, "global"))',
        "R.Shape(ndim=3)", "R.Shape([1, 2])", "R.Shape([])",
        'R.Prim("int64")', 'R.Prim("bool")', "R.Prim(value=4)", "R.Prim(value=True)", "R.Prim(value=1.5)",
        'R.Prim("int32", value=4)', 'R.Prim("float32", value=1.5)',
        "R.Tuple(R.Object, R.Tuple, R.Tuple(R.Tensor))",
        "R.Callable((R.Object,), R.Tensor, True)", "R.Callable((), R.Tuple, False)",
        "R.Callable(ret=R.Tensor)", "R.Callable(purity=True)", 'R.Callable(derive_func="f")',
    ],
)  # fmt: skip
def test_struct_info(text):
    func = parse(f"""
        @R.function(pure=False)
        def main(x: R.Object) -> R.Object:
            y = R.match_cast(x, {text})
            return y
        """)
    info = func.body.blocks[0].bindings[0].struct_info
    assert info.script() == text
    roundtrip(func)


@pytest.mark.parametrize(
    "text, expected",
    [
        ('R.Tensor(("n", "m"), "float32")', '("n", "m"), dtype="float32"'),
        ('R.Tensor(["n", 4], dtype="float32")', '("n", 4), dtype="float32"'),
        ('R.Tensor(("n", "n * 2"))', '("n", "n * 2")'),
        ('R.Tensor[(n, m), "float32"]', '("n", "m"), dtype="float32"'),
        ('R.Tensor[(n, 4), "f16"]', '("n", 4), dtype="float16"'),
        ('R.Tensor[_, "float32"]', 'dtype="float32"'),
        ("R.Tensor[(n, k), _]", '("n", "k")'),
        ("R.Tensor((n, 2 * n), 'int8')", '("n", "2 * n"), dtype="int8"'),
        ('R.Tensor("float32", ndim=2)', 'dtype="float32", ndim=2'),
        ('"R.Tensor((n,))"', '("n",)'),
        ("R.Tensor(())", "()"),
    ],
)
def test_spellings_of_parameters(text, expected):
    func = parse(f"@R.function\ndef f(x: {text}):\n    return x")
    assert f"def f(x: R.Tensor({expected}))" in func.script()
    roundtrip(func)


def test_shape_variables_in_any_order_and_inside_tuples():
    check("""
        @R.function
        def main(x: R.Tensor(("m * n",), "float32"), t: R.Tuple(R.Tensor(("m", "n"), "float32"), R.Shape(["k"])), p: R.Prim(value="v")):
            m = T.int64()
            k = T.int64()
            v = T.int64()
            return R.shape([m, k, v])
        """)


def test_the_value_of_a_prim_is_of_any_dtype():
    """In a signature it is quoted, as dimensions are, and need not be an integer."""
    check("""
        @R.function
        def main(p: R.Prim(value="n"), q: R.Prim(value="n * 2 == 4")) -> R.Tuple(R.Prim(value='T.Cast("float64", n)'), R.Prim(value="n < 3")):
            n = T.int64()
            return (R.prim_value(T.Cast("float64", n)), R.prim_value(n < 3))
        """)


def test_a_variable_that_holds_the_shape():
    check("""
        @R.function
        def main(s: R.Shape(ndim=2), x: R.Tensor("float32", ndim=2)):
            y = R.match_cast(x, R.Tensor(s, "float32"))
            t = R.shape_of(x)
            z = R.match_cast(x, R.Tensor(t, "float32"))
            return z
        """)
    check("""
        @R.function
        def main(s: R.Shape(ndim=2), x: R.Tensor(s, "float32")) -> R.Tensor("float32", ndim=2):
            return x
        """)


def test_functions_as_parameters():
    check("""
        @R.function
        def main(f: R.Callable((R.Tensor(("n",), "float32"),), R.Tensor(("n",), "float32"), True), x: R.Tensor((3,), "float32")):
            y = f(x)
            return y
        """)


def test_struct_info_in_python():
    n = relax.tir.Var("n", "int64")
    info = R.Tensor((n, 4), "float32")
    assert isinstance(info, TensorStructInfo)
    assert info.shape.values[0] is n
    assert info.script() == 'R.Tensor((n, 4), dtype="float32")'
    assert isinstance(R.Shape(["a", "a + 1"]), ShapeStructInfo)
    a, b = R.Shape(["a", "a + 1"]).values
    assert b.a is a
    assert isinstance(R.Callable((R.Tensor,), R.Object), FuncStructInfo)
    assert R.Tensor[(n, 4), "float32"].script() == info.script()
    assert R.Tensor("float32", ndim=3).ndim == 3


# ---------------------------------------------------------------------- constants


@pytest.mark.parametrize("dtype", [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "bfloat16",
    "bool", "float8_e4m3fn", "float8_e5m2", "float8_e3m4", "float8_e8m0fnu", "float4_e2m1fn", "int2", "uint2", "int4",
    "uint4",
])  # fmt: skip
@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0,), (0, 3), (3, 0), (40, 2)])
def test_constants_of_every_dtype(dtype, shape):
    kind = relax.ir.DataType(dtype)
    rng = np.random.default_rng(0)
    size = int(np.prod(shape)) * kind.itemsize
    data = np.frombuffer(rng.bytes(size), kind.numpy()).reshape(shape)
    if dtype == "bool":
        data = np.frombuffer(rng.bytes(size), np.uint8).reshape(shape) > 99
    if kind.is_padded:
        data = (data.view(np.uint8) & ((1 << kind.bits) - 1)).view(kind.numpy())
    func = Function([], Constant(data), None, True, {"global_symbol": "main"})
    func = relax.derive.normalize.normalize_function(func)
    roundtrip(func)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -1.5, 0.1, 1e-7, 1e30, np.inf, -np.inf, np.nan, 3.4e38, 5e-324])
def test_floats_exactly(dtype, value):
    with np.errstate(over="ignore"):
        data = np.asarray(value).astype(relax.ir.DataType(dtype).numpy())
    func = parse("@R.function\ndef main() -> R.Object:\n    return C", extra_vars={"C": Constant(data)})
    text = roundtrip(func)
    assert "metadata" not in text


@pytest.mark.parametrize("text", ['R.const(0.1, "float32")', 'R.const([[1, 2], [3, 4]], "int32")', 'R.const(7, "int64")',
    'R.const([-8, 7], "int4")', 'R.const(3, "uint2")', 'R.const([0.5, -6.0], "float4_e2m1fn")', 'R.const(True, "bool")', 'R.const(18446744073709551615, "uint64")', 'R.const(float("nan"), "float16")'])  # fmt: skip
def test_small_constants_stand_in_the_text(text):
    func = parse(f"@R.function\ndef main():\n    return {text}")
    assert f"return {text}" in func.script()
    roundtrip(func)


def test_nan_payloads_survive():
    for bits in ([0x7FC00001], [0xFFC00000], [0x7F800001, 0x7FC00000]):
        data = np.array(bits, np.uint32).view(np.float32)
        func = parse("@R.function\ndef main():\n    return C", extra_vars={"C": Constant(data)})
        again = from_source(func.script(show_meta=True))
        assert again.body.body.data.tobytes() == data.tobytes()


def test_large_constants_go_to_the_metadata():
    data = np.arange(1000, dtype="float32")
    shared = Constant(data)
    mod = parse(
        """
        @I.ir_module
        class Mod:
            @R.function
            def main(x: R.Tensor((1000,), "float32")):
                y = R.add(x, C)
                return R.add(y, C)
        """,
        extra_vars={"C": shared},
    )
    text = roundtrip(mod)
    assert text.count("metadata = I.load_json(") == 1
    assert text.count('metadata["relax.expr.Constant"][0]') == 2
    assert mod.script() == mod.script(show_meta=False) == str(mod)
    assert "load_json" not in mod.script()
    assert "# Metadata omitted. Use show_meta=True in script() method to show it." in mod.script()


WITH_DATA = """
@R.function
def main(x: R.Tensor((100,), "float32")):
    return R.add(x, C)
"""


def with_data(dtype="float32", size=100):
    return parse(WITH_DATA.replace("float32", dtype), extra_vars={"C": Constant(np.arange(size).astype(dtype))})


@pytest.mark.parametrize(
    "dtype", ["bool", "int4", "int8", "uint64", "float16", "bfloat16", "float32", "float8_e4m3fn", "float4_e2m1fn"]
)
def test_data_of_every_kind_in_the_metadata(dtype):
    data = np.arange(200).reshape(2, 100).astype(relax.ir.DataType(dtype).numpy())
    mod = parse(
        f"@R.function\ndef main() -> R.Tensor((100, 2), '{dtype}'):\n    return C", extra_vars={"C": Constant(data.T)}
    )
    assert "metadata[" in roundtrip(mod)


def test_constants_of_a_screenful_stand_in_the_text():
    assert "metadata" not in with_data(size=1).script()
    for size, named in ((64, False), (65, True)):
        func = parse("@R.function\ndef main():\n    return C", extra_vars={"C": Constant(np.arange(size))})
        assert ("metadata[" in roundtrip(func)) is named


def test_a_text_without_its_data_says_how_to_print_it():
    with pytest.raises(DiagnosticError) as caught:
        from_source(with_data().script())
    (found,) = caught.value.diagnostics
    assert found.code == "E1002"
    assert "`metadata` is not defined: the text was printed without the data of its large constants" in found.message
    assert found.hint == "print it with the data: script(show_meta=True)"


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('"][0]', '"][1]', "index out of range"),
        ('"][0]', '"][-2]', "index out of range"),
        ('metadata["relax.expr.Constant"][0]', 'metadata["relax.expr.Other"][0]', "relax.expr.Other"),
        ('"data":["AAAA', '"data":["AAA', "not a saved relax program: Error: Invalid base64"),
        ('"data":["AAAA', '"data":["!AAA', "not a saved relax program: Error: "),
        ('"data":["AAAA', '"data":["AAAAAAAA', "an array of float32\\[100\\] needs 400 bytes, found 403"),
        ('"data":["', '"data":["AAAA","', "an array of float32\\[100\\] needs 400 bytes, found 3"),
        ('"float32",[100],0', '"float32",[10,10],0', "shape|dimension|rank"),
        ('"float32",[100],0', '"float32",[-1],0', "no array has the shape"),
        ('"float32",[100],0', '"float64",[100],0', "needs 800 bytes"),
        ('"float32",[100],0', '"float32",[99999999999999999999],0', "needs 399999999999999999996 bytes"),
        ('"float32",[100],0', '"float32",[100],7', "list index out of range"),
        ('"float32",[100],0', '"handle",[100],0', "not a saved relax program"),
    ],
)
def test_damaged_metadata_is_refused(old, new, message):
    text = with_data().script(show_meta=True)
    assert old in text
    with pytest.raises(DiagnosticError, match=message):
        from_source(text.replace(old, new))


def test_the_text_of_large_constants_is_short_and_their_data_is_compact():
    big = parse("@R.function\ndef main():\n    return C", extra_vars={"C": Constant(np.zeros(1 << 20, "float32"))})
    assert len(big.script()) < 500
    assert len(big.script(show_meta=True)) < 1.34 * (4 << 20) + 2000


# ---------------------------------------------------------------------- what is not written by hand


def test_a_call_no_function_makes():
    x = Var("x", TensorStructInfo((2,), "float32"))
    call = Call(Op.get("relax.add"), (x,), None, (TensorStructInfo((2,), "float32"),))
    func = Function([x], call, None, True, {"global_symbol": "main"})
    text = func.script()
    assert 'R.Call("relax.add", [x], sinfo_args=(R.Tensor((2,), dtype="float32"),))' in text


def test_items_of_a_literal_tuple():
    x = Var("x", TensorStructInfo((2,), "float32"))
    value = TupleGetItem(relax.expr.Tuple((x, x)), 1)
    func = relax.derive.normalize.normalize_function(Function([x], value, None, True, {"global_symbol": "main"}))
    assert "R.TupleGetItem((x, x), 1)" in roundtrip(func)


def test_nested_expressions_are_hoisted():
    """An If or a function literal inside a call is no Python expression: it is printed before the statement."""
    x = Var("x", TensorStructInfo((2,), "float32"))
    inner = If(relax.const(True), x, Call(Op.get("relax.exp"), (x,)))
    call = Call(Op.get("relax.add"), (inner, inner))
    func = Function([x], call, None, True, {"global_symbol": "main"})
    again = from_source(func.script(show_meta=True))
    assert [type(b.value) for b in again.body.blocks[0].bindings] == [If, If, Call]


def test_a_global_var_outside_of_its_module():
    x = Var("x", TensorStructInfo((2,), "float32"))
    func = Function([x], Call(GlobalVar("other"), (x,)), TensorStructInfo((2,), "float32"), True, {})
    text = func.script()
    assert 'I.GlobalVar("other")(x)' in text


def test_an_empty_module():
    assert body(IRModule().script()) == "@I.ir_module\nclass Module:\n    pass"
    assert_structural_equal(from_source(IRModule().script(show_meta=True)), IRModule())


def test_vdevices_of_the_module_are_found():
    mod = parse("""
        @I.ir_module
        class Mod:
            I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("cuda", 0, "shared")]})
            @R.function
            def main(x: R.Tensor((2,), "float32", vdevice="cuda:0")):
                return x
        """)
    assert mod["main"].params[0].struct_info.vdevice.memory_scope == "shared"
    assert mod.global_infos["vdevice"][0].target == VDevice("llvm").target
    roundtrip(mod)


def test_operators_with_attributes():
    check("""
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            n = T.int64()
            with R.dataflow():
                a = R.sum(x, axis=[0], keepdims=True)
                b = R.nn.softmax(x, axis=0)
                c = R.astype(x, "float16")
                d = R.concat((x, x), axis=1)
                e = R.split(x, 2, axis=1)
                f = R.strided_slice(x, axes=[1], begin=[0], end=[2])
                g = R.reshape(x, (4, n))
                h = R.full((2, n), R.const(1.0), "float32")
                i = R.take(x, R.const([0, 1], "int64"), axis=0)
                j = R.zeros_like(x)
                k = R.arange(0, n, 2, "int64")
                R.output(a, b, c, d, e, f, g, h, i, j, k)
            return (a, b, c, d, e, f, g, h, i, j, k)
        """)


def test_generated_names_do_not_clash_with_the_namespaces():
    T_, R_ = Var("T", TensorStructInfo((2,), "float32")), Var("class", TensorStructInfo((2,), "float32"))
    n = relax.tir.Var("cls", "int64")
    c = Var("a b-c", TensorStructInfo((n,), "float32"))
    d = Var("", TensorStructInfo((n,), "float32"))
    e = Var("1x", TensorStructInfo((n,), "float32"))
    func = Function([T_, R_, c, d, e], relax.expr.Tuple((T_, R_, c, d, e)), None, True, {"global_symbol": "main"})
    roundtrip(relax.derive.normalize.normalize_function(func))


def test_names_do_not_use_what_python_means_otherwise():
    assert isinstance(T.int64(), relax.tir.Var)


def test_a_parameter_with_the_name_of_a_size():
    func = parse("""
        @R.function
        def main(n: R.Tensor(("n", "m"), "float32"), x: R.Tensor(("n * 2",), "float32")) -> R.Tensor(("n", "m"), "float32"):
            y: R.Tensor(("n", "m"), "float32") = R.exp(n)
            n = T.int64()
            z: R.Tensor((n, "m"), "float32") = R.exp(y)
            return z
        """)
    sizes = {dim for param in func.params for dim in param.struct_info.shape.values if isinstance(dim, relax.tir.Var)}
    assert len(sizes) == 2
    assert func.ret_struct_info.shape.values[0] is func.params[0].struct_info.shape.values[0]
    roundtrip(func)
