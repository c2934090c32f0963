"""A partitioner for flwr-datasets whose partitions belong to hidden groups."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auxo.core.rng import stream
from auxo.core.types import FloatArray, IntArray
from auxo.population.heterogeneity import (
    AffineShift,
    ConceptShift,
    GroupView,
    Heterogeneity,
    LabelSkew,
    Rotation,
    assign_groups,
    class_shares,
    group_view,
    label_maps,
    relative_sizes,
)
from auxo.population.planting import deal_out

try:
    import PIL.Image
    from datasets import ClassLabel, Dataset, Image
    from flwr_datasets.partitioner import Partitioner
except ImportError as error:
    raise ImportError(
        f"auxo.flower.partitioner needs flwr-datasets, and something of it is missing ({error}); "
        "install it with: pip install 'auxo[flower]'"
    ) from error

_MOST_CHANNELS = 4  # of an image: longer axes are its height and width
_WITHOUT_LEVELS = {"1": "L", "P": "RGB"}  # modes whose numbers are no levels, and what they become


class HiddenGroupsPartitioner(Partitioner):  # type: ignore[misc]  # flwr-datasets ships no types
    """Deals a data set out to partitions of several groups, which differ in classes, labels, or images.

    Every partition is of one group, drawn by chance and told by `group_of` to whoever evaluates; partitions do not
    show it. Rows go to one partition each:

    - `LabelSkew`: the classes of a partition follow its group's shares, as far as there are rows of each class.
    - `LabelPermutation`, `LabelSwap`, `NestedConcepts`: classes are spread alike; each group but the first names them
      its own way.
    - `Rotation`, `AffineShift`: classes are spread alike; each group but the first sees its images in its own way.
    - `NoGroups`: classes are spread alike, and there is a single group.

    Labels and images of a partition are changed when it is loaded, in memory, and not before. Two partitioners of the
    same settings, one for the training split and one for the test split, have the same groups; unless the labels are
    a `ClassLabel`, both splits must hold the same classes.

    Args:
        num_partitions: how many partitions.
        groups: relative sizes of the groups, or how many groups of the same size.
        heterogeneity: what the groups differ in.
        partition_by: the column of the labels.
        seed: of everything drawn here.
        image_column: the column of images or arrays that groups see differently. None: the only one of type `Image`.
            An array of three axes has its channels first or last, wherever an axis is no longer than 4.
        samples: fewest and most rows of a partition, which are drawn alike from that range; rows that are left go to
            nobody. None: all rows are dealt out, as evenly as can be.

    Raises:
        ValueError: an argument is out of its range, or a group would have no partition.

    >>> from datasets import Dataset
    >>> partitioner = HiddenGroupsPartitioner(4, 2, LabelSkew(concentration=1.0, overlap=0), partition_by="label")
    >>> partitioner.dataset = Dataset.from_dict({"x": list(range(40)), "label": [0, 1] * 20})
    >>> [set(partitioner.load_partition(number)["label"]) == {partitioner.group_of(number)} for number in range(4)]
    [True, True, True, True]
    """

    def __init__(  # noqa: PLR0913 - a partitioner's settings
        self,
        num_partitions: int,
        groups: tuple[float, ...] | int,
        heterogeneity: Heterogeneity,
        partition_by: str,
        *,
        seed: int = 42,
        image_column: str | None = None,
        samples: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        if num_partitions < 1:
            raise ValueError(f"num_partitions: expected at least 1, got {num_partitions}")
        if samples is not None and not 1 <= samples[0] <= samples[1]:
            raise ValueError(f"samples: expected (fewest, most) with 1 <= fewest <= most, got {samples}")
        sizes = relative_sizes(heterogeneity, groups)
        self._groups = assign_groups(num_partitions, sizes, seed)
        self._n_groups = len(sizes)
        self._heterogeneity = heterogeneity
        self._partition_by = partition_by
        self._seed = seed
        self._image_column = image_column
        self._samples = samples
        self._dealt: _Dealt | None = None  # when the first partition is asked for, as the base class has it

    @property
    def num_partitions(self) -> int:
        """Return the number of partitions."""
        return len(self._groups)

    @property
    def groups(self) -> IntArray:
        """Return the hidden group of every partition: for the evaluation, not for those who train."""
        return self._groups.copy()

    def group_of(self, partition_id: int) -> int:
        """Return the hidden group of a partition.

        Raises:
            ValueError: there is no such partition.
        """
        if not 0 <= partition_id < self.num_partitions:
            raise ValueError(f"partition_id: expected 0 to {self.num_partitions - 1}, got {partition_id}")
        return int(self._groups[partition_id])

    def load_partition(self, partition_id: int) -> Dataset:
        """Return a partition as its group sees it.

        Raises:
            ValueError: there is no such partition, or the data set does not fit the settings.
        """
        group = self.group_of(partition_id)
        if self._dealt is None:
            self._dealt = self._deal()
        partition = self.dataset.select(self._dealt.rows_of(partition_id))
        if isinstance(self._heterogeneity, ConceptShift) and group > 0:
            names = self._dealt.classes.names(self._heterogeneity, group, self._n_groups, self._seed)
            return _mapped(partition, self._partition_by, lambda labels: [names[label] for label in labels])
        view, column = group_view(self._heterogeneity, group, self._n_groups, self._seed), self._dealt.image_column
        if view is None or column is None:
            return partition
        return _mapped(partition, column, lambda images: [_seen(image, view) for image in images])

    def _deal(self) -> "_Dealt":
        _check_column(self.dataset, "partition_by", self._partition_by)
        classes = _Classes.of(self.dataset, self._partition_by)
        sizes = self._sizes(len(classes.y))
        shares = self._shares(classes)
        rng = stream(self._seed, "hidden-groups", "deal")
        return _Dealt(
            rows=deal_out(classes.y, sizes, self._groups, shares, rng),
            offsets=np.concatenate([[0], np.cumsum(sizes)]),
            classes=classes,
            image_column=self._images(),
        )

    def _sizes(self, rows: int) -> IntArray:
        if self._samples is None:
            if rows < self.num_partitions:
                raise ValueError(
                    f"num_partitions: expected at most one for each of the {rows} rows, got {self.num_partitions}; "
                    "make fewer partitions"
                )
            places = np.arange(self.num_partitions)
            sizes: IntArray = rows // self.num_partitions + (places < rows % self.num_partitions)
            return sizes
        rng = stream(self._seed, "hidden-groups", "sizes")
        sizes = rng.integers(*self._samples, size=self.num_partitions, endpoint=True)
        if sizes.sum() > rows:
            raise ValueError(
                f"samples: expected what the {rows} rows suffice for, but {self.num_partitions} partitions of "
                f"{self._samples[0]} to {self._samples[1]} come to {sizes.sum()}; lower it, or make fewer partitions"
            )
        return sizes

    def _shares(self, classes: "_Classes") -> FloatArray:
        if isinstance(self._heterogeneity, LabelSkew):
            return class_shares(self._heterogeneity, self._n_groups, len(classes.labels))
        counts = np.bincount(classes.y, minlength=len(classes.labels))
        return np.tile(counts / counts.sum(), (self._n_groups, 1))

    def _images(self) -> str | None:
        """Return the column that views change; None where there are no views."""
        if not isinstance(self._heterogeneity, Rotation | AffineShift):
            return None
        if self._image_column is not None:
            _check_column(self.dataset, "image_column", self._image_column)
            return self._image_column
        found: list[str] = [name for name, feature in self.dataset.features.items() if isinstance(feature, Image)]
        if len(found) != 1:
            raise ValueError(
                f"image_column: expected one column of type Image in the data set, got {', '.join(found) or 'none'} "
                f"among {', '.join(self.dataset.column_names)}; name the column to be changed"
            )
        return found[0]


@dataclass(frozen=True)
class _Classes:
    """The labels of a data set, numbered."""

    y: IntArray  # (rows,) place in ``labels``
    labels: tuple[int | str, ...]

    @staticmethod
    def of(dataset: Dataset, column: str) -> "_Classes":
        values = np.asarray(dataset.with_format(None)[column][:])
        if values.ndim != 1 or values.dtype.kind not in "iuUb":
            raise ValueError(
                f"partition_by: expected a column of whole numbers or texts, got {dataset.features[column]} in "
                f'"{column}"; name the column of the labels'
            )
        feature = dataset.features[column]
        if isinstance(feature, ClassLabel):
            if len(values) and not 0 <= values.min() <= values.max() < feature.num_classes:
                row = int(((values < 0) | (values >= feature.num_classes)).argmax())
                raise ValueError(
                    f'partition_by: expected labels from 0 to {feature.num_classes - 1} in "{column}", '
                    f"got {values[row]} in row {row}; leave out rows without a label"
                )
            return _Classes(values.astype(np.int64), tuple(range(feature.num_classes)))
        labels, y = np.unique(values, return_inverse=True)
        return _Classes(y.astype(np.int64), tuple(labels.tolist()))

    def names(self, heterogeneity: Heterogeneity, group: int, groups: int, seed: int) -> dict[int | str, int | str]:
        """Return what a group calls each label."""
        names = label_maps(heterogeneity, groups, len(self.labels), seed)[group]
        return {label: self.labels[name] for label, name in zip(self.labels, names, strict=True)}


@dataclass(frozen=True)
class _Dealt:
    """Which rows each partition has, and what is known about their columns."""

    rows: IntArray  # partition after partition
    offsets: IntArray  # (partitions + 1,)
    classes: _Classes
    image_column: str | None  # None: no group sees anything differently

    def rows_of(self, partition_id: int) -> IntArray:
        return self.rows[self.offsets[partition_id] : self.offsets[partition_id + 1]]


def _check_column(dataset: Dataset, argument: str, column: str) -> None:
    if column not in dataset.column_names:
        raise ValueError(f'{argument}: expected one of {", ".join(dataset.column_names)}, got "{column}"')


def _mapped(partition: Dataset, column: str, change: Callable[[list[Any]], Sequence[Any]]) -> Dataset:
    """Return the partition with the values of one column changed, and all else as it was, its format included."""
    shown = partition.format
    changed = partition.with_format(None).map(
        lambda values: {column: change(values)},
        batched=True,
        input_columns=[column],
        features=partition.features,
        keep_in_memory=True,  # no file is left behind for each client
        load_from_cache_file=False,
    )
    return changed.with_format(shown["type"], shown["columns"], shown["output_all_columns"], **shown["format_kwargs"])


def _seen(image: Any, view: GroupView) -> Any:
    """Return one image as a group sees it, of the kind it was."""
    if not isinstance(image, PIL.Image.Image):
        return _warped(np.asarray(image), view)
    levels = image.convert(_WITHOUT_LEVELS.get(image.mode, image.mode))
    return PIL.Image.fromarray(_warped(np.asarray(levels), view))


def _warped(image: NDArray[Any], view: GroupView) -> NDArray[Any]:
    if image.ndim not in (2, 3) or image.dtype.kind not in "iuf":
        raise ValueError(
            f"image_column: expected images, or arrays of two or three axes, got shape {image.shape} of {image.dtype}; "
            "name the column of the images"
        )
    are_channels_last = image.ndim == 3 and image.shape[-1] <= _MOST_CHANNELS < image.shape[0]
    planes = np.moveaxis(image, -1, 0) if are_channels_last else image
    border = np.concatenate([planes[..., [0, -1], :].ravel(), planes[..., [0, -1]].ravel()])
    seen = view.images(planes.astype(np.float32), fill=float(np.median(border)))
    whole = seen if image.dtype.kind == "f" else np.rint(seen)
    return np.ascontiguousarray(np.moveaxis(whole, 0, -1) if are_channels_last else whole).astype(image.dtype)
