"""JSON serialisation of nodes: a table in which shared nodes, above all variables, occur once.

Array contents are in a separate list, encoded in base64.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from .deep import run_deep
from .dtype import DataType
from .node import Node, node_class, node_key
from .op import Op

FORMAT = 2


def save_json(value: Any) -> str:
    """Serialise a node (or a tuple or dict of nodes) to JSON text, without spans."""

    def text() -> str:
        writer = _Writer()
        root = writer.encode(value)
        table = json.dumps({"format": FORMAT, "root": root, "nodes": writer.nodes}, separators=(",", ":"))
        data = '","'.join(writer.data)  # base64 needs no escapes, which json.dumps would look for in each byte
        return f'{table[:-1]},"data":["{data}"]}}' if writer.data else table

    return run_deep("the program", "saved", text)


def load_json(text: str) -> Any:
    """Deserialise the text of `save_json`. Raises ValueError for invalid text."""
    try:
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']} is not {FORMAT}")
        return _Reader(document["nodes"], document.get("data", ())).decode(document["root"])
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise ValueError(f"not a saved relax program: {type(error).__name__}: {error}") from error


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.index: dict[int, int] = {}
        self.data: list[str] = []

    def encode(self, value: Any) -> Any:
        if isinstance(value, Node):
            return {"n": self.node(value)}
        if isinstance(value, (tuple, list)):
            return {"t": [self.encode(item) for item in cast("tuple[Any, ...]", value)]}
        if isinstance(value, dict):
            table = cast("dict[Any, Any]", value)
            return {"d": [[self.encode(k), self.encode(v)] for k, v in table.items()]}
        if isinstance(value, DataType):
            return {"y": str(value)}
        if isinstance(value, np.ndarray):
            array: Any = cast(Any, value)
            # In C order, whatever the array's own.
            self.data.append(base64.b64encode(array.tobytes()).decode("ascii"))
            return {"a": [array.dtype.name, list(array.shape), len(self.data) - 1]}
        if isinstance(value, float):
            return {"f": value.hex()}
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, str):  # a str-valued enum is saved as its value
            return str(getattr(value, "value", value))
        raise TypeError(f"cannot save a {type(value).__name__}")

    def node(self, value: Node) -> int:
        index = self.index.get(id(value))
        if index is not None:
            return index
        if isinstance(value, Op):
            record: list[Any] = ["op", value.name]
        else:
            fields = [self.encode(getattr(value, spec.name)) for spec in value.__node_fields__]
            record = [node_key(type(value)), fields, self.encode(value.__extra_state__())]
        self.index[id(value)] = len(self.nodes)
        self.nodes.append(record)
        return self.index[id(value)]


class _Reader:
    def __init__(self, records: list[Any], data: Sequence[str]) -> None:
        self.data = data
        self.made: list[Node] = []
        for record in records:  # a node follows the nodes it is made of
            self.made.append(self.node(record))

    def decode(self, code: Any) -> Any:
        if isinstance(code, dict):
            ((kind, body),) = cast("dict[str, Any]", code).items()
            return self.tagged(kind, body)
        return cast("str | int | float | bool | None", code)

    def tagged(self, kind: str, body: Any) -> Any:
        if kind == "n":
            if body < 0:
                raise ValueError("negative node index")
            return self.made[int(body)]
        if kind == "t":
            return tuple(self.decode(item) for item in body)
        if kind == "d":
            return {self.decode(k): self.decode(v) for k, v in body}
        if kind == "y":
            return DataType(body)
        if kind == "f":
            return float.fromhex(body)
        if kind == "a":
            return self.array(*body)
        raise ValueError(f"unknown code {kind!r}")

    def array(self, dtype: str, shape: list[int], index: int) -> Any:
        kind = DataType(dtype).numpy()
        if not all(type(size) is int and size >= 0 for size in shape) or index < 0:
            raise ValueError(f"no array has the shape {shape} and the index {index}")
        data = base64.b64decode(self.data[index], validate=True)
        expected = math.prod(shape) * kind.itemsize
        if len(data) != expected:
            raise ValueError(f"an array of {dtype}{shape} needs {expected} bytes, found {len(data)}")
        flat: Any = np.frombuffer(data, kind)
        return flat.reshape(tuple(shape))

    def node(self, record: list[Any]) -> Node:
        if record[0] == "op":
            return Op.get(record[1])
        cls = node_class(record[0])
        names = (spec.parameter for spec in cls.__node_fields__)
        values = dict(zip(names, map(self.decode, record[1]), strict=True))
        decoded = cls(**values)  # type: ignore[call-arg]
        extra = self.decode(record[2])
        if extra is not None:
            decoded.__setstate__(extra)
        return decoded
