"""Extreme attributes of every operator: each gives a module or a diagnostic; see tools/differential/extreme_attributes.py."""

from __future__ import annotations

import onnx
import pytest

from differential import extreme_attributes
from relax.frontend.onnx import registry

DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft")
CONVERTED = {
    (domain, name): registry.find(domain, name, 1000) for domain in DOMAINS for name in registry.names_in(domain)
}
FUNCTIONS = {(schema.domain, schema.name) for schema in onnx.defs.get_all_schemas() if schema.has_function}


@pytest.mark.parametrize("key", sorted({*CONVERTED, *FUNCTIONS}), ids=lambda key: ".".join(filter(None, key)))
def test_extreme_attributes_are_modules_or_refused(key):
    assert extreme_attributes.failures(key) == {}


def test_operators_without_a_node_in_the_table_have_no_attributes():
    missing = CONVERTED.keys() - extreme_attributes.seeds().keys()
    assert not {key for key in missing if CONVERTED[key] is not None and CONVERTED[key].attributes}
