"""Planned tensors and storages of a function, and figures about them: what is alive at once, and how little would do.

Time is counted in bindings. Of what the branches of an If allocate, the larger counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..runtime.records import dataclass

Path = tuple[tuple[int, bool], ...]
"""Enclosing branches of a binding, outermost first: (number of the If, which branch)."""


@dataclass(frozen=True)
class PlannedTensor:
    """A tensor that a function allocates, for some sizes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    storage: str | None
    """Storage that contains the tensor; None if it has memory of its own."""
    offset: int
    first: int
    """Number of the allocating binding."""
    last: int
    """Number of the last binding that uses the tensor; the function's last binding if the tensor escapes."""
    escapes: bool
    path: Path = ()


@dataclass(frozen=True)
class PlannedStorage:
    """A storage that a function allocates, for some sizes."""

    name: str
    nbytes: int
    first: int
    last: int
    path: Path = ()


@dataclass(frozen=True)
class PlanFigures:
    """The tensors and storages of one function, for some sizes of its shape variables."""

    function: str
    sizes: Mapping[str, int]
    tensors: Sequence[PlannedTensor]
    storages: Sequence[PlannedStorage]

    @property
    def lower_bound(self) -> int:
        """The bytes of the largest set of tensors that are alive at once: no plan for this order needs less."""
        return max((alive_at(t.first, t.path, self.tensors) for t in self.tensors), default=0)

    def alive_in(self, storage: PlannedStorage) -> int:
        """The bytes of the largest set of tensors in a storage that are alive at once."""
        inside = [tensor for tensor in self.tensors if tensor.storage == storage.name]
        return max((alive_at(t.first, t.path, inside) for t in inside), default=0)

    @property
    def peak(self) -> int:
        """The most bytes that storages and tensors with memory of their own take at once."""
        items = [*self.storages, *(tensor for tensor in self.tensors if tensor.storage is None)]
        return max((alive_at(item.first, item.path, items) for item in items), default=0)

    @property
    def total(self) -> int:
        """The bytes of all tensors: what would be needed if none shared memory with another."""
        return sum(tensor.nbytes for tensor in self.tensors)


# ---------------------------------------------------------------------------------- what is alive at once


def alive_at(at: int, path: Path, items: Iterable[PlannedTensor | PlannedStorage]) -> int:
    """Return the bytes alive after a binding; alternative branches count with the larger one."""
    alive = [item for item in items if item.first <= at <= item.last and not excluded(item.path, path)]
    return _together(alive, 0)


def excluded(a: Path, b: Path) -> bool:
    """True if two bindings lie in different branches of one If."""
    return any(x[0] == y[0] and x[1] != y[1] for x, y in zip(a, b, strict=False))


def _together(items: Sequence[PlannedTensor | PlannedStorage], depth: int) -> int:
    """Return the bytes of items alive at once; items of different branches exclude each other."""
    total = sum(item.nbytes for item in items if len(item.path) == depth)
    deeper = [item for item in items if len(item.path) > depth]
    for number in dict.fromkeys(item.path[depth][0] for item in deeper):
        total += max(
            _together([item for item in deeper if item.path[depth] == (number, taken)], depth + 1)
            for taken in (True, False)
        )
    return total
