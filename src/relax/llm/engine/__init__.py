"""Engine: many requests to one language model, answered together.

`requests` are values: a prompt, and how its answer is chosen; `generation` is the reader's side of an answer, `answers`
the engine's; `planning` divides a step among answers, and `engine` runs the steps. `drafters` propose tokens.
"""
