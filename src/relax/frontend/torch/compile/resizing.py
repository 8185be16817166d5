"""Resizing kept whole: torch's Python kernels would take ``aten.upsample_…`` apart into gathers while it traces.

    with resizing_kept():
        … trace a graph …

The converters make one kernel of an operator, and of its gradient.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

from .. import registry

_SMOOTH: Final = ("linear1d", "bilinear2d", "trilinear3d", "bicubic2d")
_KEPT: Final = (
    *(f"upsample_{name}" for name in _SMOOTH),
    *(f"{name}{count}d" for name in ("upsample_nearest", "_upsample_nearest_exact") for count in (1, 2, 3)),
)
"""Operators that resize, and whose gradient has a converter too."""


@contextlib.contextmanager
def resizing_kept() -> Generator[None]:
    """Remove torch's Python kernels of the operators while the context is open.

    Calls of the ``vec`` form become calls of the default form.

    torch.compile traces under a lock. An export in another thread may meet the operators whole meanwhile.
    """
    torch: Any = sys.modules["torch"]
    keys = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
    before: list[tuple[Any, dict[Any, Any]]] = []
    try:
        for name in _KEPT:
            if registry.find(f"aten.{name}.default") is None:
                continue
            packet = getattr(torch.ops.aten, name)
            for form in (packet.default, packet.vec):
                kernels = dict(form.py_kernels)
                before.append((form, kernels))
                kept = {key: kernel for key, kernel in kernels.items() if key not in keys}
                if form is packet.vec:
                    kept |= dict.fromkeys(keys, _of_sizes(packet.default, kernels[keys[0]]))
                _put(form, kept)
            backward = getattr(torch.ops.aten, f"{name}_backward").default
            before.append((backward, dict(backward.py_kernels)))
            _put(backward, {**backward.py_kernels, torch._C.DispatchKey.Meta: _gradient})
        yield
    finally:
        for form, kernels in before:
            _put(form, kernels)


def _put(form: Any, kernels: dict[Any, Any]) -> None:
    """Replace the Python kernels of an operator, and forget which ones were chosen before."""
    form.py_kernels.clear()
    form.py_kernels.update(kernels)
    form._dispatch_cache.clear()


def _gradient(gradient: Any, output_size: Sequence[Any], input_size: Sequence[Any], *rest: Any) -> Any:
    """Return a tensor of the size of a gradient: torch's own kernel takes no open sizes."""
    del output_size, rest
    return gradient.new_empty(input_size)


def _of_sizes(default: Any, decomposed: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel of the ``vec`` form, which takes a size or scales, that calls the form with a size.

    A scale that is no whole number is not the ratio of the sizes: such a call is `decomposed`.
    """

    def kernel(x: Any, output_size: Sequence[Any] | None, *rest: Any) -> Any:
        *corners, scales = rest
        if scales and any(scale != int(scale) for scale in scales):
            return decomposed(x, output_size, *rest)
        size = output_size or [n * int(scale) for n, scale in zip(x.shape[2:], scales, strict=True)]
        return default(x, size, *corners)

    return kernel
