"""Gradients of Relay: by hand, by finite differences in float64, and compiled."""

from __future__ import annotations

import numpy as np
import pytest
from test_meaning import CASES

from relax import DiagnosticError, relay
from relax.relay.testing import check_grad
from relax.relay.transform import gradient

MODES = ("first_order", "higher_order")
CLOSURES = {
    "branch": ("fn(%x: float64) { if (%x > 0f64) { %x * %x } else { negative(%x) } }", 3.0, (9, 6)),
    "other branch": ("fn(%x: float64) { if (%x > 0f64) { %x * %x } else { negative(%x) } }", -3.0, (3, -1)),
    "recursion": (
        """fn(%x: float64) {
          let %power = fn(%n: int32) -> float64 { if (%n == 0) { 1f64 } else { %x * %power(%n - 1) } };
          %power(4)
        }""",
        2.0,
        (16, 32),
    ),
    "reference": (
        """fn(%x: float64) {
          let %r = ref(%x);
          ref_write(%r, ref_read(%r) * %x);
          ref_write(%r, ref_read(%r) * %x);
          ref_read(%r)
        }""",
        2.0,
        (8, 12),
    ),
    "polymorphic function": ("fn(%x: float64) { let %id = fn(%y) { %y }; %id(%x) + %id((%x, 1)).0 * %x }", 2.0, (6, 5)),
    "function with relations": ("fn(%x: float64) { let %square = fn(%y) { %y * %y }; %square(%x) * %x }", 2.0, (8, 12)),
    "operator as a value": (
        "fn(%x: float64) { let %twice = fn(%f: fn(float64) -> float64) { %f(%f(%x)) }; %twice(negative) * %x }",
        2.0,
        (4, 4),
    ),
    "closure": (
        "fn(%x: float64) { let %g = fn(%a: float64) { fn(%b: float64) { %a * %b } }; %g(%x)(%x * %x) }",
        2.0,
        (8, 12),
    ),
    "a node used twice": ("fn(%x: float64) { %1 = %x * %x; %2 = %1 * %1; %2 * %1 }", 2.0, (64, 192)),
}


@pytest.mark.parametrize("name", CLOSURES)
def test_higher_order(name):
    text, x, expected = CLOSURES[name]
    function = gradient(relay.parse_expr(text))
    value, (by_x,) = relay.create_executor().evaluate(function)(np.float64(x))
    assert (value.numpy(), by_x.numpy()) == expected


def test_data_types_and_global_functions():
    mod = relay.parse("""#[version = "0.0.5"]
import "prelude.rly"
def @square(%x: float64) -> float64 { %x * %x }
def @main(%x: float64) -> (float64, float64) {
  let %list = Cons(%x, Cons(%x * 3f64, Nil));
  let %sum = @foldl(fn(%a: float64, %b: float64) -> float64 { %a + %b * %b }, 0f64, @map(fn(%y: float64) -> float64 { %y * %x }, %list));
  (%sum, @iterate(@square, 2)(%x))
}
""")
    function = gradient(mod["main"], mod)
    (total, power), (by_x,) = relay.create_executor("debug", mod).evaluate(function)(np.float64(2))
    assert (total.numpy(), power.numpy()) == (160, 16)
    assert by_x.numpy() == 40 * 8 + 4 * 8  # of 10 x⁴ + x⁴
    assert "map_grad" in mod


def tree(value, dtype):
    """The value with its floats in a dtype."""
    if isinstance(value, tuple):
        return tuple(tree(field, dtype) for field in value)
    return value.astype(dtype) if value.dtype.kind == "f" else value


def variables(value, name, params):
    """The expression of an operand, whose variables are added to the parameters with their values."""
    if isinstance(value, tuple):
        return relay.Tuple([variables(v, f"{name}_{i}", params) for i, v in enumerate(value)])
    params.append((relay.var(name, shape=value.shape, dtype=value.dtype.name), value))
    return params[-1][0]


WITHOUT = {"strided_slice": "a step backwards", "nn.upsampling": "no rule", "nn.pad": "a constant operand, below"}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [name for name in CASES if name not in WITHOUT])
def test_gradients_are_those_of_differences(name, dtype):
    make, operands, attrs, _ = CASES[name]
    params = []
    args = [variables(value, f"x{i}", params) for i, value in enumerate(tree(operands, dtype))]
    body = make()(*args, **attrs)
    function = relay.Function([var for var, _ in params], body.astuple() if hasattr(body, "astuple") else body)
    check_grad(function, [value for _, value in params], mode="first_order")


FUNCTIONS = {
    "convolution": (
        """fn(%x: Tensor[(1, 2, 4, 4), float64], %w: Tensor[(2, 2, 3, 3), float64], %b: Tensor[(2), float64]) {
          %0 = nn.bias_add(nn.conv2d(%x, %w, padding=[1, 1]), %b);
          nn.max_pool2d(%0, pool_size=[2, 2], strides=[2, 2])
        }"""
    ),
    "batch_norm": (
        """fn(%x: Tensor[(2, 3), float64], %g: Tensor[(3), float64], %b: Tensor[(3), float64],
           %m: Tensor[(3), float64], %v: Tensor[(3), float64]) {
          let %n = nn.batch_norm(%x, %g, %b, %m, exp(%v));
          (tanh(%n.0), %n.2)
        }"""
    ),
    "pad and take": (
        """fn(%x: Tensor[(2, 3), float64], %i: Tensor[(2), float64]) {
          let %p = nn.pad(%x, 0f64, pad_width=[[0, 1], [2, 0]]);
          let %index = cast(%i * 9f64, dtype="int32");
          sum(take(%p, %index, axis=1)) * take(%p, %index, axis=0, mode="wrap")
        }"""
    ),
    "several results": (
        """fn(%x: Tensor[(2, 4), float64], %t: (float64, (float64, float64))) {
          let %s = split(%x, indices_or_sections=2, axis=1);
          (%s.1 * %t.0, concatenate((%s.0, %s.1, %s.0), axis=1) * %t.1.1)
        }"""
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "several results"])
def test_functions(name, mode):
    check_grad(relay.parse_expr(FUNCTIONS[name]), mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_parameters_and_results_that_are_tuples(mode):
    function = gradient(relay.parse_expr(FUNCTIONS["several results"]), mode=mode)
    x = np.arange(8, dtype="float64").reshape(2, 4)
    _, (by_x, (by_first, (by_second, by_third))) = relay.create_executor().evaluate(function)(
        x, (np.float64(2), (np.float64(3), np.float64(5)))
    )
    assert by_x.numpy().tolist() == [[10, 10, 7, 7], [10, 10, 7, 7]]
    assert (by_first.numpy(), by_second.numpy(), by_third.numpy()) == (18, 0, 2 * 10 + 18)


def test_first_order_is_a_graph():
    function = gradient(relay.parse_expr("fn(%x: float32) { let %y = %x * %x; tanh(%y) }"), mode="first_order")
    expected = relay.parse_expr("""
fn (%x: float32) {
  %0 = multiply(%x, %x);
  %1 = tanh(%0);
  %2 = multiply.grad(%x, %x, tanh.grad(%0, ones_like(%1)).0);
  (%1, (%2.0 + %2.1,))
}""")
    relay.assert_alpha_equal(function, expected)


def test_gradients_of_gradients():
    cube = relay.parse_expr("fn(%x: float64) { %x * %x * %x }")
    first = gradient(cube, mode="first_order")
    second = gradient(relay.Function(first.params, first.body.fields[1].fields[0]), mode="first_order")
    _, (by_x,) = relay.create_executor().evaluate(second)(np.float64(5))
    assert by_x.numpy() == 30


def test_compiled():
    x, w, b = (relay.var(name, shape=shape) for name, shape in (("x", (relay.Any(), 3)), ("w", (2, 3)), ("b", (2,))))
    dense = relay.nn.bias_add(relay.nn.dense(x, w), b, axis=-1)
    loss = relay.sum(relay.nn.log_softmax(dense))
    function = gradient(relay.Function([x, w, b], loss), mode="first_order")
    arrays = [np.random.default_rng(3).standard_normal(shape).astype("float32") for shape in ((4, 3), (2, 3), (2,))]
    results = [
        relay.create_executor(kind, relay.IRModule.from_expr(function)).evaluate()(*arrays) for kind in ("debug", "vm")
    ]
    for expected, found in zip(results[0][1], results[1][1], strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("fn(%x: float32) { if (True) { %x } else { %x } }", "first_order", "this If has no first-order gradient"),
        ("fn(%x: float32) { let %f = fn(%y: float32) { %y }; %f(%x) }", "first_order", "this Function has no"),
        ("fn(%f: fn() -> float32) { %f() }", "higher_order", "the parameter %f is of type fn"),
        ("fn(%x: float32) { fn() { %x } }", "higher_order", "the result is of type fn"),
        (
            "fn(%x: Tensor[(1, 2, 5, 5), float32], %r: Tensor[(1, 5), float32]) "
            "{ vision.roi_align(%x, %r, pooled_size=[2, 2], spatial_scale=1.0, sample_ratio=2) }",
            "first_order",
            "vision.roi_align has no gradient here",
        ),
        (
            'fn(%x: Tensor[(2), float32]) { nn.pad(%x, 0f, pad_width=[[1, 1]], pad_mode="edge") }',
            "higher_order",
            "nn.pad has no gradient in the mode 'edge'",
        ),
    ],
)
def test_what_has_no_gradient(text, mode, message):
    with pytest.raises(DiagnosticError, match=f"(?s)E9060.*{message}.*<string>:1"):
        gradient(relay.parse_expr(text), mode=mode)


def test_a_data_type_that_holds_tensors_itself():
    mod = relay.parse("""
type Shape { Circle(float32) }
def @main(%x: float32) -> float32 { match (Circle(%x)) { Circle(%r) => %r } }
""")
    with pytest.raises(DiagnosticError, match="E9060.*Circle holds a float32"):
        gradient(mod["main"], mod)


def test_modes():
    with pytest.raises(ValueError, match="the mode is higher_order or first_order, found 'second'"):
        gradient(relay.parse_expr("fn(%x: float32) { %x }"), mode="second")


def test_a_gradient_that_is_wrong_is_noticed():
    relay.register_operator("test.double", 1, **{"relay.meaning": lambda a, x: x + x})
    relay.register_gradient("test.double", lambda call, grad: [grad])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_grad(relay.parse_expr("fn(%x: Tensor[(2), float64]) { test.double(%x) }"))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("text", ["reshape(%x, newshape=[4, 3])", 'cast(%x * %x, dtype="float32")', "nn.relu(%x)"])
def test_differences_of_narrow_floats_are_taken_in_float64(text, dtype):
    """Values of size 1 with the step 1e-6, which these dtypes do not resolve."""
    check_grad(relay.parse_expr(f"fn(%x: Tensor[(3, 4), {dtype}]) {{ {text} }}"), rtol=1e-2)


def test_differences_of_a_module_are_taken_in_float64():
    mod = relay.parse("""#[version = "0.0.5"]
def @halve(%x: Tensor[(3), float32]) -> Tensor[(3), float32] { %x * 0.5f }
def @main(%x: Tensor[(3), float32]) -> Tensor[(3), float32] { let %y: Tensor[(3), float32] = @halve(%x); %y * %y }
""")
    check_grad(mod["main"], mod=mod)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_a_convolution_of_float32(mode):
    x, w = relay.var("x", shape=(1, 2, 6, 6)), relay.var("w", shape=(3, 2, 3, 3))
    conv = relay.nn.conv2d(x, w, padding=1, out_dtype="float32")
    check_grad(relay.Function([x, w], conv), mode=mode, executor_kind="vm")


def test_a_wrong_gradient_of_float32_is_noticed():
    relay.register_operator("test.triple", 1, **{"relay.meaning": lambda a, x: x + x + x})
    relay.register_gradient("test.triple", lambda call, grad: [grad * relay.const(2.99)])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_grad(relay.parse_expr("fn(%x: Tensor[(2), float32]) { test.triple(%x) }"))


def test_a_chain_of_lets_takes_linear_time():
    text = "".join(f"let %x{i + 1} = %x{i} * %x{i};\n" for i in range(300))
    for mode in MODES:
        function = gradient(relay.parse_expr(f"fn(%x0: float32) {{ {text} %x300 }}"), mode=mode)
        assert relay.analysis.well_formed(function)
