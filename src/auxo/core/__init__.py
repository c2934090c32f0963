"""What Auxo decides with: pure functions and frozen values, with no knowledge of the world outside.

In it: the seam that algorithms fit, the cohort tree, affinity records, matching, fingerprints, clustering, rewards,
aggregators, selectors, validation, metrics, and named random streams.
"""
