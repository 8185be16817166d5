"""Nodes to JSON and back: a table of nodes in which shared ones (variables above all) stand once."""

from __future__ import annotations

import base64
import json
from typing import Any, cast

import numpy as np

from .deep import run_deep
from .dtype import DataType
from .node import NODE_CLASSES, Node, node_key
from .op import Op

FORMAT = 1


def save_json(value: Any) -> str:
    """A node (or a tuple or dict of nodes) as JSON text. Spans are not kept."""

    def text() -> str:
        writer = _Writer()
        root = writer.encode(value)
        return json.dumps({"format": FORMAT, "root": root, "nodes": writer.nodes}, separators=(",", ":"))

    return run_deep("the program", "saved", text)


def load_json(text: str) -> Any:
    """The value `save_json` wrote. Raises ValueError for text that is not such JSON."""
    try:
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']} is not {FORMAT}")
        return _Reader(document["nodes"]).decode(document["root"])
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise ValueError(f"not a saved relax program: {type(error).__name__}: {error}") from error


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.index: dict[int, int] = {}

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
            data = base64.b64encode(array.tobytes()).decode()  # in C order, whatever the array's own
            return {"a": [array.dtype.name, list(array.shape), data]}
        if isinstance(value, float):
            return {"f": value.hex()}
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, str):  # a str-valued enum is saved as its value
            return str(getattr(value, "value", value))
        raise TypeError(f"cannot save a {type(value).__name__}")

    def node(self, value: Node) -> int:
        known = self.index.get(id(value))
        if known is not None:
            return known
        if isinstance(value, Op):
            record: list[Any] = ["op", value.name]
        else:
            fields = [self.encode(getattr(value, spec.name)) for spec in value.__node_fields__]
            record = [node_key(type(value)), fields, self.encode(value.__extra_state__())]
        self.index[id(value)] = len(self.nodes)
        self.nodes.append(record)
        return self.index[id(value)]


class _Reader:
    def __init__(self, records: list[Any]) -> None:
        self.records = records
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
            dtype, shape, data = body
            flat: Any = np.frombuffer(base64.b64decode(data), DataType(dtype).numpy())
            return flat.reshape(tuple(shape))
        raise ValueError(f"unknown code {kind!r}")

    def node(self, record: list[Any]) -> Node:
        if record[0] == "op":
            return Op.get(record[1])
        cls = NODE_CLASSES[record[0]]
        names = (spec.parameter for spec in cls.__node_fields__)
        values = dict(zip(names, map(self.decode, record[1]), strict=True))
        made = cls(**values)  # type: ignore[call-arg]
        extra = self.decode(record[2])
        if extra is not None:
            made.__setstate__(extra)
        return made
