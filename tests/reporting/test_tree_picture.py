from xml.etree import ElementTree as ET

import pytest

from auxo.experiments.run_directory import RunDirectory
from auxo.protocol.events import Partitioned
from auxo.reporting.facts import gather_facts
from auxo.reporting.tree_picture import Node, cohort_tree, draw_tree
from tests.reporting.made_runs import AUXO, HOUR, IFCA, closed, evaluated, finished, record


def leaf(cohort: str, **groups: int) -> Node:
    composition = {int(name.removeprefix("g")): clients for name, clients in groups.items()}
    return Node(cohort, clients=sum(composition.values()), accuracy=0.9, groups=composition)


TREE = Node(
    "0",
    (leaf("0.0", g0=300, g1=100), Node("0.1", (leaf("0.1.0", g1=100), leaf("0.1.1", g2=100)), 120)),
    40,
)


def parsed(*roots: Node, width: int = 900) -> ET.Element:
    return ET.fromstring(draw_tree(roots, width))  # noqa: S314  # our own output


def texts(picture: ET.Element) -> list[str]:
    return [text.text or "" for text in picture.iter("text")]


def bars(picture: ET.Element) -> dict[str, float]:
    """Return the width of each part of a bar under the words the pointer sees."""
    titled = {rect.findtext("title"): float(rect.get("width") or 0) for rect in picture.iter("rect")}
    return {title: width for title, width in titled.items() if title}


def test_leaves_come_from_first_to_last_and_depth_counts_partitions() -> None:
    assert [one.cohort for one in TREE.leaves()] == ["0.0", "0.1.0", "0.1.1"]
    assert TREE.depth() == 2


def test_partitioned_cohorts_show_their_round_and_leaves_their_clients() -> None:
    seen = [text.replace("\N{NARROW NO-BREAK SPACE}", " ") for text in texts(parsed(TREE))]
    assert {"0", "round 40", "0.1", "round 120", "0.0", "0.1.0", "0.1.1"} <= set(seen)
    assert seen.count("100 clients \N{MIDDLE DOT} 90.0 %") == 2


def test_bars_are_as_long_as_their_clients_are_many() -> None:
    widths = bars(parsed(TREE))
    one = widths["0.1.0: 100 clients of group 1"]
    assert widths["0.0: 300 clients of group 0"] == pytest.approx(3 * one, abs=0.2)
    assert widths["0.0: 100 clients of group 1"] == one


@pytest.mark.parametrize("width", [370, 900])
def test_bars_stay_inside_the_picture(width: int) -> None:
    rects = parsed(TREE, width=width).iter("rect")
    assert all(float(rect.get("x") or 0) + float(rect.get("width") or 0) <= width for rect in rects)


def test_words_are_shortened_where_a_phone_has_no_room() -> None:
    crowded = Node("0", (Node("0.0", (leaf("0.0.0.0.0.0", g0=123_456),), 2),), 1)
    assert any("clients" in text for text in texts(parsed(crowded)))
    narrow = texts(parsed(crowded, width=370))
    assert any(text.startswith("123,456") for text in narrow)
    assert not any("clients" in text for text in narrow)


def test_every_node_is_joined_to_its_parent() -> None:
    picture = parsed(TREE)
    assert len(list(picture.iter("path"))) == 4
    nodes = [circle for circle in picture.iter("circle") if "node" in (circle.get("class") or "")]
    assert len(nodes) == 5


def test_unknown_groups_leave_no_bars_and_no_legend() -> None:
    picture = parsed(Node("0", clients=10, accuracy=0.5))
    assert list(picture.iter("rect")) == []
    assert "true group" not in texts(picture)


def test_legend_says_when_colours_repeat() -> None:
    few, many = leaf("0", g0=1, g1=1), leaf("0", **{f"g{group}": 1 for group in range(20)})
    assert not any("colours repeat" in text for text in texts(parsed(few)))
    assert any("20 groups; colours repeat" in text for text in texts(parsed(many)))


def test_description_names_every_leaf() -> None:
    label = parsed(TREE, Node("1")).get("aria-label") or ""
    assert "4 leaf cohorts" in label
    assert "0.1.1: 100 clients" in label
    assert "1: not evaluated" in label


def test_tree_has_partition_rounds_and_what_became_of_the_leaves(run: RunDirectory) -> None:
    (root,) = cohort_tree(gather_facts(finished(run)).methods["auxo"])
    assert (root.cohort, root.partition_round) == ("0", 2)
    left, right = root.leaves()
    assert (left.cohort, left.clients, left.accuracy) == ("0.0", 2, 0.9)
    assert left.groups == {0: 2, 1: 1}
    assert right.groups == {1: 1}


def test_leaf_without_clients_differs_from_one_not_evaluated(run: RunDirectory) -> None:
    without_clients = (*AUXO, evaluated(5, 500, 0.9, {"0.0": 0.9}))
    not_evaluated = Partitioned(5 * HOUR, "0.0", 5, ("0.0.0", "0.0.1"), (25, 25), 0.03)
    record(run, auxo=(*without_clients, not_evaluated))
    (root,) = cohort_tree(gather_facts(run).methods["auxo"])
    assert {leaf.cohort: leaf.clients for leaf in root.leaves()} == {"0.0.0": None, "0.0.1": None, "0.1": 0}


def test_leaves_that_share_the_root_s_rounds_are_joined_to_it(run: RunDirectory) -> None:
    (root,) = cohort_tree(gather_facts(record(run, ifca=IFCA)).methods["ifca"])
    assert (root.cohort, root.partition_round) == ("0", None)
    assert {leaf.cohort: leaf.clients for leaf in root.leaves()} == {"0.0": 2, "0.1": 0, "0.3": 2}
    picture = parsed(root)
    assert "at the start" in texts(picture)
    assert "start" in texts(parsed(root, width=370))
    assert len(list(picture.iter("path"))) == 3


def test_cohorts_with_rounds_of_their_own_from_the_start_have_a_root(run: RunDirectory) -> None:
    record(run, oracle=(closed(1, "0.1", 1), closed(1, "0.0", 1), evaluated(1, 200, 0.9, {"0.0": 0.9, "0.1": 0.9})))
    (root,) = cohort_tree(gather_facts(run).methods["oracle"])
    assert [leaf.cohort for leaf in root.leaves()] == ["0.0", "0.1"]
