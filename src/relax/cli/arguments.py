"""Command-line arguments shared by several commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .failures import MISFIT_INPUT, failure

MODEL_KINDS = "model.onnx, model.pt2 (torch.export), model.py (TVMScript), model.json or model.relax"


def add_model(parser: argparse.ArgumentParser) -> None:
    """Declare the model argument, and how the model is read."""
    parser.add_argument("model", type=Path, help=MODEL_KINDS)
    add_reading(parser)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Declare the options for reading a model."""
    parser.add_argument(
        "--shape",
        metavar="NAME=DIMS",
        action="extend",
        default=[],
        type=named_dims,
        help="dimensions of an input (x=1,3,224,224; a name keeps one open: x=n,3), or a dimension (n=4)",
    )
    parser.add_argument(
        "--value",
        metavar="NAME=VALUE",
        action="extend",
        default=[],
        type=named_values,
        help="the value of an input, a constant of the program: sr=16000, training=false, axes=[0,2]",
    )
    parser.add_argument(
        "--fallback",
        choices=("onnxruntime",),
        help="the library that runs nodes of an ONNX model which are not supported",
    )
    parser.add_argument("--entry", metavar="FUNCTION", help="the function to use (default: main, or the only one)")


def add_building(parser: argparse.ArgumentParser) -> None:
    """Declare the options for compiling a model."""
    parser.add_argument("--target", metavar="TARGET", help='the machine: "llvm -mcpu=znver4" (default: this one)')
    parser.add_argument("--pipeline", metavar="NAME", default="default", help="the passes (default: default)")
    parser.add_argument("--jobs", metavar="N", type=positive, help="processes that compile at once")


def add_inputs(parser: argparse.ArgumentParser, sizes: Callable[[str], list[tuple[str, Any]]] | None = None) -> None:
    """Declare the inputs of a run; `sizes` parses sizes of dimensions (default: one size for each)."""
    parser.add_argument(
        "--input",
        "-i",
        metavar="[NAME=]FILE",
        action="append",
        default=[],
        help="an input: x=x.npy, image=cat.png, or all of them by name: inputs.npz; others are random",
    )
    parser.add_argument(
        "--size",
        metavar="NAME=N",
        action="extend",
        default=[],
        type=sizes or one_size_each,
        help="the size of an open dimension of random inputs: n=4; of several: n=4,m=8",
    )
    parser.add_argument("--seed", metavar="N", type=natural, default=0, help="the seed of random inputs (default: 0)")


# ------------------------------------------------------------------------------------------- values


def named_lists(text: str) -> list[tuple[str, list[str]]]:
    """Split ``n=1,16,m=2`` into names with the words after each; a word with = begins a name.

    An empty list if a name or all its words are missing.
    """
    pairs: list[tuple[str, list[str]]] = []
    for word in text.split(","):
        name, equals, value = word.partition("=")
        if equals and name:
            pairs.append((name, [value]))
        elif equals or not pairs:
            return []
        else:
            pairs[-1][1].append(word)
    return pairs


def one_size_each(text: str) -> list[tuple[str, int]]:
    """Parse dimensions with one size each: ``n=4`` or ``n=4,m=8``."""
    pairs = several_sizes(text)
    for name, sizes in pairs:
        if len(sizes) > 1:
            shown = ",".join(map(str, sizes))
            raise argparse.ArgumentTypeError(f"'{name}={shown}' gives {len(sizes)} sizes, expected one")
    return [(name, size) for name, (size,) in pairs]


def several_sizes(text: str) -> list[tuple[str, tuple[int, ...]]]:
    """Parse dimensions with several sizes: ``n=1,16,256`` or ``n=1,16,m=2``."""
    pairs = named_lists(text)
    if not pairs or not all(size.isascii() and size.isdigit() for _, sizes in pairs for size in sizes):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=N, such as n=4")
    return [(name, tuple(map(int, sizes))) for name, sizes in pairs]


def named_dims(text: str) -> list[tuple[str, tuple[int | str, ...]]]:
    """Parse dimensions of inputs: ``x=1,n,224``, ``x=(1, n)`` or ``x=1,n,w=4``."""
    pairs = [(name.strip(), _dims(words)) for name, words in named_lists(text)]
    dims = [dim for _, some in pairs for dim in some]
    if not pairs or not all((dim.isascii() and dim.isdigit()) or dim.isidentifier() for dim in dims):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=DIMS, such as x=1,3,224,224")
    return [(name, tuple(int(dim) if dim.isdigit() else dim for dim in some)) for name, some in pairs]


def named_values(text: str) -> list[tuple[str, Any]]:
    """Parse values of inputs: ``sr=16000``, ``on=true,scale=0.5``, ``axes=[0,2]`` or ``axes=0,2``."""
    pairs = [(name.strip(), ",".join(words).strip()) for name, words in named_lists(text)]
    try:
        values = [(name, [_number(word) for word in _dims([some])], some) for name, some in pairs]
    except ValueError:
        values = []
    if not values or not all(shown for _, _, shown in values):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE, such as sr=16000 or axes=[0,2]")
    return [(name, some if len(some) != 1 or shown.startswith("[") else some[0]) for name, some, shown in values]


def _number(word: str) -> bool | int | float:
    """Parse true, false, an integer or a float. Raises ValueError."""
    truth = {"true": True, "false": False}.get(word.lower())
    if truth is not None:
        return truth
    try:
        return int(word)
    except ValueError:
        return float(word)


def _dims(words: Sequence[str]) -> list[str]:
    return [dim.strip() for dim in ",".join(words).strip("()[]").split(",") if dim.strip()]


def natural(text: str) -> int:
    """Parse an integer ≥ 0."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 on")
    return int(text)


def positive(text: str) -> int:
    """Parse an integer ≥ 1."""
    number = natural(text)
    if not number:
        raise argparse.ArgumentTypeError("0 is too few")
    return number


def once(pairs: Sequence[tuple[str, Any]], option: str) -> dict[str, Any]:
    """Convert pairs of a repeatable option to a dict. Raises DiagnosticError for a repeated name."""
    table: dict[str, Any] = {}
    for name, value in pairs:
        if name in table:
            raise failure(MISFIT_INPUT, f"{option} gives {name} twice")
        table[name] = value
    return table
