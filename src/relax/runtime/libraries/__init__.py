"""Loaders of modules for libraries, a file a library; `relax.runtime.modules` imports them by kind."""
