"""Auxo, the default algorithm: cohorts of alike clients are found while they train, and tried before they are made.

algorithm.py has its rounds (Algorithm 1) and settings.py its settings. A cohort looks for groups (search.py): it pools
fingerprints (pool.py), looks at them in two views (views.py), tells how many clusters there are
(number_of_clusters.py), joins these to a dendrogram (dendrogram.py) and lets its branches train (trial.py) until its
judges (judges.py) have decided (verdict.py). After a partition a gate keeps out newcomers that do not fit (gate.py).
"""

from auxo.algorithms.auxo.algorithm import Auxo, AuxoMemory
from auxo.algorithms.auxo.settings import ClusteringSettings, TrialSettings

__all__ = ["Auxo", "AuxoMemory", "ClusteringSettings", "TrialSettings"]
