import numpy as np

from auxo.core.aggregators import FedAvg
from auxo.core.asking import Answer
from auxo.core.fingerprint import Fingerprint
from auxo.core.gathering import AdmitNone, Returned, gather
from auxo.core.pairwise import MOST_CLIENTS, sketched_updates, too_many
from auxo.core.rng import stream


def test_of_small_models_sketches_are_the_updates_themselves() -> None:
    updates = stream(0, "updates").standard_normal((5, 7)).astype(np.float32)
    fingerprint, aggregator = Fingerprint(7), FedAvg()
    answers = (Returned(row, Answer(update, 3 + row)) for row, update in enumerate(updates))
    sums = [aggregator.accumulate(aggregator.initial(np.zeros(7, dtype=np.float32)))]
    gathered = gather(answers, fingerprint, AdmitNone(), sums)

    np.testing.assert_allclose(sketched_updates(gathered, np.ones(5, dtype=np.bool_)), updates, rtol=1e-5)
    some = np.array([True, False, False, True, False])
    np.testing.assert_allclose(sketched_updates(gathered, some), updates[[0, 3]], rtol=1e-5)


def test_pairs_of_too_many_clients_are_refused_with_what_they_would_take() -> None:
    assert too_many(MOST_CLIENTS) is None
    assert "1,000,000 of them takes 8,000 GB" in str(too_many(10**6))
