"""Log-mel features of sound, as Whisper reads them."""

# NumPy's stubs leave the results of rfft and others partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, Final, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from ..settings import Settings

Array: TypeAlias = "NDArray[Any]"

_TOGETHER: Final = 4096
"""Frames whose spectra are computed together."""
_LINEAR_END: Final = 1000.0
"""Frequency in Hz up to which the mel scale is linear."""
_LINEAR_STEP: Final = 200.0 / 3
"""Hz of a mel below that."""
_LOG_STEP: Final = np.log(6.4) / 27
"""Logarithm of the ratio of frequencies a mel apart above it."""


@final
class Features:
    """Features of sound: powers in `bins` bands of the mel scale for each `hop` samples, as logarithms.

    Settings are those of ``preprocessor_config.json``. Raises ValueError for those that fit no sound.
    """

    def __init__(self, settings: Settings, bins: int) -> None:
        self.rate = settings.integer("sampling_rate", 16000, most=1 << 20)
        self.hop, self.size = (
            settings.integer("hop_length", 160, most=1 << 20),
            settings.integer("n_fft", 400, most=1 << 16),
        )
        self.bins = settings.integer("feature_size", bins, most=4096)
        if self.bins != bins:
            raise ValueError(f"the preprocessor makes {self.bins} features of a frame, and the model reads {bins}")
        if not self.rate or not self.hop or self.size < 2 or not bins:
            raise ValueError(f"no features are made of {self.size} samples at {self.rate} a second, {self.hop} apart")
        self._filters = mel_filters(self.bins, self.size // 2 + 1, self.rate)
        self._window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(self.size) / self.size)

    def __call__(self, samples: Array, frames: int) -> Array:
        """Features (bins, frames), float32, of samples (n,); silence follows them.

        Logarithms to base 10 of powers of at least 1e-10 and 1e-8 of the greatest one, + 4, divided by 4.
        """
        half, size = self.size // 2, self.size
        needed = frames * self.hop + half
        sound = np.concatenate([samples[:needed], np.zeros(max(needed - len(samples), 0), np.float32)])
        sound = np.pad(sound, (half, half), mode="reflect")
        windows = np.lib.stride_tricks.sliding_window_view(sound, size)[:: self.hop][:frames]
        result = np.empty((self.bins, frames), np.float32)
        for start in range(0, frames, _TOGETHER):
            spectrum = np.fft.rfft(windows[start : start + _TOGETHER] * self._window, axis=-1)
            powers = spectrum.real**2 + spectrum.imag**2
            result[:, start : start + _TOGETHER] = np.log10(np.maximum(self._filters @ powers.T, 1e-10))
        return (np.maximum(result, result.max() - 8) + 4) / 4


def mel_filters(bins: int, frequencies: int, rate: int) -> Array:
    """Return the weights (bins, frequencies) of triangles that are equally far apart on the mel scale, of equal area.

    The bands go from 0 Hz to half the rate, which the last of the frequencies is, but not above 8000 Hz.

    Source: Slaney, Auditory Toolbox, technical report 1998-010, 1998: linear below 1000 Hz, logarithmic above.
    """
    top = min(8000.0, rate / 2)
    mels = np.linspace(0.0, float(_mel_of(top)), bins + 2)
    edges = np.where(
        mels < _LINEAR_END / _LINEAR_STEP, mels * _LINEAR_STEP,
        _LINEAR_END * np.exp((mels - _LINEAR_END / _LINEAR_STEP) * _LOG_STEP),
    )  # fmt: skip
    at = np.linspace(0.0, rate / 2, frequencies)
    low, middle, high = (edges[index : bins + index, None] for index in range(3))
    rising, falling = (at - low) / (middle - low), (high - at) / (high - middle)
    return np.maximum(0.0, np.minimum(rising, falling)) * (2.0 / (high - low))


def _mel_of(frequency: float) -> float:
    """Return the place of a frequency in Hz on the mel scale."""
    if frequency < _LINEAR_END:
        return frequency / _LINEAR_STEP
    return _LINEAR_END / _LINEAR_STEP + float(np.log(frequency / _LINEAR_END)) / float(_LOG_STEP)


__all__ = ["Features", "mel_filters"]
