"""Partitions of hidden groups, with the objects of flwr-datasets and datasets themselves."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from datasets import ClassLabel, Dataset, Features, Image, Value
from flwr_datasets import FederatedDataset
from flwr_datasets.metrics import compute_counts
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.core.rng import stream
from auxo.flower.partitioner import HiddenGroupsPartitioner
from auxo.population.heterogeneity import (
    AffineShift,
    Heterogeneity,
    LabelPermutation,
    LabelSkew,
    LabelSwap,
    NestedConcepts,
    NoGroups,
    Rotation,
    class_shares,
    label_maps,
)

CLASSES = 5


def rows(n: int, seed: int = 0) -> Dataset:
    """Return rows with a number and a label each."""
    labels = stream(seed, "test-partitioner").integers(CLASSES, size=n).tolist()
    features = Features({"row": Value("int64"), "label": ClassLabel(num_classes=CLASSES)})
    return Dataset.from_dict({"row": list(range(n)), "label": labels}, features=features)


def images(n: int, *shape: int) -> Dataset:
    """Return rows with a picture and a label each, classes in turn."""
    pixels = stream(0, "test-images").integers(256, size=(n, *shape), dtype=np.uint8)
    features = Features({"row": Value("int64"), "image": Image(), "label": ClassLabel(num_classes=CLASSES)})
    pictures = [PIL.Image.fromarray(picture) for picture in pixels]
    columns = {"row": list(range(n)), "image": pictures, "label": [row % CLASSES for row in range(n)]}
    return Dataset.from_dict(columns, features=features)


def dealt(
    dataset: Dataset, heterogeneity: Heterogeneity, partitions: int = 6, groups: int = 2, seed: int = 42
) -> HiddenGroupsPartitioner:
    partitioner = HiddenGroupsPartitioner(partitions, groups, heterogeneity, "label", seed=seed)
    partitioner.dataset = dataset
    return partitioner


def loaded(partitioner: HiddenGroupsPartitioner) -> list[Dataset]:
    return [partitioner.load_partition(number) for number in range(partitioner.num_partitions)]


@settings(max_examples=15)
@given(
    heterogeneity=st.sampled_from([LabelSkew(), LabelSkew(1.0, 0), LabelPermutation(), LabelSwap(), NoGroups()]),
    n=st.integers(12, 80),
    partitions=st.integers(3, 12),
    groups=st.integers(1, 3),
)
def test_every_row_is_in_exactly_one_partition_and_partitions_are_of_one_size(
    heterogeneity: Heterogeneity, n: int, partitions: int, groups: int
) -> None:
    parts = loaded(dealt(rows(n), heterogeneity, partitions, groups))
    assert sorted(row for part in parts for row in part["row"]) == list(range(n))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_the_same_seed_deals_the_same_and_another_one_something_else() -> None:
    first, again, other = (
        [list(part["row"]) for part in loaded(dealt(rows(60), LabelSkew(), seed=seed))] for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_sizes_of_partitions_can_be_drawn_from_a_range() -> None:
    partitioner = HiddenGroupsPartitioner(8, 2, LabelSkew(), "label", samples=(3, 9))
    partitioner.dataset = rows(100)
    parts = loaded(partitioner)
    sizes = [len(part) for part in parts]
    assert min(sizes) >= 3
    assert max(sizes) <= 9
    assert len(set(sizes)) > 1
    chosen = [row for part in parts for row in part["row"]]
    assert len(set(chosen)) == len(chosen) == sum(sizes)


def test_label_shares_follow_the_groups() -> None:
    partitioner = dealt(rows(6000), LabelSkew(0.9, 0), partitions=20, groups=5)
    wanted = class_shares(LabelSkew(0.9, 0), 5, CLASSES)
    for number, part in enumerate(loaded(partitioner)):
        shares = np.bincount(part["label"], minlength=CLASSES) / len(part)
        assert np.abs(shares - wanted[partitioner.group_of(number)]).max() < 0.06


def test_groups_are_known_before_there_is_a_data_set_and_have_their_relative_sizes() -> None:
    partitioner = HiddenGroupsPartitioner(40, (3.0, 1.0), LabelSkew(), "label")
    assert partitioner.num_partitions == 40
    assert np.bincount(partitioner.groups).tolist() == [30, 10]
    assert [partitioner.group_of(number) for number in range(40)] == partitioner.groups.tolist()


@pytest.mark.parametrize(
    ("heterogeneity", "groups"), [(LabelPermutation(), 3), (LabelSwap(), 3), (NestedConcepts(), 4)]
)
def test_each_group_has_names_of_its_own_for_the_classes_and_nothing_else_changes(
    heterogeneity: Heterogeneity, groups: int
) -> None:
    dataset = rows(60)
    partitioner = dealt(dataset, heterogeneity, groups=groups)
    names = label_maps(heterogeneity, groups, CLASSES, seed=42)
    true = np.array(dataset["label"][:])
    for number, part in enumerate(loaded(partitioner)):
        assert part.features == dataset.features
        assert list(part["label"]) == names[partitioner.group_of(number), true[part["row"][:]]].tolist()


def test_labels_may_be_texts() -> None:
    names = ["cat", "dog", "eel"]
    dataset = Dataset.from_dict({"row": list(range(30)), "label": names * 10})
    partitioner = dealt(dataset, LabelPermutation(), groups=3)
    for number, part in enumerate(loaded(partitioner)):
        pairs = {(names[row % 3], label) for row, label in zip(part["row"], part["label"], strict=True)}
        assert {label for _, label in pairs} <= set(names)
        assert all((was == now) == (partitioner.group_of(number) == 0) for was, now in pairs)


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 3)])
def test_each_group_sees_pictures_turned_its_own_way(shape: tuple[int, ...]) -> None:
    dataset = images(16, *shape)
    partitioner = dealt(dataset, Rotation(), partitions=8, groups=4)
    for number, part in enumerate(loaded(partitioner)):
        assert part.features == dataset.features
        for row, label, picture in zip(part["row"], part["label"], part["image"], strict=True):
            was = np.asarray(dataset[row]["image"])
            assert np.array_equal(np.asarray(picture), np.rot90(was, partitioner.group_of(number)))
            assert label == row % CLASSES


@pytest.mark.parametrize("shape", [(8, 8), (3, 8, 8), (8, 8, 3)])
def test_arrays_are_images_too_with_channels_first_or_last(shape: tuple[int, ...]) -> None:
    pixels = stream(0, "test-arrays").random((12, *shape))
    dataset = Dataset.from_dict({"row": list(range(12)), "pixels": pixels.tolist(), "label": [0, 1, 2] * 4})
    partitioner = HiddenGroupsPartitioner(4, 2, Rotation(), "label", image_column="pixels")
    partitioner.dataset = dataset
    axes = (1, 2) if shape[0] == 3 else (0, 1)
    for number, part in enumerate(loaded(partitioner)):
        for row, picture in zip(part["row"], part["pixels"], strict=True):
            turned = np.rot90(pixels[row], 2 * partitioner.group_of(number), axes=axes)
            assert np.allclose(np.array(picture), turned, atol=1e-6)


def test_an_affine_shift_leaves_the_first_group_and_white_paper_alone() -> None:
    paper = np.full((10, 10), 255, np.uint8)
    paper[4:6, 3:8] = 0
    features = Features({"image": Image(), "label": ClassLabel(num_classes=2)})
    pictures = [PIL.Image.fromarray(paper)] * 8
    partitioner = dealt(
        Dataset.from_dict({"image": pictures, "label": [0, 1] * 4}, features=features), AffineShift(1.0)
    )
    seen = [np.asarray(partitioner.load_partition(number)["image"][0]) for number in range(6)]
    for number, picture in enumerate(seen):
        assert np.array_equal(picture, paper) == (partitioner.group_of(number) == 0)
        assert (picture[[0, 0, -1, -1], [0, -1, 0, -1]] == 255).all()


def test_two_splits_with_the_same_settings_have_the_same_groups_names_and_views() -> None:
    train, test = (dealt(images(n, 6, 6), LabelPermutation(), groups=3) for n in (30, 18))
    assert np.array_equal(train.groups, test.groups)
    for number in range(6):
        names = [
            {row % CLASSES: label for row, label in zip(part["row"], part["label"], strict=True)}
            for part in (train.load_partition(number), test.load_partition(number))
        ]
        assert all(names[0][label] == names[1][label] for label in names[0].keys() & names[1].keys())


def test_a_partition_keeps_the_format_of_the_data_set_and_takes_a_transform_on_top_of_its_view() -> None:
    partitioner = dealt(images(12, 6, 6).with_format("numpy"), Rotation(), partitions=2)
    other = partitioner.groups.tolist().index(1)
    part = partitioner.load_partition(other)
    assert part.format["type"] == "numpy"
    turned = np.rot90(np.asarray(images(12, 6, 6)[int(part[0]["row"])]["image"]), 2)
    assert np.array_equal(part[0]["image"], turned)
    transformed = part.with_transform(lambda batch: {"mean": [np.asarray(picture)[0, 0] for picture in batch["image"]]})
    assert transformed[0]["mean"] == turned[0, 0]


def test_label_counts_of_flower_see_what_partitions_hold() -> None:
    partitioner = dealt(rows(300), LabelSkew(1.0, 0), partitions=5, groups=5)
    counts = compute_counts(partitioner, "label")
    assert counts.to_numpy().argmax(axis=1).tolist() == partitioner.groups.tolist()


@pytest.mark.filterwarnings("ignore:The currently tested dataset")
def test_it_partitions_a_federated_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flwr_datasets.common.telemetry.FLWR_TELEMETRY_ENABLED", "0")  # no network
    rows(60).to_parquet(tmp_path / "train.parquet")
    partitioner = HiddenGroupsPartitioner(6, 2, LabelPermutation(), "label")
    federated = FederatedDataset(
        dataset="parquet",
        data_files={"train": str(tmp_path / "train.parquet")},
        cache_dir=str(tmp_path / "cache"),
        partitioners={"train": partitioner},
    )
    parts = [federated.load_partition(number) for number in range(6)]
    assert sorted(row for part in parts for row in part["row"]) == list(range(60))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_partitions": 0}, "num_partitions: expected at least 1, got 0"),
        ({"groups": 0}, "groups: expected a number >= 1"),
        ({"num_partitions": 2, "groups": 3}, "of 2 clients group 2 would get none"),
        ({"samples": (0, 3)}, "samples: expected .fewest, most."),
    ],
)
def test_settings_out_of_their_range_are_refused(settings: dict[str, object], message: str) -> None:
    arguments = {"num_partitions": 6, "groups": 2, "heterogeneity": LabelSkew(), "partition_by": "label"} | settings
    with pytest.raises(ValueError, match=message):
        HiddenGroupsPartitioner(**arguments)  # type: ignore[arg-type]  # the wrong values are the point


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"partition_by": "labels"}, 'partition_by: expected one of row, label, got "labels"'),
        ({"num_partitions": 50}, "at most one for each of the 40 rows, got 50"),
        ({"samples": (20, 20)}, "the 40 rows suffice for, but 6 partitions of 20 to 20 come to 120"),
        ({"groups": 6}, "at most one group for each of the 5 classes, got 6"),
        ({"heterogeneity": Rotation()}, "image_column: expected one column of type Image in the data set, got none"),
        ({"heterogeneity": Rotation(), "image_column": "x"}, 'image_column: expected one of row, label, got "x"'),
    ],
)
def test_data_sets_that_do_not_fit_are_refused(settings: dict[str, object], message: str) -> None:
    arguments = {"num_partitions": 6, "groups": 2, "heterogeneity": LabelSkew(), "partition_by": "label"} | settings
    partitioner = HiddenGroupsPartitioner(**arguments)  # type: ignore[arg-type]  # of several types, by name
    partitioner.dataset = rows(40)
    with pytest.raises(ValueError, match=message):
        partitioner.load_partition(0)


def test_rows_without_a_label_and_labels_of_fractions_are_refused() -> None:
    unlabelled = Dataset.from_dict({"label": [0, -1, 1]}, features=Features({"label": ClassLabel(num_classes=2)}))
    with pytest.raises(ValueError, match="got -1 in row 1; leave out rows without a label"):
        dealt(unlabelled, LabelSkew(), partitions=2).load_partition(0)
    with pytest.raises(ValueError, match="expected a column of whole numbers or texts"):
        dealt(Dataset.from_dict({"label": [0.5, 1.5]}), LabelSkew(), partitions=2).load_partition(0)


@pytest.mark.parametrize("partition_id", [-1, 6])
def test_partitions_that_do_not_exist_are_refused(partition_id: int) -> None:
    partitioner = dealt(rows(40), LabelSkew())
    with pytest.raises(ValueError, match=f"partition_id: expected 0 to 5, got {partition_id}"):
        partitioner.load_partition(partition_id)


def test_columns_of_images_that_hold_none_are_refused() -> None:
    partitioner = HiddenGroupsPartitioner(2, 2, Rotation(), "label", image_column="vector")
    partitioner.dataset = Dataset.from_dict({"vector": [[0.0, 1.0]] * 4, "label": [0, 1] * 2})
    other = partitioner.groups.tolist().index(1)
    with pytest.raises(ValueError, match=r"image_column: expected images.*got shape \(2,\)"):
        partitioner.load_partition(other)


def test_what_is_missing_is_named_with_the_extra_that_brings_it() -> None:
    without = "import sys; sys.modules['flwr_datasets'] = None; import auxo.flower.partitioner"
    ended = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)  # noqa: S603 - ours
    assert ended.returncode == 1
    assert "ImportError: auxo.flower.partitioner needs flwr-datasets" in ended.stderr
    assert "pip install 'auxo[flower]'" in ended.stderr


def test_partitions_are_the_same_in_whatever_order_they_are_loaded() -> None:
    forwards = [list(part["row"]) for part in loaded(dealt(rows(40), LabelSkew()))]
    partitioner = dealt(rows(40), LabelSkew())
    backwards = [list(partitioner.load_partition(number)["row"]) for number in reversed(range(6))]
    assert forwards == backwards[::-1]
    assert all(one != other for one, other in pairwise(forwards))
