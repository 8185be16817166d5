"""SimplifyInference: normalisations as arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import assert_same_values, check, module, run

from relax import relay
from relax.relay.transform import SimplifyInference

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.random(shape, "float32") + np.float32(0.5)


def test_batch_norm():
    vectors = ", ".join(f"%{n}: Tensor[(3), float32]" for n in ("g", "b", "m", "v"))
    check(
        SimplifyInference(),
        f"fn(%x: Tensor[(2, 3, 4, 4), float32], {vectors}) {{ nn.batch_norm(%x, %g, %b, %m, %v, epsilon=0.001).0 }}",
        f"""fn(%x: Tensor[(2, 3, 4, 4), float32], {vectors}) {{
  %1 = %g * (1f / sqrt(%v + 0.001f));
  %2 = negative(%m * %1) + %b;
  %x * expand_dims(%1, axis=1, num_newaxis=2) + expand_dims(%2, axis=1, num_newaxis=2)
}}""",
        floats(2, 3, 4, 4), *(floats(3) for _ in range(4)),
        rtol=1e-5,
    )  # fmt: skip


def test_dropout_is_the_data_itself():
    check(SimplifyInference(), "fn(%x: float32) { nn.dropout(%x).0 * 2f }", "fn(%x: float32) { %x * 2f }", 3.0)


@pytest.mark.parametrize(
    ("call", "shapes"),
    [
        ("nn.batch_norm(%x0, %x1, %x2, %x3, %x4, axis=-1, scale=False).0", [(2, 3), (3,), (3,), (3,), (3,)]),
        ("nn.batch_norm(%x0, %x1, %x2, %x3, %x4, center=False).1", [(2, 3), (3,), (3,), (3,), (3,)]),
        ("nn.layer_norm(%x0, %x1, %x2)", [(2, 3, 4), (4,), (4,)]),
        ("nn.layer_norm(%x0, %x1, %x2, axis=1, epsilon=0.01)", [(2, 3, 4), (3,), (3,)]),
        ("nn.instance_norm(%x0, %x1, %x2)", [(2, 3, 4, 4), (3,), (3,)]),
        ("nn.group_norm(%x0, %x1, %x2, num_groups=2)", [(2, 4, 3, 3), (4,), (4,)]),
        ("nn.l2_normalize(%x0, eps=0.001, axis=[1])", [(2, 3)]),
    ],
)
def test_values(call, shapes):
    params = ", ".join(f"%x{i}: Tensor[{tuple(s)}, float32]".replace(",)", ")") for i, s in enumerate(shapes))
    result = check_values(f"fn({params}) {{ {call} }}", [floats(*shape) for shape in shapes])
    assert "_norm" not in str(result["main"])
    assert "l2_normalize" not in str(result["main"])


def check_values(text, args):
    mod = module(text)
    result = run(SimplifyInference(), mod)
    assert_same_values(mod, result, args, rtol=1e-5)
    assert run(SimplifyInference(), result) is result
    return result


def test_an_unknown_number_of_dimensions_of_the_batch_is_no_obstacle():
    vector = relay.var("v", shape=(3,))
    x = relay.var("x", shape=(relay.Any(), 3))
    normal = relay.nn.batch_norm(x, vector, vector, vector, vector)[0]
    mod = relay.IRModule.from_expr(relay.Function([x, vector], normal))
    assert "batch_norm" not in str(run(SimplifyInference(), mod)["main"])
