from pathlib import Path

import numpy as np
import pytest

from auxo.datasets.log_mel import log_mel
from auxo.datasets.speech_commands import speech_commands
from auxo.files.errors import FileError
from tests.datasets.made_files import by_client, through_a_federated_file, tone, write_wav


def write_commands(folder: Path) -> Path:
    for word, hertz in (("yes", 500.0), ("bed", 1500.0)):
        for speaker in ("0a7c2a8d", "ffd2ba2f"):
            for number in range(2):
                write_wav(folder / word / f"{speaker}_nohash_{number}.wav", tone(hertz + 10 * number))
    write_wav(folder / "_background_noise_" / "pink_noise.wav", tone(100, 3.0))
    (folder / "testing_list.txt").write_text("yes/ffd2ba2f_nohash_0.wav\n")
    (folder / "validation_list.txt").write_text("")
    (folder / "README.md").write_text("# Speech Commands\n")
    return folder


def error_of(folder: Path) -> str:
    with pytest.raises(FileError) as caught:
        list(speech_commands(folder).clients())
    return str(caught.value)


def test_speakers_become_clients_of_a_population(tmp_path: Path) -> None:
    (tmp_path / "speech").mkdir()
    source = speech_commands(write_commands(tmp_path / "speech"))
    data = through_a_federated_file(source, tmp_path)
    assert source.classes == ("bed", "yes")
    assert list(data.client_names) == ["0a7c2a8d", "ffd2ba2f"]
    assert data.features == (32, 32)
    assert data.x.dtype == np.uint8
    assert data.train.counts().tolist() == [3, 3]
    assert data.test.counts().tolist() == [1, 1]


def test_a_word_is_the_label_of_its_recording(tmp_path: Path) -> None:
    samples = by_client(speech_commands(write_commands(tmp_path)))["0a7c2a8d"]
    assert samples.y.tolist() == [0, 0, 1, 1]
    difference = samples.x[2].astype(np.int64) - log_mel(tone(500).astype(np.float32))
    assert np.abs(difference[3:12]).max() <= 1  # 16 bits are a little less than what was written


def test_a_speaker_of_the_testing_list_is_a_client_like_any_other(tmp_path: Path) -> None:
    assert "ffd2ba2f" in by_client(speech_commands(write_commands(tmp_path)))


def test_short_and_long_recordings_fit_too(tmp_path: Path) -> None:
    folder = write_commands(tmp_path)
    write_wav(folder / "yes" / "0a7c2a8d_nohash_2.wav", tone(500, 0.3))
    write_wav(folder / "yes" / "0a7c2a8d_nohash_3.wav", tone(500, 1.7))
    assert by_client(speech_commands(folder))["0a7c2a8d"].x.shape == (6, 32, 32)


def test_a_recording_that_breaks_off_is_refused(tmp_path: Path) -> None:
    path = write_commands(tmp_path) / "yes" / "0a7c2a8d_nohash_0.wav"
    path.write_bytes(path.read_bytes()[:9000])
    message = error_of(tmp_path)
    assert message.startswith(f"{path}: file: ")
    assert "of 16000" in message


@pytest.mark.parametrize("data", [b"", b"RIFF", b"not a recording at all, but long enough to be one"])
def test_what_is_no_recording_is_refused(tmp_path: Path, data: bytes) -> None:
    path = write_commands(tmp_path) / "yes" / "0a7c2a8d_nohash_0.wav"
    path.write_bytes(data)
    assert "expected a wav file (16-bit PCM, 16000 Hz, one channel), got something else" in error_of(tmp_path)


def test_a_recording_without_samples_is_refused(tmp_path: Path) -> None:
    write_wav(write_commands(tmp_path) / "yes" / "0a7c2a8d_nohash_0.wav", np.zeros(0))
    assert "at least one, got none" in error_of(tmp_path)


@pytest.mark.parametrize(("rate", "channels", "said"), [(8000, 1, "8000 Hz, 1"), (16_000, 2, "16000 Hz, 2 channels")])
def test_another_rate_or_a_second_channel_is_refused(tmp_path: Path, rate: int, channels: int, said: str) -> None:
    write_wav(write_commands(tmp_path) / "yes" / "0a7c2a8d_nohash_0.wav", tone(500), rate, channels)
    assert said in error_of(tmp_path)


def test_a_recording_must_say_whose_it_is(tmp_path: Path) -> None:
    write_wav(write_commands(tmp_path) / "yes" / "mine.wav", tone(500))
    assert "mine.wav: expected a name such as 0a7c2a8d_nohash_0.wav" in error_of(tmp_path)


def test_a_word_without_recordings_is_refused(tmp_path: Path) -> None:
    (write_commands(tmp_path) / "zero").mkdir()
    assert f"{tmp_path / 'zero'}: folder: expected recordings" in error_of(tmp_path)


def test_an_empty_folder_and_a_missing_one_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="got a folder without any"):
        speech_commands(tmp_path)
    with pytest.raises(FileError, match="got no such folder"):
        speech_commands(tmp_path / "none")
