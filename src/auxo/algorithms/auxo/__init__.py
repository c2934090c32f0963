"""Auxo, the default algorithm: cohorts of alike clients are found while they train, and tried before they are made.

algorithm.py has its rounds (Algorithm 1), settings.py its settings, update_search.py what a cohort's phases do in them.
It pools fingerprints (pooling.py), looks at them (looking.py) in several views (views.py) and tells how many clusters
there are (number_of_clusters.py, kmeans.py).
Branches for these move in the shadow of its own model (trial.py) until its judges (judges.py) are sure (evidence.py).
After a partition a gate keeps out newcomers that do not fit (gate.py). Where updates must not tell who is alike
(`ClusteringSettings.reads`), private_search.py has the same two phases by private words: sketch_pool.py pools
sketches, noisy_centres.py sees through their noise, private_trial.py and private_evidence.py try what was found.
"""

from auxo.algorithms.auxo.algorithm import Auxo
from auxo.algorithms.auxo.pooling import Pooling
from auxo.algorithms.auxo.settings import ClusteringSettings, SketchSettings, TrialSettings
from auxo.algorithms.auxo.trial import OnTrial

__all__ = ["Auxo", "ClusteringSettings", "OnTrial", "Pooling", "SketchSettings", "TrialSettings"]
