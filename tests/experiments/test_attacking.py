"""Attacks from a configuration: who attacks from when on, whose scores are told, and that they can be gone on from."""

from pathlib import Path

import numpy as np
import pytest

from auxo.attacks.attackers import Attackers
from auxo.experiments.config import Config
from auxo.experiments.config_file import ConfigError, parse_config, to_toml
from auxo.experiments.parts import ATTACKS
from auxo.experiments.populations import make_population
from auxo.experiments.run_directory import RunDirectory
from auxo.experiments.runner import MethodResult, run_experiment, run_method
from auxo.protocol.codec import to_bytes
from auxo.protocol.events import Evaluated, RoundClosed, UpdateRejected
from tests.experiments.test_runner import SMALL


def small(*overrides: str) -> Config:
    return parse_config(SMALL, ["training.rounds=8", "run.evaluate_every=4", *overrides])


def run(config: Config, method: str = "base") -> MethodResult:
    return run_method(method, config, make_population(config))


def test_honest_clients_are_told_of_and_all_besides() -> None:
    config = small('attack.kinds=["sign-flip"]', "attack.share=0.3")
    attackers = Attackers.drawn(90, 0.3, config.seed)
    result = run(config)
    np.testing.assert_array_equal(result.scores.clients, attackers.honest)
    assert result.final.attackers == 27
    honest = float(np.mean(result.scores.correct / result.scores.tests))
    assert result.final.accuracy == pytest.approx(honest)
    assert result.final.accuracy_of_all is not None


@pytest.mark.parametrize("kinds", ["[]", '["sign-flip"]'])
def test_without_attackers_nothing_is_said_of_them(kinds: str) -> None:
    plain, none = run(small()), run(small(f"attack.kinds={kinds}", "attack.share=0.0"))
    assert (none.final.attackers, none.final.accuracy_of_all) == (0, None)
    assert to_bytes(plain.state) == to_bytes(none.state)


def test_attackers_are_honest_until_they_start() -> None:
    def rejected(start: int) -> list[tuple[int, int]]:
        events = run(small('attack.kinds=["nan"]', "attack.share=0.2", f"attack.start={start}")).events
        first = [event.round for event in events if isinstance(event, UpdateRejected)]
        closed = [event.rejected for event in events if isinstance(event, RoundClosed)]
        return list(zip(sorted(set(first)), closed, strict=False))

    assert min(round_ for round_, _ in rejected(0)) == 1
    assert min(round_ for round_, _ in rejected(4)) == 5


@pytest.mark.parametrize("name", ATTACKS.names)
def test_every_attack_can_be_run_and_written_down(name: str) -> None:
    config = small(f'attack.kinds=["{name}"]', "attack.target=smallest", "training.rounds=3")
    assert to_toml(parse_config(to_toml(config))) == to_toml(config)
    final = run(config, "auxo").final
    assert final.attackers == 14
    assert np.isfinite(final.accuracy)


def test_a_round_under_attack_is_gone_on_with_by_the_same_bits(tmp_path: Path) -> None:
    config = small('attack.kinds=["noise"]', "attack.start=2", 'methods=["base"]', "run.checkpoint_every=1r")
    whole = RunDirectory.create(tmp_path / "whole", to_toml(config))
    run_experiment(config, whole, lambda label, event: None)
    cut = RunDirectory.create(tmp_path / "cut", to_toml(config))

    def interrupt(label: str, event: object) -> None:
        if isinstance(event, RoundClosed) and event.round == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(config, cut, interrupt)
    run_experiment(config, cut, lambda label, event: None)
    ends = [[one for one in each.events("base").events if isinstance(one, Evaluated)][-1] for each in (whole, cut)]
    assert ends[0] == ends[1]
    assert ends[0].attackers == 14


def test_a_part_of_ones_own_is_an_attack_like_any_other(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "from dataclasses import dataclass\n"
        "from auxo.attacks.forged_updates import ForgedUpdates\n"
        "@dataclass(frozen=True)\n"
        "class Zero:\n"
        "    def mod(self, attackers):\n"
        "        return ForgedUpdates(attackers, self)\n"
        "    def forged(self, update, visit):\n"
        "        return 0 * update\n"
    )
    assert run(small(f'attack.kinds=["{own}:Zero"]', "training.rounds=2")).final.attackers == 14


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ('attack.kinds=["sing-flip"]', 'did you mean "sign-flip"'),
        ('attack.kinds=["nan", "nan"]', "attack.kinds: expected each at most once"),
        ("attack.share=1.5", "attack.share: expected"),
        ("attack.target=largest", "attack.target: expected"),
        ("attack.start=-1", "attack.start: expected"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(override: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("(", r"\(")):
        small(override)


def test_somebody_has_to_be_honest() -> None:
    with pytest.raises(ConfigError, match="expected honest clients beside the attackers"):
        run(small('attack.kinds=["nan"]', "attack.share=1.0"))


@pytest.mark.fault(23)
def test_records_that_are_lost_cost_visits_and_nothing_else_breaks() -> None:
    forgetful, plain = run(small("devices.forgets=0.4"), "auxo"), run(small(), "auxo")
    everybody = np.arange(90)
    left, whole = (one.state.clients.participations(everybody).sum() for one in (forgetful, plain))
    assert left < 0.6 * whole
    assert forgetful.final.participations == plain.final.participations
