"""Files with entries of the cache: `relax cache export` and `relax cache import`.

The names of entries say by digests for which target and by which versions they were made (`relax.farm.store.Key`). The
same digests, computed for the target at hand, tell which entries of the cache or of a file will be found here.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ..codegen.support_objects import support_environments
from ..farm import cache
from ..farm.objects import object_environment
from ..farm.recall import note_environment
from ..farm.store import Key, key_of_contents
from ..farm.transfer import Imported, Totals, TransferError, export_entries, imported
from ..farm.versions import compiler_version, generator_files
from ..library import shipped_target
from ..library.store import library_environments
from ..target import Target
from ..vm.recall import program_environments
from .failures import CACHE_FILE, SUCCESS, failure
from .tables import byte_size, plural
from .targets import target_of

_KERNELS: Final = (cache.KERNEL, cache.NOTE)
_WORDS: Final = {
    "target": "target",
    "cpu": "processor",
    "relax": "relax",
    "compiler": "compiler",
    "generator": "generator",
}
"""Parts of a description, and what they are called."""


def export(options: argparse.Namespace) -> int:
    """Write entries of the cache to a file."""
    _require_cache()
    target = target_of(options.target)
    keys = [key for key in cache.entry_keys() if key.kind != cache.ANSWER]  # those are about this machine alone
    if not options.programs:
        keys = [key for key in keys if key.kind in _KERNELS]
    if not options.all:
        keys = fitting(keys, target, lambda key: cache.noted(key) or b"")
    if not keys:
        message = "the cache is empty" if options.all else f"the cache has no entry for {_shown(target)}"
        hint = "compile a model first, for this target and with this version; --all exports the others"
        raise failure(CACHE_FILE, message, hint=hint)
    totals = export_entries(options.file, _description(target), keys)
    sys.stdout.write(f"{options.file}: {_text(totals)}{'' if options.all else f' for {_shown(target)}'}\n")
    return SUCCESS


def import_(options: argparse.Namespace) -> int:
    """Read entries of a file into the cache."""
    _require_cache()
    target = target_of(options.target)
    try:
        with imported(options.file) as file:
            file.check()
            chosen = file.keys() if options.all else fitting(file.keys(), target, file.note)
            if not chosen:
                raise _misfit(options, file, target)
            size = sum(file.size_of(key) for key in chosen)
            if size > cache.size_limit():
                room = byte_size(cache.size_limit())
                message = f"the entries of {options.file} take {byte_size(size)}, and the cache has room for {room}"
                raise failure(CACHE_FILE, message, hint="set RELAX_CACHE_SIZE")
            totals = file.write(chosen)
            left = len(file.keys()) - len(chosen)
            if not any(key.kind in (cache.NOTE, cache.BUILD) for key in chosen):
                _warn(file, target)
    except TransferError as error:
        raise failure(CACHE_FILE, f"cannot import {options.file}: {error}") from None
    others = f"; {plural(left, 'entry', 'entries')} for other machines or versions left out" if left else ""
    sys.stdout.write(f"{options.file}: {_text(totals)} imported to {cache.directory()}{others}\n")
    return SUCCESS


def fitting(keys: Iterable[Key], target: Target, note: Callable[[Key], bytes]) -> list[Key]:
    """Entries that builds for a resolved target find, with the present version and default options.

    Empty if these are nothing but support code, which many targets share. `note` returns the contents of a note, which
    names the file of its program.
    """
    keys = list(keys)
    support = support_environments(target) | support_environments(shipped_target(target))
    environments = set(support)
    for each in (target, shipped_target(target)):
        environments |= {note_environment(each), object_environment(each), *library_environments(each)}
    builds = program_environments(target)
    programs = {key for key in keys if key.kind == cache.PROGRAM}
    found = [key for key in keys if key.kind in _KERNELS and key.environment in environments]
    for key in keys:
        if key.kind == cache.BUILD and key.environment in builds:
            program = _program_of(note(key))
            if program in programs:
                found += [program, key]
    return [] if {key.environment for key in found} <= support else list(dict.fromkeys(found))


def _program_of(note: bytes) -> Key | None:
    """Key of the program's file that a note names; None if it names none."""
    try:
        return key_of_contents(bytes.fromhex(json.loads(note)["file"]), cache.PROGRAM)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _description(target: Target) -> dict[str, str]:
    package: Any = importlib.import_module("relax")
    return {
        "target": str(target),
        "cpu": f"{target.mcpu or 'any'} ({target.triple}), {plural(target.machine.cores, 'core')}",
        "features": target.features,
        "relax": str(package.__version__),
        "compiler": compiler_version(),
        "generator": generator_files() or "",
    }


def _misfit(options: argparse.Namespace, file: Imported, target: Target) -> Exception:
    """Error for a file without any entry that is found here, with what differs."""
    own = _description(target)
    notes = _differences(file.description, own)
    missing = _missing_features(file.description, own)
    notes += [f"features of the processor that are missing here: {', '.join(missing)}"] if missing else []
    message = f"none of the {len(file.keys())} entries of {options.file} is for {_shown(target)} and this version"
    hint = "give the --target that models are compiled for; --all imports the entries nonetheless"
    return failure(CACHE_FILE, message, *notes, hint=hint)


def _warn(file: Imported, target: Target) -> None:
    """Print that kernels of a file are found only after they were lowered again."""
    lines = "".join(f"\n  = {line}" for line in _differences(file.description, _description(target)))
    sys.stderr.write(f"warning: the kernels were scheduled for another target; few may be found here{lines}\n")


def _differences(theirs: Mapping[str, str], own: Mapping[str, str]) -> list[str]:
    """Lines on the parts of a description that differ here."""
    return [
        f"{word}: {theirs.get(name, 'unknown')[:200]}; here {own[name]}"
        for name, word in _WORDS.items()
        if theirs.get(name) != own[name]
    ]


def _missing_features(theirs: Mapping[str, str], own: Mapping[str, str]) -> list[str]:
    """Features that the file's kernels may use, and this target does not have."""
    one, other = ({w[1:] for w in texts.get("features", "").split(",") if w[:1] == "+"} for texts in (theirs, own))
    return sorted(one - other)[:20]


def _require_cache() -> None:
    problem = cache.problem()
    if problem is not None:
        raise failure(CACHE_FILE, f"the cache is not used: {problem}", hint="RELAX_CACHE_DIR names another directory")


def _shown(target: Target) -> str:
    return f"{target!s} on {target.mcpu or target.triple} with {plural(target.machine.cores, 'core')}"


def _text(totals: Totals) -> str:
    return f"{plural(totals.entries, 'entry', 'entries')}, {byte_size(totals.size)}"
