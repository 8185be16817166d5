"""The farm: LLVM, the worker processes that run it, and the cache of all that it compiled.

Text goes in (`kernel_text`), objects come out (`objects`). `worker` is LLVM's part, in this process and in others;
`worker_processes` hands out texts and jobs; `cache` keeps objects, notes and whole programs on disk; `recall` finds
kernels by their form before lowering; `host` describes machines. Nothing here writes code.
"""
