"""Sound as samples: WAV files of all usual formats, mixed to one channel and resampled."""

# NumPy's stubs leave the results of sliding_window_view and others partly unknown.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"

_INTEGERS, _FLOATS, _EXTENSIBLE = 1, 3, 0xFFFE
_MOST_RATE: Final = 1 << 20
_CROSSINGS: Final = 24
"""Zero crossings of the filter on each side, in periods of the lower rate."""
_ROLLOFF: Final = 0.95
"""Pass band of the filter, as a part of half the lower rate."""


def samples_of(source: str | os.PathLike[str] | Array | Sequence[float], rate: int, source_rate: int) -> Array:
    """Return sound as float32 samples (n,) at `rate` per second: a WAV file, or samples at `source_rate`.

    Samples are from -1 to 1; channels, the last dimension of two, are mixed. Raises OSError for a file that cannot be
    opened, ValueError for one that is no WAV file, and for samples that are no finite numbers.
    """
    if isinstance(source, str | os.PathLike):
        samples, source_rate = read_wav(source)
    else:
        samples = np.asarray(source)
        if samples.ndim not in (1, 2) or samples.dtype.kind not in "fiu":
            raise ValueError(f"expected samples (n,) or (n, channels), found {samples.dtype} {samples.shape}")
        if samples.dtype.kind != "f":
            raise ValueError(f"expected samples from -1 to 1 of a float dtype, found {samples.dtype}")
    if not 1 <= source_rate <= _MOST_RATE:
        raise ValueError(f"a rate of {source_rate} samples a second is not read; there are up to {_MOST_RATE}")
    with np.errstate(over="ignore", invalid="ignore"):
        mono = samples.mean(-1) if samples.ndim == 2 and samples.size else samples.reshape(-1)
        mono = mono.astype(np.float32)
    if not np.isfinite(mono).all():
        raise ValueError("some of the samples are no finite numbers")
    return resampled(mono, source_rate, rate)


def read_wav(path: str | os.PathLike[str]) -> tuple[Array, int]:
    """Return the samples (n, channels), float32 from -1 to 1, of a WAV file, and their rate.

    Samples are integers of 8, 16, 24 or 32 bits, or floats of 32 or 64, which may be NaN or infinite. Raises OSError if
    the file cannot be opened, ValueError if it has another format, or is broken.
    """
    data = Path(path).read_bytes()
    if data[:4] not in (b"RIFF", b"RF64") or data[8:12] != b"WAVE":
        raise ValueError(
            f"{path} is no WAV file; `ffmpeg -i {path} -ar 16000 -ac 1 sound.wav` makes one of other sound"
        )
    form: tuple[int, int, int, int] | None = None
    at = 12
    while at + 8 <= len(data):
        kind, size = data[at : at + 4], struct.unpack_from("<I", data, at + 4)[0]
        body = at + 8
        if kind == b"fmt ":
            form = _form(data[body : body + size], path)
        elif kind == b"data":
            if form is None:
                raise ValueError(f"{path}: the samples come before their format")
            code, channels, rate, bits = form
            # Programs that write to a pipe leave the size open: the samples go to the end of the file.
            return _numbers(data[body : body + size], code, bits, channels), rate
        at = body + size + size % 2
    raise ValueError(f"{path} has no samples")


def _form(chunk: bytes, path: str | os.PathLike[str]) -> tuple[int, int, int, int]:
    """Return format, channels, rate and bits of samples, as a file's chunk describes them."""
    if len(chunk) < 16:
        raise ValueError(f"{path}: the description of the format is cut short")
    code, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", chunk)
    if code == _EXTENSIBLE and len(chunk) >= 26:
        code = struct.unpack_from("<H", chunk, 24)[0]
    if (code, bits) not in _READ:
        raise ValueError(f"{path}: samples of {bits} bits in the format {code} are not read; integers and floats are")
    if not channels or not 1 <= rate <= _MOST_RATE:
        raise ValueError(f"{path}: {channels} channels of {rate} samples a second are not read")
    return code, channels, rate, bits


_READ: Final = {(_INTEGERS, 8), (_INTEGERS, 16), (_INTEGERS, 24), (_INTEGERS, 32), (_FLOATS, 32), (_FLOATS, 64)}


def _numbers(data: bytes, code: int, bits: int, channels: int) -> Array:
    """Return samples (n, channels) from -1 to 1; a frame that is cut short is left out."""
    size = bits // 8 * channels
    data = data[: len(data) // size * size]
    if code == _FLOATS:
        with np.errstate(over="ignore", invalid="ignore"):
            found: Array = np.frombuffer(data, f"<f{bits // 8}").astype(np.float32)
    elif bits == 8:
        found = (np.frombuffer(data, np.uint8).astype(np.float32) - 128) / 128
    elif bits == 24:
        parts = np.frombuffer(data, np.uint8).reshape(-1, 3)
        wide = np.zeros((len(parts), 4), np.uint8)
        wide[:, 1:] = parts
        found = wide.view("<i4")[:, 0].astype(np.float32) / 2**31
    else:
        found = np.frombuffer(data, f"<i{bits // 8}").astype(np.float32) / 2.0 ** (bits - 1)
    return found.reshape(-1, channels)


def resampled(samples: Array, source: int, rate: int) -> Array:
    """Return samples (n,) of the rate `source` at another rate, by a low-pass filter below half of both.

    The filter is a sinc under a Kaiser window (β = 9). Samples whose positions between those of the source are equal
    share their taps.

    Source: Smith, Digital Audio Resampling, https://ccrma.stanford.edu/~jos/resample/.
    """
    if source == rate or not samples.size:
        return samples
    shared = math.gcd(source, rate)
    up, down = rate // shared, source // shared
    width = _CROSSINGS * max(1.0, down / up)
    reach = math.ceil(width)
    count = -(-len(samples) * up // down)
    padded = np.concatenate([np.zeros(reach, np.float32), samples, np.zeros(reach + down + 1, np.float32)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1)
    result = np.empty(count, np.float32)
    cutoff = _ROLLOFF * min(1.0, up / down)
    for phase in range(min(up, count)):
        first, rest = divmod(phase * down, up)
        distances = np.arange(-reach, reach + 1) - rest / up
        inside = np.sqrt(np.maximum(1 - (distances / width) ** 2, 0))
        taps = cutoff * np.sinc(cutoff * distances) * np.i0(9.0 * inside) / np.i0(9.0) * (np.abs(distances) <= width)
        places = result[phase::up]
        places[:] = windows[first::down][: len(places)] @ taps.astype(np.float32)
    return result


__all__ = ["read_wav", "resampled", "samples_of"]
