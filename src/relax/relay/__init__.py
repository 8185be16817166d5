"""Relay: the functional language that preceded Relax.

Nodes are defined in `expr`, `adt` and `types`, their children in `parts`, evaluation scopes in `scopes`. `functor` has
traversals, `structural` equality, `analysis` analyses, `operators` the operator registry, `text` the text format, and
`prelude` lists, options and trees. See docs/relay.md.
"""

from __future__ import annotations

from typing import Any as _Any

from ..ir import GlobalVar, IRModule, Op
from ..ir.tvm_names import answer_missing as _answer_missing
from . import analysis, ops, quantize, transform, vm
from .adt import Clause, Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from .attrs import Attrs
from .calls import TupleWrapper, public
from .cases import unmatched_cases, unreachable_clauses
from .evaluator import Evaluator
from .executor import build, create_executor
from .expr import (
    Call,
    Constant,
    Expr,
    ExprWithOp,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    RelayExpr,
    TempExpr,
    Tuple,
    TupleGetItem,
    Var,
    const,
    update_checked_type,
    var,
)
from .functor import ExprFunctor, ExprMutator, ExprVisitor, MixedModeMutator, TypeMutator, TypeVisitor
from .gradient_rules import register_gradient
from .infer import infer_type
from .operators import (
    REQUIRED,
    AttrField,
    OperatorSpec,
    call_operator,
    list_operators,
    make_attrs,
    operator_spec,
    register_operator,
)
from .prelude import Prelude, import_from_std
from .structural import alpha_equal, alpha_hash, assert_alpha_equal
from .text import astext, fromtext, parse, parse_expr, parse_type
from .to_relax import to_relax
from .types import (
    Any,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    ShapeVar,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeConstraint,
    TypeData,
    TypeKind,
    TypeRelation,
    TypeVar,
    scalar_type,
)
from .values import Closure, ConstructorValue, RefValue

__all__ = [
    "REQUIRED", "Any", "AttrField", "Attrs", "Call", "Clause", "Closure", "Constant", "Constructor",
    "ConstructorValue", "Evaluator", "Expr", "ExprFunctor", "ExprMutator", "ExprVisitor", "ExprWithOp", "FuncType",
    "Function", "GlobalTypeVar", "GlobalVar", "IRModule", "If", "IncompleteType", "Let", "Match",
    "MixedModeMutator", "Op", "OperatorSpec", "Pattern", "PatternConstructor", "PatternTuple", "PatternVar",
    "PatternWildcard", "Prelude", "RefCreate", "RefRead", "RefType", "RefValue", "RefWrite", "RelayExpr",
    "ShapeVar", "TempExpr", "TensorType", "Tuple", "TupleGetItem", "TupleType", "TupleWrapper", "Type", "TypeCall",
    "TypeConstraint", "TypeData", "TypeKind", "TypeMutator", "TypeRelation", "TypeVar", "TypeVisitor", "Var",
    "alpha_equal", "alpha_hash", "analysis", "assert_alpha_equal", "astext", "build", "call_operator", "const",
    "create_executor", "fromtext", "import_from_std", "infer_type", "list_operators", "make_attrs", "operator_spec",
    "ops", "parse", "parse_expr", "parse_type", "quantize", "register_gradient", "register_operator", "scalar_type",
    "to_relax", "transform", "unmatched_cases", "unreachable_clauses", "update_checked_type", "var", "vm",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    return public(name)


_answer_missing(__name__)
