"""``relax completion``: a script that completes the command's arguments in a shell.

The script is generated from the parsers and starts no process, so that completion is fast. It completes commands,
options and their choices; other words are completed as files.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping
from typing import Any, Final, cast

from ..runtime.records import dataclass
from .execution import parser_of
from .failures import SUCCESS
from .main import COMMANDS

DESCRIPTION = "Print a script that completes the command's arguments in a shell."
EXAMPLES = """
  relax completion bash > ~/.local/share/bash-completion/completions/relax
  relax completion zsh > ~/.zfunc/_relax
  relax completion fish > ~/.config/fish/completions/relax.fish
"""


@dataclass(frozen=True)
class Option:
    """An option of a command: its spellings, its help, whether it takes a value, and the choices of the value."""

    flags: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Surface:
    """Arguments of a command: its options, and the choices of its first argument.

    If the choices are actions with arguments of their own, `options` has those of all actions.
    """

    options: tuple[Option, ...]
    choices: tuple[str, ...] = ()
    has_actions: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("shell", choices=tuple(WRITERS), help="the shell")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    sys.stdout.write(WRITERS[options.shell](surfaces()))
    return SUCCESS


def surfaces() -> dict[str, Surface]:
    """Arguments of every command, from its parser."""
    return {name: _surface(name) for name in COMMANDS}


def _surface(name: str) -> Surface:
    module: Any = importlib.import_module(f".{name}", __package__)
    actions: list[argparse.Action] = cast(Any, parser_of(name, module))._actions
    nested = [parser for action in actions for parser in _parsers_of(action)]
    actions += [action for parser in nested for action in cast(Any, parser)._actions]
    options = {action.option_strings[0]: _option(action) for action in reversed(actions) if action.option_strings}
    choices = [tuple(map(str, a.choices)) for a in actions if not a.option_strings and a.choices is not None]
    return Surface(tuple(reversed(options.values())), choices[0] if choices else (), has_actions=bool(nested))


def _parsers_of(action: argparse.Action) -> list[argparse.ArgumentParser]:
    """Parsers of the actions of a command."""
    choices: Any = action.choices
    parsers = cast("dict[str, Any]", choices) if isinstance(choices, dict) else {}
    return [parser for parser in parsers.values() if isinstance(parser, argparse.ArgumentParser)]


def _option(action: argparse.Action) -> Option:
    choices = () if action.choices is None else tuple(map(str, action.choices))
    return Option(tuple(action.option_strings), action.help or "", action.nargs != 0, choices)


# --------------------------------------------------------------------------------------------- bash


def _bash(commands: Mapping[str, Surface]) -> str:
    cases: list[str] = []
    for name, surface in commands.items():
        flags = " ".join(flag for option in surface.options for flag in option.flags)
        cases.append(f'    {name}) options="{flags}"; words="{" ".join(surface.choices)}" ;;')
    chosen = [
        f'    {name}:{flag}) COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$current")); return ;;'
        for name, surface in commands.items()
        for option in surface.options
        for flag in option.flags
        if option.choices
    ]
    return "\n".join(
        [
            "# bash completion for relax",
            "_relax() {",
            '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" options="" words=""',
            '  if [ "$COMP_CWORD" -eq 1 ]; then',
            f'    COMPREPLY=($(compgen -W "{" ".join(commands)} --help --version --explain" -- "$current"))',
            "    return",
            "  fi",
            '  case "${COMP_WORDS[1]}:$previous" in',
            *chosen,
            "    *) ;;",
            "  esac",
            '  case "${COMP_WORDS[1]}" in',
            *cases,
            "  esac",
            '  case "$current" in',
            '    -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;',
            '    *) COMPREPLY=($(compgen -W "$words" -- "$current")); [ -n "$words" ] || COMPREPLY=() ;;',
            "  esac",
            "}",
            "complete -o bashdefault -o default -F _relax relax",
            "",
        ]
    )


# ---------------------------------------------------------------------------------------------- zsh


def _zsh(commands: Mapping[str, Surface]) -> str:
    lines = ["#compdef relax", "", "_relax() {", "  local -a commands", "  commands=("]
    lines += [f"    {_quoted(f'{name}:{COMMANDS[name]}')}" for name in commands]
    lines += [
        "  )",
        "  if (( CURRENT == 2 )); then",
        "    _describe command commands",
        "    return",
        "  fi",
        "  local command=$words[2]",
        "  shift words",
        "  (( CURRENT-- ))",
        '  case "$command" in',
    ]
    for name, surface in commands.items():
        specs = [spec for option in surface.options for spec in _zsh_specs(option)]
        words = f"({' '.join(surface.choices)})"
        specs += [_quoted(f"1:action:{words}")] if surface.has_actions else []
        rest = words if surface.choices and not surface.has_actions else "_files"
        specs.append(_quoted(f"*:argument:{rest}"))
        lines += [f"    {name})", "      _arguments \\", " \\\n".join(f"        {spec}" for spec in specs), "      ;;"]
    return "\n".join([*lines, "  esac", "}", "", '_relax "$@"', ""])


def _zsh_specs(option: Option) -> list[str]:
    shown = option.help.translate(_ZSH_SPECIAL)
    value = ""
    if option.takes_value:
        value = f":value:({' '.join(option.choices)})" if option.choices else ":value:_files"
    return [_quoted(f"*{flag}[{shown}]{value}") for flag in option.flags]


_ZSH_SPECIAL: Final = str.maketrans({"[": r"\[", "]": r"\]", ":": r"\:"})


def _quoted(text: str) -> str:
    """Text in single quotes, for a shell."""
    return "'" + text.replace("'", "'\\''") + "'"


# --------------------------------------------------------------------------------------------- fish


def _fish(commands: Mapping[str, Surface]) -> str:
    lines = ["# fish completion for relax"]
    for name in commands:
        about = _fish_quoted(COMMANDS[name])
        lines.append(f"complete -c relax -f -n __fish_use_subcommand -a {name} -d {about}")
    for name, surface in commands.items():
        start = f'complete -c relax -n "__fish_seen_subcommand_from {name}"'
        if surface.choices:
            lines.append(f"{start} {'' if surface.has_actions else '-f '}-a {_fish_quoted(' '.join(surface.choices))}")
        for option in surface.options:
            lines.append(f"{start} {_fish_option(option)}")
    return "\n".join([*lines, ""])


def _fish_option(option: Option) -> str:
    flags = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags]
    if option.choices:
        flags.append(f"-x -a {_fish_quoted(' '.join(option.choices))}")
    elif option.takes_value:
        flags.append("-r")
    return f"{' '.join(flags)} -d {_fish_quoted(option.help)}"


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


WRITERS: Final = {"bash": _bash, "zsh": _zsh, "fish": _fish}
