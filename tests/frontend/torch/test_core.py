"""The core ATen opset: each operator is imported, is taken apart by torch, or is refused for a reason."""

from __future__ import annotations

import pytest

from relax.frontend.torch import from_exported_program, registry
from relax.ir import DiagnosticError

torch = pytest.importorskip("torch")

from torch_programs import exported  # noqa: E402

COMPLEX = {"_fft_c2r.default", "_fft_r2c.default"}
"""Operators of complex tensors, whose converters are those of pairs: see test_fft.py."""
OUTPUTS = {"atan2.out", "resize_.default"}
"""Overloads that write into an operand, which torch replaces before the import."""


def core_operators():
    names = {*dir(torch.ops.aten), "resize_"}  # dir has operators that were used, such as this one by meta kernels
    packets = [getattr(torch.ops.aten, name) for name in sorted(names)]
    for packet in packets:
        overloads = packet.overloads() if hasattr(packet, "overloads") else []
        for overload in (getattr(packet, name) for name in overloads):
            if torch.Tag.core in overload.tags:
                yield overload


def is_number(operator):
    """True for an operator that gives a number of the shapes, which the import reads from torch's derivation."""
    return operator.name().startswith("aten::sym_")


def test_every_core_operator_is_imported_or_refused():
    taken_apart = torch.export.default_decompositions()
    missing = {
        str(operator).removeprefix("aten.")
        for operator in core_operators()
        if registry.find(str(operator)) is None and operator not in taken_apart and not is_number(operator)
    }
    assert missing == COMPLEX | OUTPUTS


def refusal(function, *inputs):
    with pytest.raises(DiagnosticError) as info:
        from_exported_program(exported(function, inputs))
    (diagnostic,) = info.value.diagnostics
    assert diagnostic.code == "E6001"
    return diagnostic


def test_gradients_are_refused():
    diagnostic = refusal(
        lambda dy, x: torch.ops.aten.fractional_max_pool2d_backward(dy, x, [2, 2], [2, 2], dy.long()),
        torch.ones(1, 2, 2),
        torch.ones(1, 4, 4),
    )
    assert diagnostic.message == "the operator aten.fractional_max_pool2d_backward.default is not supported"
    assert diagnostic.hint == "export what computes the result alone: gradients are not imported"


def test_complex_operators_without_a_converter_are_refused():
    diagnostic = refusal(lambda x: torch.unique(torch.fft.rfft(x)), torch.ones(8))
    assert diagnostic.message == "the operator aten._unique2.default is not supported for complex tensors"
    assert diagnostic.hint == "compute it of the real and the imaginary part: x.real, x.imag, torch.complex"
