"""Devices: published figures come out of the fit, and durations add up."""

import math
from dataclasses import replace

import numpy as np
import pytest

from auxo.core.types import FloatArray
from auxo.simulation.devices import Devices, DeviceSource, EqualDevices, SyntheticDevices, Work, durations_s

N_CLIENTS = 50_000


def columns(devices: Devices) -> tuple[FloatArray, FloatArray, FloatArray]:
    return devices.compute_s_per_sample, devices.download_bps, devices.upload_bps


@pytest.mark.parametrize("source", [SyntheticDevices(), SyntheticDevices(spread=0), EqualDevices()])
def test_a_source_draws_one_device_for_each_client_and_the_same_again(source: DeviceSource) -> None:
    first, second = source.draw(7, seed=3), source.draw(7, seed=3)
    assert first.n_clients == 7
    for one, other in zip(columns(first), columns(second), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("source", [SyntheticDevices(), EqualDevices()])
def test_a_larger_population_keeps_the_devices_of_the_smaller(source: DeviceSource) -> None:
    for few, many in zip(columns(source.draw(5, seed=3)), columns(source.draw(500, seed=3)), strict=True):
        np.testing.assert_array_equal(few, many[:5])


@pytest.mark.parametrize("source", [SyntheticDevices(), EqualDevices()])
def test_a_source_refuses_an_empty_population(source: DeviceSource) -> None:
    with pytest.raises(ValueError, match="n_clients: expected at least 1, got 0"):
        source.draw(0, seed=1)


def test_synthetic_devices_reproduce_the_published_figures() -> None:
    devices = SyntheticDevices().draw(N_CLIENTS, seed=1)
    inference_s = devices.compute_s_per_sample / 3
    np.testing.assert_allclose(np.quantile(inference_s, [0.05, 0.95]), [0.015, 0.199], rtol=0.03)
    assert np.median(devices.download_bps) == pytest.approx(6.1e6, rel=0.03)
    assert (devices.download_bps < 3e6).mean() == pytest.approx(0.26, abs=0.01)
    np.testing.assert_allclose(devices.upload_bps, devices.download_bps / 2)


def test_compute_and_bandwidth_are_independent() -> None:
    devices = SyntheticDevices().draw(N_CLIENTS, seed=1)
    correlation = np.corrcoef(np.log(devices.compute_s_per_sample), np.log(devices.download_bps))[0, 1]
    assert abs(correlation) < 0.02


def test_another_seed_draws_other_devices() -> None:
    source = SyntheticDevices()
    assert (source.draw(10, seed=1).download_bps != source.draw(10, seed=2).download_bps).all()


def test_without_spread_every_device_is_the_median_one() -> None:
    devices = SyntheticDevices(spread=0).draw(10, seed=1)
    np.testing.assert_array_equal(devices.compute_s_per_sample, 3.0 * math.sqrt(0.015 * 0.199))
    np.testing.assert_array_equal(devices.download_bps, 6.1e6)


def test_spread_scales_the_logarithms() -> None:
    half, full = SyntheticDevices(spread=0.5).draw(100, seed=1), SyntheticDevices().draw(100, seed=1)
    np.testing.assert_allclose(2 * np.log(half.download_bps / 6.1e6), np.log(full.download_bps / 6.1e6))


def test_equal_devices_are_by_default_about_the_median_synthetic_one() -> None:
    equal, median = EqualDevices().draw(1, seed=1), SyntheticDevices(spread=0).draw(1, seed=1)
    for one, other in zip(columns(equal), columns(median), strict=True):
        np.testing.assert_allclose(one, other, rtol=0.01)


def test_a_duration_is_download_plus_compute_plus_upload() -> None:
    devices = Devices(
        compute_s_per_sample=np.array([0.5, 0.1]),
        download_bps=np.array([8e6, 4e6]),
        upload_bps=np.array([4e6, 1e6]),
    )
    work = Work.plain(np.array([10, 20, 0]))
    durations = durations_s(devices, np.array([1, 0, 1]), work, model_bytes=1_000_000)
    np.testing.assert_allclose(durations, [2 + 1 + 8, 1 + 10 + 2, 2 + 0 + 8])


def test_every_model_is_downloaded_and_a_loss_takes_a_third_of_a_training_step() -> None:
    devices = Devices(
        compute_s_per_sample=np.array([0.6, 0.1]),
        download_bps=np.array([8e6, 4e6]),
        upload_bps=np.array([4e6, 1e6]),
    )
    # Four models tried on 10 samples each, of which one is trained twice over; and one that compares nothing.
    work = Work(trained=np.array([20, 20]), compared=np.array([40, 0]), downloads=np.array([4, 1]))
    durations = durations_s(devices, np.array([0, 1]), work, model_bytes=1_000_000)
    np.testing.assert_allclose(durations, [4 * 1 + (12 + 40 * 0.2) + 2, 2 + 2 + 8])


@pytest.mark.parametrize(
    ("rows", "trained", "model_bytes", "message"),
    [
        ([0, 2], [1, 1], 1, r"rows: expected values in \[0, 2\), got 0 to 2"),
        ([-1], [1], 1, r"rows: expected values in \[0, 2\), got -1 to -1"),
        ([0, 1], [1], 1, "trained: expected one value for each of 2 participants, got 1"),
        ([0], [-1], 1, "trained: expected values >= 0, got -1"),
        ([0], [1], -1, "model_bytes: expected a size >= 0, got -1"),
    ],
)
def test_durations_refuse_what_makes_no_sense(
    rows: list[int], trained: list[int], model_bytes: int, message: str
) -> None:
    devices = EqualDevices().draw(2, seed=1)
    with pytest.raises(ValueError, match=message):
        durations_s(devices, np.array(rows), Work.plain(np.array(trained)), model_bytes)


@pytest.mark.parametrize("column", ["compared", "downloads"])
def test_work_of_other_participants_or_below_nothing_is_refused_by_name(column: str) -> None:
    devices, plain = EqualDevices().draw(2, seed=1), Work.plain(np.array([1, 1]))
    for wrong, message in (([1], f"{column}: expected one value for each of 2"), ([1, -1], f"{column}: .* got -1")):
        with pytest.raises(ValueError, match=message):
            durations_s(devices, np.array([0, 1]), replace(plain, **{column: np.array(wrong)}), model_bytes=1)


def test_nobody_takes_no_time() -> None:
    nobody = np.array([], dtype=np.int64)
    assert durations_s(EqualDevices().draw(2, seed=1), nobody, Work.plain(nobody), 10).shape == (0,)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, np.nan])
def test_a_device_without_speed_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match=r"upload_bps: expected positive finite values, got .* for client row 1"):
        Devices(np.ones(2), np.ones(2), np.array([1.0, bad]))


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="download_bps: expected one value for each of 2 clients"):
        Devices(np.ones(2), np.ones(3), np.ones(2))


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"spread": -0.1}, "spread"),
        ({"training_factor": 0.0}, "training_factor"),
        ({"upload_fraction": -1.0}, "upload_fraction"),
    ],
)
def test_impossible_settings_are_refused_by_name(settings: dict[str, float], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        SyntheticDevices(**settings)


def test_equal_devices_refuse_a_speed_of_zero() -> None:
    with pytest.raises(ValueError, match="download_bps: expected a positive number, got 0"):
        EqualDevices(download_bps=0)
