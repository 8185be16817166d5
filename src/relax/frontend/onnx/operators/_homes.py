"""The names of this package, by the module that defines them. Written by tools/make_homes.py."""

from __future__ import annotations

HOMES = {
    ".activation:": "activation",
    ".attention:": "attention",
    ".contrib:": "contrib",
    ".control:": "control",
    ".creation:": "creation",
    ".features:": "features",
    ".image:": "image",
    ".indexing:": "indexing",
    ".labels:": "labels",
    ".legacy:": "legacy",
    ".math:": "math",
    ".nn:": "nn",
    ".quantize:": "quantize",
    ".random:": "random",
    ".recurrent:": "recurrent",
    ".reduce:": "reduce",
    ".sequence:": "sequence",
    ".shape:": "shape",
    ".signal:": "signal",
    ".strings:": "strings",
    ".tensor:": "tensor",
    ".training:": "training",
    ".trees:": "trees",
    ".vectors:": "vectors",
}
