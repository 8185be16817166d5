"""Parameters by name, from folders as TVM's tools write them."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

import relax
from paged_model import builtin
from relax.runtime.tensor import numpy_view, tensor_of_numpy
from relax.script import ir as I
from relax.script import relax as R
from support import MODES, PLAIN_LOOPS

WEIGHTS = {
    "param_0": np.arange(6, dtype="float32").reshape(2, 3),
    "param_1": np.array([1, -2], "int8"),
    "param_2": np.array(2.5, "float16"),
}


@pytest.fixture(autouse=True)
def _empty():
    builtin("tensor_cache.clear")()
    yield
    builtin("tensor_cache.clear")()


def write(folder, name="tensor-cache.json", **changes):
    """A folder with one file for all weights; `changes` replace fields of the record of the first one."""
    records, data = [], b""
    for key, array in WEIGHTS.items():
        fields = {"dtype": str(array.dtype), "format": "raw", "nbytes": array.nbytes, "byteOffset": len(data)}
        records.append({"name": key, "shape": list(array.shape), **fields})
        data += array.tobytes()
    records[0] |= changes
    (folder / "params_shard_0.bin").write_bytes(data)
    shard = {"dataPath": "params_shard_0.bin", "format": "raw-shard", "nbytes": len(data), "records": records}
    (folder / name).write_text(json.dumps({"metadata": {"ParamSize": len(records)}, "records": [shard]}))
    return str(folder)


def get(name):
    return numpy_view(builtin("tensor_cache.get")(name))


@pytest.mark.parametrize("name", ["tensor-cache.json", "ndarray-cache.json"])
def test_a_folder_is_loaded(tmp_path, name):
    builtin("tensor_cache.load")(write(tmp_path, name), 1, 0)
    for key, array in WEIGHTS.items():
        found = get(key)
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
    arrays = builtin("param_array_from_cache")("param", -1)
    assert [numpy_view(each).shape for each in arrays] == [(2, 3), (2,), ()]
    assert len(builtin("param_array_from_cache")("param", 2)) == 2
    (array,) = builtin("param_array_from_cache_by_name")(("param_1",))
    assert numpy_view(array).tolist() == [1, -2]
    assert len(builtin("param_array_from_cache_by_name_unpacked")("param_2", "param_0")) == 2


def test_float32_weights_are_stored_as_bfloat16(tmp_path):
    values = np.array([1.5, -3, 0.1], ml_dtypes.bfloat16)
    folder = write(tmp_path, shape=[3], nbytes=6, format="f32-to-bf16")
    (tmp_path / "params_shard_0.bin").write_bytes(values.tobytes() + bytes(30))
    builtin("tensor_cache.load")(folder)
    assert get("param_0").dtype == np.float32
    np.testing.assert_array_equal(get("param_0"), values.astype("float32"))


def test_parameters_are_replaced_on_purpose():
    one, two = (tensor_of_numpy(np.array([n], "int32")) for n in (1, 2))
    builtin("tensor_cache.update")("a", one)
    with pytest.raises(ValueError, match="there is a parameter 'a' in the cache already"):
        builtin("tensor_cache.update")("a", two, False)
    assert get("a").tolist() == [1]
    builtin("ndarray_cache.update")("a", two, True)
    assert get("a").tolist() == [2]
    builtin("tensor_cache.remove")("a")
    builtin("tensor_cache.remove")("a")
    with pytest.raises(KeyError, match="there is no parameter 'a' in the cache"):
        get("a")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nbytes": 20}, "the parameter param_0, float32 .2, 3., does not lie in 20 bytes at 0 of params_shard_0.bin"),
        ({"byteOffset": 9}, "does not lie in 24 bytes at 9 of params_shard_0.bin, which has 28"),
        ({"byteOffset": -4}, "does not lie in 24 bytes at -4"),
        ({"format": "zip"}, "the parameter param_0 has the format 'zip', expected one of raw, f32-to-bf16"),
        ({"dtype": "complex64"}, "TypeError: unsupported dtype 'complex64'"),
        ({"shape": "wide"}, "is no index of parameters: TypeError"),
        ({"shape": [2, -3]}, "tensor-cache.json: .*negative"),
    ],
)
def test_an_index_that_is_wrong_loads_nothing(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        builtin("tensor_cache.load")(write(tmp_path, **changes))
    assert builtin("param_array_from_cache")("param", -1) == ()


def test_what_is_no_index(tmp_path):
    with pytest.raises(FileNotFoundError, match="has no tensor-cache.json and no ndarray-cache.json"):
        builtin("tensor_cache.load")(str(tmp_path), 1, 0)
    (tmp_path / "tensor-cache.json").write_text("{}")
    with pytest.raises(ValueError, match="is no index of parameters: KeyError: 'records'"):
        builtin("tensor_cache.load")(str(tmp_path), 1, 0)
    (tmp_path / "tensor-cache.json").write_text('{"records": [{"dataPath": "../x", "records": []}]}')
    with pytest.raises(ValueError, match="the file x lies outside of the folder"):
        builtin("tensor_cache.load")(str(tmp_path), 1, 0)


@pytest.mark.parametrize(
    ("name", "args", "error", "message"),
    [
        ("tensor_cache.load", ("here", 2, 0), ValueError, "a device of type 2 is asked for; here is the host alone"),
        ("tensor_cache.get", (3,), TypeError, "expected a string as the name of a parameter, found the int 3"),
        ("tensor_cache.update", ("a", 3), TypeError, "expected a tensor as the parameter a, found the int 3"),
        ("param_array_from_cache", ("a", 1), KeyError, "there is no parameter 'a_0' in the cache"),
        ("param_array_from_cache", ("a", -2), ValueError, "-2 parameters are asked for"),
        ("param_array_from_cache_by_name", (3,), TypeError, "expected a tuple of names, found the int 3"),
    ],
)
def test_arguments_are_checked(name, args, error, message):
    with pytest.raises(error, match=message):
        builtin(name)(*args)


@I.ir_module
class Model:
    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32")):
        w = R.call_packed("vm.builtin.tensor_cache.get", R.str("scale"), sinfo_args=R.Tensor((3,), "float32"))
        return R.multiply(x, w)


@pytest.mark.parametrize("mode", [*MODES, "interpreter"])
def test_a_program_gets_its_parameters(mode):
    builtin("tensor_cache.update")("scale", tensor_of_numpy(np.array([1, 2, 3], "float32")))
    x = np.ones(3, "float32")
    if mode == "interpreter":
        y = relax.interpret(Model, "main", x)
    else:
        y = relax.VirtualMachine(relax.build(Model, PLAIN_LOOPS, exec_mode=mode), relax.cpu())["main"](x)
    assert y.numpy().tolist() == [1, 2, 3]
