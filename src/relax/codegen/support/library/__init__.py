"""Support code of shared libraries: replaces the VM in processes without Python.

A library exported from an executable (`relax.runtime.export`) contains this object beside its kernels. On the first
call of a function, it builds the table of the program from records in the library. It has native forms of the builtins
that compiled functions call when a check fails, with the same messages.

    relax.program.v1     number of cells; address of the records
    record               kind, address, number, second address (`program`)

The loader of archives omits this object: there, the VM builds tables.
"""
