"""Aliases, effects and lifetimes: which values share memory, who reads and writes them, when they are dead."""

from __future__ import annotations

import re
import textwrap

import pytest

import relax
from relax.analysis.alias import Aliases, LiveRange
from relax.analysis.effects import effects_of
from relax.analysis.storages import StorageWalk
from relax.expr import Binding, Call, Function, Var
from relax.ir import register_op, walk
from relax.op import operator
from relax.op.intrinsics import Intrinsic
from relax.runtime.builtin_table import BUILTINS, PACKED, Effects, builtin
from support import parse

HEADER = """
from relax.script import ir as I, relax as R, tir as T

@I.ir_module
class Module:
    @T.prim_func(private=True)
    def double(a: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(n):
            with T.block("double"):
                v = T.axis.spatial(n, i)
                A[v] = A[v] * T.float32(2)

    @T.prim_func(private=True)
    def copy(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            with T.block("copy"):
                v = T.axis.spatial(n, i)
                B[v] = A[v]
"""

STATIC, SYMBOLIC = 'R.Tensor((4,), "float32")', 'R.Tensor(("n",), "float32")'


class Program:
    """The aliases of a module's main; values are asked for by name."""

    def __init__(self, body, params="x: F, y: F", extra="", info=STATIC):
        text = f"@R.function(pure=False)\ndef main({params}):\n{textwrap.indent(textwrap.dedent(body), '    ')}"
        text = re.sub(r"\bF\b", info, f"{textwrap.dedent(extra)}\n{text}")
        self.mod = relax.script.from_source(HEADER + textwrap.indent(text, "    "))
        self.main = self.mod["main"]
        self.aliases = Aliases(self.main, self.mod)
        self.vars = {var.name_hint: var for var in [*self.main.params, *self.aliases.variables]}
        self.calls, self.bindings = {}, {}
        walk(self.main, self._visit)

    def _visit(self, item):
        if isinstance(item, Binding):
            self.bindings[item.var.name_hint] = item
            self.calls[item.var.name_hint] = getattr(item, "value", None)

    def share(self, a, b):
        return self.aliases.may_share(self.vars[a], self.vars[b])

    def names(self, storages):
        return sorted(storage.name_hint for storage in storages)

    def ranges(self):
        """For each storage the names of the bindings of its life: ``a: "b-c"``; ``"b-"`` for one that escapes."""
        order = [var.name_hint for var in self.aliases.variables]
        return {
            s.name_hint: f"{order[r.first]}-{'' if r.last is None else order[r.last]}"
            for s, r in self.aliases.live_ranges().items()
        }


@pytest.fixture(params=[STATIC, SYMBOLIC], ids=["static", "symbolic"])
def program(request):
    """Make a program whose tensors, written F, have a static or a symbolic shape."""
    return lambda *args, **kwargs: Program(*args, **kwargs, info=request.param)


# ----------------------------------------------------------------------------------- what may share memory


@pytest.mark.parametrize(
    "body, shared, apart",
    [
        ("a = R.exp(x)\nb = R.exp(a)\nreturn b", [], ["ab", "ax", "bx"]),
        ("a = R.exp(x)\nb = a\nreturn b", ["ab"], ["bx"]),
        ("a = R.exp(x)\nb = R.match_cast(a, F)\nreturn b", ["ab"], ["bx"]),
        ("a = R.exp(x)\nb = R.exp(x)\nt = (a, (b, x))\nc = t[1]\nd = c[0]\nreturn d", ["bd", "bt", "at"], ["ad"]),
        ("a = R.exp(x)\nb = R.reshape(a, R.shape([2, 2]))\nc = R.flatten(b)\nreturn c", ["ab", "ac"], ["cx"]),
        ("return R.add(x, y)", ["xy"], []),
        ("a = R.exp(x)\nb = R.call_tir_inplace(cls.double, (a,), [0], F)\nreturn b", ["ab"], ["bx"]),
        ("t = (R.exp(x), R.exp(y))\nb = R.call_tir_inplace(cls.copy, t, [1], F)\nreturn b", ["bt"], ["bx"]),
        ("a = R.split(x, 2)\nb = a[0]\nc = a[1]\nreturn (b, c)", ["ab"], ["bc", "bx"]),
        ('a = R.call_pure_packed("f", x, sinfo_args=F)\nb = R.exp(y)\nreturn a', ["ax", "ay"], ["ab"]),
        ('b = R.exp(y)\na = R.call_packed("f", x, sinfo_args=F)\nreturn a', ["ax", "ay"], ["ab"]),
        ('b = R.exp(y)\na = R.call_packed("f", b, sinfo_args=F)\nreturn a', ["ab", "bx"], []),
        ('a = R.call_pure_packed("relax.run.nonzero", x, sinfo_args=R.Object)\nreturn a', [], ["ax"]),
        ("c = R.const([1.0, 2.0])\nd = R.const([1.0, 2.0])\nreturn (c, d)", [], ["cd", "cx"]),
        ("a = R.builtin.stop_lift_params(x)\nb = R.exp(a)\nreturn b", ["ax"], ["bx"]),
        ("a = R.nonzero(x)\nreturn a", [], ["ax"]),
        ("s = R.shape_of(x)\nreturn s", [], ["sx"]),
        ('b = R.exp(x)\na = R.call_packed("vm.builtin.copy", b, sinfo_args=F)\nreturn a', ["ab"], ["ax"]),
        (
            'b = R.exp(x)\na = R.call_packed("vm.builtin.make_tuple", b, y, sinfo_args=R.Object)\nreturn a',
            ["ab", "ay"],
            ["bx"],
        ),
        ('a = R.call_packed("vm.builtin.shape_of", x, sinfo_args=R.Shape)\nreturn a', [], ["ax"]),
    ],
)
def test_shared_memory(program, body, shared, apart):
    found = program(body)
    assert [pair for pair in shared if not found.share(*pair)] == []
    assert [pair for pair in apart if found.share(*pair)] == []


BRANCHES = """
a = R.exp(x)
b = R.exp(x)
if c:
    d = a
    r = d
else:
    e = R.exp(b)
    r = e
return r
"""


def test_a_branch_gives_what_either_may_give(program):
    found = program(BRANCHES, 'x: F, c: R.Tensor((), "bool")')
    assert found.share("r", "a")
    assert not found.share("r", "b")


def test_branches_that_give_one_value_keep_its_fields_apart(program):
    found = program(
        "a = R.exp(x)\nb = R.exp(x)\nt = (a, b)\nif c:\n    r = t\nelse:\n    r = t\np = r[0]\nreturn p",
        'x: F, c: R.Tensor((), "bool")',
    )
    assert found.share("p", "a")
    assert not found.share("p", "b")


CLOSURE = """
a = R.exp(x)
b = R.exp(x)

@R.function
def f(z: F) -> F:
    w = R.add(a, z)
    return w

r = f(b)
e = R.exp(x)
return r
"""


def test_local_functions_keep_what_they_read(program):
    found = program(CLOSURE)
    assert found.share("a", "r")
    assert found.share("b", "r")
    assert not found.share("e", "r")
    assert found.ranges() == {"a": "a-", "b": "b-", "f": "f-", "r": "r-", "e": "e-e"}


def test_closures_hold_what_they_capture(program):
    extra = "@R.function(private=True)\ndef g(z: F, w: F) -> F:\n    return z"
    found = program("a = R.exp(x)\nf = R.make_closure(cls.g, (a,))\nreturn x", extra=extra)
    assert found.share("a", "f")
    assert not found.aliases.escapes(found.vars["a"])


# ------------------------------------------------------------------------------------ reads, writes


@pytest.mark.parametrize(
    "call, read, written",
    [
        ("R.exp(a)", "a", ""),
        ("R.call_tir(cls.copy, (a,), F)", "a", ""),
        ("R.call_tir_inplace(cls.double, (a,), [0], F)", "a", "a"),
        ("cls.double(a)", "a", "a"),
        ("cls.copy(a, b)", "ab", "b"),
        ("R.shape_of(a)", "", ""),
        ('R.call_packed("f", a)', "axyk", "axyk"),
        ('R.call_pure_packed("f", a, sinfo_args=F)', "axyk", ""),
        ('R.call_packed("vm.builtin.copy_tensor", a, sinfo_args=F)', "a", ""),
        ('R.call_inplace_packed("f", a, inplace_indices=[0], sinfo_args=F)', "axyk", "axyk"),
        ("R.vm.call_tir_dyn(cls.double, (a, R.shape([1])))", "a", "a"),
        ("R.print(a)", "a", ""),
        ('R.call_builtin_with_ctx("f", (a,), sinfo_args=F)', "axyk", "axyk"),
    ],
)
def test_reads_and_writes(program, call, read, written):
    kept = 'k = R.exp(x)\n_ = R.call_packed("keep", k)\n'
    found = program(f"{kept}a = R.exp(x)\nb = R.exp(x)\nc = R.exp(x)\nr = {call}\nreturn x")
    effect = found.calls["r"]
    values = {name: found.vars[name] for name in "abcxyk"}
    assert "".join(n for n, v in values.items() if found.aliases.may_read(effect, v)) == "".join(
        n for n in values if n in read
    )
    assert "".join(n for n, v in values.items() if found.aliases.may_write(effect, v)) == "".join(
        n for n in values if n in written
    )
    assert effects_of(effect, found.mod).may_change == (bool(written) or "print" in call)


def test_a_function_of_the_module_may_do_anything(program):
    extra = "@R.function(private=True)\ndef g(z: F) -> F:\n    return z"
    found = program("a = R.exp(x)\nr = cls.g(a)\nreturn r", extra=extra)
    assert effects_of(found.calls["r"]).may_change
    assert found.share("r", "a")


def test_an_operator_without_a_class_may_do_anything():
    op = register_op("relax.test.alias_without_class")
    x = Var("x", relax.TensorStructInfo((4,), "float32"))
    assert effects_of(Call(op, (x,))).writes == (x,)


def test_arguments_given_as_a_variable_may_all_be_reused(program):
    found = program("t = (R.exp(x), R.exp(y))\nb = R.call_tir_inplace(cls.copy, t, [1], F)\nreturn b")
    assert effects_of(found.calls["b"]).writes == (found.vars["t"],)


# ---------------------------------------------------------------------------------------- lifetimes


def test_a_value_lives_to_its_last_use_under_any_name(program):
    found = program("""
        a = R.exp(x)
        b = R.exp(a)
        v = R.reshape(a, R.shape([2, 2]))
        t = (b, v)
        w = t[1]
        c = R.exp(w)
        d = R.exp(c)
        return d
        """)
    assert found.ranges() == {"a": "a-c", "b": "b-t", "c": "c-d", "d": "d-"}
    after = {name: found.names(found.aliases.live_after(found.bindings[name])) for name in "abtcd"}
    assert after == {"a": ["a"], "b": ["a", "b"], "t": ["a"], "c": ["c"], "d": ["d"]}


def test_lifetimes_across_branches(program):
    found = program(BRANCHES, 'x: F, c: R.Tensor((), "bool")')
    assert found.ranges() == {"a": "a-", "b": "b-e", "e": "e-"}
    a = found.vars["a"]
    assert found.aliases.live_ranges()[a] == LiveRange(a, 0, None)


def test_what_is_used_by_nobody_dies_at_once(program):
    assert program("a = R.exp(x)\nreturn x").ranges() == {"a": "a-a"}


def test_what_a_function_may_keep_does_not_die(program):
    assert program('a = R.exp(x)\n_ = R.call_packed("keep", a)\nreturn x').ranges()["a"] == "a-"


def test_kernels_called_directly_keep_nothing(program):
    found = program("""
        a = R.builtin.alloc_tensor(R.shape([4]), "float32", 0, "global")
        _ = cls.copy(x, a)
        b = R.builtin.alloc_tensor(R.shape([4]), "float32", 0, "global")
        e = cls.copy(a, b)
        return b
        """)
    assert found.ranges() == {"a": "a-e", "b": "b-"}


def test_a_storage_lives_as_long_as_tensors_in_it(program):
    found = program("""
        s = R.memory.alloc_storage(R.shape([16]), 0, "global", "uint8")
        a = R.memory.alloc_tensor(s, 0, R.shape([4]), "float32")
        b = R.exp(a)
        return b
        """)
    assert found.ranges() == {"s": "s-b", "b": "b-"}


def test_fields_of_a_result_live_by_themselves(program):
    found = program("a = R.split(x, 2)\nb = a[0]\nc = a[1]\nd = R.exp(b)\nreturn c")
    assert found.ranges() == {"a[0]": "a-d", "a[1]": "a-", "d": "d-d"}


def test_who_else_refers_to_a_value(program):
    found = program("""
        a = R.exp(x)
        b = R.exp(a)
        t = (b, y)
        v = R.reshape(b, R.shape([2, 2]))
        k = R.exp(x)
        r = R.call_tir_inplace(cls.double, (k,), [0], F)
        return t
        """)
    escaping = {name for name, var in found.vars.items() if found.aliases.escapes(var)}
    assert escaping == {"x", "y", "b", "t", "k"}


def test_a_body_that_is_no_sequence():
    x = Var("x", relax.TensorStructInfo((4,), "float32"))
    func = Function([x], x, relax.TensorStructInfo((4,), "float32"))
    assert Aliases(func).live_ranges() == {}


def test_a_long_chain_of_views_is_not_copied_at_each_link():
    def storages(count):
        lines = [f"a{i + 1} = R.reshape(a{i}, R.shape([4]))" for i in range(count)]
        found = Program("a0 = R.exp(x)\n" + "\n".join(lines) + f"\nreturn a{count}")
        return sum(len(found.aliases.storages(var)) for var in found.aliases.variables)

    assert storages(40) == 41


# ------------------------------------------------------------------------------- declarations


def test_a_packed_function_that_no_builtin_is_may_keep_its_arguments():
    @operator("relax.test.alias_packed")
    class Packed(Intrinsic):
        """Calls a packed function of the process."""

        packed = "test.alias_packed"

        def infer(self, x: relax.TensorStructInfo) -> relax.TensorStructInfo:
            return x

    x = Var("x", relax.TensorStructInfo((4,), "float32"))
    assert Packed().call_effects(Packed().call(x)) == PACKED


def test_builtins_declare_what_is_possible():
    for entry in BUILTINS.values():
        for positions in vars(entry.effects).values():
            assert positions == "all" or all(position >= 0 for position in positions), entry.name
        assert entry.function.__doc__, entry.name


def test_a_pure_builtin_changes_and_keeps_nothing():
    for effects in (Effects(writes=(0,)), Effects(keeps="all")):
        with pytest.raises(ValueError, match="test.b is not pure if it changes or keeps an argument"):
            builtin("test.b", effects)


def test_a_builtin_is_declared_once():
    with pytest.raises(ValueError, match=r"there is a builtin vm\.builtin\.copy already"):
        builtin("vm.builtin.copy")(print)


def test_equal_values_of_branches_keep_their_fields_apart(program):
    """Each branch makes a tuple of its own, with one pair in it twice."""
    pair = "t = (a, b)\n    r = (t, t)"
    found = program(
        f"a = R.exp(x)\nb = R.exp(x)\nif c:\n    {pair}\nelse:\n    {pair}\nq = r[1]\np = q[0]\nreturn p",
        'x: F, c: R.Tensor((), "bool")',
    )
    assert found.share("p", "a")
    assert not found.share("p", "b")


class CollectingWalk(StorageWalk):
    """Walk that keeps the set of storages used so far, at each use."""

    def __init__(self):
        super().__init__()
        self.sets = []

    def aliased(self, call):
        return ()

    def complain(self, expr, storages, read):
        self.sets.append(self.reads)


def test_storages_used_so_far_are_one_set_that_grows():
    """An adjoint of many layers uses hundreds of parameters: a copy of the set at each use would take their square."""
    params = ", ".join(f'p{i}: R.Tensor((4,), "float32")' for i in range(20))
    sums = "\n".join(f"    y{i + 1} = R.add(y{i}, p{i + 1})" for i in range(1, 19))
    func = parse(f"""
@R.function
def main({params}):
    y1 = R.add(p0, p1)
{sums}
    return y19
""")["main"]
    walk = CollectingWalk()
    walk.function(func)
    assert len({id(reads) for reads in walk.sets}) == 1
    assert walk.sets[0] >= set(func.params)
