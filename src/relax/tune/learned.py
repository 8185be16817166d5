"""Correction of the estimates of `draft`, learned from measurements of any kernels on the same machine.

    features    of a candidate beside those of its kernel's default schedule: instructions, bytes from each cache,
                loops, register tiles; and the estimated logarithm of the ratio of their times
    target      logarithm of the measured ratio of the times, less the estimated one
    model       a forest of randomised trees of scikit-learn (`pip install relax[tune]`); without it estimates stay

Samples of a machine are kept in a file beside the database of records: JSON lines, of which the last ones count. The
forest only orders what is measured, so a wrong file costs time, and changes no result.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import numpy as np

from .draft import FEATURES, Draft

LEAST: Final = 24
"""Fewest samples from which a forest is grown."""
MOST: Final = 4000
"""Most samples that are read from a file."""
_BYTES: Final = 4 << 20
"""Bytes at the end of a file that are read."""
_OWN: Final = 8.0
"""Weight of a sample of the kernel that is searched; others have 1."""
_LARGEST: Final = 3.0
"""Largest error, as a logarithm: kernels that are wrong by more are as wrong as that."""
_TREES: Final = 200
_LEAF: Final = 3
_LENGTH: Final = 2 * FEATURES + 1


class Sample(NamedTuple):
    """A measured candidate."""

    features: tuple[float, ...]
    """As `features_of` returns them."""
    error: float
    """Logarithm of the candidate's time over the default's, less that of their estimates."""


def features_of(draft: Draft, default: Draft) -> tuple[float, ...] | None:
    """Return the features of a candidate beside its kernel's default schedule; None without an estimate of both."""
    estimated = _log_ratio(draft, default)
    if not math.isfinite(estimated):
        return None
    beside = (own - other for own, other in zip(draft.features, default.features, strict=True))
    return (*beside, *draft.features, estimated)


def sample_of(draft: Draft, default: Draft, gain: float) -> Sample | None:
    """Return the sample of a candidate with the logarithm of its gain over the default; None without an estimate."""
    features = features_of(draft, default)
    return None if features is None else Sample(features, -gain - features[-1])


def corrected(
    drafts: Sequence[Draft], default: Draft, own: Sequence[Sample], others: Sequence[Sample], seed: int
) -> list[float]:
    """Return the estimated times of candidates as logarithms of multiples of the default's, corrected by samples.

    `own` are samples of the same kernel, `others` of other ones. The same arguments have the same result.
    """
    estimated = [_log_ratio(draft, default) for draft in drafts]
    features = [features_of(draft, default) for draft in drafts]
    known = [number for number, one in enumerate(features) if one is not None]
    forest = _forest(seed) if known and len(own) + len(others) >= LEAST else None
    if forest is None:
        return estimated
    samples = [*others, *own]
    weights = [1.0] * len(others) + [_OWN] * len(own)
    errors = np.array([min(max(sample.error, -_LARGEST), _LARGEST) for sample in samples])
    forest.fit(np.array([sample.features for sample in samples]), errors, sample_weight=np.array(weights))
    for number, error in zip(known, forest.predict(np.array([features[n] for n in known])), strict=True):
        estimated[number] += float(error)
    return estimated


def _forest(seed: int) -> Any:
    """Return a forest that is not grown yet; None without scikit-learn."""
    try:
        ensemble: Any = import_module("sklearn.ensemble")
    except ImportError:
        return None
    return ensemble.ExtraTreesRegressor(_TREES, min_samples_leaf=_LEAF, random_state=seed)


def _log_ratio(draft: Draft, default: Draft) -> float:
    if not (math.isfinite(draft.cycles) and math.isfinite(default.cycles)):
        return math.inf
    return math.log(max(draft.cycles, 1.0) / max(default.cycles, 1.0))


# -------------------------------------------------------------------------------------- files


def path_beside(database: Path) -> Path:
    """Return the path of the samples of a database: ``tuning.samples.jsonl`` beside ``tuning.sqlite``."""
    return database.with_name(f"{database.stem}.samples.jsonl")


def read_samples(path: Path, machine: str) -> list[Sample]:
    """Return the last samples of a machine in a file; none if it cannot be read. Other lines are ignored.

    `machine` is the digest of the target, as keys of records hold it.
    """
    try:
        with open(path, "rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _BYTES, 0))
            lines = file.read(_BYTES).splitlines()
    except OSError:
        return []
    found = [sample for line in lines if (sample := _sample_in(line, machine)) is not None]
    return found[-MOST:]


def add_samples(path: Path, machine: str, samples: Iterable[Sample]) -> None:
    """Append samples of a machine to a file; nothing if it cannot be written."""
    lines = [
        json.dumps({"machine": machine, "features": [round(value, 4) for value in one.features], "error": one.error})
        for one in samples
    ]
    if lines:
        with contextlib.suppress(OSError), open(path, "ab", buffering=0) as file:  # one write: lines do not mix
            file.write("".join(f"{line}\n" for line in lines).encode())


def _sample_in(line: bytes, machine: str) -> Sample | None:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    table = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    features, error = table.get("features"), table.get("error")
    if table.get("machine") != machine or not isinstance(features, list):
        return None
    numbers = [number for number in (*cast("list[object]", features), error) if _is_number(number)]
    if len(numbers) != _LENGTH + 1:
        return None
    *own, last = cast("list[float]", numbers)
    return Sample(tuple(map(float, own)), float(last))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e6 < value < 1e6
