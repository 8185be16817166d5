"""examples/ocr.py: drawing, boxes, decoding, and the text that the compiled networks read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ocr
import ocr_drawing
import real_models
from ocr_drawing import Line

EXAMPLE = Path(__file__).parents[2] / "examples" / "ocr.py"


def mask(text: str) -> np.ndarray:
    """True for each # of a picture."""
    return np.array([[letter == "#" for letter in line] for line in text.split()])


def test_letters_are_inside_of_their_line():
    line = Line("".join(ocr_drawing.LETTERS), 20, 10, 24, (0, 0, 0))
    dark = (ocr_drawing.draw(48, line.width + 40, [line]) < 100).all(-1)
    rows, columns = np.nonzero(dark)
    assert (rows.min(), rows.max()) == (8, 36)  # a stroke is 4 pixels wide
    assert columns.min() == 18
    letters = [dark[:, 20 + 24 * i - 3 : 20 + 24 * i + 20].any() for i in range(len(line.text))]
    assert letters == [letter != " " for letter in line.text]


def test_every_letter_is_another_picture():
    pictures = {ocr_drawing.draw(20, 20, [Line(letter, 3, 3, 14)]).tobytes() for letter in "OQCGDB8380 S5"}
    assert len(pictures) == len(set("OQCGDB83 S5"))  # O and 0 look the same


def test_an_image_as_braille():
    image = np.full((8, 8, 3), 255, "uint8")
    image[:4, :2] = image[7, 7] = 0
    assert ocr_drawing.braille(image, step=1) == "⣿⠀⠀⠀\n⠀⠀⠀⢀"


@pytest.mark.parametrize(
    "picture, boxes",
    [
        ("....", []),
        ("##.# ##.#", [(0, 2, 0, 2), (0, 2, 3, 4)]),
        ("#..# .##. #...", [(0, 3, 0, 4)]),  # corners touch
        ("#.#.# #.#.# #####", [(0, 3, 0, 5)]),  # joined at the last row only
        ("##.. .... ..##", [(0, 1, 0, 2), (2, 3, 2, 4)]),
    ],
)
def test_components(picture, boxes):
    assert ocr.components(mask(picture)) == boxes


def test_boxes_grow_and_stay_in_the_image():
    marked = np.zeros((40, 60), "float32")
    marked[20:30, 2:42] = 0.9
    marked[2:8, 10:20] = 0.4  # not sure enough
    marked[35, 50] = 1  # too small
    assert ocr.boxes_of(marked) == [ocr.Box(14, 36, 0, 48)]


def test_resizing_interpolates_between_the_middles_of_pixels():
    image = np.array([[[0.0], [4.0]]])
    assert ocr.resize(image, 1, 4).ravel().tolist() == [0, 1, 3, 4]
    assert ocr.resize(image, 3, 1).ravel().tolist() == [2, 2, 2]


def test_decoding_drops_nothing_and_repeats():
    classes = [0, 1, 1, 0, 1, 2, 2, 3, 0]
    probabilities = np.full((9, 4), 0.1)
    probabilities[range(9), classes] = 0.7
    text, probability = ocr.decode(probabilities, ["", "a", "b", " "])
    assert text == "aab "
    assert probability == pytest.approx(0.7)
    assert ocr.decode(probabilities[:1], [""] * 4) == ("", 0)


@pytest.mark.slow
def test_text_is_read_as_drawn(capsys):
    try:
        real_models.model_path("ocr_detection")
    except real_models.Unavailable as error:
        pytest.skip(str(error))
    assert ocr.main() == 0
    printed = capsys.readouterr().out
    assert "drawn:" not in printed
    for line in ("RELAX READS TEXT", "12 + 34 = 46", "ANOTHER HEIGHT"):
        assert line in printed


def test_without_the_wheel_the_example_says_so(tmp_path):
    result = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        env={"PATH": "", "PIP_NO_INDEX": "1", "RELAX_MODELS_DIR": str(tmp_path), "COLUMNS": "200"}
        | {"PYTHONPATH": str(EXAMPLE.parents[1] / "src")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("examples/ocr.py is left out: rapidocr==3.10.0 cannot be downloaded: ")
