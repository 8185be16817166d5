"""Compiled functions call kernels by addresses where the arguments fit, and leave the checks to them where they may not."""

from __future__ import annotations

import re

import numpy as np
import pytest

import relax
from relax.optimize.pipeline import get_pipeline
from relax.script import from_source
from relax.vm.compilable import compilable_functions
from relax.vm.compiled import compile_functions
from support import MODES, plain_machine

HEAD = "from relax.script import ir as I, relax as R, tir as T\n"
DOUBLE = """
    @T.prim_func(private=True)
    def double(a: T.handle, b: T.handle):
        T.func_attr({"tir.noalias": True})
        n = T.int64()
        A, B = T.match_buffer(a, (n,), "float32"), T.match_buffer(b, (n,), "float32")
        for i in range(n):
            B[i] = A[i] * 2.0
"""


def module(body, kernels=DOUBLE):
    return from_source(f"{HEAD}\n@I.ir_module\nclass Program:{kernels}{body}")


def calls_of(mod, name="main"):
    """The calls of kernels in a compiled function: by address (d), checked (c), by address if a condition holds (d/c)."""
    functions = dict(compile_functions(relax.ExecBuilder(), get_pipeline("default")(mod)).made)
    script = functions[f"__vmtir__{name}"].script()
    found = re.findall(r"(else:\s+)?T\.(kernel_call|anylist_setitem_call_cpacked)\(", script)
    kinds = [("/" if otherwise else " ") + {"k": "d", "a": "c"}[call[0]] for otherwise, call in found]
    return "".join(kinds).split()


def outcome_of(mod):
    """A function that calls `main` in both modes, and gives the value, or the message, which must be one."""
    mains = [plain_machine(mod, mode)["main"] for mode in MODES]

    def outcome(*args):
        results = []
        for main in mains:
            try:
                results.append(main(*args).numpy().tolist())
            except ValueError as error:
                results.append((str(error), getattr(error, "__notes__", [])))
        assert results[0] == results[1]
        return results[0] if isinstance(results[0], list) else results[0][0]

    return outcome


def test_parameters_and_what_the_function_makes_need_no_check():
    mod = module("""
    @R.function
    def main(x: R.Tensor(("n",), "float32"), w: R.Tensor((3,), "float32")):
        cls = Program
        n = T.int64()
        with R.dataflow():
            y = R.call_tir(cls.double, (x,), R.Tensor((n,), "float32"))
            c = R.call_tir(cls.double, (R.const([1.0, 2.0, 3.0], "float32"),), R.Tensor((3,), "float32"))
            v = R.reshape(R.call_tir(cls.double, (w,), R.Tensor((3,), "float32")), (1, 3))
            z = R.concat([y, c, R.reshape(v, (3,))])
            R.output(z)
        return z
""")
    outcome = outcome_of(mod)
    assert {call[0] for call in calls_of(mod)} == {"d"}
    x = np.float32([5, 6])
    assert outcome(x, np.float32([1, 1, 1])) == [10, 12, 2, 4, 6, 2, 2, 2]
    assert outcome(x[:0], np.float32([1, 1, 1])) == [2, 4, 6, 2, 2, 2]


def test_parts_of_one_storage_are_apart_for_every_size():
    mod = module("""
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        cls = Program
        n = T.int64()
        with R.dataflow():
            a = R.call_tir(cls.double, (x,), R.Tensor((n,), "float32"))
            b = R.call_tir(cls.double, (a,), R.Tensor((n,), "float32"))
            c = R.call_tir(cls.double, (b,), R.Tensor((n,), "float32"))
            R.output(c)
        return c
""")
    outcome = outcome_of(mod)
    assert calls_of(mod) == ["d", "d", "d"]
    for n in (0, 1, 17):
        assert outcome(np.ones(n, "float32")) == [8] * n


LAID_OUT = """
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32")):
        cls = Program
        n = T.int64()
        s = R.memory.alloc_storage(R.shape([OFFSET + 4 * n + 64]), 0, "global", "uint8")
        a = R.memory.alloc_tensor(s, 0, R.shape([n]), "float32")
        b = R.memory.alloc_tensor(s, OFFSET, R.shape([n]), "float32")
        _ = cls.double(x, a)
        _ = cls.double(a, b)
        return b
"""


def test_parts_of_one_storage_that_overlap_are_refused():
    mod = module(LAID_OUT.replace("OFFSET", "8"))
    outcome = outcome_of(mod)
    assert calls_of(mod) == ["d", "d/c"]
    assert outcome(np.float32([1, 2])) == [4, 8]
    text = outcome(np.float32([1, 2, 3]))
    assert text.startswith("main: double: argument A overlaps argument B, which is written")


def test_a_part_of_a_storage_that_is_not_aligned_is_refused():
    mod = module(LAID_OUT.replace("OFFSET", "14"))
    outcome = outcome_of(mod)
    assert calls_of(mod) == ["d", "c"]
    text = outcome(np.float32([1, 2]))
    assert text == "main: double: argument B: its data is not aligned to 4 bytes"


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_sizes_that_disagree_are_refused():
    mod = module("""
    @R.function(pure=False)
    def main(x: R.Tensor(("n",), "float32"), y: R.Tensor(("m",), "float32")):
        cls = Program
        n = T.int64()
        a = R.builtin.alloc_tensor(R.shape([n]), "float32", 0)
        _ = cls.double(y, a)
        return a
""")
    outcome = outcome_of(mod)
    assert calls_of(mod) == ["d/c"]
    assert outcome(np.float32([1, 2]), np.float32([3, 4])) == [6, 8]
    text = outcome(np.float32([1, 2]), np.float32([3, 4, 5]))
    assert text == "main: double: argument B: dimension 0 is 2, expected n = 3 (n was bound by A, dimension 0)"


def test_what_may_be_the_same_memory_is_left_to_the_kernel():
    # A kernel that writes to a parameter, and one that reads what a packed function gave.
    mod = module("""
    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
        cls = Program
        _ = cls.double(x, y)
        p = R.call_pure_packed("vm.builtin.copy", x, sinfo_args=R.Tensor((3,), "float32"))
        q = R.match_cast(p, R.Tensor((3,), "float32"))
        a = R.builtin.alloc_tensor(R.shape([3]), "float32", 0)
        _ = cls.double(q, a)
        return a
""")
    outcome = outcome_of(mod)
    assert calls_of(mod) == ["c", "c"]
    assert outcome(np.float32([1, 2, 3]), np.zeros(3, "float32")) == [2, 4, 6]
    x = np.float32([1, 2, 3])
    text = outcome(x, x)
    assert text.startswith("main: double: argument A overlaps argument B, which is written")


ROWS = """
    @T.prim_func(private=True)
    def rows(a: T.handle, k: T.int64, b: T.handle):
        T.func_attr({"tir.noalias": True})
        n = T.int64(is_size_var=True)
        A, B = T.match_buffer(a, (n * 2,), "float32"), T.match_buffer(b, (n,), "float32")
        for i in range(n):
            B[i] = A[i * 2] + T.cast(k, "float32")
"""


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_numbers_are_passed_and_sums_of_sizes_compared():
    mod = module(
        """
    @R.function(pure=False)
    def main(x: R.Tensor(("m",), "float32"), s: R.Shape(["k"])):
        cls = Program
        m, k = T.int64(), T.int64()
        a = R.builtin.alloc_tensor(R.shape([m // 2]), "float32", 0)
        _ = cls.rows(x, R.prim_value(k), a)
        return a
""",
        ROWS,
    )
    outcome = outcome_of(mod)
    assert calls_of(mod) == ["d/c"]
    assert outcome(np.float32([1, 2, 3, 4]), (7,)) == [8, 10]
    text = outcome(np.float32([1, 2, 3]), (7,))
    assert text == "main: rows: argument A: dimension 0 is 3, expected n * 2 = 2 (n was bound by B, dimension 0)"


HALVES = """
    @T.prim_func(private=True)
    def halve(a: T.handle, b: T.handle):
        T.func_attr({"tir.noalias": True})
        n = T.int64()
        A, B = T.match_buffer(a, (n,), "float32"), T.match_buffer(b, ((n + 1) // 2,), "float32")
        for i in range((n + 1) // 2):
            B[i] = A[i * 2]

    @T.prim_func(private=True)
    def quarter(a: T.handle, n: T.int64, b: T.handle):
        T.func_attr({"tir.noalias": True})
        A, B = T.match_buffer(a, ((n + 1) // 2,), "float32"), T.match_buffer(b, ((n + 3) // 4,), "float32")
        for i in range((n + 3) // 4):
            B[i] = A[i * 2]
"""


def test_sizes_that_are_computed_are_proved_equal():
    """As in convolutions with strides, one after the other: no call compares a size, no shape asks for one."""
    mod = module(
        """
    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        cls = Program
        n = T.int64()
        with R.dataflow():
            a = R.call_tir(cls.halve, (x,), R.Tensor(((n + 1) // 2,), "float32"))
            b = R.call_tir(cls.halve, (a,), R.Tensor((((n + 1) // 2 + 1) // 2,), "float32"))
            c = R.call_tir(cls.quarter, (a, R.prim_value(n)), R.Tensor(((n + 3) // 4,), "float32"))
            d = R.concat([b, c])
            R.output(d)
        return d
""",
        HALVES,
    )
    outcome = outcome_of(mod)
    assert {call[0] for call in calls_of(mod)} == {"d"}
    assert all(call == "d" for call in calls_of(mod))
    for n in (0, 1, 2, 5, 17):
        x = np.arange(n, dtype="float32")
        assert outcome(x) == [*x[::4], *x[::4]]


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_products_of_sizes_that_leave_64_bits_are_left_to_the_kernel():
    """A product that was computed for an allocation is the kernel's own; any other may leave 64 bits."""
    flat = """
    @T.prim_func(private=True)
    def flat(a: T.handle, n: T.int64, m: T.int64, b: T.handle):
        T.func_attr({"tir.noalias": True})
        A, B = T.match_buffer(a, (n * m,), "int8"), T.match_buffer(b, (n * m,), "int8")
        for i in range(n * m):
            B[i] = A[i] + T.int8(1)
"""
    mod = module(
        """
    @R.function(pure=False)
    def main(x: R.Tensor(("k",), "int8"), s: R.Shape(["n", "m"])):
        cls = Program
        k, n, m = T.int64(), T.int64(), T.int64()
        a = R.builtin.alloc_tensor(R.shape([k]), "int8", 0)
        _ = cls.flat(x, R.prim_value(n), R.prim_value(m), a)
        return a
""",
        flat,
    )
    assert calls_of(mod) == ["c"]
    main = plain_machine(mod)["main"]
    assert main(np.int8([1, 2, 3, 4, 5, 6]), (2, 3)).numpy().tolist() == [2, 3, 4, 5, 6, 7]
    with pytest.raises(OverflowError):
        main(np.int8([1]), (2**40, 2**40))


BY_HAND = """
    @R.function(pure=False)
    def main(x: R.Object, y: R.Object):
        cls = Program
        h = R.call_packed("vm.builtin.alloc_shape_heap", 2, R.str("n bound by x"), R.str("m"), sinfo_args=R.Object)
        _ = R.call_packed(
            "vm.builtin.match", x, h, R.str("tensor"), 1, R.dtype("float32"), 1, 1, 0, R.str("x"), sinfo_args=R.Tuple()
        )
        _ = R.call_packed(
            "vm.builtin.match", y, h, R.str("tensor"), 1, R.dtype("float32"), 1, 1, SLOT, R.str("y"), sinfo_args=R.Tuple()
        )
        s = R.call_packed("vm.builtin.make_shape", h, 1, 1, SLOT, sinfo_args=R.Shape(ndim=1))
        a = R.call_packed("vm.builtin.alloc_tensor", s, R.dtype("float32"), sinfo_args=R.Tensor(ndim=1, dtype="float32"))
        _ = cls.double(x, a)
        return a
"""


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
@pytest.mark.parametrize(("slot", "is_compiled"), [(1, True), (0, False)])
def test_a_slot_that_holds_one_number_after_another_tells_nothing(slot, is_compiled):
    """A shape heap used by hand: the size that x had is not that which the slot has when the kernel is called."""
    mod = module(BY_HAND.replace("SLOT", str(slot)))
    outcome = outcome_of(mod)
    assert ("main" in compilable_functions(get_pipeline("default")(mod))) is is_compiled
    x = np.ones(3, "float32")
    assert outcome(x, x) == [2, 2, 2]
    text = outcome(np.ones(3000, "float32"), x)
    assert "argument B: dimension 0 is 3, expected n = 3000" in text


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
@pytest.mark.parametrize(
    ("argument", "other", "error"),
    [
        ('1, R.dtype("float32"), 1, 1, 0,', "1, d, 1, 1, 0,", None),
        ('1, R.dtype("float32"), 1, 1, 0,', '1, R.dtype("float32"), 1, i, 0,', None),
        ('1, SLOT, sinfo_args=R.Shape(ndim=1)', "i, 1, sinfo_args=R.Shape(ndim=1)", None),
        ('1, R.dtype("float32"), 1, 1, 0,', '1, R.dtype("float32"), 1, 1, 2,', IndexError),
        ('1, R.dtype("float32"), 1, 1, SLOT,', '1, R.dtype("float32"), 1, 3, -3,', IndexError),
        ('1, R.dtype("float32"), 1, 1, 0,', '1, R.dtype("float32"), 1,', ValueError),
        ("x, h, ", "x, 0, ", TypeError),
        ('x, h, R.str("tensor")', 'x, h, R.str("matrix")', KeyError),
        ('x, h, R.str("tensor"), 1, R.dtype("float32"), 1, 1, 0, R.str("x")', "x", TypeError),
    ],
)  # fmt: skip
def test_builtins_with_arguments_that_compiled_code_does_not_take(argument, other, error):
    """Such a function stays on bytecode: with a dtype or a number in a variable, or with what the builtin refuses."""
    assert argument in BY_HAND
    first = '        d = R.dtype("float32")\n        i = R.prim_value(1)\n        h = R.call_packed("vm.builtin.alloc'
    text = BY_HAND.replace(argument, other).replace("SLOT", "1")
    mod = module(text.replace('        h = R.call_packed("vm.builtin.alloc', first))
    assert compilable_functions(get_pipeline("default")(mod)) == []
    main = plain_machine(mod)["main"]
    x = np.ones(3, "float32")
    if error is None:
        assert main(x, x).numpy().tolist() == [2, 2, 2]
    else:
        with pytest.raises(error):
            main(x, x)


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
def test_checks_by_the_names_of_tvm_stay_on_bytecode():
    matched = '"vm.builtin.match", x, h, R.str("tensor"), 1, R.dtype("float32"), 1, 1, 0, R.str("x")'
    assert matched in BY_HAND
    mod = module(BY_HAND.replace(matched, '"vm.builtin.match_shape", x, h, 1, 1, 0, R.str("x")').replace("SLOT", "1"))
    assert compilable_functions(get_pipeline("default")(mod)) == []
    outcome = outcome_of(mod)
    x = np.ones(3, "float32")
    assert outcome(x, x) == [2, 2, 2]
    assert "x: expected rank 1, found rank 2 (shape (1, 3))" in outcome(x[None], x)


def test_branches_fill_a_slot_alike():
    mod = module("""
    @R.function
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
        n = T.int64()
        if c:
            y = R.zeros((n * n,), "float32")
        else:
            y = R.ones((n * n,), "float32")
        return y
""")
    assert compilable_functions(get_pipeline("default")(mod)) == ["main"]
    outcome = outcome_of(mod)
    assert outcome(np.ones(2, "float32"), np.array(True)) == [0] * 4
    assert outcome(np.ones(2, "float32"), np.array(False)) == [1] * 4


def test_what_a_branch_has_checked_is_not_taken_for_granted_behind_it():
    mod = module("""
    @R.function
    def main(x: R.Tensor(("n",), "float32"), c: R.Tensor((), "bool")):
        n = T.int64()
        if c:
            y = R.zeros((n - 2,), "float32")
            z = R.prim_value(n)
        else:
            z = R.prim_value(n)
        w = R.zeros((n - 2,), "float32")
        return w
""")
    outcome = outcome_of(mod)
    yes, no = np.array(True), np.array(False)
    assert outcome(np.ones(3, "float32"), yes) == outcome(np.ones(3, "float32"), no) == [0]
    for condition in (yes, no):
        assert "a shape cannot have a negative dimension" in outcome(np.ones(1, "float32"), condition)
