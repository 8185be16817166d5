"""The module of each name of this package. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    "AnnotateTIROpPattern": ".annotate_tir_op_pattern",
    "ChannelsLast": ".channels_last",
    "FuseAttention": ".fuse_attention",
    "FuseConvolutions": ".fuse_convolutions",
    "FuseOps": ".fuse_ops",
    "FuseOpsByPattern": ".fuse_ops_by_pattern",
    "FuseTIR": ".fuse_tir",
    "FusionPattern": ".fuse_ops_by_pattern",
    "MergeCompositeFunctions": ".merge_composite_functions",
    "PatternCheckContext": ".fuse_ops_by_pattern",
}
