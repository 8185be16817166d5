"""Native code that belongs to no program: LLVM IR as text, and the support code that every compiled program links.

`builder`, `formula`, `types`, `small_floats` and `checks` write LLVM IR; `math` writes elementary functions. The
support code is an object of its own each: of kernels (`support`, `argument_checks`), of parallel loops (`pool`), of
compiled Relax functions and shared libraries (`cells`). Nothing here reads a loop or an expression of a program.
"""
