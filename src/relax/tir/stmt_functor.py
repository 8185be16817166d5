"""TVM's name for the functions that walk and rewrite statements; they are defined in `functor`."""

from __future__ import annotations

from .functor import ir_transform, post_order_visit, pre_order_visit, substitute
from .renew import renew_bound_vars as renew_defs

__all__ = ["ir_transform", "post_order_visit", "pre_order_visit", "renew_defs", "substitute"]
