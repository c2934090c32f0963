"""The engine that a configuration names, running for as long as it is needed."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from auxo.engines.in_process import InProcess
from auxo.engines.worker_processes import OnNote, WorkerProcesses
from auxo.experiments.config import Config, RunConfig
from auxo.experiments.config_file import ConfigError
from auxo.runtime.engine import Engine


@contextmanager
def make_engine(config: Config, inner: InProcess, on_note: OnNote) -> Iterator[Engine]:
    """Yield the engine of a run: this process, workers on this machine, or a Ray cluster.

    ``on_note`` is told what went wrong and was put right, in a sentence each time.
    """
    workers = config.run.workers or 1
    if config.run.engine == "ray":
        with _ray_cluster(config.run, inner, on_note) as cluster:
            yield cluster
    elif workers == 1:
        yield inner
    else:
        with WorkerProcesses(inner, workers, on_note) as processes:
            yield processes


@contextmanager
def _ray_cluster(run: RunConfig, inner: InProcess, on_note: OnNote) -> Iterator[Engine]:
    try:
        # Imported here, so that everything else works without Ray.
        from auxo.engines.ray_cluster import RayCluster  # noqa: PLC0415
        from auxo.engines.ray_connection import ClusterError  # noqa: PLC0415
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "ray":
            raise
        raise ConfigError(
            'run.engine: "ray" needs Ray, and the version of it that Auxo was made for is not installed: run '
            'pip install "auxo[ray]", or choose the engine "local"'
        ) from error
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(RayCluster(inner, run.workers, run.ray_address, on_note))
        except ClusterError as error:
            raise ConfigError(f'run.engine: "ray" cannot be used: {error}') from error
        yield cluster
