"""Log-mel features of sound."""

from __future__ import annotations

import numpy as np
import pytest
from small_whisper import sound

from relax.llm.settings import Settings
from relax.llm.speech.features import Features, mel_filters


def test_features_by_their_definition() -> None:
    """Fourier sums at a few frames, in the bands of the filters."""
    samples, count = sound(0.5), 60
    found = Features(Settings({}), 80)(samples, count)
    silence = np.zeros(400 + 160 * count)
    padded = np.concatenate([samples[200:0:-1], samples, silence])
    times = np.arange(400)
    window = np.hanning(401)[:-1]
    waves = np.exp(-2j * np.pi * np.outer(np.arange(201), times) / 400)
    powers = np.stack([np.abs(waves @ (window * padded[160 * i :][:400])) ** 2 for i in range(count)], axis=1)
    logs = np.log10(np.maximum(mel_filters(80, 201, 16000) @ powers, 1e-10))
    np.testing.assert_allclose(found, (np.maximum(logs, logs.max() - 8) + 4) / 4, atol=1e-5)


def test_filters_are_triangles_of_equal_area() -> None:
    filters = mel_filters(80, 20001, 16000)
    np.testing.assert_allclose(filters.sum(1) * 8000 / 20000, 1, rtol=1e-3)
    peaks = filters.argmax(1) * 8000 / 20000
    np.testing.assert_allclose(np.diff(peaks)[:20], np.diff(peaks)[0], atol=0.9)  # linear below 1000 Hz
    ratios = peaks[50:] / peaks[49:-1]
    np.testing.assert_allclose(ratios, ratios.mean(), rtol=2e-3)  # logarithmic above


def test_silence_has_the_least_values() -> None:
    assert np.unique(Features(Settings({}), 8)(np.zeros(0, np.float32), 20)) == [-1.5]


def test_settings_that_fit_no_sound() -> None:
    with pytest.raises(ValueError, match="the preprocessor makes 80 features of a frame, and the model reads 8"):
        Features(Settings({"feature_size": 80}), 8)
    with pytest.raises(ValueError, match="no features are made of 400 samples at 16000 a second, 0 apart"):
        Features(Settings({"hop_length": 0}), 8)
