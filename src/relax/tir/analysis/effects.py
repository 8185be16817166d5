"""Side effects of expressions, and purity of functions."""

from __future__ import annotations

import enum

from ...ir import Diagnostic, DiagnosticError, GlobalVar, Node
from ...prim import Call, PrimExpr, Var, post_order
from ...prim.intrin import is_pure
from ..buffer import BufferLoad
from ..functor import pre_order_visit
from ..stmt import AllocBuffer, Block, BufferStore, DeclBuffer, MatchBufferRegion, PrimFunc


class CallEffectKind(enum.IntEnum):
    """Kinds of effects of evaluating an expression, with TVM's numbers; a larger kind includes the smaller ones."""

    ExprAnnotation = 0
    Pure = 1
    ReadState = 2
    UpdateState = 3
    Opaque = 4
    SpecialCallArg = 5
    EmbedInfo = 6
    ControlJump = 7


_KINDS = {
    "likely": CallEffectKind.ExprAnnotation,
    "type_annotation": CallEffectKind.Pure,
    "assume": CallEffectKind.EmbedInfo,
    "ret": CallEffectKind.ControlJump,
}


def side_effect(expr: PrimExpr) -> CallEffectKind:
    """Return the greatest effect of any part of an expression."""
    kinds = [CallEffectKind.Pure]

    def visit(node: PrimExpr) -> None:
        if isinstance(node, BufferLoad):
            kinds.append(CallEffectKind.ReadState)
        elif isinstance(node, Call):
            default = CallEffectKind.Pure if is_pure(node) else CallEffectKind.Opaque
            kinds.append(_KINDS.get(node.intrinsic, default))

    post_order(expr, visit)
    return max(kinds)


def impurities(func: PrimFunc) -> list[tuple[Node, str]]:
    """Return the nodes that affect more than the function's own storage, each with a description of the effect."""
    own: set[Var] = set()
    views: dict[Var, Var] = {}
    effects: list[tuple[Node, str]] = []

    def visit(node: Node) -> None:
        match node:
            case AllocBuffer(buffer) | DeclBuffer(buffer):
                if isinstance(node, AllocBuffer):
                    own.add(buffer.data)
            case Block():
                own.update(buffer.data for buffer in node.alloc_buffers)
            case MatchBufferRegion(buffer, source):
                views[buffer.data] = source.buffer.data
            case BufferStore(buffer):
                data = buffer.data
                while data in views:
                    data = views[data]
                if data not in own:
                    effects.append((node, f"stores to {buffer.name}, which it does not allocate"))
            case Call() if not is_pure(node):
                callee = node.op.name_hint if isinstance(node.op, GlobalVar) else node.intrinsic
                effects.append((node, f"calls {callee}"))
            case _:
                pass

    pre_order_visit(func.body, visit)
    return effects


def is_pure_function(func: PrimFunc) -> bool:
    """True if a function stores only to its own allocations, and calls no function that may have an effect."""
    return not impurities(func)


def assert_pure_function(func: PrimFunc) -> bool:
    """Return True if a function is pure; raise DiagnosticError with every effect otherwise."""
    name = str(func.attrs.get("global_symbol", "a PrimFunc"))
    hint = "a pure function stores only to buffers that it allocates"
    diagnostics = [
        Diagnostic("E5021", f"{name} is not pure: it {effect}", node.span or func.span, f"in {name}", hint=hint)
        for node, effect in impurities(func)
    ]
    if diagnostics:
        raise DiagnosticError(diagnostics)
    return True
