"""Masks of the signs of vectors: LLVM 22 loses one that is copied to a general register and then overwritten."""

from __future__ import annotations

import re

import pytest

from relax import codegen, tir
from relax.codegen.module import kernel_texts
from relax.farm import worker
from relax.farm.objects import machine_of
from relax.script import from_source

AVX512 = machine_of(codegen.resolve("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4"))
AVX2 = machine_of(codegen.resolve("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3"))


def signs(lanes, bits, head=""):
    """A function of a mask of signs: of two of its lanes, and then of those of its union with another mask."""
    vector, mask = f"<{lanes} x i{bits}>", f"<{lanes} x i1>"
    return f"""{worker.IN_ORDER}
target triple = "x86_64-unknown-linux-gnu"
{head}
define i64 @f(ptr %at, i64 %a, i64 %b, i64 %c, i64 %d) {{
  %x = load {vector}, ptr %at
  %negative = icmp slt {vector} %x, zeroinitializer
  %n0 = extractelement {mask} %negative, i64 0
  %n1 = extractelement {mask} %negative, i64 1
  %n = select i1 %n0, i64 %a, i64 0
  %s = select i1 %n1, i64 %n, i64 %b
  %y = mul {vector} %x, splat (i{bits} 5)
  %large = icmp ugt {vector} %y, splat (i{bits} 77)
  %either = or {mask} %large, %negative
  %e0 = extractelement {mask} %either, i64 0
  %e1 = extractelement {mask} %either, i64 1
  %e = select i1 %e0, i64 %c, i64 %s
  %r = select i1 %e1, i64 %e, i64 %d
  ret i64 %r
}}
"""


def lost_masks(assembly):
    """The mask registers that straight-line code reads before it writes to them."""
    written, lost = set(), set()
    for line in assembly[assembly.index("\nf:") : assembly.index(".Lfunc_end")].splitlines():
        *sources, target = re.findall(r"%\w+", line) or [""]
        lost.update(s for s in sources if re.fullmatch(r"%k[0-7]", s) and s not in written)
        written.add(target)
    return lost


@pytest.mark.parametrize(("lanes", "bits"), [(4, 32), (8, 32), (2, 64), (4, 64), (16, 8), (32, 8)])
def test_no_mask_is_lost(lanes, bits):
    """LLVM alone loses it. Where it does not any more, `_without_lost_masks` can go."""
    text = signs(lanes, bits)
    assert lost_masks(worker._assembly(text, AVX512)) == {"%k0"}
    assert not lost_masks(worker.emit_assembly(text, AVX512))


def test_machines_without_masks_keep_their_instructions():
    text = signs(8, 32)
    assert "vmovmskps" in worker.emit_assembly(text, AVX2)
    assert worker.emit_object(text, AVX2) == worker._object(text, AVX2)


def test_an_instruction_that_takes_the_masks_of_bytes():
    """Without AVX512BW there is none for bfloat16, and LLVM would end the process."""
    product = "declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)"
    with pytest.raises(RuntimeError, match="LLVM may lose a mask of the signs of bytes"):
        worker.emit_object(signs(32, 8, product), AVX512)
    worker.emit_object(signs(8, 32, product), AVX512)


def test_rounding_to_bfloat16_needs_no_masks_of_signs():
    """Without AVX512DQ there is no vfpclassps, and LLVM would end the process."""
    target = codegen.resolve("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=cooperlake")
    func = from_source("""
@T.prim_func
def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "bfloat16")):
    for i in T.vectorized(64):
        B[i] = T.Cast("bfloat16", A[i])
""")
    (kernel,) = kernel_texts({"f": tir.lower(func)}, target)
    machine = machine_of(target)
    without = machine._replace(features=f"{machine.features},-avx512dq")
    assembly = worker.emit_assembly(kernel.text, without)
    assert "vcvtneps2bf16" in assembly
    assert "vfpclassps" not in assembly


@pytest.mark.parametrize("lanes", [8, 16])
def test_an_instruction_for_classes_of_floats(lanes):
    """LLVM's own code for NaN and subnormal numbers compares integers; other classes stay in its hands."""
    vector, mask = f"<{lanes} x float>", f"<{lanes} x i1>"
    text = f"""target triple = "x86_64-unknown-linux-gnu"
declare {mask} @llvm.is.fpclass.v{lanes}f32({vector}, i32 immarg)
define i{lanes} @f({vector} %x) {{
  %m = call {mask} @llvm.is.fpclass.v{lanes}f32({vector} %x, i32 147)
  %n = call {mask} @llvm.is.fpclass.v{lanes}f32({vector} %x, i32 96)
  %b = or {mask} %m, %n
  %r = bitcast {mask} %b to i{lanes}
  ret i{lanes} %r
}}
"""
    assert re.search(r"vfpclassps\s+\$161", worker.emit_assembly(text, AVX512))
    assert "vfpclassps" not in worker.emit_assembly(text, AVX2)
