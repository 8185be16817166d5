"""Names of packed functions that belong to a library: ``torch.unique`` is one of torch's.

Functions of a library return their results. A call in destination-passing style looks such a function up under its name
with the number of outputs after a colon, ``torch.topk:2``: it writes the results to its last arguments.
"""

from __future__ import annotations

from typing import Final

LIBRARIES: Final = {"torch": "relax.runtime.libraries.torch_functions"}
"""Libraries whose functions have names, each with the module that makes them known."""


def library_of(name: str) -> str:
    """Return the library to which a name belongs, "" if there is none."""
    library = name.partition(".")[0] if "." in name else ""
    return library if library in LIBRARIES else ""


def with_outputs(name: str, outputs: int) -> str:
    """Return the name under which a call in destination-passing style looks a function up."""
    return f"{name}:{outputs}" if library_of(name) else name


def split(name: str) -> tuple[str, int | None]:
    """Return a name and the number of outputs that `with_outputs` added, None for another name."""
    plain, colon, outputs = name.rpartition(":")
    if not colon or not library_of(name) or not (outputs.isascii() and outputs.isdigit()):
        return name, None
    return plain, int(outputs)
