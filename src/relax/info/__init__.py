"""Operations on struct info: relations, traversal, erasure, comparison, text.

dims        questions about dimensions, put to the prover
mapping     rebuilding struct info under a substitution; the variables it binds and uses
relations   subtyping, compatibility, least upper bound
erasure     what stays known where variables go out of scope
text        struct info in messages
runtime     struct info as the machine carries it
"""

from __future__ import annotations
