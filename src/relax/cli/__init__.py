"""The command `relax`. Nothing is imported here, so that ``relax --help`` answers at once."""
