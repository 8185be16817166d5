"""``relax info``: list metadata and tensors of a file of weights, GGUF or safetensors."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..frontend import gguf, safetensors
from ..frontend.tensor_files import PLAIN, TensorFile
from .failures import SUCCESS, UNREADABLE, failure
from .tables import byte_size, count, plural, text_table

DESCRIPTION = """\
Show what is in a file of weights (GGUF or safetensors, also in parts): its metadata, and the tensors by type with
their sizes. Weights are not read."""
EXAMPLES = """
  relax info model.gguf
  relax info model.safetensors --tensors          each tensor, with its shape
"""

_LONGEST: Final = 60
"""Characters shown of a metadata value."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a .gguf or .safetensors file, or a folder of shards")
    parser.add_argument("--tensors", action="store_true", help="list each tensor")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    try:
        is_gguf = options.file.suffix.lower() == ".gguf"
        file: TensorFile = gguf.read(options.file) if is_gguf else safetensors.read(options.file)
    except OSError as error:
        raise failure(UNREADABLE, f"{options.file} cannot be read: {error.strerror or error}") from None
    types: Mapping[str, str] = file.value_types if isinstance(file, gguf.GGUFFile) else {}
    rows = [(key, types.get(key, ""), value_text(value)) for key, value in file.metadata.items()]
    if rows:
        sys.stdout.write(text_table(("key", "type", "value"), rows) + "\n\n")
    if options.tensors and file.tensors:
        listed = [
            (t.name, type_of(t.dtype, t.layout), " x ".join(map(str, t.shape)), byte_size(t.nbytes))
            for t in file.tensors.values()
        ]
        sys.stdout.write(text_table(("tensor", "type", "shape", "size"), listed, (3,)) + "\n\n")
    sys.stdout.write(summary(file) + "\n")
    return SUCCESS


def summary(file: TensorFile) -> str:
    """Table of the types of tensors, with the number of tensors and elements and their size."""
    by_type: dict[str, list[int]] = {}
    for tensor in file.tensors.values():
        totals = by_type.setdefault(type_of(tensor.dtype, tensor.layout), [0, 0, 0])
        for index, amount in enumerate((1, int(np.prod(tensor.shape, dtype=object)), tensor.nbytes)):
            totals[index] += amount
    ordered = sorted(by_type.items(), key=lambda item: -item[1][2])
    rows = [(name, str(number), count(elements), byte_size(nbytes)) for name, (number, elements, nbytes) in ordered]
    total = f"{plural(len(file), 'tensor')}, {byte_size(file.nbytes)}, in {plural(len(file.paths), 'file')}"
    return "\n".join([text_table(("type", "tensors", "elements", "size"), rows, (1, 2, 3)), total] if rows else [total])


def type_of(dtype: str, layout: str) -> str:
    """Type of a tensor: its dtype, or its packed layout."""
    return dtype if layout == PLAIN else layout


def value_text(value: Any) -> str:
    """Metadata value on one line, cut to a bounded length, without control characters."""
    if isinstance(value, str):
        text = repr(value[: _LONGEST * 2])
    elif hasattr(value, "__len__"):
        text = f"{plural(len(value), 'value')}"
    else:
        text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
