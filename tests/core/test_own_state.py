from dataclasses import dataclass

import pytest

from auxo.core.own_state import NOTHING, Nothing, own


@dataclass(frozen=True)
class Visits:
    count: int


def test_a_part_gets_its_own_state_back() -> None:
    state = Visits(3)

    assert own(Visits, state) is state
    assert own(Nothing, NOTHING) is NOTHING


@pytest.mark.parametrize(("kind", "state"), [(Visits, NOTHING), (Nothing, Visits(3))])
def test_the_state_of_another_part_is_refused_by_its_name(kind: type, state: object) -> None:
    with pytest.raises(
        TypeError, match=f"expected a state of kind {kind.__name__}, got {type(state).__name__}; go on with the parts"
    ):
        own(kind, state)
