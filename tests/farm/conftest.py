"""The fixture `kernels`: small PrimFuncs from formulas."""

from prim_func_helpers import kernels as kernels
