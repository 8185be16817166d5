"""Native code independent of any program: writers of LLVM IR text, and the support code linked to compiled programs.

`builder`, `formula`, `types`, `small_floats` and `checks` write LLVM IR; `math` writes elementary functions. There is
one object of support code each for kernels (`support`, `argument_checks`), parallel loops (`pool`), and compiled Relax
functions and shared libraries (`cells`). Nothing here reads loops or expressions of a program.
"""
