"""What a grid says, of summaries with numbers chosen by hand."""

from dataclasses import replace

import pytest

from auxo.experiments.config import Config
from auxo.experiments.grid import Cell, GridAxis
from auxo.experiments.grid_comparison import compare_grid
from auxo.experiments.summary import AgainstBase
from tests.experiments.made_summaries import made_method, made_summary

AXES = (GridAxis("training.aggregator", ("fedavg", "fedyogi")),)


def cell(choice: str, *methods: str) -> Cell:
    return Cell((choice,), f"aggregator-{choice}", Config(methods=methods))


def test_each_method_is_held_against_the_base_of_its_own_cell_and_seed() -> None:
    cells = (cell("fedavg", "base", "auxo"), cell("fedyogi", "base", "auxo"))
    brought = AgainstBase(speedup=2.0, resource_speedup=8.0, oracle_gain_share=None)
    of_cell = {
        one.name: [
            made_summary(
                seed,
                base=made_method(0.5 + 0.1 * more),
                auxo=made_method(0.6 + 0.01 * seed, against_base=brought),
            )
            for seed in range(3)
        ]
        for more, one in enumerate(cells)
    }
    rows = compare_grid(AXES, cells, of_cell).rows
    assert [(row.choices, row.method) for row in rows] == [
        (("fedavg",), "base"), (("fedavg",), "auxo"), (("fedyogi",), "base"), (("fedyogi",), "auxo"),
    ]  # fmt: skip
    found = [row.difference for row in rows if row.method == "auxo"]
    assert [one and one.mean for one in found] == pytest.approx([11.0, 1.0])
    assert found[0] is not None
    assert found[0].half_width == pytest.approx(2.484, abs=1e-3)
    assert rows[1].speedup == pytest.approx(2.0)
    assert rows[1].resource_speedup == pytest.approx(8.0)
    assert rows[1].device_s == 7200.0 + 600.0
    assert rows[0].difference is None


def test_a_method_that_was_refused_failed_or_left_out_has_a_row_that_says_so() -> None:
    one = cell("fedavg", "base", "auxo", "ifca", "oracle")
    failed = made_method(0.1, is_finished=False, troubles=("its loss is nan",))
    ends = [made_method(0.6), failed]
    summaries = [
        replace(made_summary(seed, base=made_method(0.5), auxo=end), refused={"ifca": "no"})
        for seed, end in enumerate(ends)
    ]
    rows = {row.method: row for row in compare_grid(AXES[:1], (one,), {one.name: summaries}).rows}
    assert (rows["ifca"].accuracy, rows["ifca"].note) == (None, "refused: no")
    assert rows["oracle"].note == "left out: these clients have no known groups to tell apart"
    assert rows["auxo"].note == "failed in 1 of 2 seeds: its loss is nan"
    assert rows["auxo"].seeds == (0,)
    assert rows["auxo"].difference is not None
    assert rows["auxo"].difference.mean == pytest.approx(10.0)
