"""examples/digits.py: the weights, the NumPy reference, the drawing, and the compiled network against them."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import digits_model
import digits_view
import train_digits

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"


@pytest.fixture(scope="module")
def params():
    return digits_model.load_weights()


@pytest.fixture(scope="module")
def held_out():
    return digits_model.load_images(held_out=True)


def test_split_is_disjoint_and_complete():
    train, _ = digits_model.load_images(held_out=False)
    test, labels = digits_model.load_images(held_out=True)
    assert (len(train), len(test)) == (1437, 360)
    assert test.shape == (360, 1, 8, 8)
    assert test.dtype == np.float32
    assert test.min() == 0
    assert test.max() == 1
    assert set(labels.tolist()) == set(range(10))


def test_weights_are_small_and_good(params, held_out):
    assert digits_model.WEIGHTS.stat().st_size < 200_000
    assert digits_model.accuracy(digits_model.forward(held_out[0], params), held_out[1]) > 0.96


def test_weights_of_another_network_are_refused(params, tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, **{**params, "hidden_bias": np.zeros(3, "float32")})
    with pytest.raises(ValueError, match=r"other\.npz: hidden_bias is float32\(3,\), expected float32\(64,\)"):
        digits_model.load_weights(path)


def test_convolution_is_the_sum_over_the_neighbourhood(params):
    image = np.random.default_rng(0).random((1, 1, 8, 8), "float32")
    padded = np.pad(image[0, 0], 1)
    expected = [
        [[(kernel[0] * padded[y : y + 3, x : x + 3]).sum() + bias for x in range(8)] for y in range(8)]
        for kernel, bias in zip(params["conv_weight"], params["conv_bias"].ravel())
    ]
    np.testing.assert_allclose(digits_model.convolve(image, params)[0], expected, atol=1e-5)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_reference_gives_a_distribution_per_image(params, held_out, n):
    probabilities = digits_model.forward(held_out[0][:n], params)
    assert probabilities.shape == (n, 10)
    np.testing.assert_allclose(probabilities.sum(-1), np.ones(n), rtol=1e-5)


def test_gradients_agree_with_differences(held_out):
    """In float64, so that a central difference is exact to many digits."""
    rng = np.random.default_rng(3)
    # Biases other than zero keep the empty background away from the kink of relu.
    start = train_digits.initial(rng)
    params = {k: p + rng.uniform(0.1, 0.2, p.shape) * k.endswith("bias") for k, p in start.items()}
    images, labels = held_out[0][:4].astype("float64"), held_out[1][:4]
    _, gradients = train_digits.loss_and_gradients(images, labels, params)
    step = 1e-6
    for name, value in params.items():
        for index in rng.integers(0, value.size, 5):
            moved = [dict(params), dict(params)]
            for side, sign in zip(moved, (1, -1)):
                side[name] = value.copy()
                side[name].flat[index] += sign * step
            up, down = (train_digits.loss_and_gradients(images, labels, side)[0] for side in moved)
            expected = (up - down) / (2 * step)
            assert gradients[name].flat[index] == pytest.approx(expected, abs=1e-6), (name, index)


def test_training_is_reproducible_and_learns():
    images, labels = digits_model.load_images(held_out=False)
    once, again = (train_digits.train(images[:200], labels[:200], epochs=6) for _ in range(2))
    for name in digits_model.SHAPES:
        np.testing.assert_array_equal(once[name], again[name])
    assert digits_model.accuracy(digits_model.forward(images[:200], once), labels[:200]) > 0.5


def test_shade_uses_the_whole_range():
    assert digits_view.shade(np.array([[0.0, 0.3, 0.5, 0.7, 1.0]], "float32")) == ["  ░░▒▒▓▓██"]


def test_gallery_says_what_was_predicted_and_what_is_true():
    images = np.zeros((2, 1, 8, 8), "float32")
    probabilities = np.full((2, 10), 0.01, "float32")
    probabilities[:, 3] = 0.91
    labels = np.array([3, 5])
    assert digits_view.choose(probabilities, labels) == [0, 1]
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(digits_view.gallery(images, probabilities, labels, [0, 1]))
    text = console.export_text()
    assert text.count("3 (91%)") == 2
    assert "is 5" in text
    assert "is 3" not in text


def test_compiled_network_agrees_with_numpy_for_every_batch_size(params, held_out):
    from digits import TOLERANCE, Classifier

    classify = Classifier(params)
    for n in (0, 1, 2, 7, 64, 360):
        probabilities, digit = classify(held_out[0][:n])
        expected = digits_model.forward(held_out[0][:n], params)
        assert probabilities.shape == (n, 10)
        assert digit.dtype == np.int64
        np.testing.assert_allclose(probabilities, expected, atol=TOLERANCE, rtol=0)
        np.testing.assert_array_equal(digit, expected.argmax(-1))


def test_the_program_runs_from_a_terminal():
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, cwd="/", check=False)
    assert done.returncode == 0, done.stderr
    assert "on 360 held-out images" in done.stdout
