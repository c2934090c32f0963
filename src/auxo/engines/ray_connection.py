"""Getting at a Ray cluster: one of our own on this machine, or one that runs; and whether it can be used.

Some of what is asked of Ray here it does for its own use only; hence the exact version in pyproject.toml.
"""

import logging
import os
import re
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType, ModuleType
from typing import Any

import ray
from ray import exceptions as ray_errors
from ray._private import ray_constants, services, utils, worker
from ray._raylet import AuthenticationTokenLoader, Config
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from auxo.engines.ray_undertaker import tidied, undertaker

_CONNECT_S = 5  # how long a head node may take to answer; our choice
_NODE_S = 60.0  # how long nodes may take to say what is installed there; our choice
_HOOK = "PYTHONBREAKPOINT"
_LOOPBACK = "127.0.0.1"
_MOST_CHARACTERS = 300  # of what Ray says that are passed on; our choice
_MORE_THAN_WORDS = re.compile(r"\s*(?:Last connection error:|Last \d+ lines|[Tt]raceback\b)")
_QUIET = {"log_to_driver": False, "logging_level": logging.ERROR}

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# A computer that has slept for a while is not a node that was lost, if it is the only one.
_PATIENCE = {"health_check_failure_threshold": 1_000_000}
# Nobody is told of the use that is made of Ray, and its advice about accelerators concerns nobody here.
# And where the head node is lost, this process says so itself before Ray ends it without a word.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
}


class ClusterError(RuntimeError):
    """A Ray cluster that cannot be used; the message says why and what to do."""


def connect(
    address: str | None, cpus: int | None = None, object_store_bytes: int | None = None
) -> AbstractContextManager[None]:
    """Return the connection to the cluster at ``address``, or else to one that is made for it and ends with it.

    A process that is connected already stays so: then there is nothing to do, nor to undo.

    Raises:
        ClusterError: here or on entering; there is no such cluster, or it cannot be used.
    """
    if not ray.is_initialized():
        return _own_cluster(cpus, object_store_bytes) if address is None else _running_cluster(address)
    if address is None:
        return nullcontext()
    raise ClusterError(
        f"this process is connected to a Ray cluster already, and cannot connect to {address} as well; leave the "
        "address out to use the one it is connected to, or call ray.shutdown() first"
    )


def check_object_store(needed_bytes: int) -> None:
    """Raise `ClusterError` if the data do not fit into the object store of every node."""
    for node in _nodes():
        had = int(node["Resources"].get("object_store_memory", 0))
        if had < needed_bytes:
            raise ClusterError(
                f"the clients' data take {_size(needed_bytes)} of each node's object store, and that of node "
                f"{node['NodeManagerAddress']} has {_size(had)}; start Ray with more of it and give its address "
                f"(ray start --head --object-store-memory={2 * needed_bytes})"
            )


@contextmanager
def _own_cluster(cpus: int | None, object_store_bytes: int | None) -> Iterator[None]:
    """Run a cluster that nobody else can reach: on the loopback interface, behind a token, with its files apart."""
    environment = {
        **_ENVIRONMENT,
        ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(),
    }
    advice = "make room in /dev/shm and in the temporary directory, or set TMPDIR to another one with a short path"
    with (
        TemporaryDirectory(prefix="auxo-ray-", ignore_cleanup_errors=True) as directory,
        undertaker(Path(directory)),
        tidied(Path(directory)),
        _quietly(),
    ):
        # Ray replaces the loopback address by one that others can reach, unless there can be no others.
        with (
            _replaced(ray_constants, "ENABLE_RAY_CLUSTER", False),
            _variables(environment),
            _explained("Ray could not be started on this machine", advice),
            _uninterrupted(),
        ):
            ray.init(
                "local",
                num_cpus=cpus,
                object_store_memory=object_store_bytes,
                include_dashboard=False,
                _node_ip_address=_LOOPBACK,
                _temp_dir=str(Path(directory) / "ray"),  # in there, because Ray gives everybody access to it
                _system_config=_PATIENCE,
                **_QUIET,
            )
        yield


@contextmanager
def _running_cluster(address: str) -> Iterator[None]:
    _check_reachable(address)
    advice = "run Auxo on a node of that cluster, with the Python and the Ray that it was started with"
    with _quietly():
        # Ray itself would go on trying for minutes.
        with (
            _replaced(ray_constants, "NUM_REDIS_GET_RETRIES", 1),
            _variables({**_ENVIRONMENT, "RAY_py_gcs_connect_timeout_s": str(_CONNECT_S)}),
            _explained(f"the Ray cluster at {address} cannot be used", advice),
            _uninterrupted(),
        ):
            ray.init(address, **_QUIET)
        _check_installations()
        yield


def _check_reachable(address: str) -> None:
    try:
        found = services.get_ray_address_from_environment("auto", None) if address == "auto" else address
    except ConnectionError:
        raise ClusterError(
            "no Ray cluster was found on this machine; start one (ray start --head), or leave the address out to have "
            "one for this run alone"
        ) from None
    host, _, port = found.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise ClusterError(
            f'address: expected "auto" or host:port, such as 10.0.0.1:6379, got {found!r}; `ray start --head` says '
            "which it is"
        )
    try:
        socket.create_connection((services.resolve_ip_for_localhost(host), int(port)), _CONNECT_S).close()
    except OSError as error:
        raise ClusterError(
            f"nothing answers at {found} ({error.strerror or error}); see whether the cluster's head node runs there "
            "(ray status), or leave the address out to have a cluster for this run alone"
        ) from None
    if not services.find_node_ids():
        raise ClusterError(
            f"no node of the Ray cluster at {found} runs on this machine; run Auxo on one of its nodes, or make this "
            f"machine one of them (ray start --address={found})"
        )


def _check_installations() -> None:
    """Raise `ClusterError` if a node would not run the same code as this process."""
    ask = ray.remote(num_cpus=0, max_retries=0)(_installation())
    here = _installation()()
    asked = {
        node["NodeManagerAddress"]: ask.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote()
        for node in _nodes()
    }
    for address, answer in asked.items():
        try:
            there = ray.get(answer, timeout=_NODE_S)
        except ray_errors.RayError as error:
            raise ClusterError(
                f"node {address} of the Ray cluster did not say what is installed there: {words_of(error)}"
            ) from error
        check_installation(address, here, there)


def check_installation(address: str, here: Mapping[str, str], there: Mapping[str, str]) -> None:
    """Raise `ClusterError` if what is installed ``there`` is not what is installed ``here``; versions by name."""
    for name, version in here.items():
        if there[name] != version:
            raise ClusterError(
                f"node {address} of the Ray cluster: expected {name} {version}, as on this machine, got {there[name]}; "
                "install the same on every node, and start Ray there again"
            )


def _installation() -> Callable[[], dict[str, str]]:
    """Return the function that says what is installed where it runs."""

    # In here, so that Ray sends its code: where Auxo is not installed, its name would mean nothing.
    def installation() -> dict[str, str]:
        import hashlib  # noqa: PLC0415
        import importlib.metadata  # noqa: PLC0415
        import importlib.util  # noqa: PLC0415
        import pathlib  # noqa: PLC0415
        import platform  # noqa: PLC0415

        found = importlib.util.find_spec("auxo")
        auxo = "none"
        if found is not None and found.origin is not None:
            digest = hashlib.sha256()
            for path in sorted(pathlib.Path(found.origin).parent.rglob("*.py")):
                digest.update(path.read_bytes())
            auxo = f"with code {digest.hexdigest()[:12]}"  # the version alone says little of a working copy
        return {"Python": platform.python_version(), "numpy": importlib.metadata.version("numpy"), "Auxo": auxo}

    return installation


def _nodes() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Have Ctrl-C and its like wait until Ray has started or ended: in the middle of it they crash the process.

    A second one waits no longer. SIGTERM does what somebody said before Ray took hold of it: whoever uses us may have
    to tidy up, too; where nobody said anything, it does what Ray wants.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[int, Any] = {number: signal.getsignal(number) for number in _SIGNALS}
    of_ray: list[Any] = []
    waiting: list[int] = []

    def wait(number: int, frame: FrameType | None) -> None:
        waiting.append(number)
        if len(waiting) > 1:
            signal.signal(number, before[number])
            signal.raise_signal(number)

    for number, handler in before.items():
        if handler not in {None, signal.SIG_IGN}:
            signal.signal(number, wait)
    try:
        with _replaced(utils, "set_sigterm_handler", of_ray.append):
            yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
    if of_ray and before[signal.SIGTERM] is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, of_ray[-1])
    for number in waiting:
        signal.raise_signal(number)


@contextmanager
def _quietly() -> Iterator[None]:
    """Disconnect in the end, and leave the process as it was; until then, print nothing that nobody has asked for."""
    handler, hook = signal.getsignal(signal.SIGTERM), os.environ.get(_HOOK)  # Ray sets both
    try:
        # It is told what Ray has to say about processes that died, in colours, between the lines of the progress.
        with _replaced(worker, "print_to_stdstream", lambda *args, **kwargs: None):
            yield
    finally:
        with _uninterrupted():
            ray.shutdown()
        _reread_variables()
        _restore({_HOOK: hook})
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables that Ray and the processes it starts read."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    _reread_variables()
    try:
        yield
    finally:
        _restore(before)


def _restore(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _reread_variables() -> None:
    AuthenticationTokenLoader.instance().reset_cache()
    Config.initialize("")


@contextmanager
def _replaced(module: ModuleType, name: str, value: object) -> Iterator[None]:
    """Have a module of Ray another value, which it would take neither from the environment nor as an argument."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


@contextmanager
def _explained(what: str, advice: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # Ray raises bare ones, too, as when its raylet is lost as it starts
        raise ClusterError(f"{what}: {words_of(error)}; {advice}") from error


def words_of(error: BaseException) -> str:
    """Return what an error of Ray says, on one line and in short."""
    cause = error.cause if isinstance(error, ray_errors.RayTaskError) else error.__cause__
    words = " ".join(str(cause or error).split())
    return _MORE_THAN_WORDS.split(words)[0][:_MOST_CHARACTERS].rstrip(" .")


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:,.0f} MiB"
