import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.datasets.client_samples import end_held_out
from auxo.datasets.leaf import leaf_femnist, leaf_shakespeare
from auxo.datasets.text_features import BY_CHARACTER
from auxo.files.errors import FileError
from tests.datasets.made_files import Users, by_client, leaf_text, through_a_federated_file


def image(level: int) -> list[float]:
    return [level / 255] * 783 + [1.0]


def writers(samples: int = 4) -> Users:
    return {
        "f0001_41": ([image(level) for level in range(samples)], list(range(samples))),
        "f0002_09": ([image(200 + level) for level in range(samples)], [61] * samples),
    }


def role(text: str) -> tuple[list[object], list[object]]:
    padded = " " * 80 + text
    return [padded[at : at + 80] for at in range(len(text))], list(text)


def error_of(path: Path, text: str | bytes) -> str:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(FileError) as caught:
        list(leaf_femnist(path).clients())
    return str(caught.value)


def test_writers_of_a_file_become_clients_of_a_population(tmp_path: Path) -> None:
    (tmp_path / "all_data_0.json").write_text(leaf_text(writers()))
    data = through_a_federated_file(leaf_femnist(tmp_path / "all_data_0.json"), tmp_path)
    assert list(data.client_names) == ["f0001_41", "f0002_09"]
    assert data.n_classes == 62
    assert data.features == (28, 28)
    assert (data.train.counts() + data.test.counts()).tolist() == [4, 4]
    assert data.test.counts().min() == 1


def test_every_level_of_grey_comes_back_as_the_number_that_leaf_wrote(tmp_path: Path) -> None:
    (tmp_path / "all_data.json").write_text(leaf_text({"w": ([image(level) for level in range(256)], [0] * 256)}))
    data = through_a_federated_file(leaf_femnist(tmp_path / "all_data.json"), tmp_path)
    assert data.x.dtype == np.uint8
    rows = np.arange(256)
    written = np.array([level / 255 for level in range(256)])
    assert np.array_equal(data.inputs(rows)[:, 0, 0], written.astype(np.float32))
    assert np.all(data.inputs(rows)[:, 27, 27] == 1)


def test_a_folder_of_files_is_all_of_them(tmp_path: Path) -> None:
    for number, (user, samples) in enumerate(writers().items()):
        (tmp_path / f"all_data_{number}.json").write_text(leaf_text({user: samples}))
    assert set(by_client(leaf_femnist(tmp_path))) == {"f0001_41", "f0002_09"}


def test_the_folder_data_of_leaf_will_do_before_it_is_split(tmp_path: Path) -> None:
    (tmp_path / "all_data").mkdir()
    (tmp_path / "all_data" / "all_data_0.json").write_text(leaf_text(writers()))
    assert set(by_client(leaf_femnist(tmp_path))) == {"f0001_41", "f0002_09"}


def split_folders(folder: Path, train: str, test: str) -> Path:
    for name, text in (("train", train), ("test", test)):
        (folder / name).mkdir()
        (folder / name / f"all_data_0_niid_1_keep_0_{name}_8.json").write_text(text)
    return folder


def test_folders_train_and_test_give_the_split(tmp_path: Path) -> None:
    folder = split_folders(tmp_path, leaf_text(writers(5)), leaf_text(writers(2)))
    data = through_a_federated_file(leaf_femnist(folder), tmp_path)
    assert data.train.counts().tolist() == [5, 5]
    assert data.test.counts().tolist() == [2, 2]


def test_a_split_by_user_is_refused_with_the_way_out(tmp_path: Path) -> None:
    users = writers()
    first, second = ({name: users[name]} for name in users)
    folder = split_folders(tmp_path, leaf_text(first), leaf_text(second))
    with pytest.raises(FileError, match=r"train and test: .* -t sample"):
        list(leaf_femnist(folder).clients())


def test_users_whom_leafs_split_has_emptied_are_passed_over(tmp_path: Path) -> None:
    users = writers()
    data = {name: {"x": x, "y": y} for name, (x, y) in users.items()} | {"f0003_00": {"x": [], "y": []}}
    (tmp_path / "all_data_0.json").write_text(leaf_text(users, user_data=data, hierarchies=["a", "b", "c"]))
    assert set(by_client(leaf_femnist(tmp_path))) == set(users)


def test_keys_may_come_in_any_order(tmp_path: Path) -> None:
    whole = json.loads(leaf_text(writers()))
    (tmp_path / "all_data_0.json").write_text(json.dumps(dict(reversed(whole.items())), indent=1))
    assert set(by_client(leaf_femnist(tmp_path))) == {"f0001_41", "f0002_09"}


def test_memory_does_not_grow_with_the_number_of_users(tmp_path: Path) -> None:
    def peak(users: int) -> int:
        path = tmp_path / f"{users}.json"
        path.write_text(
            leaf_text(dict.fromkeys((f"role {number}" for number in range(users)), role("so be it. " * 20)))
        )
        tracemalloc.start()
        for _ in leaf_shakespeare(path).clients():
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(400) < 1.5 * peak(100)


@pytest.mark.parametrize("characters", [1, 7, 64])
def test_it_does_not_matter_where_the_text_is_cut_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, characters: int
) -> None:
    users = {'Cæsar "the\nfirst"': role("Et tu, Brute? \u20ac"), "GHOST": role("Mark me.")}
    (tmp_path / "all_data.json").write_text(leaf_text(users, other=[None, True, -1.5e-3, {"a": []}]))
    whole = by_client(leaf_shakespeare(tmp_path))
    monkeypatch.setattr("auxo.datasets.leaf._CHUNK", characters)
    pieces = by_client(leaf_shakespeare(tmp_path))
    assert list(pieces) == list(whole) == list(users)
    assert all(np.array_equal(pieces[user].x, whole[user].x) for user in users)


@settings(max_examples=15)
@given(st.data())
def test_a_file_cut_anywhere_is_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    text = leaf_text(writers(1))
    length = data.draw(st.integers(0, len(text) - 1))
    path = tmp_path_factory.mktemp("cut") / "all_data_0.json"
    assert "the file ends too early" in error_of(path, text[:length])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_samples": [4, 5]}, "user f0002_09: expected 5 samples, as num_samples says, got 4"),
        ({"users": ["f0001_41", "x"]}, "user x: expected samples in user_data, got none"),
        ({"users": ["f0001_41"], "num_samples": [4]}, "user f0002_09: expected to be listed in users"),
        ({"num_samples": [4]}, 'lists "users" and "num_samples" of one length'),
        ({"users": None}, 'lists "users" and "num_samples"'),
        ({"user_data": {}}, "user f0001_41: expected samples in user_data, got none"),
        ({"user_data": {"f0001_41": [1]}}, 'user f0001_41: expected lists "x" and "y"'),
        ({"user_data": {"f0001_41": {"x": [image(1)]}}}, 'user f0001_41: expected lists "x" and "y"'),
        ({"user_data": {"f0001_41": {"x": [image(1)], "y": [1, 2]}}}, "user f0001_41: expected 1 labels"),
        ({"user_data": {"a": {"x": [image(1), [0.5]], "y": [1, 2]}}}, "user a, sample 1: expected 784 pixels, got 1"),
        ({"user_data": {"a": {"x": [["p"] * 784], "y": [1]}}}, "user a: expected pixels that are numbers"),
        ({"user_data": {"a": {"x": [[0.5001] * 784], "y": [1]}}}, "user a, sample 0: expected levels of grey"),
        ({"user_data": {"a": {"x": [[float("nan")] * 784], "y": [1]}}}, "got nan in pixel 0"),
        ({"user_data": {"a": {"x": [[2.0] * 784], "y": [1]}}}, "got 2 in pixel 0"),
        ({"user_data": {"a": {"x": [image(1)], "y": [62]}}}, "sample 0: expected a label from 0 to 61, got 62"),
        ({"user_data": {"a": {"x": [image(1)], "y": [-1]}}}, "expected a label from 0 to 61, got -1"),
        ({"user_data": {"a": {"x": [image(1)], "y": ["A"]}}}, "expected a label from 0 to 61, got 'A'"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    path = tmp_path / "all_data_0.json"
    message = error_of(path, leaf_text(writers(), **changes))
    assert message.startswith(f"{path}: ")
    assert said in message
    assert message.endswith("copy the file again from where it was made")


def test_text_in_another_encoding_is_refused(tmp_path: Path) -> None:
    text = leaf_text(writers()).replace("f0001_41", "José").encode("latin-1")
    assert "expected text in UTF-8, got the byte 0xe9" in error_of(tmp_path / "all_data_0.json", text)


@pytest.mark.parametrize("text", ["[]", '{"users": x}', "{1: 2}", '{"users": [] "num_samples": []}', "[" * 100_000])
def test_what_is_not_leafs_json_is_refused(tmp_path: Path, text: str) -> None:
    assert "expected LEAF's JSON" in error_of(tmp_path / "all_data_0.json", text)


def test_a_damaged_place_is_found_without_reading_on(tmp_path: Path) -> None:
    whole = leaf_text(writers())
    middle = whole.index("f0002_09", 100)
    message = error_of(tmp_path / "all_data_0.json", whole[:middle] + '" ? ' + whole[middle:] + " " * (1 << 21))
    assert "it is not JSON" in message


def test_nothing_is_written_when_a_file_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "all_data_0.json").write_text(leaf_text(writers(), num_samples=[4, 5]))
    with pytest.raises(FileError):
        through_a_federated_file(leaf_femnist(tmp_path / "all_data_0.json"), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["all_data_0.json"]


def test_an_empty_folder_and_a_missing_one_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="got a folder without any"):
        list(leaf_femnist(tmp_path).clients())
    with pytest.raises(FileError, match="got no such file or folder"):
        list(leaf_femnist(tmp_path / "none").clients())


def test_roles_become_clients_with_tokens_of_characters(tmp_path: Path) -> None:
    text = "What's here? the portrait of a blinking idiot"
    users = {"THE_MERCHANT_OF_VENICE_ARRAGON": role(text), "HAMLET_GHOST": role("Mark me. §")}
    (tmp_path / "all_data.json").write_text(leaf_text(users, hierarchies=["p", "q"]))
    source = leaf_shakespeare(tmp_path)
    data = through_a_federated_file(source, tmp_path)
    assert data.has_tokens
    assert data.features == (80,)
    assert data.n_classes == len(source.classes) == len(BY_CHARACTER.names)
    samples = by_client(source)["THE_MERCHANT_OF_VENICE_ARRAGON"]
    assert "".join(source.classes[token] for token in samples.y) == text
    assert samples.x[3, -3:].tolist() == BY_CHARACTER.tokens("Wha").tolist()
    assert by_client(source)["HAMLET_GHOST"].y[-1] == 0


def test_the_end_of_a_role_is_held_out(tmp_path: Path) -> None:
    (tmp_path / "all_data.json").write_text(leaf_text({"r": role("To be, or no")}))
    samples = by_client(leaf_shakespeare(tmp_path))["r"]
    assert samples.is_test is not None
    assert np.flatnonzero(samples.is_test).tolist() == [10, 11]


@pytest.mark.parametrize(("samples", "tested"), [(0, 0), (1, 0), (2, 1), (3, 1), (10, 2)])
def test_of_two_samples_one_is_held_out_and_one_is_not(samples: int, tested: int) -> None:
    assert end_held_out(samples).sum() == tested


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        ("a" * 79, "b", "sample 0: expected 80 characters, got 79"),
        (7, "b", "sample 0: expected 80 characters, got 7"),
        ("a" * 80, "bc", "sample 0: expected one character as its label, got 'bc'"),
        ("a" * 80, 3, "sample 0: expected one character as its label, got 3"),
    ],
)
def test_samples_of_a_role_must_be_80_characters_and_one(tmp_path: Path, x: object, y: object, said: str) -> None:
    (tmp_path / "all_data.json").write_text(leaf_text({"r": ([x], [y])}))
    with pytest.raises(FileError, match=f"user r, {said}"):
        list(leaf_shakespeare(tmp_path).clients())
