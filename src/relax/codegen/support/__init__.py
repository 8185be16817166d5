"""Support code in TIR: plain functions that are linked to compiled programs.

The modules are imported, and their scripts parsed, when a text is asked for (`relax.codegen.support_texts`): not if the
cache has the object. They are TVMScript, whose annotations are no Python types, so pyright does not check this package.
"""
