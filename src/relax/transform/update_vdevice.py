"""Put another virtual device in the place of one that the module lists.

Before   I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})
         def main(x: R.Tensor((n,), "float32", "llvm:1")): ...
After    UpdateVDevice(VDevice("llvm", 5), 1)
         I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 5)]})
         def main(x: R.Tensor((n,), "float32", "llvm:1")): ...            # the second of the list, as before

Every annotation and operator that names the old device names the new one.
"""

from __future__ import annotations

from ..analysis.properties import NORMAL_FORM
from ..derive.normalize import normalize_module
from ..expr import Call
from ..ir import IRModule, RelaxExpr, StructInfo, VDevice, listed_vdevices, same_vdevice
from ..ir.vdevice import VDEVICES
from ..op.intrinsics import Placing
from ..rewrite import Rewriter
from ..struct_info import TensorStructInfo
from .decorators import module_pass


@module_pass(needs={NORMAL_FORM}, breaks=())
def UpdateVDevice(mod: IRModule, new_vdevice: VDevice, index: int) -> IRModule:
    """Replace the virtual device number `index` of the module. Raises IndexError if it lists no such device."""
    listed = listed_vdevices(mod)
    if not 0 <= index < len(listed):
        raise IndexError(f"UpdateVDevice: the module lists {len(listed)} virtual devices, there is no number {index}")
    old = listed[index]
    if same_vdevice(old, new_vdevice):
        return mod
    devices = (*listed[:index], new_vdevice, *listed[index + 1 :])
    mod = mod.replace(global_infos={**mod.global_infos, VDEVICES: devices})
    return normalize_module(_Updater(mod, old, new_vdevice).module())


class _Updater(Rewriter):
    def __init__(self, mod: IRModule, old: VDevice, new: VDevice) -> None:
        super().__init__(mod)
        self.old, self.new = old, new

    def info(self, struct_info: StructInfo) -> StructInfo:
        info = super().info(struct_info)
        if isinstance(info, TensorStructInfo) and same_vdevice(info.vdevice, self.old):
            return info.replace(vdevice=self.new)
        return info

    def call(self, call: Call) -> RelaxExpr:
        match call.attrs:
            case Placing(dst_vdevice=dst) if same_vdevice(dst, self.old):
                call = call.replace(attrs=call.attrs.replace(dst_vdevice=self.new))
            case _:
                pass
        return super().call(call)
