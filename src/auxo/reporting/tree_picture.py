"""The cohort tree as a picture: who was partitioned when, and which clients each leaf serves in the end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from auxo.core.metric import ACCURACY, Metric
from auxo.reporting.facts import MethodFacts
from auxo.reporting.markup import Markup, escaped, joined, picture, tag
from auxo.reporting.number_format import counted, score

_GROUP_COLOURS = 7  # how many the style sheet has; more groups than that use them again
_MAX_LEGEND = 14  # our choice: a longer legend says less than the tooltips do


@dataclass(frozen=True)
class Node:
    """A cohort in the tree. ``clients``, ``accuracy`` and ``groups`` are of the last evaluation; leaves only."""

    cohort: str
    children: tuple["Node", ...] = ()
    partition_round: int | None = None  # None where there are children: they were there from the start
    clients: int | None = None
    accuracy: float | None = None
    metric: Metric = ACCURACY  # what the accuracy is
    groups: Mapping[int, int] | None = None  # clients of each true group; None when no groups are known
    told: str | None = None  # of a federation, which has no evaluation of ours: its nodes and their own metrics
    told_shortly: str = ""  # the same where there is little room

    def leaves(self) -> tuple["Node", ...]:
        """Return the leaves from first to last."""
        return tuple(leaf for child in self.children for leaf in child.leaves()) if self.children else (self,)

    def depth(self) -> int:
        """Return the number of partitions above the deepest leaf."""
        return 1 + max(child.depth() for child in self.children) if self.children else 0


@dataclass(frozen=True)
class _Layout:
    """Where things stand: leaves in rows, generations in columns, leaf details to the right."""

    step: float  # between generations
    row: float  # between leaves
    bar_x: float
    bar_width: float
    is_narrow: bool


def cohort_tree(run: MethodFacts) -> tuple[Node, ...]:
    """Return the tree's roots; one, unless a method calls its cohorts otherwise."""
    last = run.evaluations[-1] if run.evaluations else None
    scores = {one.cohort: one for one in last.cohorts} if last else {}
    compositions = _compositions(run)

    def leaf(cohort: str, born_s: float) -> Node:
        found = scores.get(cohort)
        if found is None:  # an evaluation names only cohorts that have clients
            return Node(cohort, clients=0 if last and last.time_s > born_s else None)
        return Node(
            cohort, clients=found.clients, accuracy=found.accuracy, metric=run.metric, groups=compositions.get(cohort)
        )

    return _tree(run, leaf)


def federation_tree(run: MethodFacts) -> tuple[Node, ...]:
    """Return the roots of a federation's tree: leaves tell their nodes of the last round, and a metric of the app."""
    closed = {one.cohort: one for one in run.rounds}

    def leaf(cohort: str, born_s: float) -> Node:
        last = closed.get(cohort)
        if last is None:
            return Node(cohort, told="no round yet", told_shortly="new")
        nodes, value = counted(last.participants, "node"), main_metric(run, cohort)
        if value is None:
            return Node(cohort, told=nodes, told_shortly=nodes)
        name, number = value
        return Node(cohort, told=f"{nodes} \N{MIDDLE DOT} {name} {number:.4g}", told_shortly=f"{name} {number:.4g}")

    return _tree(run, leaf)


def main_metric(run: MethodFacts, cohort: str) -> tuple[str, float] | None:
    """Return the metric that says most of a cohort's model, and its last value: held-out samples before others."""
    for source in ("evaluation", "server", "training"):
        told = [one for one in run.measured if one.cohort == cohort and one.source == source]
        if told:
            return told[-1].names[0], told[-1].values[0]
    return None


def _tree(run: MethodFacts, leaf: Callable[[str, float], Node]) -> tuple[Node, ...]:
    """Return the tree's roots; ``leaf`` is told a cohort and when it came about."""
    partitions = {partition.cohort: partition for partition in run.partitions}
    families = run.seen.children

    def node(cohort: str, born_s: float) -> Node:
        if cohort not in families:
            return leaf(cohort, born_s)
        partition = partitions.get(cohort)
        born_s = 0.0 if partition is None else partition.time_s
        children = tuple(node(child, born_s) for child in families[cohort])
        return Node(cohort, children, None if partition is None else partition.round)

    return tuple(node(cohort, 0.0) for cohort in run.seen.roots)


def draw_tree(roots: tuple[Node, ...], width: int) -> Markup:
    """Return the tree as an SVG element ``width`` units wide, from left to right, one row for each leaf."""
    leaves = tuple(leaf for root in roots for leaf in root.leaves())
    has_groups = any(leaf.groups for leaf in leaves)
    layout = _layout(roots, width, has_groups)
    most = max((sum(leaf.groups.values()) for leaf in leaves if leaf.groups), default=0)
    parts, top = [], 22.0
    for root in roots:
        parts.append(_draw_node(root, 16.0, top, layout, most)[1])
        top += layout.row * len(root.leaves())
    if has_groups:
        legend, top = _legend(leaves, top, width)
        parts.append(legend)
    return picture(_describe(roots), *parts, width=width, height=top)


def _layout(roots: tuple[Node, ...], width: int, has_groups: bool) -> _Layout:
    depth = max((root.depth() for root in roots), default=0)
    if width < 600:
        step = min(90.0, width * 0.4 / max(depth, 1))
        bar_x = 16 + step * depth + 16
        return _Layout(step, 58.0 if has_groups else 46.0, bar_x, width - bar_x - 4, is_narrow=True)
    step = min(170.0, width * 0.36 / max(depth, 1))
    longest = max((_words_x(leaf) + _width(_words(leaf)) for root in roots for leaf in root.leaves()), default=0.0)
    bar_x = 16 + step * depth + longest + 20
    return _Layout(step, 52.0, bar_x, width - bar_x - 4, is_narrow=False)


def _words_x(leaf: Node) -> float:
    return 16 + 8.2 * len(leaf.cohort) + 12


def _width(words: str) -> float:
    return 7.2 * len(words)  # our estimate for wide fonts


def _words(leaf: Node, *, is_short: bool = False) -> str:
    if leaf.told is not None:
        return leaf.told_shortly if is_short else leaf.told
    if leaf.clients is None:
        return "not evaluated"
    clients = f"{leaf.clients:,}" if is_short else counted(leaf.clients, "client")
    return clients if leaf.accuracy is None else f"{clients} \N{MIDDLE DOT} {score(leaf.accuracy, leaf.metric)}"


def _when(node: Node, room: float) -> str:
    if node.partition_round is None:
        return "at the start" if room >= 100 else "start"
    return f"{'round' if room >= 60 else 'r'} {node.partition_round}"


def _draw_node(node: Node, x: float, top: float, layout: _Layout, most: int) -> tuple[float, Markup]:
    """Return the height of a subtree's root, and the subtree drawn."""
    if not node.children:
        y = top + layout.row / 2 - 8
        return y, _draw_leaf(node, x, y, layout, most)
    heights, drawn = list[float](), list[Markup]()
    for child in node.children:
        height, markup = _draw_node(child, x + layout.step, top, layout, most)
        heights.append(height)
        drawn.append(markup)
        top += layout.row * len(child.leaves())
    y = (heights[0] + heights[-1]) / 2
    half, end = x + layout.step / 2, x + layout.step
    curves = [f"{half:.1f},{y:.1f} {half:.1f},{one:.1f} {end:.1f},{one:.1f}" for one in heights]
    branches = [tag("path", class_="branch", d=f"M{x:.1f},{y:.1f} C{curve}") for curve in curves]
    # The root stands at the picture's edge: words centred on it would be cut off.
    at, anchor = (x - 12, "start") if x < 30 else (x, "middle")
    words = [
        tag("text", escaped(node.cohort), class_="label halo", x=at, y=y - 14, text_anchor=anchor),
        tag("text", escaped(_when(node, layout.step)), class_="note halo", x=at, y=y + 24, text_anchor=anchor),
    ]
    circle = tag("circle", class_="node", cx=x, cy=y, r=7)
    return y, joined([*branches, *drawn, circle, *words])


def _draw_leaf(leaf: Node, x: float, y: float, layout: _Layout, most: int) -> Markup:
    right = layout.bar_x + layout.bar_width
    words = _words(leaf, is_short=x + _words_x(leaf) + _width(_words(leaf)) > right)
    parts = [
        tag("circle", class_="node leaf", cx=x, cy=y, r=7),
        tag("text", escaped(leaf.cohort), class_="label strong", x=x + 16, y=y + 5),
        tag("text", escaped(words), class_="note", x=x + _words_x(leaf), y=y + 5),
    ]
    if leaf.groups and most:
        per_client = layout.bar_width / most
        if layout.is_narrow:
            parts.append(_bar(leaf, layout.bar_x, y + 14, per_client, 12))
        else:
            start, stop = x + _words_x(leaf) + _width(words) + 8, layout.bar_x - 12
            if stop - start > 40:  # far from its bar, a leaf needs a line that leads the eye
                parts.append(tag("line", class_="grid", x1=start, x2=stop, y1=y, y2=y))
            parts.append(_bar(leaf, layout.bar_x, y - 9, per_client, 18))
    return joined(parts)


def _bar(leaf: Node, x: float, y: float, per_client: float, height: float) -> Markup:
    parts = []
    for group, clients in sorted((leaf.groups or {}).items()):
        title = tag("title", escaped(f"{leaf.cohort}: {counted(clients, 'client')} of group {group}"))
        kind, width = f"part g-{group % _GROUP_COLOURS}", clients * per_client
        parts.append(tag("rect", title, class_=kind, x=x, y=y, width=max(width, 0.8), height=height))
        x += width
    return joined(parts)


def _legend(leaves: tuple[Node, ...], top: float, width: int) -> tuple[Markup, float]:
    groups = sorted({group for leaf in leaves for group in leaf.groups or {}})
    parts, x, y = [tag("text", escaped("true group"), class_="note", x=0, y=top + 20)], 84.0, top + 20
    for group in groups[:_MAX_LEGEND]:
        room = 22 + 8 * len(str(group)) + 14
        if x + room > width:
            x, y = 84.0, y + 20
        parts.append(tag("rect", class_=f"part g-{group % _GROUP_COLOURS}", x=x, y=y - 11, width=13, height=13))
        parts.append(tag("text", escaped(str(group)), class_="note", x=x + 19, y=y))
        x += room
    if len(groups) > _GROUP_COLOURS:
        y += 20
        words = f"{len(groups)} groups; colours repeat every {_GROUP_COLOURS}"
        parts.append(tag("text", escaped(words), class_="note", x=84, y=y))
    return joined(parts), y + 12


def _told(leaf: Node) -> str:
    if leaf.accuracy is None:
        return _words(leaf)
    return f"{counted(leaf.clients or 0, 'client')}, {leaf.metric.name} {score(leaf.accuracy, leaf.metric)}"


def _describe(roots: tuple[Node, ...]) -> str:
    leaves = [leaf for root in roots for leaf in root.leaves()]
    ends = "; ".join(f"{leaf.cohort}: {_told(leaf)}" for leaf in leaves)
    return f"Cohort tree with {counted(len(leaves), 'leaf cohort')}. {ends}."


def _compositions(run: MethodFacts) -> dict[str, dict[int, int]]:
    clients = run.clients
    if clients is None or clients.group is None:
        return {}
    compositions = {}
    for cohort in np.unique(clients.cohort).tolist():
        groups, counts = np.unique(clients.group[clients.cohort == cohort], return_counts=True)
        compositions[str(cohort)] = dict(zip(groups.tolist(), counts.tolist(), strict=True))
    return compositions
