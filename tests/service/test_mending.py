"""What a cohort's process finds when it starts: what is damaged is put aside, told, and replaced."""

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from auxo.core.types import ROOT, CohortId
from auxo.experiments.config_file import ConfigError, load_config
from auxo.protocol.events import Disturbance, from_json
from auxo.service.cohort_process import is_mended
from auxo.service.plan import ServicePlan, begin, plan_in, plan_of
from auxo.service.store import Store
from tests.service.made_store import parted, trained

INITIAL = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
LEFT = CohortId("0.0")


def planned(folder: Path, more: str = "", method: str = "auxo") -> ServicePlan:
    tensors = {"0.weight": INITIAL, "1.bias": np.zeros(2, np.float32)}
    (folder / "initial.safetensors").write_bytes(safetensors.numpy.save(tensors))
    (folder / "service.toml").write_text(
        f'methods = ["{method}"]\n[training]\nparticipants = 4\n'
        f'[service]\nmodel = "initial.safetensors"\ndirectory = "service"\n{more}'
    )
    return plan_of(load_config(folder / "service.toml"))


@pytest.fixture
def plan(tmp_path: Path) -> ServicePlan:
    found = planned(tmp_path)
    begin(found, 0.0)
    return found


def _damage(store: Store, cohort: CohortId, count: int = 9) -> list[str]:
    statement = "SELECT blob FROM version WHERE cohort = ? ORDER BY number DESC"
    names = [name for (name,) in store._database.connection.execute(statement, (cohort,))][:count]
    for name in names:
        store._blobs.path(name).write_bytes(b"half of it")
    store._read.clear()
    return names


def _told(store: Store) -> list[str]:
    found = [from_json(line) for _, line in store.events()]
    assert all(isinstance(one, Disturbance) for one in found)
    return [one.reason for one in found if isinstance(one, Disturbance)]


@pytest.mark.fault(9)
def test_of_a_damaged_version_the_one_before_is_gone_on_with_and_both_are_named(plan: ServicePlan) -> None:
    with plan.store() as store:
        store.commit(0, trained(store.read().record.state, ROOT))
        assert is_mended(plan, store, ROOT, 0)
        assert _told(store) == []
        (name,) = _damage(store, ROOT, 1)
        assert is_mended(plan, store, ROOT, 0)
        held = store.read()
        assert held.record.state.cohorts[ROOT].round == 0
        assert not held.troubles
        (words,) = _told(store)
        assert name in words
        assert words.count(".safetensors") == 2
        assert (plan.directory / "blobs" / f"{name}.safetensors.damaged").exists()


@pytest.mark.fault(10)
def test_a_cohort_of_which_nothing_is_left_begins_again_with_its_parents_model_and_says_so(plan: ServicePlan) -> None:
    with plan.store() as store:
        store.commit(0, trained(store.read().record.state, ROOT))
        store.commit(0, parted(store.read().record.state, ROOT))
        store.commit(0, trained(store.read().record.state, LEFT))
        _damage(store, LEFT)
        assert is_mended(plan, store, LEFT, 0)
        held = store.read()
        assert held.record.state.cohorts[LEFT].round == 2
        assert store.model(LEFT).tolist() == plan.initial.tolist()
        assert any("begins again with its parent's model" in words for words in _told(store))


@pytest.mark.fault(10)
def test_without_a_parent_it_begins_again_with_the_initial_model_and_never_with_another(plan: ServicePlan) -> None:
    with plan.store() as store:
        store.commit(0, trained(store.read().record.state, ROOT))
        _damage(store, ROOT)
        assert not is_mended(plan, store, ROOT, 7)  # which is no owner of it
        assert is_mended(plan, store, ROOT, 0)
        assert store.model(ROOT).tolist() == plan.initial.tolist()
        assert store.read().record.state.cohorts[ROOT].round == 1
        assert any("begins again with the initial model" in words for words in _told(store))


# Plans.


def test_a_plan_is_the_same_from_the_directory_of_its_service(plan: ServicePlan) -> None:
    again = plan_in(plan.directory)
    assert again.names == ("0.weight", "1.bias")
    assert again.initial.tolist() == [1, 2, 3, 4, 0, 0]
    assert again.rules == plan.rules
    assert safetensors.numpy.load(plan.tensors(plan.initial))["0.weight"].tolist() == INITIAL.tolist()


@pytest.mark.parametrize("method", ["ifca", "fl+hc", "oracle"])
def test_methods_whose_cohorts_have_one_owner_are_refused(method: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'take \["auxo"\]'):
        planned(tmp_path, method=method)


@pytest.mark.parametrize("method", ["auxo", "paper", "base"])
def test_methods_whose_cohorts_go_by_themselves_are_served(method: str, tmp_path: Path) -> None:
    assert planned(tmp_path, method=method).rules.total_participants == 4


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('[run]\nengine = "ray"', "run.ray_address: expected a cluster that outlives this command"),
        ('key = "a.pem"', "expected both for TLS"),
        ('client_ca = "a.pem"', "expected TLS"),
        ("cohort_ports = [9, 8]", r"expected \[first, last\]"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(more: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        planned(tmp_path, more)


def test_a_service_needs_one_method_and_a_model(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("")
    with pytest.raises(ConfigError, match=r"service\.model: expected a safetensors file"):
        plan_of(load_config(tmp_path / "a.toml"))
    with pytest.raises(ValueError, match="No such file"):
        plan_of(load_config(tmp_path / "a.toml", ["service.model=none.safetensors"]))
    planned(tmp_path)
    with pytest.raises(ConfigError, match="methods: expected one"):
        plan_of(load_config(tmp_path / "a.toml", [f"service.model={tmp_path / 'initial.safetensors'}"]))
