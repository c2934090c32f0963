"""Devices are assigned in turns, each in an order of its own, by seed and by name."""

import numpy as np
import pytest

from auxo.traces.device_assignment import assign_devices


def test_every_device_is_assigned_once_before_any_is_assigned_again() -> None:
    names = tuple("abcdefg")
    rows = assign_devices(names, 7 * 30 + 3, seed=2)
    turns = rows[: 7 * 30].reshape(30, 7)
    assert (np.sort(turns, axis=1) == np.arange(7)).all()
    assert len({tuple(turn) for turn in turns.tolist()}) > 20  # in another order each time


def test_more_clients_do_not_change_the_devices_of_the_first_ones() -> None:
    names = tuple("abcdefg")
    assert assign_devices(names, 11, seed=4).tolist() == assign_devices(names, 50, seed=4)[:11].tolist()


def test_another_seed_and_other_names_give_other_devices() -> None:
    names = tuple(f"phone-{row}" for row in range(50))
    others = tuple(f"tablet-{row}" for row in range(50))
    assert assign_devices(names, 50, 0).tolist() == assign_devices(names, 50, 0).tolist()
    assert assign_devices(names, 50, 0).tolist() != assign_devices(names, 50, 1).tolist()
    assert assign_devices(names, 50, 0).tolist() != assign_devices(others, 50, 0).tolist()


@pytest.mark.parametrize(
    ("devices", "n_clients", "message"), [((), 3, "devices: expected"), (("a",), 0, "n_clients: expected")]
)
def test_nobody_and_nothing_to_assign_are_refused(devices: tuple[str, ...], n_clients: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assign_devices(devices, n_clients, seed=0)
