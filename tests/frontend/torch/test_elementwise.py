"""Element-wise operators of torch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

HARD = torch.tensor(
    [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 30.0, -100.0, 1e-8, -1e-8, 1e30, float("inf"), -float("inf"), float("nan")]
)

FUNCTIONS = [
    torch.abs, torch.neg, torch.exp, torch.exp2, torch.expm1, torch.log, torch.log1p, torch.log2, torch.log10,
    torch.sqrt, torch.rsqrt, torch.square, torch.reciprocal, torch.erf, torch.tanh, torch.sigmoid, torch.sinh,
    torch.cosh, torch.asinh, torch.atan, torch.sign, torch.floor, torch.ceil, torch.round, torch.trunc, torch.relu,
    torch.isnan, torch.isinf, torch.isfinite, torch.logical_not, F.relu6, F.silu, F.selu, F.elu, F.celu, F.mish,
    F.gelu, F.hardswish, F.hardsigmoid, F.hardtanh, F.leaky_relu, F.softplus, F.logsigmoid, F.softsign, F.tanhshrink,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_of_one_tensor(agrees, function):
    """Of infinity torch gives NaN for gelu, and of -infinity for silu, where Relax gives the limits."""
    hard = HARD[HARD.isfinite()] if function in (F.silu, F.gelu) else HARD
    others = [(hard,), (HARD[:0],), (HARD[2:3],), (torch.linspace(-4, 4, 17),)]
    agrees(function, torch.linspace(-3, 3, 13), dynamic=[[0]], others=others, tolerance=1e-5)


def test_functions_between_minus_one_and_one(agrees):
    def angles(x):
        return (
            torch.asin(x),
            torch.acos(x),
            torch.atanh(x),
            torch.sin(x),
            torch.cos(x),
            torch.tan(x),
            torch.acosh(x + 2),
        )

    agrees(angles, torch.linspace(-0.9, 0.9, 7), tolerance=1e-5)


def test_activations_with_parameters(agrees):
    def activated(x):
        return (
            F.gelu(x, approximate="tanh"), F.elu(x, 0.5), F.celu(x, 2.0), F.leaky_relu(x, 0.2), F.softplus(x, 2.0, 5.0),
            F.threshold(x, 0.1, 20.0), F.hardtanh(x, -0.5, 0.75), F.glu(x, 1), F.prelu(x, torch.tensor([0.1, 0.2, 0.3, 0.4])),
        )  # fmt: skip

    agrees(activated, torch.randn(3, 4), dynamic=[[0]], others=[(torch.randn(0, 4),), (torch.randn(1, 4),)])


def test_arithmetic_promotes_as_torch_does(agrees):
    """Tensors without dimensions, and numbers, count less than tensors with some."""

    def mixed(i, f, h, b, s):
        return (
            i + f, i + 1, i + 1.5, f + 1, h + 1.5, h + f, b + i, b + 1, i / 2, i / i, i // 2, i * True, h + s, i + s,
            torch.add(f, i, alpha=2), torch.sub(f, 3, alpha=2), 1 - i, 2.0 / f, i < f, i == 2.5, b + b, b * b,
        )  # fmt: skip

    i, f, h = torch.arange(1, 6), torch.linspace(-2, 2, 5), torch.linspace(-1, 1, 5).half()
    agrees(mixed, i, f, h, f > 0, torch.tensor(2.5, dtype=torch.float64), tolerance=1e-3)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.float32])
def test_division_and_remainders(agrees, dtype):
    def divided(a, b):
        rounded = [torch.div(a, b, rounding_mode=mode) for mode in ("floor", "trunc")]
        return *rounded, torch.remainder(a, b), torch.fmod(a, b), a // b

    a = torch.tensor([7, -7, 7, -7, 0, 6]).to(dtype)
    agrees(divided, a, torch.tensor([2, 2, -2, -2, 5, 3]).to(dtype))


def test_comparisons_and_logic(agrees):
    def compared(a, b):
        p, q = a > b, a != 0
        return (
            p,
            q,
            a >= b,
            a <= 0,
            p & q,
            p | q,
            p ^ q,
            ~p,
            torch.logical_and(a, b),
            torch.logical_xor(a, b),
            torch.where(p, a, b),
        )

    nan = float("nan")
    agrees(compared, torch.tensor([1.0, nan, 0.0, -1.0]), torch.tensor([0.0, 1.0, nan, 5.0]))


def test_bits_of_integers(agrees):
    def bits(a, b):
        return a & b, a | b, a ^ b, ~a, a << 2, a >> 1

    agrees(bits, torch.tensor([1, -5, 1000]), torch.tensor([3, 9, -1]))


def test_limits(agrees):
    def limited(x, y):
        return (
            x.clamp(-1, 1),
            x.clamp(min=0),
            x.clamp(max=y),
            torch.maximum(x, y),
            torch.minimum(x, y),
            x.clamp_min(2),
        )

    agrees(limited, HARD, HARD.flip(0))


def test_powers_and_interpolation(agrees):
    def powers(x, y):
        named = [x**n for n in (0, 1, 2, 3, -1, 0.5, -0.5, 1.7)]
        return (
            *named,
            2**x,
            torch.pow(x, y),
            torch.lerp(x, y, 0.3),
            torch.lerp(x, y, 0.8),
            torch.addcmul(x, x, y, value=2),
            torch.addcdiv(x, x, y),
        )

    agrees(powers, torch.linspace(0.1, 3, 7), torch.linspace(1, 2, 7), tolerance=1e-5)


def test_masks_and_fills(agrees):
    def filled(x, m):
        return x.masked_fill(m, -1e9), x.masked_fill(~m, float("-inf")), torch.where(m, x, 0.0), x * m

    agrees(
        filled,
        torch.randn(2, 5),
        torch.rand(2, 5) > 0.5,
        dynamic=[[0], [0]],
        others=[(torch.randn(0, 5), torch.zeros(0, 5) > 0)],
    )


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.uint8, torch.bool]
)
def test_conversions(agrees, dtype):
    agrees(lambda x: (x.to(dtype), x.int().to(dtype), x.to(dtype).float()), torch.tensor([0.0, 1.0, 2.5, 100.25]))


def test_softmax(agrees):
    def normed(x):
        return (
            F.softmax(x, -1),
            F.log_softmax(x, 0),
            F.softmax(x.half(), 1, dtype=torch.float32),
            F.softmax(x[0, 0], 0),
        )

    agrees(normed, torch.randn(3, 7), dynamic=[[1]], others=[(torch.randn(3, 1),)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int32])
def test_angles(agrees, dtype):
    """Every pair of zeros, infinities, NaN and ordinary numbers has the angle, and the sign, that torch gives it."""
    numbers = torch.tensor([0.0, -0.0, 1, -1, 3, -7, 0.5, 1e4])
    if dtype.is_floating_point:
        numbers = torch.cat([numbers, torch.tensor([float("inf"), float("-inf"), float("nan"), 1e-4])])
    numbers = numbers.to(dtype)
    y, x = (part.flatten() for part in torch.meshgrid(numbers, numbers, indexing="ij"))
    others = [(y[:count], x[:count]) for count in (0, 1)]

    def angles(y, x):
        angle = torch.atan2(y, x)
        return angle, torch.copysign(torch.ones_like(angle), torch.nan_to_num(angle, 1))

    agrees(angles, y, x, dynamic=[[0], [0]], others=others, tolerance=1e-3 if dtype == torch.float16 else 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lengths_signs_and_limits_beside_nan(agrees, dtype):
    hard = HARD.to(dtype)
    y, x = (part.flatten() for part in torch.meshgrid(hard, hard, indexing="ij"))

    def compared(y, x):
        return torch.hypot(y, x), torch.copysign(y, x), torch.fmax(y, x), torch.fmin(y, x)

    agrees(compared, y, x, dynamic=[[0], [0]], others=[(y[:n], x[:n]) for n in (0, 1)])
    agrees(lambda x: (torch.copysign(x, -2.0), torch.fmax(x.int(), -x.int())), torch.randn(5, dtype=dtype))


def test_lengths_of_great_numbers(agrees):
    agrees(torch.hypot, torch.tensor([3e38, 1e-30, 0.0]), torch.tensor([1e38, 1e-30, 0.0]))


def test_rows_without_keys_have_a_softmax_of_zeros(agrees):
    x = torch.full((3, 4), float("-inf"))
    x[0] = 1
    agrees(
        lambda x: (torch.ops.aten._safe_softmax(x, -1), torch.ops.aten._safe_softmax(x, 0)),
        x, dynamic=[(0,)], others=((x[:1],), (x[1:],), (x[:0],)),
    )  # fmt: skip
    agrees(lambda x: torch.ops.aten._safe_softmax(x, 0), torch.tensor(float("-inf")))
