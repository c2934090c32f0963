"""What Auxo decides with: pure functions and frozen values, with no knowledge of the world outside.

In it: the seam that algorithms fit, the cohort tree, affinity records, matching, fingerprints, clustering, rewards,
validation, metrics, named random streams, and packages of aggregators (FedAvg, FedYogi, Krum), selectors (Oort), client
algorithms (FedProx) and personalisers (FTFA).
"""
