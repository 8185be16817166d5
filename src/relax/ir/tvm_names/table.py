"""Structure of the table: a Namespace per module of TVM, a Row per public name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from ...runtime.records import dataclass

Status: TypeAlias = Literal["works", "differs", "not yet"]


@dataclass(frozen=True, slots=True)
class Row:
    """One public name of TVM, and its counterpart in this package."""

    module: str
    """Module (or class) in TVM: tvm.relax.transform."""
    name: str
    here: str
    """Full path of the counterpart, such as relax.transform.FuseOps; "" if there is none."""
    status: Status
    note: str = ""
    """Difference, or replacement."""

    @property
    def renamed(self) -> bool:
        """True if the counterpart has another name."""
        return self.status == "differs" and not self.note


@dataclass(frozen=True)
class Namespace:
    """Public names of a module (or class) of TVM. Names that share an entry are separated by spaces."""

    tvm: str
    here: str
    """Module of this package that has, or would have, these names."""
    works: str = ""
    """Names with the same meaning here."""
    differs: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names with a slightly different meaning, and the difference."""
    elsewhere: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names that are elsewhere in this package, and where."""
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names that are not implemented, with the replacement or the reason."""

    def rows(self) -> Iterator[Row]:
        """One row for each name."""
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
