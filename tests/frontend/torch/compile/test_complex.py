"""Complex tensors in torch.compile(backend="relax"): no node of these models runs in eager torch."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

from relax.frontend.torch import FallbackWarning  # noqa: E402
from relax.frontend.torch.compile import relax_backend  # noqa: E402
from relax.frontend.torch.compile.backend import compiled_graph  # noqa: E402
from relax.frontend.torch.compile.options import BackendOptions  # noqa: E402
from relax.frontend.torch.compile.piece import CompiledPiece  # noqa: E402
from support import PLAIN_LOOPS  # noqa: E402

BOTH = [torch.complex64, torch.complex128]


def numbers(*shape, dtype=torch.complex64):
    return torch.randn(*shape, dtype=dtype)


def compiled(function):
    """A function compiled for open sizes; what would run in eager torch is an error."""
    return torch.compile(
        function, backend=relax_backend, dynamic=True, options={"target": PLAIN_LOOPS, "fallback": False}
    )


def loss(results):
    """A real number of which the gradients by all results differ."""
    results = results if isinstance(results, tuple) else (results,)
    parts = [torch.view_as_real(item.resolve_conj()) if item.is_complex() else item for item in results]
    return sum((part * torch.linspace(0.5, 1.5, part.numel()).reshape(part.shape)).square().sum() for part in parts)


@pytest.fixture
def same():
    """The check that results and gradients are those of eager torch, by one compiled function for all operands."""

    def check(function, *operands, gradient=True, tolerance=1e-4):
        found_by = compiled(function)
        for inputs in operands:
            twins = [
                [
                    x.detach().clone().requires_grad_(gradient and (x.is_complex() or x.is_floating_point()))
                    for x in inputs
                ]
                for _ in range(2)
            ]
            expected, found = function(*twins[0]), found_by(*twins[1])
            torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
            if gradient:
                loss(expected).backward()
                loss(found).backward()
                for x, y in zip(*twins, strict=True):
                    torch.testing.assert_close(y.grad, x.grad, rtol=tolerance, atol=tolerance)

    return check


@pytest.fixture
def strict(twins):
    """A module, and a copy of it of which nothing may run in eager torch."""
    return lambda module: twins(module, target=PLAIN_LOOPS, fallback=False)


# ------------------------------------------------------------------------------------- models


class LlamaAttention(nn.Module):
    """Attention of 4 heads and 2 of keys, with rotary embeddings as the original code of Llama writes them."""

    def __init__(self, width=16, heads=4, groups=2, length=32):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.wq, self.wo = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.wk, self.wv = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        rates = 1 / 10000 ** (torch.arange(0, self.size, 2) / self.size)
        angles = torch.outer(torch.arange(length), rates)
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x, start=0):
        batch, length, _ = x.shape
        q = self.wq(x).view(batch, length, self.heads, self.size)
        k, v = (weight(x).view(batch, length, self.groups, self.size) for weight in (self.wk, self.wv))
        q, k = (self.turned(item, self.freqs_cis[start : start + length]) for item in (q, k))
        q, k, v = (item.repeat_interleave(self.heads // item.shape[2], 2).transpose(1, 2) for item in (q, k, v))
        result = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(result.transpose(1, 2).reshape(batch, length, -1))

    @staticmethod
    def turned(x, freqs_cis):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        turned = pairs * freqs_cis.view(1, x.shape[1], 1, pairs.shape[-1])
        return torch.view_as_real(turned).flatten(3).type_as(x)


def signals(*shapes):
    return [(torch.randn(shape),) for shape in shapes]


SIZES = signals((2, 5, 16), (3, 9, 16), (1, 1, 16))


def test_llama_attention_is_one_piece(strict, builds):
    module, call, _ = strict(LlamaAttention())
    with torch.no_grad():
        for (x,) in SIZES:
            torch.testing.assert_close(call(x), module(x))
        assert len(builds) == 2, "one for the sizes above 1, one for the sizes 1"
        assert all(len(program["main"].params) >= 6 for program in builds)


def test_gradients_of_llama_attention(strict, trains, builds):
    twin = strict(LlamaAttention())
    for (x,) in SIZES:
        trains(twin, x)
    assert len(builds) == 4, "forward and backward, for sizes above 1 and for sizes 1"


def test_llama_attention_in_bfloat16(strict):
    module = LlamaAttention()
    table = module.freqs_cis
    module = module.bfloat16()
    module.freqs_cis = table
    module, call, _ = strict(module)
    x = torch.randn(2, 5, 16).bfloat16()
    torch.testing.assert_close(call(x), module(x), rtol=2e-2, atol=2e-2)


def test_rotary_embeddings_of_computed_angles(same):
    """As Flux and DiT write them: torch.polar inside of the graph."""

    def rotary(x, positions):
        angles = positions[:, None] * 0.5 ** torch.arange(4.0)
        table = torch.polar(torch.ones_like(angles), angles)
        return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * table).flatten(-2)

    same(rotary, *[(torch.randn(b, n, 8), torch.arange(float(n))) for b, n in ((2, 5), (3, 9), (1, 1))])


class FNetBlock(nn.Module):
    """Mixing by a Fourier transform (Lee-Thorp et al., FNet, 2021)."""

    def __init__(self, width=16):
        super().__init__()
        self.norm, self.dense = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + F.gelu(self.dense(self.norm(x + torch.fft.fft2(x).real)))


@pytest.mark.parametrize("shape", [(2, 32, 16), (1, 1, 16)])
def test_fnet_is_one_piece(twins, trains, builds, shape):
    """Lengths of up to 64 are products with matrices."""
    trains(twins(FNetBlock(), dynamic=False, target=PLAIN_LOOPS, fallback=False), torch.randn(shape), tolerance=1e-3)
    assert len(builds) == 2, "forward and backward"


@pytest.mark.filterwarnings("error::relax.frontend.torch.FallbackWarning")
def test_torch_computes_transforms_of_open_lengths(strict, trains, builds):
    """Nothing warns of it: its library computes them faster."""
    twin = strict(FNetBlock())
    for (x,) in SIZES:
        trains(twin, x, tolerance=1e-3)
    assert builds


class Denoiser(nn.Module):
    """A mask of magnitudes between a short-time Fourier transform and its inverse."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))
        self.dense = nn.Linear(9, 9)

    def forward(self, x):
        spectrum = torch.stft(x, 16, 4, window=self.window, return_complex=True)
        mask = torch.sigmoid(self.dense(spectrum.abs().transpose(1, 2))).transpose(1, 2)
        return torch.istft(spectrum * mask, 16, 4, window=self.window)


def test_short_time_transforms(strict, trains, builds):
    twin = strict(Denoiser())
    for (x,) in signals((2, 40), (3, 64), (1, 41)):
        trains(twin, x, tolerance=1e-3)
    assert len(builds) == 4


class FourierOperator(nn.Module):
    """A layer of a Fourier neural operator (Li et al., 2020): weights of complex numbers for low frequencies."""

    def __init__(self, channels=3, modes=2):
        super().__init__()
        self.modes = modes
        self.low, self.high = (nn.Parameter(numbers(channels, channels, modes, modes) * 0.1) for _ in range(2))
        self.dense = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        m, *sizes = self.modes, x.size(-2), x.size(-1)
        spectrum = torch.fft.rfft2(x)
        result = torch.zeros_like(spectrum)
        result[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.low)
        result[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], self.high)
        return F.gelu(torch.fft.irfft2(result, s=sizes) + self.dense(x))


def test_a_fourier_operator_with_complex_parameters(twins, trains):
    twin = twins(FourierOperator(), target=PLAIN_LOOPS, fallback=False)
    for (x,) in signals((2, 3, 8, 8), (1, 3, 6, 9)):
        trains(twin, x, tolerance=1e-3)


# ------------------------------------------------------------------------------------- functions


@pytest.mark.parametrize("dtype", BOTH)
def test_complex_inputs_and_results(same, dtype):
    def function(a, b):
        return a * b, (a / (b + 3)).t(), a.conj() * b, torch.exp(a).real, a.sum(), (a - b).abs(), a @ b.mH

    same(function, *[(numbers(n, 3, dtype=dtype), numbers(n, 3, dtype=dtype)) for n in (2, 5, 1)])


def test_no_rows(same):
    same(lambda a: a * 2j + 1, *[(numbers(n, 3),) for n in (2, 0)], gradient=False)


def test_transforms_back_and_forth(same):
    def function(x):
        return torch.fft.irfft(torch.fft.rfft(x) * 2j, n=x.shape[-1]), torch.fft.ifft(torch.fft.fft(x)).imag

    same(function, *signals((2, 6), (3, 130), (2, 5)), tolerance=1e-3)


STRIDED = {
    "plain": lambda n: numbers(n, 4, 3),
    "transposed": lambda n: numbers(3, n, 4).permute(1, 2, 0),
    "every second": lambda n: numbers(n, 8, 3)[:, ::2],
    "expanded": lambda n: numbers(n, 1, 1).expand(n, 4, 3),
    "conjugated": lambda n: numbers(n, 4, 3).conj(),
    "adjoint": lambda n: numbers(n, 3, 4).mH,
    "offset": lambda n: numbers(n * 12 + 1)[1:].view(n, 4, 3),
}


@pytest.mark.parametrize("kind", STRIDED)
def test_inputs_that_lie_otherwise(kind):
    function = compiled(lambda z: (z * 2j, z.transpose(1, 2) + 1))
    for n in (2, 5, 1):
        z = STRIDED[kind](n)
        torch.testing.assert_close(function(z), (z * 2j, z.transpose(1, 2) + 1))


def test_conjugates_and_parts_as_results():
    """Views of inputs share their memory, as in eager torch."""

    def function(z):
        w = z * 2
        return z.conj(), z.real, z.imag, w.conj(), w.imag, w.conj().imag, torch.view_as_real(w), w.mH

    z = numbers(3, 4)
    results = compiled(function)(z)
    torch.testing.assert_close(results, function(z))
    assert all(view.untyped_storage().data_ptr() == z.untyped_storage().data_ptr() for view in results[:3])


def test_writes():
    def function(z):
        z.mul_(1j)
        z.real.add_(1)
        torch.view_as_real(z)[..., 1] *= 3
        return z.sum()

    call = compiled(function)
    for n in (2, 5):
        ours, torchs = (copy.deepcopy(x) for x in [numbers(n, 3)] * 2)
        torch.testing.assert_close(call(ours), function(torchs))
        torch.testing.assert_close(ours, torchs)


class Turned(torch.autograd.Function):
    """A copy whose gradient is conjugated lazily."""

    @staticmethod
    def forward(ctx, z):
        return z.clone()

    @staticmethod
    def backward(ctx, gradient):
        return (gradient * (1 + 3j)).conj()


@pytest.mark.parametrize(
    "function",
    [lambda x: torch.view_as_complex(x * 2), lambda x: torch.view_as_complex(x.transpose(0, 1).clone())],
    ids=["product", "views"],
)
def test_a_gradient_that_is_conjugated(function):
    """The backward graph was traced with one that is not; torch's own backend "aot_eager" raises an exception."""
    x, y = (torch.arange(12.0).reshape(3, 2, 2).requires_grad_() for _ in range(2))
    for call, operand in ((function, x), (compiled(function), y)):
        Turned.apply(call(operand)).abs().square().sum().backward()
    torch.testing.assert_close(y.grad, x.grad)


def test_a_graph_is_called_with_sizes_of_1(builds):
    """Torch makes graphs of their own for them; the piece of the graph for all sizes takes them as well."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def function(z, x):
        return z * x, (z + x).permute(2, 0, 1)

    graph = make_fx(function, tracing_mode="symbolic")(numbers(2, 3, 4), torch.randn(2, 3, 4))
    call = compiled_graph(graph, BackendOptions(tier="now", target=PLAIN_LOOPS))
    for shape in [(2, 3, 4), (1, 3, 4), (2, 3, 1), (1, 1, 1), (2, 0, 4)]:
        z, x = numbers(*shape), torch.randn(shape)
        torch.testing.assert_close(list(call(z, x)), list(function(z, x)))
    assert len(builds) == 1


def test_no_input_is_copied():
    from torch.fx.experimental.proxy_tensor import make_fx

    inputs = numbers(3, 4), numbers(4, 3).t()
    graph = make_fx(lambda z, w: z * w, tracing_mode="symbolic")(*inputs)
    call = compiled_graph(graph, BackendOptions(tier="now", target=PLAIN_LOOPS))
    call(*inputs)
    [piece] = [node.target for node in call.graph.nodes if isinstance(node.target, CompiledPiece)]
    passed, run = [], piece.run

    def noted(*operands):
        passed.extend(item.data_ptr() for item in operands if hasattr(item, "data_ptr"))
        return run(*operands)

    piece.run = noted
    call(*inputs)
    assert {item.data_ptr() for item in inputs} <= set(passed)


# ------------------------------------------------------------------------------------- eager torch


def test_an_operator_without_a_converter_for_complex_tensors():
    def function(z):
        return torch.logcumsumexp(z * 2, 1) * 1j

    call = torch.compile(function, backend="relax", options={"target": PLAIN_LOOPS})
    z = numbers(2, 3)
    with pytest.warns(FallbackWarning, match="aten.logcumsumexp.default: it has no converter for complex tensors"):
        torch.testing.assert_close(call(z), function(z))


@pytest.mark.filterwarnings("ignore:ComplexHalf:UserWarning")
def test_halves_run_in_torch():
    def function(z):
        return torch.view_as_real(z) * 2

    z = numbers(3).to(torch.complex32)
    with pytest.warns(FallbackWarning, match="aten.view_as_real.default: its tensors are complex32"):
        torch.testing.assert_close(torch.compile(function, backend="relax")(z), function(z))
