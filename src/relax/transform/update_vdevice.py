"""Put another virtual device in the place of one that the module lists.

Before   I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 1)]})
         def main(x: R.Tensor((n,), "float32", "llvm:1")): ...
After    UpdateVDevice(VDevice("llvm", 5), 1)
         I.module_global_infos({"vdevice": [I.vdevice("llvm", 0), I.vdevice("llvm", 5)]})
         def main(x: R.Tensor((n,), "float32", "llvm:1")): ...            # the second of the list, as before

Every annotation and operator that names the old device names the new one.
"""

from __future__ import annotations

from ..derive.normalize import normalize_module
from ..expr import Call, Function
from ..ir import IRModule, RelaxExpr, StructInfo, VDevice, listed_vdevices, same_vdevice
from ..ir.vdevice import VDEVICES
from ..op.intrinsics import HintOnDevice, ToVDevice
from ..rewrite.visitor import ExprMutator
from ..struct_info import TensorStructInfo
from .decorators import module_pass


@module_pass
def UpdateVDevice(mod: IRModule, new_vdevice: VDevice, index: int) -> IRModule:
    """Replace the virtual device number `index` of the module. Raises IndexError if it lists no such device."""
    listed = listed_vdevices(mod)
    if not 0 <= index < len(listed):
        raise IndexError(
            f"UpdateVDevice: the module lists {len(listed)} virtual devices, there is no number {index}"
        )
    old = listed[index]
    if same_vdevice(old, new_vdevice):
        return mod
    devices = (*listed[:index], new_vdevice, *listed[index + 1 :])
    mod = mod.replace(global_infos={**mod.global_infos, VDEVICES: devices})
    updater = _Updater(mod, old, new_vdevice)
    return normalize_module(
        mod.with_functions(
            {g: updater.function(f) if isinstance(f, Function) else f for g, f in mod.functions.items()}
        )
    )


class _Updater(ExprMutator):
    def __init__(self, mod: IRModule, old: VDevice, new: VDevice) -> None:
        super().__init__(mod)
        self.old, self.new = old, new

    def function(self, func: Function) -> Function:
        new = self.visit_function_(func)
        assert isinstance(new, Function)
        return new

    def visit_expr_dep_struct_info_field(self, struct_info: StructInfo) -> StructInfo:
        info = super().visit_expr_dep_struct_info_field(struct_info)
        if isinstance(info, TensorStructInfo) and same_vdevice(info.vdevice, self.old):
            return info.replace(vdevice=self.new)
        return info

    def visit_call_(self, op: Call) -> RelaxExpr:
        match op.attrs:
            case ToVDevice(dst) | HintOnDevice(dst) if same_vdevice(dst, self.old):
                op = op.replace(attrs=op.attrs.replace(dst_vdevice=self.new))
            case _:
                pass
        return super().visit_call_(op)
