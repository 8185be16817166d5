"""``relax transcribe``: write the text of speech in a WAV file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..llm import load_speech
from .failures import SUCCESS, UNREADABLE, failure
from .language_models import loading, positive, unsuitable

DESCRIPTION = """\
Transcribe a WAV file by a Whisper model, a folder of Hugging Face. Segments are written as they come."""
EXAMPLES = """
  relax transcribe talk.wav --model whisper-base
  relax transcribe talk.wav --model whisper-base --language de --translate --timestamps
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("sound", metavar="FILE", type=Path, help="a .wav file of any rate")
    parser.add_argument("--model", metavar="FOLDER", type=Path, required=True, help="a folder with config.json")
    parser.add_argument("--language", metavar="CODE", help="language that is spoken (default: the likeliest)")
    parser.add_argument("--translate", action="store_true", help="write the text in English")
    parser.add_argument("--timestamps", action="store_true", help="write when each segment begins and ends")
    parser.add_argument("--prompt", metavar="TEXT", default="", help="names and words as they are to be written")
    parser.add_argument(
        "--threads", type=positive, metavar="N", help="threads (default: RELAX_NUM_THREADS, or all cores)"
    )
    parser.add_argument("--dtype", metavar="TYPE", help="a block format for the weights, such as q8_0: faster")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    if not options.sound.is_file():
        raise failure(UNREADABLE, f"{options.sound} cannot be read: there is no such file")
    with loading(options.model) as say:
        model = load_speech(options.model, dtype=options.dtype, threads=options.threads, progress=say)
    with unsuitable():
        segments = model.segments(
            options.sound, language=options.language, task="translate" if options.translate else "transcribe",
            timestamps=options.timestamps, prompt=options.prompt,
        )  # fmt: skip
        for segment in segments:
            times = f"[{_time(segment.start)} - {_time(segment.end)}] " if options.timestamps else ""
            sys.stdout.write(f"{times}{segment.text.strip()}\n")
            sys.stdout.flush()
    return SUCCESS


def _time(seconds: float) -> str:
    """Return a time as hours, minutes, and seconds with two digits."""
    hundredths = round(seconds * 100)
    minutes, rest = divmod(hundredths, 6000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest / 100:05.2f}"
