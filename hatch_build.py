"""The wheel carries kernels for the architectures that RELAX_WHEEL_KERNELS names: `make wheel`.

    RELAX_WHEEL_KERNELS="x86_64 aarch64" pip wheel .

They are the common kernels of tier "now", compiled for each level of CPUs (`relax.vm.shipping`), which takes a minute a
level. Without the variable, the kernels are compiled where they are first called.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledKernels(BuildHookInterface):  # pyright: ignore[reportMissingTypeArgument]
    """Adds the files of kernels to the wheel."""

    PLUGIN_NAME = "custom"

    @property
    def architectures(self) -> list[str]:
        """Architectures to compile kernels for."""
        return os.environ.get("RELAX_WHEEL_KERNELS", "").split()

    def dependencies(self) -> list[str]:
        """What compiling kernels needs: the package's own dependencies."""
        return list(self.metadata.core.dependencies) if self.architectures else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels into a folder whose files the wheel takes. An editable installation has none."""
        if version == "editable" or not self.architectures:
            return
        self._folder = tempfile.TemporaryDirectory()
        # What a build has installed for itself, pip says by this variable, too.
        paths = [str(Path(self.root, "src")), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        command = [sys.executable, "-m", "relax.vm.shipping", self._folder.name, *self.architectures]
        subprocess.run(command, env=environment, check=True)
        for path in Path(self._folder.name).iterdir():
            build_data["force_include"][str(path)] = f"relax/library/compiled/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
