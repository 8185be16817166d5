"""Codes of schedules: E8, errors of schedule primitives."""

from __future__ import annotations

from .code import declare

declare(
    "E8001",
    "a block or loop that does not exist",
    "A schedule was asked for a block or a function by a name that it does not have, or was given a random variable "
    "whose block or loop an earlier primitive removed.",
    "Ask for it again: `sch.get_block(name)`, `sch.get_loops(block)`. A primitive's docstring says which it removes.",
)
declare(
    "E8002",
    "an argument that a schedule primitive cannot take",
    "The argument is of the wrong kind, out of range, or fits neither the loop nor the block.",
    "The message says what is expected.",
)
declare(
    "E8003",
    "loops or blocks that do not stand as the primitive needs them",
    "For instance loops that are not nested directly in each other, a block that is not in the scope, or a loop "
    "that contains something else as well.",
    "Reorder, split or fuse first; the program in the message marks the part in question.",
)
declare(
    "E8101",
    "block variables that are not bound to loops by an affine map",
    "Moving loops is only known to be right if the values of the block's variables are sums of parts of the loop "
    "variables, each part used once, that reach every point of the block's domain no more than once.",
    "Write the bindings with +, *, // and % by constants, and guard what is too much with T.where.",
)
declare(
    "E8102",
    "a block that is neither complete nor a reduction",
    "A complete block is the only writer of its buffers in the scope, has data-parallel variables only, and reads "
    "nothing that it writes. A reduction block may also have reduction variables, which do not index its outputs, "
    "and an init, or the same written as an initialising block.",
    "The message names the condition that fails.",
)
declare(
    "E8103",
    "a region that is not covered",
    "The primitive would leave a block reading elements that nothing has written yet, or writing elements that "
    "others read and that would no longer be computed.",
    "Choose a loop further out, or make the producer compute the whole region.",
)
declare(
    "E8104",
    "an order that would change the result",
    "Blocks or iterations depend on each other, and the primitive would run them in another order.",
    "The message names the two sides and the buffer between them.",
)
declare(
    "E8105",
    "a buffer that cannot be changed",
    "The buffer's accesses, its scope, or its place (a parameter, a view) do not allow what the primitive does.",
    "Make a local copy first: `cache_read` or `cache_write`.",
)
declare(
    "E8106",
    "a computation that does not match",
    "The block does not have the form that the primitive, or the tensor intrinsic, describes.",
    "The message shows the first difference.",
)
declare(
    "E8107",
    "a trace that cannot be replayed",
    "The trace is not written as this version writes it, or names something that the program does not have.",
    "Save the trace again with `Trace.as_json`.",
)
