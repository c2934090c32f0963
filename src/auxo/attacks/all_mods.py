"""The mods of an attack that may be of several kinds at once."""

from collections.abc import Sequence

from auxo.attacks.attackers import Attack, Attackers
from auxo.attacks.forged_reward import ForgedReward
from auxo.core.client_mod import ClientMod, ModsRequests


def mods_of(kinds: Sequence[Attack], attackers: Attackers) -> tuple[ClientMod, ...]:
    """Return the mods of attackers that do all of this; the first has the last word, as scaling has over wrong labels.

    To get into a cohort that is not their own they forge rewards, unless one of the kinds says how they get there.
    """
    mods = tuple(kind.mod(attackers) for kind in kinds)
    if not kinds or attackers.target == "own" or any(isinstance(mod, ModsRequests) for mod in mods):
        return mods
    return (*mods, ForgedReward().mod(attackers))
