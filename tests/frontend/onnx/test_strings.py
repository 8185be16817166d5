"""Tensors of strings: NumPy arrays of objects outside, objects of the run time inside."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import relax
from relax.frontend.onnx import from_onnx
from support import PLAIN_LOOPS


def texts(*items: object) -> np.ndarray:
    return np.array(items, dtype=object)


def machine(text: str) -> relax.VirtualMachine:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 20, "ai.onnx.ml": 4]>\n{text}')
    return relax.VirtualMachine(relax.build(from_onnx(model), PLAIN_LOOPS), relax.cpu())


def test_strings_go_in_and_out():
    vm = machine("agraph (string[N] x) => (string[N] y, int64[1] n) { y = Identity(x)\n n = Shape(x) }")
    for items in ((), ("a",), ("ä", "", "b c")):
        y, n = vm["main"](texts(*items))
        assert y.numpy().tolist() == list(items)
        assert (y.shape, n.numpy().tolist()) == ((len(items),), [len(items)])
    assert vm["main"](np.array(["x", "yy"]))[0].numpy().tolist() == ["x", "yy"]


def test_moving_strings():
    vm = machine("""
    agraph (string[N, 2] x, int64[K] i) => (string[A] r, string[K, 2] g, string[M, 2] c, string[2, N] t, bool[N, 2] e)
        <int64[1] flat = {-1}> {
      r = Reshape(x, flat)
      g = Gather(x, i)
      c = Concat<axis=0>(x, g)
      t = Transpose<perm=[1, 0]>(x)
      e = Equal(x, x)
    }""")
    for x, i in ((texts(["a", "b"]), np.array([0, 0])), (texts(["a", "b"], ["c", "d"]), np.array([-1]))):
        expected = x.reshape(-1), x[i], np.concatenate([x, x[i]]), x.T, np.ones(x.shape, bool)
        assert [y.numpy().tolist() for y in vm["main"](x, i)] == [y.tolist() for y in expected]


def test_numbers_from_strings_and_back():
    vm = machine("""
    agraph (string[N] x, int64[N] i, float[N] f) => (float[N] y, int64[N] j, string[N] s, string[N] t) {
      y = Cast<to = 1>(x)
      s = Cast<to = 8>(i)
      t = Cast<to = 8>(f)
      j = Cast<to = 7>(s)
    }""")
    y, j, s, t = vm["main"](
        texts("1.5", "-INF", "1e3"), np.array([3, -4, 5]), np.array([0.1, np.nan, -np.inf], "float32")
    )
    assert y.numpy().tolist() == [1.5, -np.inf, 1000]
    assert (s.numpy().tolist(), j.numpy().tolist()) == (["3", "-4", "5"], [3, -4, 5])
    assert t.numpy().tolist() == ["0.1", "NaN", "-INF"]
    with pytest.raises(ValueError, match="strings_to_numbers: 'one' is no float32"):
        vm["main"](texts("one"), np.array([3]), np.zeros(1, "float32"))


def test_operators_on_text(agrees):
    text = """
    agraph (string[N, 1] x, string[M] y) => (string[N, M] c, string[N, 1, P] parts, int64[N, 1] counts, bool[N, 1] m) {
      c = StringConcat(x, y)
      parts, counts = StringSplit<delimiter = "-", maxsplit = 1>(x)
      m = RegexFullMatch<pattern = "[a-c]+(-.*)?">(x)
    }"""
    calls = [(texts(["a-b-c"]), texts("!")), (texts(["ab"], ["d"], [""]), texts("", "x y"))]
    agrees(text, *calls, opset=20)


def test_a_split_at_white_space():
    vm = machine("agraph (string[N] x) => (string[N, P] p, int64[N] n) { p, n = StringSplit(x) }")
    parts, counts = vm["main"](texts(" a  b ", "", "c"))
    assert parts.numpy().tolist() == [["a", "b"], ["", ""], ["c", ""]]
    assert counts.numpy().tolist() == [2, 0, 1]


@pytest.mark.parametrize("options", ['case_change_action = "UPPER"', 'is_case_sensitive = 1, stopwords = ["a", "B"]'])
def test_normalised_strings(agrees, options):
    text = f'agraph (string[N] x) => (string[M] y) {{ y = StringNormalizer<locale = "C", {options}>(x) }}'
    agrees(text, texts("a", "b", "A c"), texts("a"), texts("A", "B"))


NGRAMS = """
    agraph (TYPE[N, C] x) => (float[N, W] y) {
      y = TfIdfVectorizer<mode = "MODE", min_gram_length = 1, max_gram_length = 2, max_skip_count = 1,
          ngram_counts = [0, 3], ngram_indexes = [0, 2, 1, 4, 3], POOL, weights = [1.0, 2.0, 3.0, 4.0, 5.0]>(x)
    }"""


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_counts_of_n_grams(agrees, mode):
    text = NGRAMS.replace("TYPE", "int64").replace("MODE", mode).replace("POOL", "pool_int64s = [2, 3, 5, 2, 3, 5, 2]")
    agrees(text, np.array([[2, 3, 5, 2, 3]]), np.array([[5, 5, 2], [9, 2, 3]]))


def test_counts_of_n_grams_of_words(agrees):
    words = 'pool_strings = ["a", "b", "c", "a", "b", "c", "a"]'
    text = NGRAMS.replace("TYPE", "string").replace("MODE", "TF").replace("POOL", words)
    agrees(text, texts(["a", "b", "c", "a"]), texts(["c", "x", "a"], ["a", "b", "b"]))


def test_labels(agrees):
    text = """
    agraph (string[N] x, int64[N] i, float[N] f) => (int64[N] a, string[N] b, float[N] c) {
      a = ai.onnx.ml.LabelEncoder<keys_strings = ["a", "b"], values_int64s = [5, 6], default_int64 = -9>(x)
      b = ai.onnx.ml.LabelEncoder<keys_int64s = [2, 1, 2], values_strings = ["two", "one", "other"]>(i)
      c = ai.onnx.ml.LabelEncoder<keys_floats = [0.5, 2.0], values_floats = [1.0, 3.0]>(f)
    }"""
    calls = [(texts("b", "z"), np.array([1, 3]), np.array([2, 0.5], "float32"))]
    agrees(text, *calls, (texts("a"), np.array([2]), np.array([7], "float32")))


def test_branches_and_loops_hold_strings(agrees):
    text = """
    agraph (string[N] x, bool c, int64 m) => (string[M] y, string[L] z) <bool k = {1}> {
      y = If (c) <then_branch = g1 () => (string[P] a) { a = Concat<axis=0>(x, x) },
                  else_branch = g2 () => (string[P] b) { b = Identity(x) }>
      z = Loop (m, k, x) <body = b (int64 i, bool ci, string[P] v) => (bool co, string[Q] vo) {
        co = Identity(ci)
        vo = Concat<axis = 0>(v, x) }>
    }"""
    agrees(text, *((texts("a", "b"), np.array(c), np.array(m)) for c, m in ((True, 0), (False, 2))))


def test_strings_where_numbers_are_wanted_are_refused(imported):
    with pytest.raises(relax.DiagnosticError, match="E6001.*Flatten.*a tensor of strings as data is not supported"):
        imported("agraph (string[N, 2] x) => (string[N, 2] y) { y = Flatten(x) }")
    with pytest.raises(relax.DiagnosticError, match="E6003.*the pattern '\\(' cannot be read"):
        imported('agraph (string[N] x) => (bool[N] y) { y = RegexFullMatch<pattern = "(">(x) }', opset=20)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[0, 3]", "[0, 5]"), "its pool has 6 n-grams for 5 columns"),
        (('"TF"', '"DF"'), "its mode is 'DF', for n-grams of 1 to 2 items"),
        (("4.0, 5.0", "4.0"), "it has 4 weights for 5 n-grams"),
        (("pool_int64s = [2, ", "pool_int64s = ["), "its pool has 4 n-grams for 5 columns"),
    ],
)
def test_broken_pools_of_n_grams_are_refused(imported, change, message):
    pool = "pool_int64s = [2, 3, 5, 2, 3, 5, 2]"
    text = NGRAMS.replace("TYPE", "int64").replace("MODE", "TF").replace("POOL", pool).replace(*change)
    with pytest.raises(relax.DiagnosticError, match=message):
        imported(text)


def test_a_constant_and_a_shape_of_strings(imported):
    text = 'agraph (string[N] x) => (string[2] y, string[M] z) <string[2] c = {"a", "b"}> { y = Identity(c)\n z = Concat<axis=0>(c, x) }'
    vm = relax.VirtualMachine(relax.build(imported(text), PLAIN_LOOPS), relax.cpu())
    assert [part.numpy().tolist() for part in vm["main"](texts("c"))] == [["a", "b"], ["a", "b", "c"]]
    with pytest.raises(relax.DiagnosticError, match="E6003.*a shape is given for 'x', which is no tensor of numbers"):
        imported(text, shape_dict={"x": [3]})


def test_arrays_that_are_no_strings_are_refused():
    vm = machine("agraph (string[N] x, float[N] y) => (string[N] z) { z = Identity(x) }")
    with pytest.raises(TypeError, match="an array of objects must hold strings, found an object of type int"):
        vm["main"](texts("a", 1), np.zeros(2, "float32"))
    with pytest.raises(TypeError, match="expected a tensor, found a tensor of strings of shape \\(1,\\)"):
        vm["main"](texts("a"), texts("b"))
    with pytest.raises((TypeError, ValueError), match="cannot make a tensor of ndarray: its elements are no numbers"):
        relax.nd.array(texts("a"))
    vm = machine("agraph (string[N] x, string[N] y) => (string[N] z) { z = StringConcat(x, y) }")
    with pytest.raises(TypeError, match="strings_concat: expected a tensor of strings, found a tensor"):
        vm["main"](texts("a"), np.zeros(1, "float32"))
