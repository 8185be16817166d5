"""WebAssembly with pointers of 32 bits, and its vectors of 128 bits (simd128).

A description only: kernels need pointers of 64 bits so far, and `relax.codegen.resolve` rejects the target. A module
has no registers but any number of locals; 16 is what engines on x86-64 can keep in registers.

Sources: WebAssembly Core Specification 2.0 (value type v128, vector instructions); LLVM's WebAssembly.td.
"""

from __future__ import annotations

from typing import Final

from .description import ISA, Vectors

WASM32: Final = ISA(
    name="wasm32",
    pointer_bits=32,
    vectors=(Vectors(128, 16, "+simd128", r"\bf32x4\.add"),),
    fma=None,
)
"""WebAssembly, wasm32."""

__all__ = ["WASM32"]
