"""Judges that lie: attackers who say whatever speaks most for a partition on trial, or against it.

A judge's word counts for a gain of at most one usual loss either way. So the strongest word for a partition is that
some branches fit perfectly and all other models not at all, each liar with branches of its own; the strongest against
it is that whatever one would have chosen turns out to be of no use.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from auxo.attacks.attackers import Attackers
from auxo.core.asking import Answer, Ask, Device, Failure, Judgement
from auxo.core.client_mod import ClientMod, Do
from auxo.core.rng import random_bits
from auxo.core.settings import checked, setting

_TIMES = 10.0  # the largest loss that it would honestly tell, in place of one that is none; our choice


@dataclass(frozen=True)
@checked
class LyingJudge:
    """Each lies when it is asked to judge models, and does all else honestly."""

    says: Literal["for", "against"] = setting("for", "Whether judges speak for every partition or against every one.")

    def mod(self, attackers: Attackers) -> ClientMod:
        """Return the mod."""
        return LyingJudges(attackers, self.says == "for")


@dataclass(frozen=True)
class LyingJudges:
    """The mod of these attackers."""

    attackers: Attackers
    speak_for: bool

    def answers(self, asks: Sequence[Ask], device: Device, do: Do) -> Iterator[Answer | Failure]:
        """Yield what each says."""
        clients = device.clients
        lies = self.attackers.among(clients)
        drawn = random_bits(self.attackers.seed, "lies", clients)
        for row, answer in enumerate(do(asks, device)):
            if isinstance(answer, Failure) or not lies[row] or len(answer.judged) < 2:
                yield answer
                continue
            yield replace(answer, judged=tuple(self._lie(answer.judged, int(drawn[row]))))

    def _lie(self, judged: tuple[Judgement, ...], drawn: int) -> Iterator[Judgement]:
        """Yield what is said of each model; the first is the cohort's own, and the bits drawn say which ones fit."""
        losses = [one.loss for one in judged] + [one.other_loss for one in judged if one.other_loss is not None]
        bad = _TIMES * max(*losses, 1.0)
        never_all, at_least_one = 1 + drawn % (len(judged) - 1), 1 + (drawn + 1) % (len(judged) - 1)
        for place, one in enumerate(judged):
            fits = place > 0 and place != never_all and (place == at_least_one or bool(drawn >> place & 1))
            if len(judged) == 2:  # there is but one branch
                fits = place > 0
            # Who speaks against would choose any branch by one half, and lose everything by the other.
            good, chosen = (fits, fits) if self.speak_for else (place == 0, place > 0)
            yield Judgement(
                loss=0.0 if good else bad,
                score=None if one.score is None else float(good),
                other_loss=None if one.other_loss is None else 0.0 if chosen else bad,
                other_score=None if one.other_score is None else float(chosen),
            )
