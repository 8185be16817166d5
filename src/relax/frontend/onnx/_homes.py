"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".emitter": "Emitter",
    ".export": "save_onnx to_onnx writer",
    ".importer": "from_onnx",
    ".registry": "converter",
    ".values": "Array Dims Ints Tensor Value",
}
