"""Signs of life that go on when something is wrong."""

import asyncio
import itertools
import logging
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from auxo.service import process
from auxo.service.desks import Pulse
from auxo.service.process import Beats
from auxo.service.pulses import Pulses
from tests.service.one_process import within

PULSE = Pulse("0", 2, 17, 1000, 3, "training")


@pytest.mark.fault(8)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk without room")
def test_on_a_disk_without_room_a_pulse_beats_and_tells_of_progress(tmp_path: Path) -> None:
    pulses = Pulses.of(tmp_path)
    pulses.tell(PULSE)
    before = pulses.see("0")
    assert before is not None
    for progress in (1001, 9):
        (pulses.folder / f"0.{os.getpid()}.part").symlink_to("/dev/full")
        pulses.tell(replace(PULSE, progress=progress))
        seen = pulses.see("0")
        assert seen is not None
        assert seen.pulse.progress == progress
        assert seen.beat != before.beat
        before = seen
    assert [path.name for path in pulses.folder.iterdir()] == ["0.json"]


def test_a_pulse_that_cannot_be_told_is_followed_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process, "BEAT_S", 0)
    pulses, asked = Pulses.of(tmp_path), list[int]()

    def pulse() -> Pulse:
        asked.append(len(asked))
        if len(asked) == 1:
            raise RuntimeError("dictionary changed size during iteration")
        return PULSE

    ended = threading.Event()
    with caplog.at_level(logging.ERROR):
        beating = threading.Thread(target=Beats(pulses, pulse).beat, args=(ended,))
        beating.start()
        within(10, lambda: pulses.see("0"))
        ended.set()
        beating.join()
    assert "dictionary changed size" in caplog.text


@pytest.mark.fault(7)
def test_progress_is_that_of_requests_and_turns_and_a_beat_comes_whatever_they_do(tmp_path: Path) -> None:
    turns = itertools.count()
    beats = Beats(Pulses.of(tmp_path), lambda: replace(PULSE, progress=next(turns)))

    def told() -> int:
        return beats._now().progress

    async def loop() -> list[int]:
        looping = asyncio.create_task(beats.loop())
        found = []
        for _ in range(3):
            before = beats._loops
            while beats._loops == before:
                await asyncio.sleep(0.001)
            found.append(told())
        looping.cancel()
        return found

    first, second, third = asyncio.run(loop())
    assert first < second < third
    assert told() == told() == third  # the loop stands still
    beats.pulse = lambda: PULSE
    beats._loops += 1
    assert told() == third + 1
    beats._loops += 1
    assert told() == third + 1  # the turns do
