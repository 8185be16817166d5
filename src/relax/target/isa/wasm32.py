"""WebAssembly with 32-bit pointers and 128-bit vectors (simd128).

A description only: kernels need 64-bit pointers at present, and `relax.codegen.resolve` rejects the target. A module
has any number of locals in place of registers; 16 is the number that engines on x86-64 can keep in registers.

Sources: WebAssembly Core Specification 2.0 (value type v128, vector instructions); LLVM's WebAssembly.td.
"""

from __future__ import annotations

from typing import Final

from .description import ISA, Vectors

WASM32: Final = ISA(name="wasm32", pointer_bits=32, vectors=(Vectors(128, 16, "+simd128", r"\bf32x4\.add"),), fma=None)
"""WebAssembly, wasm32."""
