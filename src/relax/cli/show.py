"""``relax show``: show a model as text, its dataflow graph, its kernels, or their loops with the machine code."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..explanation import explain
from ..expr import Function
from ..ir import IRModule
from ..optimize.pipeline import get_pipeline
from ..script.highlight import print_highlighted
from .arguments import add_model
from .failures import SUCCESS, UNSUITABLE, failure
from .graph import graphs_of
from .graph_page import graph_page
from .kernels import kernels_table
from .models import read_executable, read_program
from .progress import progress

DESCRIPTION = "Print a model, highlighted on a terminal; or draw its dataflow as a page that zooms and searches."
EXAMPLES = """
  relax show model.onnx
  relax show model.py --pipeline graph --function main   after some passes, one function
  relax show model.onnx --graph model.html               a picture of the dataflow
  relax show model.onnx --kernels                        which schedule rule each kernel has, and why not others
  relax show model.py --machine loops.html               what the machine code of each loop does
  relax show model.relax                                 the instructions of an executable
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model(parser)
    parser.add_argument("--function", metavar="NAME", help="show only this function")
    parser.add_argument("--pipeline", metavar="NAME", help="show what these passes make of the model: graph, zero")
    parser.add_argument("--graph", metavar="FILE", type=Path, help="write a picture of the dataflow to an HTML file")
    parser.add_argument("--kernels", action="store_true", help="list the kernels with their schedule rules")
    parser.add_argument(
        "--machine", metavar="FILE", type=Path, help="write what the machine code of each loop does to an HTML file"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    model: Path = options.model
    if model.suffix == ".relax":
        if options.graph or options.machine or options.kernels or options.function or options.pipeline:
            hint = "give the model it was compiled from"
            raise failure(UNSUITABLE, f"{model} is an executable; it can only be printed as a whole", hint=hint)
        print_highlighted(read_executable(model).as_text().rstrip("\n"))
        return SUCCESS
    mod = read_program(model, options)
    if options.pipeline is not None or options.machine is not None or options.kernels:
        mod = get_pipeline(options.pipeline or "default")(mod)
    whole = mod
    if options.function is not None:
        mod = _only(mod, options.function)
    if options.kernels:
        sys.stdout.write(kernels_table(whole, options.function) + "\n")
        return SUCCESS
    if options.machine is not None:
        return _show_machine_code(mod, options.machine)
    if options.graph is None:
        print_highlighted(mod.script())
        return SUCCESS
    with progress("drawing the dataflow"):
        graphs = graphs_of(mod)
        if not graphs:
            raise failure(UNSUITABLE, f"{model} has no Relax function to draw")
        options.graph.write_text(graph_page(model.name, graphs), encoding="utf-8")
    nodes = sum(len(graph.nodes) for graph in graphs)
    sys.stdout.write(f"{options.graph}: {nodes} nodes in {len(graphs)} graph{'s' * (len(graphs) != 1)}\n")
    return SUCCESS


def _show_machine_code(mod: IRModule, page: Path) -> int:
    """Write the page about the kernels' loops."""
    with progress("compiling the kernels"):
        explanation = explain(mod)
        explanation.save(page)
    kernels = len({report.function for report in explanation.loops})
    sys.stdout.write(f"{page}: the loops of {kernels} kernel{'s' * (kernels != 1)}\n")
    return SUCCESS


def _only(mod: IRModule, name: str) -> IRModule:
    """Module with only one of its functions."""
    chosen = {g: f for g, f in mod.functions.items() if g.name_hint == name}
    if not chosen:
        relax_first = sorted(mod.functions.items(), key=lambda item: not isinstance(item[1], Function))
        listed = ", ".join(g.name_hint for g, _ in relax_first)
        raise failure(UNSUITABLE, f"there is no function {name!r}", hint=f"the functions are: {listed or 'none'}")
    return mod.with_functions(chosen)
