"""Signs of life that go on when something is wrong."""

import asyncio
import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest

from auxo.service import process
from auxo.service.desks import Pulse
from auxo.service.process import _beat
from auxo.service.pulses import Pulses

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

    async def beat() -> None:
        beating = asyncio.create_task(_beat(pulses, pulse))
        while pulses.see("0") is None and not beating.done():
            await asyncio.sleep(0)
        beating.cancel()

    with caplog.at_level(logging.ERROR):
        asyncio.run(beat())
    assert pulses.see("0") is not None
    assert "dictionary changed size" in caplog.text
