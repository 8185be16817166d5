"""Mutator: replaces modules, parameters and effects inside of a module.

class Quantize(nn.Mutator):
    def visit_module(self, name, node):
        if isinstance(node, nn.Linear):
            return nn.QuantizedLinear(node.in_features, node.out_features)
        return super().visit_module(name, node)

model = Quantize().visit("", model)
"""

from __future__ import annotations

from typing import Any

from .core import Module, ModuleDict, ModuleList, ParameterDict, ParameterList, members
from .effect import Effect
from .parameter import Parameter


class Mutator:
    """Visitor that replaces what its methods return something else for.

    `name` is the path of a node, "layers.0.weight". The methods given visit what a node holds, and return the node.
    """

    def visit_module(self, name: str, node: Module) -> Any:
        """Return what replaces a module that is no list or dictionary; by default, its attributes are visited."""
        return self._visit_members(name, node)

    def visit_effect(self, name: str, node: Effect) -> Any:
        """Return what replaces an effect."""
        return node

    def visit_param(self, name: str, node: Parameter) -> Any:
        """Return what replaces a parameter."""
        return node

    def visit_modulelist(self, name: str, node: ModuleList) -> Any:
        """Return what replaces a list of modules; by default, its modules are visited."""
        return self._visit_members(name, node)

    def visit_moduledict(self, name: str, node: ModuleDict) -> Any:
        """Return what replaces a dictionary of modules; by default, its modules are visited."""
        return self._visit_members(name, node)

    def visit_parameterlist(self, name: str, node: ParameterList) -> Any:
        """Return what replaces a list of parameters; by default, its parameters are visited."""
        return self._visit_members(name, node)

    def visit_parameterdict(self, name: str, node: ParameterDict) -> Any:
        """Return what replaces a dictionary of parameters; by default, its parameters are visited."""
        return self._visit_members(name, node)

    def visit(self, name: str, node: Any) -> Any:
        """Return what replaces a node of any kind; values of other kinds are returned unchanged."""
        match node:
            case ModuleList():
                return self.visit_modulelist(name, node)
            case ModuleDict():
                return self.visit_moduledict(name, node)
            case ParameterList():
                return self.visit_parameterlist(name, node)
            case ParameterDict():
                return self.visit_parameterdict(name, node)
            case Module():
                return self.visit_module(name, node)
            case Effect():
                return self.visit_effect(name, node)
            case Parameter():
                return self.visit_param(name, node)
            case _:
                return node

    def _visit_members(self, name: str, node: Any) -> Any:
        """Visit what a module holds, and put what is returned in its place."""
        for key, item in members(node):
            path = f"{name}.{key}" if name else key
            new = self.visit(path, item)
            if new is item:
                continue
            if isinstance(node, (ModuleList, ParameterList)):
                node[int(key)] = new
            elif isinstance(node, (ModuleDict, ParameterDict)):
                node[key] = new
            else:
                setattr(node, key, new)
        return node
