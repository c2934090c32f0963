"""Centres of a client's own samples: what a participant sends where a method asks for no training (k-FED).

Awasthi and Sheffet, Improved Spectral-Norm Bounds for Clustering, 2012, as Dennis, Li and Smith (ICML 2021, Algorithm
1) have devices run it: K-means++ on the samples' best approximation of rank k, the means of those that are clearly
nearest to one of its centres, and Lloyd's iterations on the samples from there.
"""

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus

from auxo.core.types import FloatArray

_CLEARLY = 3.0  # times as near to one centre as to any other (the paper's)
_ITERATIONS = 100  # of Lloyd's, at most; our choice


def local_centres(samples: FloatArray, centres: int, seed: int) -> FloatArray:
    """Return the centres of samples, that of most samples first; fewer where there are not as many different samples.

    Args:
        samples: (samples, width).
        centres: how many.
        seed: of K-means++.

    >>> local_centres(np.array([[0.0], [2.0], [10.0]]), 1, seed=0).tolist()
    [[4.0]]
    """
    wanted = min(centres, len(np.unique(samples, axis=0)))
    if wanted <= 1:
        return samples.mean(axis=0, keepdims=True) if len(samples) else samples
    left, values, right = np.linalg.svd(samples, full_matrices=False)
    projected = (left[:, :wanted] * values[:wanted]) @ right[:wanted]
    begin, _ = kmeans_plusplus(projected, wanted, random_state=seed)
    distances = np.linalg.norm(projected[:, None] - begin[None], axis=2)
    first = np.empty((wanted, samples.shape[1]))
    for number in range(wanted):
        others = np.delete(distances, number, axis=1).min(axis=1)
        clear = _CLEARLY * distances[:, number] <= others
        first[number] = samples[clear].mean(axis=0) if clear.any() else begin[number]
    found = KMeans(wanted, init=first, n_init=1, max_iter=_ITERATIONS).fit(samples)
    order = np.argsort(-np.bincount(found.labels_, minlength=wanted), kind="stable")
    return np.asarray(found.cluster_centers_[order], dtype=np.float64)
