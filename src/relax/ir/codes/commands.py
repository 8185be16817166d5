"""Codes of the command line: E7xxx, W7xxx."""

from __future__ import annotations

from .code import declare

declare(
    "E7001",
    "a model that cannot be read",
    "The file given as a model does not exist, is of no kind that holds models, or its contents are not what its "
    "suffix says: not text, not saved by relax, or compiled by another version or for another machine.",
    "Correct the path. A model's suffix says what it is: .onnx for an ONNX model, .py for TVMScript, .json for a "
    "saved program, .relax for an executable.",
)
declare(
    "E7002",
    "inputs that do not fit the model",
    "An input is given that the model does not have, twice, or in a file that does not hold it; or a size is left open "
    "that random inputs need.",
    "Name the input, `--input NAME=FILE`, and give the sizes of open dimensions, `--size NAME=N`.",
)
declare(
    "E7003",
    "an optional package that is not installed",
    "A command needs a package that relax itself does without, such as Pillow for images.",
    "Install it as the hint says.",
)
declare(
    "E7004",
    "a request that does not suit the model",
    "The model has no such entry point, function or dimension, or is of a kind with which the command can do nothing: "
    "an executable holds no program that could be drawn or compiled again.",
    "Choose one of what the hint lists, or give the model the executable was compiled from.",
)
declare(
    "E7005",
    "kernels that cannot be exported or imported",
    "The cache has no entry for the target, or is switched off; or a file was not written by relax cache export, is "
    "damaged, or holds no kernel for this machine and this version of relax, as the notes show.",
    "Export where a model was compiled for the same processor, by the same version, and with the same --target.",
)
declare(
    "W7001",
    "a tensor without elements",
    "A call returns a tensor of which a dimension is 0, though its operands have elements: a pooling window larger "
    "than its input, a slice that selects nothing. All that is computed from it is empty or NaN.",
    "Choose larger sizes, or correct the node that is named.",
)
declare(
    "W7002",
    "an output of NaN alone",
    "The run ends, but every element of an output is NaN. The note names the first call that returned NaN.",
    "Give real inputs if random ones are out of the model's domain, or correct the node that is named.",
)
