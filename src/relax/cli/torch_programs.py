"""Programs of torch.export as programs. The optional package ``torch`` is imported only when one is read."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..ir import DiagnosticError, IRModule
from .failures import UNREADABLE, UNSUITABLE, failure, optional_package


def read_torch(path: Path, dims: Mapping[str, Sequence[int | str]], *, check_sizes: bool) -> IRModule:
    """Import a file of torch.export.save; names among `dims` name dynamic dimensions of inputs.

    With `check_sizes`, the program checks what torch.export found of its sizes when it is called.

    Raises DiagnosticError, or OSError if the file cannot be read.
    """
    path.open("rb").close()  # a missing file is missing with and without torch
    optional_package("torch", "relax[torch]", "reading a program of torch.export")
    frontend: Any = importlib.import_module("..frontend.torch", __package__)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about itself
        try:
            program = frontend.trees.load_program(path)
        except Exception as error:  # noqa: BLE001 (its errors have no class of their own)
            hint = "write it with torch.export.save(torch.export.export(module, args), path), in this version of torch"
            raise failure(
                UNREADABLE, f"cannot read {path}: torch rejects it: {_first_line(error)}", hint=hint
            ) from None
        named = {name: sizes for name, sizes in dims.items() if any(isinstance(size, str) for size in sizes)}
        try:
            return frontend.from_exported_program(program, check_sizes=check_sizes, dim_names=named)
        except DiagnosticError:
            raise
        except ValueError as error:
            raise failure(UNSUITABLE, f"--shape: {str(error).removeprefix('dim_names: ')}") from None


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
