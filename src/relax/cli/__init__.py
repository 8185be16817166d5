"""The command `relax`. This module has no imports, so that ``relax --help`` starts fast."""
