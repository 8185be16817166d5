"""The form of the table: one Namespace for each module of TVM, one Row for each of its public names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Status: TypeAlias = Literal["works", "differs", "not yet"]


@dataclass(frozen=True, slots=True)
class Row:
    """One public name of TVM, and what this package has for it."""

    module: str
    """The module of TVM (or class): tvm.relax.transform."""
    name: str
    here: str
    """The attribute of this package that does it, from its root: relax.transform.FuseOps. "" if there is none."""
    status: Status
    note: str = ""
    """The difference, or what to use instead."""

    @property
    def renamed(self) -> bool:
        """True if the attribute here is not called as in TVM."""
        return self.status == "differs" and not self.note


@dataclass(frozen=True)
class Namespace:
    """The public names of a module (or class) of TVM. Keys of several names have spaces between them."""

    tvm: str
    here: str
    """The module of this package that has these names, or would have them."""
    works: str = ""
    """Names that mean the same here."""
    differs: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names that mean nearly the same: what differs."""
    elsewhere: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names under which nothing is found here: where it is."""
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of what is not built: what to use instead, or why there is none."""

    def rows(self) -> Iterator[Row]:
        """All names, one row each."""
        for name in self.works.split():
            yield Row(self.tvm, name, f"{self.here}.{name}", "works")
        for names, note in self.differs.items():
            for name in names.split():
                yield Row(self.tvm, name, f"{self.here}.{name}", "differs", note)
        for name, here in self.elsewhere.items():
            yield Row(self.tvm, name, here, "differs")
        for names, note in self.missing.items():
            for name in names.split():
                yield Row(self.tvm, name, "", "not yet", note)


__all__ = ["Namespace", "Row", "Status"]
