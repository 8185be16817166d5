"""The table of writers: Relax operator name -> function that writes ONNX nodes.

    @writer("relax.nn.relu")
    def relu(g: Graph, operator: nn.Relu, data: Tensor) -> Tensor:
        return g.run("Relu", data)

A writer gets the graph, the operator (its attributes), and a value per operand: a `Tensor`, a `Sizes`, a list of values
for a tuple, None for an operand left out. A scalar comes as a tensor without dimensions. It returns a tensor (or sizes,
or a list for a tuple), which is cast to the dtype that was derived for the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .tensor import Size, Tensor

Writer = Callable[..., Any]

WriterT = TypeVar("WriterT", bound=Writer)

WRITERS: dict[str, Writer] = {}
"""Writers by the name of the operator."""


class Sizes:
    """A shape value: its dimensions, or the vector of int64 that holds them."""

    __slots__ = ("given", "graph_vector")

    def __init__(self, given: list[Size] | None, vector: Tensor | None = None) -> None:
        self.given, self.graph_vector = given, vector

    def vector(self, like: Any) -> Tensor:
        """The sizes as a vector of int64, written into the graph `like` if it is not there yet."""
        if self.graph_vector is not None:
            return self.graph_vector.at(like)
        assert self.given is not None, "a shape is given by its sizes or by a vector"
        return like.shape(self.given)

    def values(self, like: Any, count: int) -> list[Size]:
        """The sizes one by one, elements of the vector where only that is known."""
        if self.given is not None:
            return self.given
        vector = self.vector(like)
        return [like.run("Gather", vector, like.const(i, "int64"), rank=0) for i in range(count)]


def writer(*names: str) -> Callable[[WriterT], WriterT]:
    """Declare the writer of the operators of these names."""

    def declare(function: WriterT) -> WriterT:
        for name in names:
            WRITERS[name] = function
        return function

    return declare
