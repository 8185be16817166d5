"""Infer the virtual device of every tensor, and turn device hints into copies.

Before   I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})
         def main(x: R.Tensor((n,), "float32"), y: R.Tensor((n,), "float32", "llvm:1")):
             h = R.hint_on_device(x, "llvm:0")
             a = R.exp(h)
             b = R.hint_on_device(a, "llvm:1")
             return R.add(b, y)
After    def main(x: R.Tensor((n,), "float32", "llvm:0"), y: R.Tensor((n,), "float32", "llvm:1")):
             h = x
             a = R.exp(h)                               # on llvm:0, where h is
             b = R.to_vdevice(a, "llvm:1")
             return R.add(b, y)                         # on llvm:1

What annotations, results and to_vdevice say is propagated, backwards and forwards; a hint is knowledge where nothing
else is known, nothing where the value is there anyway, and a copy where it is elsewhere. A to_vdevice to where the
value is anyway gives the value itself, and goes. How devices spread is told in ``relax.analysis.vdevices``. A module
that lists no virtual devices is left alone; done twice, the pass does nothing more.

Declines: a value that must be on two devices at once (E3106), a device that the module does not list (E3107).
"""

from __future__ import annotations

from ..analysis.properties import DEVICES_PLACED, NO_OPERATORS, NORMAL_FORM
from ..analysis.realize_vdevices import realize_vdevices
from ..ir import IRModule
from .decorators import module_pass


@module_pass(needs={NORMAL_FORM}, gives={DEVICES_PLACED}, breaks={NO_OPERATORS})
def RealizeVDevice(mod: IRModule) -> IRModule:
    """Propagate virtual devices; see the module's docstring. Raises DiagnosticError for conflicts."""
    return realize_vdevices(mod)
