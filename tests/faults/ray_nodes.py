"""A Ray cluster of two nodes, both on this machine."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

ROOT = Path(__file__).parents[2]


@contextmanager
def two_nodes() -> Iterator[Cluster]:
    """Have a head node and another, with a CPU each."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patched.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            cluster.add_node(num_cpus=1)
            cluster.wait_for_nodes()
            yield cluster
        finally:
            cluster.shutdown()
            del cluster
            gc.collect()  # so that nothing that Ray leaves behind shows in other tests
