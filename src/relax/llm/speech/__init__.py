"""Speech: sound to text by Whisper.

`audio` reads files, `features` makes the input of the program (`relax.llm.models.whisper`), `rules` restricts the
tokens that may follow, and `speech_model` runs the program over the windows of a sound.
"""
