from pathlib import Path

import numpy as np
import pytest

from auxo.datasets.reddit import reddit
from auxo.files.errors import FileError
from tests.datasets.made_files import by_client, through_a_federated_file, write_json_lines

Comment = dict[str, object]


def comment(author: str, body: str) -> Comment:
    return {"author": author, "body": body, "created_utc": 1420070400, "subreddit": "askscience"}


def comments(authors: tuple[str, ...] = ("ann", "ben"), each: int = 5) -> list[Comment]:
    """Return comments in which authors take turns."""
    return [comment(author, f"Well, number {number} is fine.") for number in range(each) for author in authors]


def error_of(path: Path, data: str | bytes) -> str:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    with pytest.raises(FileError) as caught:
        reddit(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    return message


@pytest.mark.parametrize("name", ["RC_2015-01.json", "RC_2015-01.bz2", "RC_2015-01.gz"])
def test_authors_become_clients_of_a_population(tmp_path: Path, name: str) -> None:
    write_json_lines(tmp_path / name, comments())
    source = reddit(tmp_path / name)
    data = through_a_federated_file(source, tmp_path)
    assert list(data.client_names) == ["ann", "ben"]
    assert data.has_tokens
    assert data.features == (10,)
    # Each comment is well , number N is fine . and its first word is no label.
    assert (data.train.counts() + data.test.counts()).tolist() == [30, 30]
    assert data.test.counts().tolist() == [6, 6]
    assert data.n_classes == len(source.classes) == 1 + 6 + 5


def test_a_window_holds_the_words_before_its_label_and_none_of_another_comment(tmp_path: Path) -> None:
    write_json_lines(tmp_path / "a.json", comments(("ann",)))
    source = reddit(tmp_path / "a.json")
    samples = by_client(source)["ann"]
    read = [[source.classes[token] for token in window if token] for window in samples.x]
    whole = ["well", ",", "number", "1", "is", "fine", "."]
    assert read[6:12] == [whole[:length] for length in range(1, 7)]
    assert [source.classes[label] for label in samples.y[6:12]] == whole[1:]


def test_the_last_comments_are_held_out(tmp_path: Path) -> None:
    write_json_lines(tmp_path / "a.json", comments(("ann",)))
    is_test = by_client(reddit(tmp_path / "a.json"))["ann"].is_test
    assert is_test is not None
    assert np.flatnonzero(is_test).tolist() == list(range(24, 30))


def test_people_with_few_comments_bots_and_what_was_deleted_are_left_out(tmp_path: Path) -> None:
    others = ("[deleted]", "AutoModerator", "RemindMeBot", "weather-bot")
    few = [*comments(("few",), each=4), *(comment("few", body) for body in ("[deleted]", "[removed]", ""))]
    write_json_lines(tmp_path / "a.json", comments(("ann", "botanist", *others)) + few)
    assert set(by_client(reddit(tmp_path / "a.json"))) == {"ann", "botanist"}


def test_bots_do_not_speak_in_the_vocabulary(tmp_path: Path) -> None:
    write_json_lines(tmp_path / "a.json", [*comments(), comment("AutoModerator", "beep")])
    assert "beep" not in reddit(tmp_path / "a.json").classes


def test_at_most_200_places_of_an_author_are_asked_about_and_always_the_same(tmp_path: Path) -> None:
    write_json_lines(tmp_path / "a.json", comments(("ann",), each=60))
    first, second = (by_client(reddit(tmp_path / "a.json"))["ann"] for _ in range(2))
    assert len(first.y) == 200
    assert np.array_equal(first.x, second.x)
    assert np.array_equal(first.y, second.y)


def test_rare_words_are_read_but_never_asked_for(tmp_path: Path) -> None:
    # 10,001 words that occur twice, so that the rare ones have no token.
    frequent = " ".join(f"w{number}" for number in range(10_001))
    lines = [comment("zoe", frequent), comment("zoe", frequent), comment("ann", "w1 rare w2")]
    lines += [comment("ann", "w1 w2")] * 4
    write_json_lines(tmp_path / "a.json", lines)
    source = reddit(tmp_path / "a.json")
    assert len(source.classes) == 10_001
    samples = by_client(source)["ann"]
    assert [source.classes[label] for label in samples.y] == ["w2"] * 5
    assert samples.x[0, -2:].tolist() == [source.classes.index("w1"), 0]


def test_authors_without_two_places_are_left_out(tmp_path: Path) -> None:
    write_json_lines(tmp_path / "a.json", comments(("ann",)) + [comment("dull", "well")] * 9)
    assert set(by_client(reddit(tmp_path / "a.json"))) == {"ann"}


def test_comments_of_an_author_in_several_files_belong_together(tmp_path: Path) -> None:
    for month in ("RC_2015-01.json", "RC_2015-02.bz2"):
        write_json_lines(tmp_path / month, comments(("ann",), each=3))
    assert len(by_client(reddit(tmp_path))["ann"].y) == 36


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "comments: expected at least one with words, got none"),
        ('{"author": "a", "body": "..."', "line 1: expected one whole JSON object"),
        ('{"author": "a"}\n', "line 1, body: expected text, got only author"),
        ('{"body": "b"}\n', "line 1, author: expected text, got only body"),
        ('{"author": null, "body": "b"}\n', "line 1, author: expected text, got None"),
        ('{"author": "a", "body": "b"}\n{"author": "a", "body": 3}\n', "line 2, body: expected text, got 3"),
        (b'{"author": "a", "body": "\xff"}\n', "line 1: expected text in UTF-8, got the byte 0xff"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str | bytes, said: str) -> None:
    assert said in error_of(tmp_path / "RC_2015-01.json", text)


def test_the_archives_of_today_are_refused_with_the_way_to_unpack_them(tmp_path: Path) -> None:
    (tmp_path / "RC_2020-01.zst").write_bytes(b"(\xb5/\xfd")
    with pytest.raises(FileError, match="unpack it with `zstd -d --long=31`"):
        reddit(tmp_path)
