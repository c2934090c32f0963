"""Amazon's product reviews by reviewer (McAuley and others): the words of a review, and the stars that were given.

The files are those published as "5-core": JSON lines, mostly packed (``.gz``), in which the reviews of a person are far
apart. They are sorted by person into small files first, of which one at a time is in memory.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from auxo.datasets.client_samples import ClientSamples, SampleSource
from auxo.datasets.json_lines import DAMAGED, json_lines_files, json_objects, parted_by_client, shown, text_entry
from auxo.datasets.text_features import hashed_words
from auxo.files.errors import file_error

_HASHED = 4096  # places for words and pairs of words; our choice
_STARS = ("1", "2", "3", "4", "5")
_AT_ONCE = 1024  # reviews whose features are in memory; our choice


def amazon_reviews(path: Path) -> SampleSource:
    """Return reviews by reviewer: hashed words (float32), and the stars from 1 to 5 as labels from 0.

    Reviews without text are left out; the publisher's files have some. In a folder each file is a category of products;
    if every reviewer has kept to one of them, it is the reviewer's group.

    Files are JSON lines (reviewerID, reviewText, overall), plain or packed.
    """

    def clients() -> Iterator[ClientSamples]:
        files = json_lines_files(path)
        category: dict[str, str | None] = {}
        with parted_by_client(_reviews(files, category)) as reviewers:
            has_groups = len(files) > 1 and None not in category.values()
            for reviewer, reviews in reviewers:
                group = category[reviewer] if has_groups else None
                for start in range(0, len(reviews), _AT_ONCE):
                    part = reviews[start : start + _AT_ONCE]
                    x = np.stack([hashed_words(text, _HASHED) for _, text in part])
                    y = np.array([label for label, _ in part], dtype=np.int64)
                    yield ClientSamples(reviewer, x, y, group=group)

    return SampleSource("amazon-reviews", path, _STARS, clients)


def _reviews(files: list[Path], category: dict[str, str | None]) -> Iterator[tuple[str, int, str]]:
    """Yield reviewer, label and text of each review; note each reviewer's category, None where there are several."""
    for path in files:
        name, reviews = path.name.split(".")[0], 0
        for line, review in json_objects(path):
            reviewer = text_entry(path, line, review, "reviewerID")
            stars = review.get("overall")
            if isinstance(stars, bool) or not isinstance(stars, int | float) or stars not in (1, 2, 3, 4, 5):
                raise file_error(path, f"line {line}, overall", "1, 2, 3, 4 or 5 stars", shown(stars), DAMAGED)
            text = review.get("reviewText")
            if text is None or text == "":
                continue
            reviews += 1
            if category.setdefault(reviewer, name) != name:
                category[reviewer] = None
            yield reviewer, int(stars) - 1, text_entry(path, line, review, "reviewText")
        if reviews == 0:
            raise file_error(path, "file", "reviews with a reviewText", "none", "check that this is the right file")
