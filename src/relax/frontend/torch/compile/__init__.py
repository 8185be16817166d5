"""Backend "relax" of torch.compile: `relax_backend`, and the warning `FallbackWarning` of what runs in eager torch.

    compiled = torch.compile(module, backend="relax", dynamic=True)

The package ``torch`` is needed to compile, and is not imported here.
"""

from __future__ import annotations

from .backend import register, relax_backend
from .options import BackendOptions
from .piece import wait_full
from .warning import FallbackWarning

__all__ = ["BackendOptions", "FallbackWarning", "register", "relax_backend", "wait_full"]
