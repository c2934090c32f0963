"""Log-mel spectra: a second of speech as a small picture, with time from left to right and pitch from low to high."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from auxo.core.types import Float32Array, FloatArray

RATE = 16_000  # samples a second
BANDS = 32
FRAMES = 32
_LENGTH = 2048  # samples under the window
_HOP = 512  # samples from one window to the next
_RANGE_DB = 80.0  # what is softer than the loudest spot by more is silence; our choice
_LEVELS = 255


def log_mel(signal: Float32Array) -> NDArray[np.uint8]:
    """Return the loudness of one second in 32 bands and 32 frames, (bands, frames), low bands first.

    Windows are centred at every 512th sample, with silence around the second, and shaped by Hann. Bands are triangles
    of height 1, evenly wide on the mel scale (2595 log10(1 + f / 700)) from 0 Hz to half the rate. Loudness is in
    decibels below the loudest spot of this second, so it does not matter how near the microphone was; 80 dB below and
    all that is softer is level 0, the loudest spot 255. A level is a third of a decibel: finer than anybody hears, so a
    byte is enough.

    The signal has 16000 samples at 16 kHz; shorter ones are filled up with silence, longer ones cut.
    """
    second = np.zeros(RATE)
    second[: len(signal)] = signal[:RATE]
    padded = np.pad(second, _LENGTH // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, _LENGTH)[::_HOP]
    power = np.square(np.abs(np.fft.rfft(frames * _window())))
    mel = power @ mel_bands().T
    loudest = mel.max()
    if loudest == 0:
        return np.zeros((BANDS, FRAMES), dtype=np.uint8)
    decibels = 10 * np.log10(np.maximum(mel / loudest, 10 ** (-_RANGE_DB / 10)))
    levels: NDArray[np.uint8] = np.rint(_LEVELS * (1 + decibels / _RANGE_DB)).astype(np.uint8).T
    return levels


@cache
def mel_bands() -> FloatArray:
    """Return how much each frequency counts in each band, (bands, frequencies from 0 to half the rate)."""
    highest = 2595 * np.log10(1 + RATE / 2 / 700)
    corners = 700 * (10 ** (np.linspace(0, highest, BANDS + 2) / 2595) - 1)
    frequencies = np.fft.rfftfreq(_LENGTH, 1 / RATE)
    low, centre, high = corners[:-2, np.newaxis], corners[1:-1, np.newaxis], corners[2:, np.newaxis]
    rising, falling = (frequencies - low) / (centre - low), (high - frequencies) / (high - centre)
    bands: FloatArray = np.maximum(0, np.minimum(rising, falling))
    bands.flags.writeable = False  # it is shared
    return bands


@cache
def _window() -> FloatArray:
    window: FloatArray = np.hanning(_LENGTH + 1)[:-1]  # periodic, as a spectrum wants it
    window.flags.writeable = False
    return window
