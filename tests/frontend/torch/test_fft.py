"""Fourier transforms of torch."""

from __future__ import annotations

import pytest

import relax
from relax.frontend.torch import from_exported_program
from relax.frontend.torch.operators.fft import is_by_matrix

torch = pytest.importorskip("torch")

from torch_programs import exported, same_numbers  # noqa: E402

fft = torch.fft

ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
SEVERAL = ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"]


def real(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype)


def numbers(*shape, dtype=torch.complex64):
    return torch.randn(*shape, dtype=dtype)


def operand(name, *shape):
    is_complex = name.startswith(("irfft", "hfft"))
    return numbers(*shape) if is_complex else real(*shape)


@pytest.mark.parametrize("name", ONE)
def test_one_axis(name):
    """Of a static size by a matrix, of an open one by a library."""
    function = getattr(fft, name)

    def transformed(x):
        return (
            function(x), function(x, dim=0), function(x, n=6), function(x, n=3, norm="ortho"),
            function(x, n=16, dim=0, norm="forward"), function(x, n=200),
        )  # fmt: skip

    others = [(operand(name, n, 5),) for n in (2, 9)]
    same_numbers(transformed, operand(name, 4, 5), dynamic=[[0]], others=others, tolerance=1e-5)


def test_complex_operands():
    def transformed(z):
        return fft.fft(z), fft.ifft(z, norm="ortho"), fft.ifft(z, n=100)

    others = [(numbers(n, 5),) for n in (1, 9)]
    same_numbers(transformed, numbers(4, 5), dynamic=[[0]], others=others, tolerance=1e-5)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_axes(name):
    """The axes are static: torch.export takes an open one of several for a constant."""
    function = getattr(fft, name)

    def transformed(x):
        return function(x, dim=(1, 2)), function(x, s=(4, 6), dim=(2, 1)), function(x, dim=(2,), norm="ortho")

    others = [(operand(name, n, 4, 5),) for n in (1, 7)]
    same_numbers(transformed, operand(name, 3, 4, 5), dynamic=[[0]], others=others, tolerance=1e-5)


def test_default_axes():
    """Of fft2 the last two, of fftn all, or as many of the last ones as there are sizes."""

    def transformed(x, z):
        return fft.fft2(x), fft.fftn(x), fft.rfftn(x, s=(3, 100)), fft.ifftn(z, s=(90, -1), dim=(0, 1)), fft.irfftn(z)

    same_numbers(transformed, real(3, 4, 5), numbers(3, 4, 5), tolerance=1e-5)


def test_double_precision_and_integers():
    def transformed(x, n):
        return fft.rfft(x), fft.fft(x, n=300), fft.irfft(fft.rfft(x, n=300), n=299), fft.fft(n), fft.rfft(n, dim=0)

    others = [(real(n, 6, dtype=torch.float64), torch.ones(n, 6, dtype=torch.int64)) for n in (1, 8)]
    ones = torch.arange(12).reshape(2, 6)
    first = real(2, 6, dtype=torch.float64), ones
    same_numbers(transformed, *first, dynamic=[[0], [0]], others=others, tolerance=1e-6)


def test_empty_batches():
    def transformed(x):
        return fft.rfft(x), fft.fft(x, n=200), fft.irfft(fft.rfft(x, n=200))

    mod = from_exported_program(exported(transformed, [real(2, 6)], [[0]]))
    main = relax.VirtualMachine(relax.build(mod), relax.cpu())["main"]
    shapes = [result.shape for result in main(torch.zeros(0, 6))]  # on which torch itself fails
    assert shapes == [(0, 4, 2), (0, 200, 2), (0, 200)]


def test_orders_and_frequencies():
    def ordered(x, z):
        return (
            fft.fftshift(x, dim=1), fft.ifftshift(x, dim=1), fft.fftshift(z, dim=-1), fft.ifftshift(z, dim=(1,)),
            fft.fftshift(x[:2]), fft.fftfreq(9, 0.1), fft.rfftfreq(4), fft.fftfreq(6), fft.rfftfreq(7, 2.0),
        )  # fmt: skip

    others = [(real(n, 5), numbers(n, 5)) for n in (2, 3, 8)]
    same_numbers(ordered, real(4, 5), numbers(4, 5), dynamic=[[0], [0]], others=others)


def test_a_filter_in_the_frequency_domain():
    """A signal convolved by products of transforms, for every length."""

    def filtered(x, taps):
        size = x.shape[-1] + taps.shape[-1] - 1
        return fft.irfft(fft.rfft(x, n=size) * fft.rfft(taps, n=size), n=size)

    others = [(real(2, n), real(5)) for n in (9, 100, 257)]
    same_numbers(filtered, real(2, 40), real(5), dynamic=[[1], []], others=others, tolerance=1e-5)


def test_short_time_transforms():
    window = torch.hann_window(16)

    def transformed(x):
        return (
            torch.stft(x, 16, 4, window=window, return_complex=True),
            torch.stft(x, 16, 5, window=window, center=False, normalized=True, return_complex=True),
            torch.stft(x, 20, win_length=16, window=window, pad_mode="constant", onesided=False, return_complex=True),
            torch.stft(x, 7, return_complex=True),
            torch.view_as_real(torch.stft(x[0], 16, 4, return_complex=True)),
        )

    others = [(real(b, n),) for b, n in ((1, 20), (3, 143))]
    same_numbers(transformed, real(2, 64), dynamic=[[0, 1]], others=others, tolerance=1e-5)


def test_inverse_short_time_transforms():
    window = torch.hann_window(16) + 0.1

    def signals(z):
        return (
            torch.istft(z, 16, 4, window=window),
            torch.istft(z, 16, 5, window=window, normalized=True, length=30),
            torch.istft(z, 16, 4, window=window, center=False),
            torch.istft(z[0], 16, 8),
            torch.istft(z, 16, 4, onesided=True),
        )

    others = [(numbers(b, 9, n),) for b, n in ((1, 9), (3, 40))]
    same_numbers(signals, numbers(2, 9, 12), dynamic=[[0, 2]], others=others, tolerance=1e-5)


def test_a_signal_through_both():
    window = torch.hann_window(32)

    def through(x):
        spectrum = torch.stft(x, 32, 8, window=window, return_complex=True)
        return torch.istft(spectrum * 0.5, 32, 8, window=window)

    others = [(real(2, n),) for n in (40, 333)]
    same_numbers(through, real(2, 128), dynamic=[[1]], others=others, tolerance=1e-5)


def test_mel_spectrogram():
    """As torchaudio writes it: powers of a spectrum, weighted by a matrix, in decibels."""
    window, filters = torch.hann_window(400), torch.rand(201, 40)

    def decibels(x):
        flat = x.reshape(-1, x.shape[-1])
        spectrum = torch.stft(flat, 400, 160, 400, window, True, "reflect", False, True, return_complex=True)
        power = spectrum.reshape(x.shape[:-1] + spectrum.shape[-2:]).abs().pow(2.0)
        mel = torch.matmul(power.transpose(-1, -2), filters).transpose(-1, -2)
        return 10 * torch.log10(torch.clamp(mel, min=1e-10))

    same_numbers(decibels, real(1, 4000), dynamic=[[1]], others=[(real(1, 1601),)], tolerance=1e-4)


def test_an_axis_without_elements():
    mod = from_exported_program(exported(lambda x: fft.rfft(x, dim=0), [real(2, 3)], [[0]]))
    main = relax.VirtualMachine(relax.build(mod), relax.cpu())["main"]
    with pytest.raises(ValueError, match=r"fft_r2c: invalid number of data points \(0\) along axis 0"):
        main(torch.zeros(0, 3))


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft"])
@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 127, 128, 129, 130])
def test_the_backend_knows_which_transforms_call_numpy(name, length):
    """`is_by_matrix`, by which torch.compile leaves transforms to torch, says what the converter does."""

    class Transform(torch.nn.Module):
        def forward(self, x):
            result = getattr(torch.fft, name)(x, n=length)
            return torch.view_as_real(result) if result.is_complex() else result

    x = torch.randn(2, length, dtype=torch.float32 if name == "rfft" else torch.complex64)
    program = torch.export.export(Transform(), (x,)).run_decompositions()
    (node,) = [node for node in program.graph.nodes if str(node.target).startswith("aten._fft_")]
    script = from_exported_program(program).script()
    assert ("relax.run.fft" in script) == (not is_by_matrix(node))
