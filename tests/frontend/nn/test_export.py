"""Programs of modules: functions, their parameters and effects, sizes by name, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from nn_programs import Method, results

import relax
from relax import nd, tir
from relax.frontend import nn
from relax.frontend.nn import Tensor, op, spec
from relax.ir import assert_structural_equal
from relax.script import ir as I
from relax.script import relax as R
from relax.script import tir as T


class MLP(nn.Module):
    def __init__(self):
        self.up = nn.Linear(4, 8)
        self.down = nn.Linear(8, 2, bias=False)

    def forward(self, x: Tensor):
        return self.down(op.relu(self.up(x)))


X = {"x": spec.Tensor(["n", 4], "float32")}


def test_a_module_is_a_function_of_inputs_and_parameters():
    @I.ir_module
    class Expected:
        @R.function
        def forward(
            x: R.Tensor(("n", 4), "float32"),
            up_weight: R.Tensor((8, 4), "float32"),
            up_bias: R.Tensor((8,), "float32"),
            down_weight: R.Tensor((2, 8), "float32"),
        ) -> R.Tensor(("n", 2), "float32"):
            n = T.int64()
            R.func_attr({"num_input": 1})
            with R.dataflow():
                permute_dims: R.Tensor((4, 8), "float32") = R.permute_dims(up_weight)
                matmul: R.Tensor((n, 8), "float32") = R.matmul(x, permute_dims)
                add: R.Tensor((n, 8), "float32") = R.add(matmul, up_bias)
                relu: R.Tensor((n, 8), "float32") = R.nn.relu(add)
                permute_dims1: R.Tensor((8, 2), "float32") = R.permute_dims(down_weight)
                matmul1: R.Tensor((n, 2), "float32") = R.matmul(relu, permute_dims1)
                gv: R.Tensor((n, 2), "float32") = matmul1
                R.output(gv)
            return gv

    model = MLP()
    mod, params = model.export_tvm({"forward": X})
    assert_structural_equal(mod, Expected)
    assert params == [("up.weight", model.up.weight), ("up.bias", model.up.bias), ("down.weight", model.down.weight)]
    assert [param.name_hint for param in mod["forward"].params] == ["x", *(name for name, _ in params)]


def signature(mod, name="forward"):
    return [f"{param.name_hint}: {param.struct_info}" for param in mod[name].params]


def test_parameters_in_a_tuple():
    mod, _ = MLP().export_tvm({"forward": {**X, "$": {"param_mode": "packed"}}})
    fields = 'R.Tensor((8, 4), dtype="float32"), R.Tensor((8,), dtype="float32"), R.Tensor((2, 8), dtype="float32")'
    assert signature(mod) == ['x: R.Tensor((n, 4), dtype="float32")', f"packed_params: R.Tuple({fields})"]
    rng = np.random.default_rng(0)
    x, *weights = (rng.standard_normal(shape).astype("float32") for shape in ((3, 4), (8, 4), (8,), (2, 8)))
    relu = np.maximum(x @ weights[0].T + weights[1], 0)
    np.testing.assert_allclose(results(mod, x, tuple(weights))[0], relu @ weights[2].T, rtol=1e-5)


def test_functions_without_parameters():
    class Scale(MLP):
        def scaled(self, x: Tensor, factor: Tensor):
            return x * factor

    given = {**X, "factor": spec.Tensor([], "float32"), "$": {"param_mode": "none", "effect_mode": "none"}}
    mod, params = Scale().export_tvm({"scaled": given})
    assert signature(mod, "scaled") == ['x: R.Tensor((n, 4), dtype="float32")', 'factor: R.Tensor((), dtype="float32")']
    assert len(params) == 3


def test_methods_share_the_parameters():
    class Two(MLP):
        def hidden(self, x: Tensor):
            return self.up(x)

    mod, params = Two().export_tvm({"hidden": X, "forward": X})
    assert [var.name_hint for var in mod.functions] == ["hidden", "forward"]
    assert signature(mod, "hidden") == signature(mod, "forward")
    assert [param.dtype for _, param in params] == ["float32"] * 3


def test_a_shared_parameter_comes_once():
    class Tied(nn.Module):
        def __init__(self):
            self.embed = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: Tensor):
            return self.head(self.embed(ids))

    mod, params = Tied().export_tvm({"forward": {"ids": spec.Tensor(["n"], "int32")}})
    assert [name for name, _ in params] == ["embed.weight"]
    w = np.random.default_rng(0).standard_normal((10, 4)).astype("float32")
    np.testing.assert_allclose(results(mod, np.array([3, 1], "int32"), w)[0], w[[3, 1]] @ w.T, rtol=1e-4, atol=1e-6)


# ------------------------------------------------------------------------------------ sizes


def test_equal_names_are_one_size():
    def forward(x: Tensor, y: Tensor, n: tir.Var):
        assert x.shape[0] is y.shape[1]
        assert n is x.shape[0]
        return op.reshape(x, (n * 2, 2))

    shapes = {"x": spec.Tensor(["n", 4], "float32"), "y": spec.Tensor([1, "n"], "float32"), "n": int}
    mod, _ = Method(forward).export_tvm({"forward": shapes})
    assert signature(mod) == [
        'x: R.Tensor((n, 4), dtype="float32")',
        'y: R.Tensor((1, n), dtype="float32")',
        "n: R.Shape([n])",
    ]
    assert str(mod["forward"].ret_struct_info) == 'R.Tensor((n * 2, 2), dtype="float32")'


def test_sizes_of_parameters_are_those_of_inputs():
    class Vocabulary(nn.Module):
        def __init__(self):
            self.embed = nn.Embedding("vocab_size", 4)

        def forward(self, ids: Tensor, mask: Tensor):
            assert self.embed.weight.shape[0] is mask.shape[0]
            return op.add(op.matmul(self.embed(ids), op.permute_dims(self.embed.weight)), mask)

    given = {"ids": spec.Tensor(["n"], "int32"), "mask": spec.Tensor(["vocab_size"], "float32")}
    mod, params = Vocabulary().export_tvm({"forward": given})
    assert str(mod["forward"].ret_struct_info) == 'R.Tensor((n, vocab_size), dtype="float32")'
    assert repr(params[0][1]) == 'Tensor([vocab_size, 4], "float32")'


def test_sizes_of_parameters_that_are_expressions():
    class Halves(nn.Module):
        def __init__(self):
            n = tir.Var("n", "int64")
            self.weight = nn.Parameter((n * 2,))

        def forward(self, x: Tensor):
            return op.sum(self.weight) + x

    mod, _ = Halves().export_tvm({"forward": {"x": spec.Tensor(["n"], "float32")}})
    assert signature(mod) == ['x: R.Tensor((n,), dtype="float32")', 'weight: R.Tensor((n * 2,), dtype="float32")']
    np.testing.assert_array_equal(results(mod, np.zeros(2, "float32"), np.ones(4, "float32"))[0], [4, 4])


def test_a_size_that_is_an_expression():
    n = tir.Var("n", "int64")
    mod, _ = Method(lambda x, y: (x, y)).export_tvm(
        {"forward": {"x": spec.Tensor([n], "int32"), "y": spec.Tensor([n + 1], "int32")}}
    )
    assert signature(mod) == ['x: R.Tensor((n,), dtype="int32")', 'y: R.Tensor((n + 1,), dtype="int32")']


def test_functions_have_sizes_of_their_own():
    n = tir.Var("n", "int64")

    class Two(nn.Module):
        def first(self, x):
            return x + 1

        def second(self, x):
            return op.reshape(x, (n, 2))

    mod, _ = Two().export_tvm({name: {"x": spec.Tensor([2, n], "int32")} for name in ("first", "second")})
    x = np.arange(6, dtype="int32").reshape(2, 3)
    np.testing.assert_array_equal(results(mod, x, name="first")[0], x + 1)
    np.testing.assert_array_equal(results(mod, x, name="second")[0], x.reshape(3, 2))


def test_tuples_and_objects():
    class Cache(nn.Object):
        pass

    def forward(pair, cache):
        assert isinstance(pair, list)
        assert isinstance(cache, Cache)
        return pair[1], (cache, pair[0])

    pair = [spec.Tensor([2], "int32"), (int, spec.Tensor(["n"], "float32"))]
    mod, _ = Method(lambda pair, cache: (pair[1][1], cache)).export_tvm(
        {"forward": {"pair": pair, "cache": spec.Object(object_type=Cache)}}
    )
    assert signature(mod) == [
        'pair: R.Tuple(R.Tensor((2,), dtype="int32"), R.Tuple(R.Shape([pair_1_0]), R.Tensor((n,), dtype="float32")))',
        "cache: R.Object",
    ]
    assert str(mod["forward"].ret_struct_info) == 'R.Tuple(R.Tensor((n,), dtype="float32"), R.Object)'
    Method(forward).export_tvm({"forward": {"pair": [int, spec.Tensor([1], "int32")][::-1], "cache": Cache}})


# ------------------------------------------------------------------------------------ effects


class Decoder(nn.Module):
    def __init__(self):
        self.cache = nn.KVCache(2, [3])

    def forward(self, x: Tensor, total: tir.Var):
        self.cache.append(x)
        return self.cache.view(total)


def test_effects_are_taken_and_returned():
    @I.ir_module
    class Expected:
        @R.function
        def _initialize_effect() -> R.Tuple(R.Object):
            with R.dataflow():
                lv: R.Tensor((2, 3), "float32") = R.zeros(R.shape([2, 3]), "float32")
                cache: R.Object = R.call_pure_packed(
                    "vm.builtin.attention_kv_cache_create", lv, R.shape([2, 3]), R.prim_value(0), sinfo_args=R.Object
                )
                lv1: R.Tuple(R.Object) = (cache,)
                gv: R.Tuple(R.Object) = lv1
                R.output(gv)
            return gv

        @R.function
        def forward(x: R.Tensor((1, 3), "float32"), total: R.Shape(["t"]), cache: R.Object) -> R.Tuple(
            R.Tensor(("t", 3), "float32"), R.Tuple(R.Object)
        ):
            t = T.int64()
            R.func_attr({"num_input": 3})
            with R.dataflow():
                lv: R.Object = R.call_inplace_packed(
                    "vm.builtin.attention_kv_cache_append", cache, x, inplace_indices=[0], sinfo_args=R.Object
                )
                lv1: R.Tensor((t, 3), "float32") = R.call_pure_packed(
                    "vm.builtin.attention_kv_cache_view", lv, R.shape([t, 3]), sinfo_args=R.Tensor((t, 3), "float32")
                )
                gv: R.Tuple(R.Tensor((t, 3), "float32"), R.Tuple(R.Object)) = (lv1, (lv,))
                R.output(gv)
            return gv

    mod, _ = Decoder().export_tvm({"forward": {"x": spec.Tensor([1, 3], "float32"), "total": int}})
    assert_structural_equal(mod, Expected)


@pytest.mark.parametrize("mode", ["plain", "packed"])
@pytest.mark.parametrize("debug", [False, True])
def test_caches_grow(mode, debug):
    given = {"x": spec.Tensor([1, 3], "float32"), "total": int, "$": {"effect_mode": mode}}
    mod, _ = Decoder().export_tvm({"forward": given}, debug=debug)
    vm = relax.VirtualMachine(relax.build(mod), relax.cpu())
    effects = tuple(vm["_initialize_effect"]())
    assert len(effects) == 1 + debug
    rows = np.arange(15, dtype="float32").reshape(5, 3)
    for count in range(1, 6):
        given = effects if mode == "plain" else [effects]
        rows_so_far, effects = vm["forward"](rows[count - 1 : count], relax.ShapeTuple((count,)), *given)
        np.testing.assert_array_equal(rows_so_far.numpy(), rows[:count])


def test_an_effect_outside_of_its_functions():
    given = {"x": spec.Tensor([1, 3], "float32"), "total": int, "$": {"effect_mode": "none"}}
    with pytest.raises(RuntimeError, match='KVCache has no state here: its method must be exported with "effect_mode"'):
        Decoder().export_tvm({"forward": given})


def test_rows_of_another_dtype():
    given = {"x": spec.Tensor([1, 3], "float16"), "total": int}
    with pytest.raises(TypeError, match='a cache of float32 cannot append Tensor.*"float16"'):
        Decoder().export_tvm({"forward": given})
    model = Decoder()
    with pytest.raises(TypeError, match="a cache of float32 cannot append"):
        model.export_tvm({"forward": given})
    assert not model.cache.in_function


def test_output_in_order(capsys):
    def forward(x):
        op.print_(x)
        op.print_(x + 1)
        return x

    mod, _ = Method(forward).export_tvm({"forward": {"x": spec.Tensor([2], "float32")}}, debug=True)
    for mode in ("compiled", "bytecode", "interpreted"):
        x = np.array([1, 2], "float32")
        if mode == "interpreted":
            relax.interpret(mod, "forward", x, relax.interpret(mod, "_initialize_effect")[0])
        else:
            vm = relax.VirtualMachine(relax.build(mod, exec_mode=mode), relax.cpu())
            vm["forward"](x, vm["_initialize_effect"]()[0])
        first = forward.__code__.co_firstlineno
        assert capsys.readouterr().out == (
            f"{__file__}:{first + 1}: shape = (2,), dtype = float32, data =\n[1. 2.]\n"
            f"{__file__}:{first + 2}: shape = (2,), dtype = float32, data =\n[2. 3.]\n"
        )


def test_debug_functions_get_their_arguments():
    seen = []

    @relax.register_func("test.nn.debug", override=True)
    def debug(place, tensor, *others):
        seen.append((place.rpartition(":")[0], tensor, others))

    def forward(x):
        y = x * 2
        op.debug_func("test.nn.debug", y, x.shape[0], 1.5, "text")
        return y * y

    mod, _ = Method(forward).export_tvm({"forward": {"x": spec.Tensor(["n"], "float32")}}, debug=True)
    vm = relax.VirtualMachine(relax.build(mod), relax.cpu())
    vm["forward"](np.array([1, 2], "float32"), None)
    ((place, tensor, others),) = seen
    assert (place, others) == (__file__, (2, 1.5, "text"))
    np.testing.assert_array_equal(tensor.numpy(), [2, 4])


def test_a_debug_function_that_nobody_registered():
    mod, _ = Method(lambda x: op.debug_func("test.nn.none", x) or x).export_tvm(
        {"forward": {"x": spec.Tensor([2], "float32")}}, debug=True
    )
    vm = relax.VirtualMachine(relax.build(mod), relax.cpu())
    with pytest.raises(ValueError, match=r"debug_func: no packed function 'test\.nn\.none' is registered"):
        vm["forward"](np.zeros(2, "float32"), None)


def test_output_needs_debug():
    with pytest.raises(RuntimeError, match="debug_func and print_ need a module that is exported with debug=True"):
        Method(lambda x: op.print_(x) or x).export_tvm({"forward": {"x": spec.Tensor([2], "float32")}})


# ------------------------------------------------------------------------------------ errors


class Broken(nn.Module):
    def __init__(self):
        self.layers = [nn.Linear(4, 4)]
        self.weight = nn.Parameter((4, 4))

    def forward(self, x):
        return self.layers[0](x)

    def times(self, x):
        return op.matmul(x, self.weight)

    def nothing(self, x):
        return {"y": x}


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            {"forward": X},
            ValueError,
            r"forward uses 'param', of R.Tensor\(\(4, 4\).*found as attributes, and in nn.Mod",
        ),
        (
            {"times": {**X, "$": {"param_mode": "none"}}},
            ValueError,
            "times uses the parameter weight, and its spec says 'none' for param_mode",
        ),
        ({"nothing": X}, TypeError, "a method returned dict; it may return Tensors, Objects, and tuples of them"),
        ({"other": X}, ValueError, "Broken has no method 'other'"),
        ({"times": {}}, ValueError, "the spec of times lacks its parameters x"),
        ({"times": {**X, "y": int}}, ValueError, "times has no parameter 'y'; it has x"),
        ({"times": {"x": float}}, TypeError, r"x: expected int, spec.Tensor\(shape, dtype\).*found <class 'float'>"),
        (
            {"times": {**X, "$": {"param_mode": "all"}}},
            ValueError,
            'param_mode must be one of "plain", "packed", "none"',
        ),
        (
            {"times": {**X, "$": {"mode": "all"}}},
            ValueError,
            '"[$]" has "param_mode" and "effect_mode", found \'mode\'',
        ),
        ({"times": {"x": spec.Tensor([-1], "int32")}}, ValueError, "a size must not be negative, found -1"),
        ({"times": {"x": spec.Tensor([1.5], "int32")}}, TypeError, "a size must be an int, the name of a shape var"),
    ],
)
def test_refused(given, error, message):
    with pytest.raises(error, match=message):
        Broken().export_tvm(given)


def test_the_module_is_unchanged_after_an_error():
    model = Broken()
    before = model.weight._expr
    with pytest.raises(ValueError, match="lacks its parameters"):
        model.export_tvm({"times": {}})
    with pytest.raises(TypeError, match="a method returned dict"):
        model.export_tvm({"nothing": X})
    assert model.weight._expr is before


def test_texts_of_specs():
    given = {"times": {**X, "$": {"param_mode": "none"}}, "nothing": {"x": [int, spec.Object()]}}
    assert repr(spec.ModuleSpec.from_raw(given, Broken())) == (
        "ModuleSpec:\n  times(x: Tensor([n, 4], 'float32'))\n  nothing(x: (int, Object))"
    )


def test_specs_of_arguments():
    found = spec.MethodSpec.from_torch([nd.array(np.zeros((2, 3), "int8")), 4], lambda x, n: x)
    assert repr(found) == "MethodSpec(x: Tensor([2, 3], 'int8'), n: int)"
