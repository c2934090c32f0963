"""How the suites themselves are tested: every promise has a part that breaks it, and is told by the message."""

from collections.abc import Sequence
from typing import TypeVar

import pytest

from auxo.testing.contract import Check, ContractBroken

Part = TypeVar("Part")
Breach = tuple[Check[Part], Part]


def every(checks: Sequence[Check[Part]]) -> pytest.MarkDecorator:
    """Return one case for each check."""
    return pytest.mark.parametrize("check", checks, ids=lambda check: check.name)


def each_broken(breaches: Sequence[Breach[Part]]) -> pytest.MarkDecorator:
    """Return one case for each part that breaks a promise."""
    names = [f"{check.name}-{getattr(part, 'kind', type(part).__name__)}" for check, part in breaches]
    return pytest.mark.parametrize(("check", "part"), breaches, ids=names)


def assert_caught(check: Check[Part], part: Part) -> str:
    """Return the message that a check has for a part that breaks its promise."""
    with pytest.raises(ContractBroken) as caught:
        check(part)
    message = str(caught.value)
    assert check.promise in message
    assert "Expected " in message
    assert ", got " in message
    assert check.contract.described in message
    return message


def assert_all_can_fail(checks: Sequence[Check[Part]], breaches: Sequence[Breach[Part]]) -> None:
    """Check that each promise has a part that breaks it, and a sentence of its own."""
    assert [check.name for check in checks if check not in [broken for broken, _ in breaches]] == []
    promises = [check.promise for check in checks]
    assert len(set(promises)) == len(promises)
    assert all(promise.endswith(".") for promise in promises)
