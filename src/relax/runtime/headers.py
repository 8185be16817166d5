"""The C++ headers of this package: programs that load exported libraries include them."""

from __future__ import annotations

from pathlib import Path


def include_path() -> str:
    """Return the folder for a C++ compiler's ``-I``, whose headers are included as ``<relax/library.h>``.

    ``relax/library.h`` calls exported libraries; ``relax/kv_cache.h`` and ``relax/sampling.h`` register builtins that
    they call; ``relax/language_model.h`` runs exported language models. All need C++17 and tvm-ffi's headers.
    """
    return str(Path(__file__).parent / "include")


__all__ = ["include_path"]
