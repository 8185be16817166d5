"""What code generation refuses: blocks, loops that were not lowered, and annotations that nothing has read."""

from __future__ import annotations

import pytest

from relax import codegen, tir
from relax.codegen.supported_attributes import FUNCTION_ATTRIBUTES, LOOP_ANNOTATIONS
from relax.ir import DiagnosticError
from relax.script import from_source

HEAD = """
@T.prim_func
def f(A: T.Buffer((8,), "float32")):
"""
REMOVE = "remove it, or run the pass that reads it (known here: "
LOWER = "lower the module first: relax.tir.lower(mod)"

UNKNOWN = {
    "a function's attribute": (
        '    T.func_attr({"my.note": 1})\n    A[0] = T.float32(1)',
        "code generation does not know the function attribute my.note",
        3,
        REMOVE + ", ".join(FUNCTION_ATTRIBUTES) + ")",
    ),
    "an attribute nearly right": (
        '    T.func_attr({"tir.no_alias": True})\n    A[0] = T.float32(1)',
        "code generation does not know the function attribute tir.no_alias",
        3,
        "did you mean tir.noalias?",
    ),
    "a loop's annotation": (
        '    for i in T.serial(8, annotations={"pragma_unroll": 4}):\n        A[i] = T.float32(1)',
        "code generation does not know the annotation pragma_unroll of loop i",
        4,
        REMOVE + ", ".join(LOOP_ANNOTATIONS) + ")",
    ),
    "a statement's attribute": (
        '    with T.attr(0, "pragma_something", 1):\n        A[0] = T.float32(1)',
        "code generation does not know the attribute pragma_something",
        4,
        "remove it",
    ),
    "an allocation's annotation": (
        '    C = T.allocate((4,), annotations={"align": 8})\n    C[0] = T.float32(1)\n    A[0] = C[0]',
        "code generation does not know the annotation align of buffer C",
        4,
        REMOVE + "none)",
    ),
}


@pytest.mark.parametrize("body, message, line, hint", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown(body, message, line, hint):
    with pytest.raises(DiagnosticError) as caught:
        codegen.build_module({"f": from_source(HEAD + body)})
    (found,) = caught.value.diagnostics
    assert (found.code, found.message, found.span.line, found.hint) == ("E5910", message, line, hint)


def test_storage_of_other_machines():
    body = '    C = T.allocate((4,), scope="{}")\n    C[0] = T.float32(1)\n    A[0] = C[0]'
    with pytest.raises(DiagnosticError) as caught:
        codegen.build_module({"f": from_source(HEAD + body.format("shared.dyn"))})
    (refused,) = caught.value.diagnostics
    assert refused.code == "E5911"
    assert refused.message == "buffer C is allocated in scope 'shared.dyn', which a CPU does not have"
    assert refused.hint == 'allocate it in scope "global" or "local"'
    codegen.build_module({"f": from_source(HEAD + body.format("local"))})


UNLOWERED = {
    "a block": ('    with T.block("B"):\n        A[0] = T.float32(1)', "block B must be lowered to loops first"),
    "a parallel loop": (
        "    for i in T.parallel(8):\n        A[i] = T.float32(1)",
        "the parallel loop i must be lowered first",
    ),
    "a vectorised loop": (
        "    for i in T.vectorized(8):\n        A[i] = T.float32(1)",
        "the vectorized loop i must be lowered first",
    ),
}


@pytest.mark.parametrize("body, message", UNLOWERED.values(), ids=UNLOWERED)
def test_not_lowered(body, message):
    func = from_source(HEAD + body)
    with pytest.raises(DiagnosticError) as caught:
        codegen.compile_module({"f": func})
    (found,) = caught.value.diagnostics
    assert (found.code, found.message, found.span.line, found.hint) == ("E5904", message, 4, LOWER)
    codegen.build_module({"f": func})  # lowers it


def test_what_is_known_is_explained():
    for meaning in (*FUNCTION_ATTRIBUTES.values(), *LOOP_ANNOTATIONS.values()):
        assert len(meaning) > 20


def test_annotations_of_blocks_are_for_schedules_and_end_with_the_block():
    body = '    with T.block("B"):\n        T.block_attr({"schedule_rule": "none"})\n        A[0] = T.float32(1)'
    assert not hasattr(tir.lower(from_source(HEAD + body)).body, "annotations")
