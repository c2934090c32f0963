import json
from pathlib import Path

import numpy as np
import pytest

from auxo.datasets.amazon_reviews import amazon_reviews
from auxo.datasets.json_lines import parted_by_client
from auxo.datasets.text_features import hashed_words
from auxo.files.errors import FileError
from tests.datasets.made_files import by_client, through_a_federated_file, write_json_lines

Review = dict[str, object]


def review(reviewer: str, text: str, stars: float = 5.0) -> Review:
    return {"reviewerID": reviewer, "asin": "B00", "reviewText": text, "overall": stars, "unixReviewTime": 1}


def reviews(reviewers: str = "AB", each: int = 5) -> list[Review]:
    """Return reviews in which reviewers take turns, as in the published files."""
    return [
        review(reviewer, f"number {number} by {reviewer}", 1 + number % 5)
        for number in range(each)
        for reviewer in reviewers
    ]


def error_of(path: Path, data: str | bytes) -> str:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    with pytest.raises(FileError) as caught:
        list(amazon_reviews(path).clients())
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    return message


@pytest.mark.parametrize("name", ["Books_5.json", "Books_5.json.gz", "Books_5.json.bz2"])
def test_reviewers_become_clients_of_a_population(tmp_path: Path, name: str) -> None:
    write_json_lines(tmp_path / name, reviews())
    data = through_a_federated_file(amazon_reviews(tmp_path / name), tmp_path)
    assert list(data.client_names) == ["A", "B"]
    assert data.features == (4096,)
    assert data.n_classes == 5
    assert data.train.counts().tolist() == [4, 4]
    assert data.test.counts().tolist() == [1, 1]
    assert data.groups is None


def test_words_go_with_their_stars(tmp_path: Path) -> None:
    write_json_lines(tmp_path / "a.json", reviews())
    samples = by_client(amazon_reviews(tmp_path / "a.json"))["B"]
    assert samples.y.tolist() == [0, 1, 2, 3, 4]
    assert np.array_equal(samples.x[3], hashed_words("number 3 by B", 4096))


def test_files_are_groups_where_nobody_is_in_two(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_json_lines(tmp_path / "in" / "Books_5.json", reviews("AB"))
    write_json_lines(tmp_path / "in" / "Music_5.json.gz", reviews("C"))
    source = amazon_reviews(tmp_path / "in")
    assert {name: samples.group for name, samples in by_client(source).items()} == {
        "A": "Books_5",
        "B": "Books_5",
        "C": "Music_5",
    }
    groups = through_a_federated_file(source, tmp_path).groups
    assert groups is not None
    assert groups.tolist() == [0, 0, 1]


def test_there_are_no_groups_where_somebody_is_in_two_files(tmp_path: Path) -> None:
    write_json_lines(tmp_path / "Books_5.json", reviews("AB"))
    write_json_lines(tmp_path / "Music_5.json", reviews("BC"))
    found = by_client(amazon_reviews(tmp_path))
    assert {samples.group for samples in found.values()} == {None}
    assert len(found["B"].y) == 10


def test_reviews_without_text_are_left_out(tmp_path: Path) -> None:
    silent = [{"reviewerID": "A", "overall": 1.0}, review("A", "")]
    write_json_lines(tmp_path / "a.json", [*reviews("A"), *silent])
    assert len(by_client(amazon_reviews(tmp_path / "a.json"))["A"].y) == 5


def test_many_reviews_of_a_person_come_in_parts(tmp_path: Path) -> None:
    write_json_lines(tmp_path / "a.json", reviews("A", each=1100))
    parts = list(amazon_reviews(tmp_path / "a.json").clients())
    assert [len(part.y) for part in parts] == [1024, 76]
    assert np.concatenate([part.y for part in parts]).tolist() == [number % 5 for number in range(1100)]


def test_half_a_character_does_not_stop_the_road(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lines = [{**line, "reviewerID": "A\ud800"} for line in reviews("A")]
    write_json_lines(tmp_path / "in" / "a.json", lines)
    assert list(through_a_federated_file(amazon_reviews(tmp_path / "in"), tmp_path).client_names) == ["A?"]


LINE = json.dumps(review("A", "good")) + "\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "file: expected reviews with a reviewText, got none"),
        ("\n\n", "file: expected reviews with a reviewText, got none"),
        (LINE + LINE[:30], "line 2: expected one whole JSON object, got something else"),
        (LINE + "[1]\n", "line 2: expected one whole JSON object, got [1]"),
        (LINE + "{'reviewerID': 'A'}\n", "line 2: expected one whole JSON object"),
        ('{"reviewText": "x", "overall": 5}\n', "line 1, reviewerID: expected text, got only reviewText, overall"),
        ('{"reviewerID": 7, "reviewText": "x", "overall": 5}\n', "line 1, reviewerID: expected text, got 7"),
        ('{"reviewerID": "A", "reviewText": "x"}\n', "line 1, overall: expected 1, 2, 3, 4 or 5 stars, got None"),
        ('{"reviewerID": "A", "reviewText": "x", "overall": 6}\n', "overall: expected 1, 2, 3, 4 or 5 stars, got 6"),
        ('{"reviewerID": "A", "reviewText": "x", "overall": 4.5}\n', "got 4.5"),
        ('{"reviewerID": "A", "reviewText": "x", "overall": true}\n', "got True"),
        ('{"reviewerID": "A", "reviewText": ["x"], "overall": 5}\n', "line 1, reviewText: expected text, got ['x']"),
        ('{"reviewerID": "A", "overall": 5}\n', "file: expected reviews with a reviewText, got none"),
        (LINE.encode() + b'{"reviewerID": "\xe9"}\n', "line 2: expected text in UTF-8, got the byte 0xe9"),
        ("[" * 100_000, "line 1: expected one whole JSON object"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str | bytes, said: str) -> None:
    assert said in error_of(tmp_path / "Books_5.json", text)


@pytest.mark.parametrize("ending", [".gz", ".bz2"])
def test_a_packed_file_that_breaks_off_is_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"Books_5.json{ending}"
    write_json_lines(path, reviews("ABCDEFGH", each=50))
    assert "expected a whole file, got one that breaks off or is damaged" in error_of(path, path.read_bytes()[:-20])


@pytest.mark.parametrize("ending", [".gz", ".bz2"])
def test_a_file_that_is_not_packed_as_its_name_says_is_refused(tmp_path: Path, ending: str) -> None:
    assert "after line 0: expected a whole file" in error_of(tmp_path / f"a.json{ending}", LINE)


def test_zstandard_is_refused_with_the_way_to_unpack_it(tmp_path: Path) -> None:
    assert "unpack it with `zstd -d" in error_of(tmp_path / "a.zst", b"(\xb5/\xfd")


def test_an_empty_folder_and_a_missing_one_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="got a folder without any"):
        list(amazon_reviews(tmp_path).clients())
    with pytest.raises(FileError, match="got no such file or folder"):
        list(amazon_reviews(tmp_path / "none").clients())


def test_records_are_given_back_by_client_in_their_order() -> None:
    records = [(f"c{number % 700}", number, "ü\n") for number in range(2100)]
    with parted_by_client(records) as clients:
        found = dict(clients)
    assert len(found) == 700
    assert found["c5"] == [(5, "ü\n"), (705, "ü\n"), (1405, "ü\n")]


def test_temporary_files_are_gone_when_all_is_read_or_anything_went_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with parted_by_client([("a", 1, "x")]) as clients:
        assert list(tmp_path.iterdir())
        list(clients)
    assert not list(tmp_path.iterdir())
    path = tmp_path / "a.json"
    error_of(path, LINE + "{")
    assert list(tmp_path.iterdir()) == [path]
