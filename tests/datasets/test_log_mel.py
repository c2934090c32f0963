import cmath
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.rng import stream
from auxo.datasets.log_mel import log_mel, mel_bands
from tests.datasets.made_files import tone


def slow_frame(signal: list[float], frame: int) -> list[float]:
    """Return the power in every band of one frame, by the definitions alone."""
    start = frame * 512 - 1024
    shaped = []
    for place in range(2048):
        at = start + place
        sample = signal[at] if 0 <= at < len(signal) else 0.0
        shaped.append(sample * (0.5 - 0.5 * math.cos(2 * math.pi * place / 2048)))
    edges = [700 * (10 ** (2595 * math.log10(1 + 8000 / 700) * step / 33 / 2595) - 1) for step in range(34)]
    bands = [0.0] * 32
    for number in range(0, 1025):
        turned = sum(value * cmath.exp(-2j * math.pi * number * place / 2048) for place, value in enumerate(shaped))
        hertz = number * 16_000 / 2048
        for band in range(32):
            low, centre, high = edges[band : band + 3]
            if low < hertz <= centre:
                bands[band] += abs(turned) ** 2 * (hertz - low) / (centre - low)
            elif centre < hertz < high:
                bands[band] += abs(turned) ** 2 * (high - hertz) / (high - centre)
    return bands


def test_a_frame_is_what_the_definitions_say() -> None:
    # Sound in the middle of one window, so that the loudest spot is in the one frame that the slow way can afford.
    frame = 16
    signal = np.zeros(16_000)
    signal[7900:8500] = 0.2 * stream(0, "noise").standard_normal(600) + tone(1500)[:600]
    levels = log_mel(signal.astype(np.float32))
    slow = slow_frame(signal.astype(np.float32).tolist(), frame)
    assert levels[:, frame].max() == levels.max()
    expected = [max(0.0, 255 * (1 + math.log10(max(power / max(slow), 1e-300)) / 8)) for power in slow]
    assert np.abs(levels[:, frame] - np.array(expected)).max() <= 0.5 + 1e-6


@pytest.mark.parametrize("hertz", [200.0, 440.0, 1000.0, 3000.0, 7000.0])
def test_a_pure_tone_lights_up_its_band(hertz: float) -> None:
    levels = log_mel(tone(hertz).astype(np.float32))
    mel = 2595 * math.log10(1 + hertz / 700)
    width = 2595 * math.log10(1 + 8000 / 700) / 33
    assert levels.shape == (32, 32)
    assert abs(int(levels[:, 16].argmax()) - (mel / width - 1)) <= 0.5
    assert levels.max() == 255


def test_bands_reach_from_end_to_end_and_none_is_empty() -> None:
    bands = mel_bands()
    assert bands.shape == (32, 1025)
    assert (bands.max(axis=1) > 0.5).all()
    assert (np.diff(bands.argmax(axis=1)) > 0).all()


def test_silence_is_dark() -> None:
    assert not log_mel(np.zeros(16_000, dtype=np.float32)).any()


def test_what_is_short_is_filled_up_and_what_is_long_is_cut() -> None:
    half, double = tone(500, 0.5).astype(np.float32), tone(500, 2.0).astype(np.float32)
    assert not log_mel(half)[:, 20:].any()
    assert np.array_equal(log_mel(half), log_mel(np.concatenate([half, np.zeros(8000, dtype=np.float32)])))
    assert np.array_equal(log_mel(double), log_mel(double[:16_000]))


@settings(max_examples=10)
@given(st.floats(0.01, 1.0))
def test_it_does_not_matter_how_near_the_microphone_was(volume: float) -> None:
    signal = tone(900).astype(np.float32)
    difference = log_mel(signal).astype(np.int64) - log_mel(np.float32(volume) * signal)
    assert np.abs(difference).max() <= 1
