"""Sound of WAV files and arrays as samples of one channel and rate."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from relax.llm.speech.audio import read_wav, resampled, samples_of

TONE = np.sin(2 * np.pi * 440 * np.arange(800) / 8000)


def wav(
    path: Path, data: bytes, code: int, bits: int, *, channels: int = 1, rate: int = 8000, more: bytes = b""
) -> Path:
    """Write a WAV file; `more` are chunks before the samples."""
    size = bits // 8 * channels
    form = struct.pack("<HHIIHH", code, channels, rate, rate * size, size, bits)
    chunks = b"fmt " + struct.pack("<I", len(form)) + form + more + b"data" + struct.pack("<I", len(data)) + data
    path.write_bytes(b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks)
    return path


@pytest.mark.parametrize(
    ("code", "bits", "data", "error"),
    [
        (1, 8, (TONE * 127 + 128).round().astype("u1").tobytes(), 0.02),
        (1, 16, (TONE * 32767).astype("<i2").tobytes(), 1e-4),
        (1, 24, b"".join(int(x * (2**23 - 1)).to_bytes(3, "little", signed=True) for x in TONE), 1e-6),
        (1, 32, (TONE * (2**31 - 1)).astype("<i4").tobytes(), 1e-6),
        (3, 32, TONE.astype("<f4").tobytes(), 1e-7),
        (3, 64, TONE.astype("<f8").tobytes(), 1e-7),
    ],
)
def test_formats_of_samples(code: int, bits: int, data: bytes, error: float, tmp_path: Path) -> None:
    samples, rate = read_wav(wav(tmp_path / "x.wav", data, code, bits))
    assert (samples.shape, samples.dtype, rate) == ((800, 1), np.float32, 8000)
    np.testing.assert_allclose(samples[:, 0], TONE, atol=error)


def test_channels_are_mixed_and_other_chunks_skipped(tmp_path: Path) -> None:
    both = np.stack([TONE, -TONE / 2], axis=1).astype("<f4")
    more = b"LIST" + struct.pack("<I", 3) + b"abc\0"  # chunks begin at even places
    path = wav(tmp_path / "x.wav", both.tobytes() + b"\1", 3, 32, channels=2, more=more)
    np.testing.assert_allclose(samples_of(path, 8000, 0), TONE / 4, atol=1e-6)
    np.testing.assert_array_equal(samples_of(both, 8000, 8000), both.mean(-1))


def test_the_extensible_format_names_another_one(tmp_path: Path) -> None:
    data = TONE.astype("<f4").tobytes()
    form = struct.pack("<HHIIHHHHIH14x", 0xFFFE, 1, 8000, 32000, 4, 32, 22, 32, 4, 3)
    chunks = b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data)) + data
    (tmp_path / "x.wav").write_bytes(b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks)
    np.testing.assert_allclose(read_wav(tmp_path / "x.wav")[0][:, 0], TONE, atol=1e-7)


def test_a_file_written_to_a_pipe_ends_where_it_ends(tmp_path: Path) -> None:
    path = wav(tmp_path / "x.wav", TONE.astype("<f4").tobytes(), 3, 32)
    broken = path.read_bytes().replace(b"data" + struct.pack("<I", 3200), b"data" + struct.pack("<I", 0xFFFFFFFF))
    path.write_bytes(broken)
    assert len(read_wav(path)[0]) == 800


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"fLaC1234", "x.wav is no WAV file; `ffmpeg -i .*x.wav -ar 16000 -ac 1 sound.wav` makes one of other sound"),
        (b"", "is no WAV file"),
        (b"RIFF\0\0\0\0WAVE", "has no samples"),
        (b"RIFF\0\0\0\0WAVEdata\4\0\0\0abcd", "the samples come before their format"),
        (b"RIFF\0\0\0\0WAVEfmt \4\0\0\0abcd", "the description of the format is cut short"),
        (
            b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0" + struct.pack("<HHIIHH", 85, 1, 8000, 0, 0, 0),
            "samples of 0 bits in the format 85 are not read; integers and floats are",
        ),
        (
            b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0" + struct.pack("<HHIIHH", 1, 0, 8000, 0, 0, 16),
            "0 channels of 8000 samples a second are not read",
        ),
    ],
)
def test_broken_files(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.wav").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_wav(tmp_path / "x.wav")


@pytest.mark.parametrize(
    ("samples", "rate", "message"),
    [
        (
            np.zeros((2, 3, 4), np.float32),
            8000,
            "expected samples \\(n,\\) or \\(n, channels\\), found float32 \\(2, 3, 4\\)",
        ),
        (np.zeros(3, np.int16), 8000, "expected samples from -1 to 1 of a float dtype, found int16"),
        (np.array([0.0, np.nan]), 8000, "some of the samples are no finite numbers"),
        (np.array([0.0, 1e300]), 8000, "some of the samples are no finite numbers"),
        (np.zeros(3), 0, "a rate of 0 samples a second is not read"),
    ],
)
def test_samples_that_are_refused(samples: np.ndarray, rate: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        samples_of(samples, 16000, rate)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_files_with_samples_that_are_no_finite_float32(value: float, tmp_path: Path) -> None:
    data = np.array([[0.0, 0.0], [value, -value]], "<f8").tobytes()
    with pytest.raises(ValueError, match="some of the samples are no finite numbers"):
        samples_of(wav(tmp_path / "x.wav", data, 3, 64, channels=2), 16000, 0)


@pytest.mark.parametrize("count", [0, 1])
def test_sound_of_no_sample_and_of_one(count: int, tmp_path: Path) -> None:
    path = wav(tmp_path / "x.wav", np.zeros(count, "<i2").tobytes(), 1, 16)
    np.testing.assert_array_equal(samples_of(path, 16000, 0), np.zeros(2 * count))
    np.testing.assert_array_equal(samples_of(np.zeros((count, 2)), 16000, 8000), np.zeros(2 * count))


@pytest.mark.parametrize("source", [8000, 11025, 22050, 44100, 48000])
def test_resampling_keeps_low_tones_and_drops_high_ones(source: int) -> None:
    times, wanted = np.arange(source) / source, np.arange(16000) / 16000
    for tone in (100, 3000):
        found = resampled(np.sin(2 * np.pi * tone * times).astype(np.float32), source, 16000)
        assert found.shape == (16000,)
        np.testing.assert_allclose(found[300:-300], np.sin(2 * np.pi * tone * wanted)[300:-300], atol=1e-4)
    if source > 20000:
        assert (
            np.abs(resampled(np.sin(2 * np.pi * 9500 * times).astype(np.float32), source, 16000)[300:-300]).max() < 1e-4
        )
