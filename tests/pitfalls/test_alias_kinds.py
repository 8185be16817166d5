"""Every way to have two names for one tensor, and every way to have a second tensor that looks like the first.

`ALIASES` are pieces of program that make `b` another name for `a`: a mutation through either is seen through both, and
who works in place on one has used up the other. `COPIES` make a tensor of its own: no mutation is seen through it.
"""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from pitfall_helpers import arrays, machine

import relax
from relax.ir import DiagnosticError

ALIASES = {
    "name": "b = a",
    "name of a name": "a1 = a\nb = a1",
    "match_cast": 'm = T.int64()\nb = R.match_cast(a, R.Tensor((m,), "{dtype}"))',
    "match_cast that knows less": "b = R.match_cast(a, R.Tensor(ndim=1))",
    "match_cast that holds": 'b = R.match_cast(a, R.Tensor((n,), "{dtype}"))',
    "annotation": 'b: R.Tensor(ndim=1, dtype="{dtype}") = a',
    "tuple": "t = (a, x)\nb = t[0]",
    "nested tuple": "t = ((x, a), x)\ns = t[0]\nb = s[1]",
    "tuple of a function": "t = cls.pack(x, a)\nb = t[1]",
    "branch": "if c:\n    b = a\nelse:\n    b = x",
    "tuple of a branch": "if c:\n    t = (x, a)\nelse:\n    t = (a, x)\nb = t[1]",
    "branch in a branch": "if c:\n    if c:\n        r = a\n    else:\n        r = x\n    b = r\nelse:\n    b = x",
    "result of a function": "b = cls.same(a)",
    "result of a local function": (
        '@R.function\ndef f(y: R.Tensor((n,), "{dtype}")) -> R.Tensor((n,), "{dtype}"):\n    return y\nb = f(a)'
    ),
    "capture": (
        '@R.function\ndef f(y: R.Tensor((n,), "{dtype}")) -> R.Tensor((n,), "{dtype}"):\n    return a\nb = f(x)'
    ),
    "closure in a tuple": (
        '@R.function\ndef f() -> R.Tensor((n,), "{dtype}"):\n    return a\nt = (f, x)\ng = t[0]\nb = g()'
    ),
    "packed function": 'b = R.call_packed("pitfall.identity", a, sinfo_args=R.Tensor((n,), "{dtype}"))',
    "dataflow output": "with R.dataflow():\n    l = a\n    b = l\n    R.output(b)",
    "match_cast in dataflow": (
        'm = T.int64()\nwith R.dataflow():\n    l = R.match_cast(a, R.Tensor((m,), "{dtype}"))\n    b = l\n'
        "    R.output(b)"
    ),
}
COPIES = {
    "reshape": "b = R.reshape(a, (n,))",
    "reshape there and back": "l = R.reshape(a, (n, 1))\nb = R.reshape(l, (n,))",
    "reshape in dataflow": (
        "with R.dataflow():\n    l = R.reshape(a, (1, n))\n    b = R.reshape(l, (n,))\n    R.output(b)"
    ),
    "reshape by value": "s = R.shape_of(a)\nb = R.reshape(a, s)",
    "flatten": "b = R.flatten(a)",
    "squeeze": "l = R.expand_dims(a, 0)\nb = R.squeeze(l, 0)",
    "astype": 'b = R.astype(a, "{dtype}")',
    "permute_dims": "b = R.permute_dims(a, [0])",
    "broadcast_to": "b = R.broadcast_to(a, (n,))",
    "concat": "b = R.concat([a], axis=0)",
    "split": "t = R.split(a, 1, axis=0)\nb = t[0]",
    "strided_slice": "b = R.strided_slice(a, [0], [0], [n])",
    "flip twice": "l = R.flip(a, 0)\nb = R.flip(l, 0)",
    "where": 'b = R.where(R.const(True, "bool"), a, x)',
    "take": "b = R.take(a, R.arange(0, n, 1), axis=0)",
    "kernel": 'b = R.call_tir(cls.copy, (a,), R.Tensor((n,), "{dtype}"))',
    "kernel in dataflow": (
        'with R.dataflow():\n    b = R.call_tir(cls.copy, (a,), R.Tensor((n,), "{dtype}"))\n    R.output(b)'
    ),
    "packed kernel": 'b = R.call_dps_packed("pitfall.alias.copy", (a,), R.Tensor((n,), "{dtype}"))',
    "branch": "if c:\n    b = R.reshape(a, (n,))\nelse:\n    b = R.flatten(x)",
    "result of a function": "b = cls.copied(a)",
    "same computation": "b = cls.made(x)",
}
HEADER = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def copy(A: T.Buffer(("n",), "{dtype}"), B: T.Buffer(("n",), "{dtype}")):
        n = T.int64()
        for i in range(n):
            B[i] = A[i]

    @T.prim_func(private=True)
    def bump(A: T.Buffer(("n",), "{dtype}")):
        n = T.int64()
        for i in range(n):
            A[i] = A[i] + T.Cast("{dtype}", 1)

    @R.function(private=True)
    def same(y: R.Tensor(("n",), "{dtype}")) -> R.Tensor(("n",), "{dtype}"):
        return y

    @R.function(private=True)
    def pack(y: R.Tensor(("n",), "{dtype}"), z: R.Tensor(("n",), "{dtype}")) -> R.Tuple(
        R.Tensor(("n",), "{dtype}"), R.Tensor(("n",), "{dtype}")
    ):
        return (y, z)

    @R.function(private=True)
    def copied(y: R.Tensor(("n",), "{dtype}")) -> R.Tensor(("n",), "{dtype}"):
        n = T.int64()
        return R.reshape(y, (n,))

    @R.function(private=True)
    def made(y: R.Tensor(("n",), "{dtype}")) -> R.Tensor(("n",), "{dtype}"):
        return R.add(y, y)
"""


MAIN = """
    @R.function({purity})
    def {name}(x: R.Tensor(("n",), "{dtype}"), c: R.Tensor((), "bool")) -> R.Tuple(R.Tensor, R.Tensor):
        cls = Module
        n = T.int64()
        a = R.add(x, x)
{body}
"""


def module(pieces, end, dtype, purity="pure=False"):
    """A module with one entry point per piece, in which `end` follows it; their names by kind."""
    names = {kind: f"f{i}" for i, kind in enumerate(pieces)}
    text = HEADER
    for kind, piece in pieces.items():
        body = textwrap.indent(f"{piece}\n{end}", " " * 8)
        text += MAIN.replace("{name}", names[kind]).replace("{body}", body)
    return text.replace("{dtype}", dtype).replace("{purity}", purity), names


@pytest.fixture(autouse=True)
def copying():
    relax.register_func("pitfall.alias.copy", lambda source, target: target.copyfrom(source), override=True)


MUTATE = '_ = R.call_packed("pitfall.increment", {who}, sinfo_args=R.Tuple())\nreturn (a, b)'
DTYPES = ["int8", "uint8", "int64", "float16", "bfloat16", "float32", "float64"]


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
@pytest.mark.parametrize("who", ["a", "b"])
@pytest.mark.parametrize(("pieces", "shared"), [(ALIASES, True), (COPIES, False)], ids=["aliases", "copies"])
def test_a_mutation_is_seen_through_aliases_only(run, pieces, shared, who):
    text, names = module(pieces, MUTATE.replace("{who}", who), "float32")
    vm = run(text)
    for kind, name in names.items():
        for n in (0, 1, 5):
            see(vm[name], relax.nd.array(np.arange(n), dtype="float32"), shared, who, kind)


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("table", "kinds", "shared"),
    [
        (ALIASES, ["name", "match_cast", "branch"], True),
        (COPIES, ["reshape", "astype", "kernel", "reshape in dataflow"], False),
    ],
    ids=["aliases", "copies"],
)
def test_dtypes(run, table, kinds, shared, dtype):
    text, names = module({kind: table[kind] for kind in kinds}, MUTATE.replace("{who}", "a"), dtype)
    vm = run(text)
    for kind, name in names.items():
        see(vm[name], relax.nd.array(np.arange(3), dtype=dtype), shared, "a", kind)


def see(function, x, shared, who, kind):
    a, b = (v.astype("float64").tolist() for v in arrays(function(x, np.array(True))))
    old, new = [2.0 * i for i in range(len(x))], [2.0 * i + 1 for i in range(len(x))]
    if shared:
        assert (a, b) == (new, new), kind
    else:
        assert (a, b) == ((new, old) if who == "a" else (old, new)), kind


READ = """r = R.call_tir_inplace(cls.bump, ({who},), [0], R.Tensor((n,), "float32"))
s = R.add({other}, r)
return (r, s)"""


@pytest.mark.filterwarnings("ignore::relax.ir.RelaxWarning")
@pytest.mark.parametrize(("who", "other"), ["ab", "ba"])
def test_what_is_reused_in_place_is_used_up_under_every_name(who, other):
    """The program promises not to use the tensor again: it does, and is told so before anything runs."""
    pieces = {kind: piece for kind, piece in ALIASES.items() if kind != "packed function"}
    text, names = module(pieces, READ.replace("{who}", who).replace("{other}", other), "float32", "")
    with pytest.raises(DiagnosticError) as caught:
        machine(text)
    told = {d.label for d in caught.value.diagnostics if "used after it was reused in place" in d.message}
    assert told == {f"in {name}" for name in names.values()}


@pytest.mark.parametrize(("who", "other"), ["ab", "ba"])
def test_copies_may_be_reused_in_place(run, who, other):
    pieces = {kind: piece for kind, piece in COPIES.items() if kind != "packed kernel"}
    text, names = module(pieces, READ.replace("{who}", who).replace("{other}", other), "float32", "")
    vm = run(text)
    for kind, name in names.items():
        for n in (0, 1, 4):
            x = np.arange(n, dtype="float32")
            r, s = (v.tolist() for v in arrays(vm[name](x, np.array(True))))
            assert (r, s) == ((2 * x + 1).tolist(), (4 * x + 1).tolist()), kind
            assert x.tolist() == list(range(n)), kind


READERS = {
    "call": "s = f(x)",
    "call in a branch": "if c:\n    s = f(x)\nelse:\n    s = x",
    "call of a call": (
        '@R.function\ndef g(y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):\n    return f(y)\ns = g(x)'
    ),
    "argument": "s = cls.apply(f, x)",
    "tuple": "t = (x, f)\ng = t[1]\ns = g(x)",
    "result": "s = R.add(x, x)\nu = f",
}


@pytest.mark.parametrize("kind", READERS)
def test_a_closure_uses_what_it_reads(kind):
    function = """@R.function
def f(y: R.Tensor((n,), "float32")) -> R.Tensor((n,), "float32"):
    return R.add(y, a)
"""
    reuse = 'r = R.call_tir_inplace(cls.bump, (a,), [0], R.Tensor((n,), "float32"))\n'
    apply = """
    @R.function(private=True)
    def apply(
        f: R.Callable((R.Tensor(("n",), "float32"),), R.Tensor(("n",), "float32"), True), x: R.Tensor(("n",), "float32")
    ) -> R.Tensor(("n",), "float32"):
        return f(x)
"""
    before, _ = module({kind: function + READERS[kind] + "\n" + reuse}, "return (r, s)", "float32", "")
    machine(before + apply)
    after, _ = module({kind: function + reuse + READERS[kind]}, "return (r, s)", "float32", "")
    with pytest.raises(DiagnosticError, match="a function that reads a, is used after it was reused in place"):
        machine(after + apply)
