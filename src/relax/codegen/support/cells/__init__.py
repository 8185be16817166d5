"""Support code of compiled Relax functions: cells, which hold values, and the objects of tvm-ffi in them.

A cell is a TVMFFIAny that owns the object in it. The registers of a running function are an array of cells, as is the
table of its constants, packed functions and devices. Code accesses them by the functions here. Functions that may
decline return false without a change: the caller, or a function `make_…` around them, then calls the builtin of the
same purpose, which raises the error or handles the rare case.

The code is one object, which a process loads once and never unloads, since tensors created here are freed by it: see
`relax.runtime.native`. The number in the prefix changes with the meaning of a function.

    TensorObject   header of tvm-ffi, DLTensor, the object whose memory it views, or null; sizes, strides
    TensorTail     behind them: for a storage, its tensor in the pool; the size of the object in bytes if its memory
                   will be reused (`freed_memory`), or 0; at a multiple of 64, the elements
    ShapeObject    header, pointer to the sizes, their number; the sizes
    ProgramTable   number of references, number of cells and `TABLE_MARK`; the cells. Functions hold references
"""
