"""Command-line arguments shared by several commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .failures import MISFIT_INPUT, failure

MODEL_KINDS = "model.onnx, model.py (TVMScript), model.json or model.relax"


def add_model(parser: argparse.ArgumentParser) -> None:
    """Declare the model argument, and how the model is read."""
    parser.add_argument("model", type=Path, help=MODEL_KINDS)
    add_reading(parser)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Declare the options for reading a model."""
    parser.add_argument(
        "--shape",
        metavar="NAME=DIMS",
        action="append",
        default=[],
        type=named_dims,
        help="dimensions of an input (x=1,3,224,224; a name keeps one open: x=n,3), or a dimension (n=4)",
    )
    parser.add_argument("--entry", metavar="FUNCTION", help="the function to use (default: main, or the only one)")


def add_building(parser: argparse.ArgumentParser) -> None:
    """Declare the options for compiling a model."""
    parser.add_argument("--target", metavar="TARGET", help='the machine: "llvm -mcpu=znver4" (default: this one)')
    parser.add_argument("--pipeline", metavar="NAME", default="default", help="the passes (default: default)")
    parser.add_argument("--jobs", metavar="N", type=positive, help="processes that compile at once")


def add_inputs(parser: argparse.ArgumentParser, size: Callable[[str], tuple[str, Any]] | None = None) -> None:
    """Declare the inputs of a run; `size` parses the size of a dimension (default: one size)."""
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
        action="append",
        default=[],
        type=size or one_size,
        help="the size of an open dimension of random inputs: n=4",
    )
    parser.add_argument("--seed", metavar="N", type=natural, default=0, help="the seed of random inputs (default: 0)")


# ------------------------------------------------------------------------------------------- values


def one_size(text: str) -> tuple[str, int]:
    """Parse a dimension with one size: ``n=4``."""
    name, (size, *more) = several_sizes(text)
    if more:
        raise argparse.ArgumentTypeError(f"{text!r} gives {len(more) + 1} sizes, expected one")
    return name, size


def several_sizes(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse a dimension with several sizes: ``n=1,16,256``."""
    name, equals, listed = text.partition("=")
    sizes = listed.split(",")
    if not name or not equals or not all(size.isascii() and size.isdigit() for size in sizes):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=N, such as n=4")
    return name, tuple(map(int, sizes))


def named_dims(text: str) -> tuple[str, tuple[int | str, ...]]:
    """Parse named dimensions: ``x=1,n,224``."""
    name, equals, listed = text.partition("=")
    dims = [dim.strip() for dim in listed.strip("()[]").split(",") if dim.strip()]
    fine = all((dim.isascii() and dim.isdigit()) or dim.isidentifier() for dim in dims)
    if not name or not equals or not fine:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=DIMS, such as x=1,3,224,224")
    return name, tuple(int(dim) if dim.isdigit() else dim for dim in dims)


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
