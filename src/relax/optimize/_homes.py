"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".bisect": "Bisection bisect",
    ".channels_last": "ChannelsLast",
    ".fuse_attention": "FuseAttention",
    ".fuse_convolutions": "FuseConvolutions",
    ".pack_constants": "PACKED_CONSTANTS PACKED_KERNELS PackConstants",
    ".pipeline:": "pipeline",
}
