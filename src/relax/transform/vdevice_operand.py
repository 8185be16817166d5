"""Virtual devices as the machine's builtins take them: integers that count the module's list."""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import PrimValue
from ..info.runtime import device_name
from ..ir import Diagnostic, DiagnosticError, Span, VDevice, vdevice_index
from ..op.errors import UNLISTED_DEVICE

NO_CODE = "E4104"
"""A virtual device for whose target no code is generated."""


class VDeviceOperands:
    """The integers for the virtual devices of one module."""

    def __init__(self, listed: Sequence[VDevice]) -> None:
        self.listed = listed

    def index(self, vdevice: VDevice | None, span: Span | None = None, where: str = "") -> int:
        """The number of a device; the first one is where tensors are put of which nothing is said.

        Raises DiagnosticError for a device that is not in the list, and for one that nothing runs on.
        """
        if vdevice is None:
            return 0
        index = vdevice_index(vdevice, self.listed)
        if index is None:
            name = f"{vdevice.target}:{vdevice.vdevice_id}"
            hint = 'list it in I.module_global_infos({"vdevice": [...]})'
            message = f"the module does not list the virtual device {name}"
            raise DiagnosticError(Diagnostic(UNLISTED_DEVICE, message, span, where, hint=hint))
        if not device_name(vdevice).startswith("cpu:"):
            message = f"there is no code generator for {vdevice.target}, the target of virtual device {index}"
            hint = "devices of the host have the target llvm; several differ in their number"
            raise DiagnosticError(Diagnostic(NO_CODE, message, span, where, hint=hint))
        return index

    def operand(self, vdevice: VDevice | None, span: Span | None = None, where: str = "") -> PrimValue:
        """Index of a virtual device, as an argument of a call."""
        return PrimValue(self.index(vdevice, span, where))
