"""Builtins on sequences, optional values, strings and image files: what they refuse, and what only they do."""

from __future__ import annotations

import importlib
import types

import numpy as np
import pytest
import tvm_ffi

from relax.runtime.classes import coupled_probabilities, zip_map
from relax.runtime.images import decode_image
from relax.runtime.ngrams import count_ngrams
from relax.runtime.sequences import (
    optional_get,
    optional_has,
    sequence_at,
    sequence_concat,
    sequence_erase,
    sequence_of_parts,
    sequence_stack,
)
from relax.runtime.string_tensor import StringTensor
from relax.runtime.strings import encode_labels, strings_normalize
from relax.runtime.tensor import numpy_view, tensor_of_numpy


def tensor(*values: float, dtype: str = "float32") -> tvm_ffi.Tensor:
    return tensor_of_numpy(np.array(values, dtype))


def texts(*items: object) -> StringTensor:
    return StringTensor(np.array(items, object))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: sequence_at(tensor(1), tensor(0)), TypeError, "sequence_at: expected a sequence, found a tensor"),
        (lambda: sequence_at((), tensor(0)), IndexError, "position 0 is out of range for a sequence of 0"),
        (lambda: sequence_erase((), None), IndexError, "sequence_erase: the sequence is empty"),
        (lambda: sequence_concat((), 0, 0), ValueError, "sequence_concat: the sequence is empty"),
        (
            lambda: sequence_concat((tensor(1), tensor(1, dtype="int64")), 0, 0),
            TypeError,
            "the items have several dtypes",
        ),
        (
            lambda: sequence_of_parts(tensor(1, 2, 3), tensor(1, 1, dtype="int64"), 0, 1),
            ValueError,
            r"sizes \[1, 1\] do not make up a dimension of 3",
        ),
        (lambda: optional_get(None), ValueError, "the optional value is empty"),
        (lambda: strings_normalize(texts(["a"], ["b"]), "NONE", 0, "[]"), ValueError, r"found \(2, 1\)"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_an_empty_sequence_is_stacked_to_sizes_of_zero():
    assert numpy_view(sequence_stack((), 2, "int64")).shape == (0, 0, 0)


def test_an_optional_value_is_there_or_not():
    assert [bool(numpy_view(optional_has(value))) for value in (None, tensor(0), ())] == [False, True, True]


def test_a_tensor_of_strings_is_a_value():
    array = np.array([["a", b"\xc3\xa4"]], object)
    value = StringTensor(array)
    array[0, 0] = "changed"
    value.numpy()[0, 0] = "changed"
    assert value.numpy().tolist() == [["a", "ä"]]
    assert (value.shape, repr(value)) == ((1, 2), "StringTensor([['a', 'ä']])")


def test_labels_that_are_nan_or_no_key():
    keys, values, default = tensor(np.nan, 2, 2), tensor(1, 2, 3), tensor(-1)
    labels = encode_labels(tensor(2, np.nan, 7), keys, values, default)
    assert numpy_view(labels).tolist() == [2, 1, -1]
    assert numpy_view(encode_labels(tensor(2), tensor(), tensor(), default)).tolist() == [-1]


def test_n_grams_of_rows_without_elements():
    pool, empty = texts("a", "b"), StringTensor(np.zeros((2, 0), object))
    assert numpy_view(count_ngrams(empty, pool, (0,), (0, 1), 1, 1, 0)).tolist() == [[0, 0], [0, 0]]


def test_maps_of_rows_of_scores():
    one, other = zip_map(texts("no", "yes"), tensor_of_numpy(np.array([[0.5, 1], [2, np.inf]], "float32")))
    assert (dict(one), dict(other)) == ({"no": 0.5, "yes": 1.0}, {"no": 2.0, "yes": np.inf})
    assert dict(zip_map(tensor(4, -1, dtype="int64"), tensor(0.5, 1))[0]) == {4: 0.5, -1: 1.0}
    assert zip_map(texts("no"), tensor_of_numpy(np.zeros((0, 1), "float32"))) == ()


def test_probabilities_of_classes_fit_those_of_pairs():
    shares = np.array([0.6, 0.3, 0.1])
    pairs = [shares[i] / (shares[i] + shares[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    rows = tensor_of_numpy(np.array([pairs, [0.5] * 3], "float32"))
    found = numpy_view(coupled_probabilities(rows, 3))
    np.testing.assert_allclose(found, [shares, [1 / 3] * 3], atol=5e-3)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-6)
    assert numpy_view(coupled_probabilities(tensor_of_numpy(np.zeros((0, 1), "float32")), 2)).shape == (0, 2)


class Picture:
    """An image of Pillow, of two pixels."""

    def convert(self, mode: str) -> np.ndarray:
        return np.array([[7, 8]] if mode == "L" else [[[1, 2, 3], [4, 5, 6]]], "uint8")


def _opened(file) -> Picture:
    if file.read() != b"picture":
        raise OSError("cannot identify image file")
    return Picture()


def test_images_are_decoded_by_pillow(monkeypatch):
    library = types.SimpleNamespace(open=_opened)
    monkeypatch.setattr(importlib, "import_module", {"PIL.Image": library}.__getitem__)
    encoded = tensor(*b"picture", dtype="uint8")
    assert numpy_view(decode_image(encoded, "RGB")).tolist() == [[[1, 2, 3], [4, 5, 6]]]
    assert numpy_view(decode_image(encoded, "BGR")).tolist() == [[[3, 2, 1], [6, 5, 4]]]
    assert numpy_view(decode_image(encoded, "Grayscale")).tolist() == [[[7], [8]]]
    assert numpy_view(decode_image(tensor(1, dtype="uint8"), "RGB")).shape == (0, 0, 3)


def test_without_pillow_no_image_is_decoded(monkeypatch):
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(RuntimeError, match="Pillow is not installed: pip install pillow"):
        decode_image(tensor(1, dtype="uint8"), "RGB")
