"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".annotate_tir_op_pattern": "AnnotateTIROpPattern",
    ".fuse_ops": "FuseOps",
    ".fuse_ops_by_pattern": "FuseOpsByPattern FusionPattern PatternCheckContext",
    ".fuse_tir": "FuseTIR",
    ".merge_composite_functions": "MergeCompositeFunctions",
}
