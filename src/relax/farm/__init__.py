"""The farm: LLVM, the worker processes that run it, and the cache of everything compiled.

Input is text (`kernel_text`), output is objects (`objects`). `worker` drives LLVM, in this process and in others;
`worker_processes` distributes texts and jobs; `cache` keeps objects, notes and whole programs on disk; `recall` finds
kernels in the cache before they are lowered; `host` describes CPUs. No code is generated here.
"""
