"""Makes each peer's virtual environment on demand, from the versions pinned here.

    python benchmarks/peers/environments.py            # all of them
    python benchmarks/peers/environments.py fedjax

They live under build/peers, need about 3 GB, and are made anew when their pins or the interpreter change.
"""

import argparse
import hashlib
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2] / "build" / "peers"
_STAMP = ".ready"
_TIMEOUT_S = 3600.0  # our own choice: PyTorch over a slow line

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    # FedJAX was the fastest on this JAX; Haiku, chex and optax are of its time, and would bring a newer JAX otherwise.
    "fedjax": (
        "fedjax==0.0.17",
        "jax==0.4.30",
        "jaxlib==0.4.30",
        "dm-haiku==0.0.13",
        "chex==0.1.86",
        "optax==0.2.2",
        "ml-dtypes==0.5.4",
        "numpy==1.26.4",
        "scipy==1.13.1",
    ),
    "pfl": ("pfl==0.6.0", "torch==2.13.0", "numpy==2.4.6", "scipy==1.17.1"),
    "flower": ("flwr[simulation]==1.41.0", "ray==2.55.1", "torch==2.13.0", "numpy==2.4.6"),
}
PEERS = tuple(REQUIREMENTS)


@dataclass(frozen=True)
class Skipped:
    """A peer that could not be measured."""

    peer: str
    reason: str


def environment(peer: str) -> Path | Skipped:
    """Return the interpreter of a peer's environment, which is made first if it is not there or its pins changed.

    Raises:
        ValueError: there is no such peer.
    """
    if peer not in REQUIREMENTS:
        raise ValueError(f"peer: expected one of {', '.join(PEERS)}, got {peer!r}")
    folder = ROOT / peer
    python, stamp = folder / "bin" / "python", folder / _STAMP
    wanted = _fingerprint(peer)
    if python.exists() and stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    return _make(peer, python, stamp, wanted)


def _make(peer: str, python: Path, stamp: Path, wanted: str) -> Path | Skipped:
    """Make the environment anew; the stamp comes last, so that half an environment is never taken for a whole one."""
    _say(f"Making the environment of {peer} in {stamp.parent} (some minutes the first time) ...")
    try:
        venv.EnvBuilder(clear=True, with_pip=True).create(stamp.parent)
        subprocess.run(  # noqa: S603 - the arguments are the pins above
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS[peer]],
            check=True,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return _skip(peer, f"its packages were not there after {_TIMEOUT_S:.0f} s")
    except subprocess.CalledProcessError as error:
        return _skip(peer, f"its packages cannot be installed: {_cause(error.stderr)}")
    except OSError as error:
        return _skip(peer, f"its environment cannot be made: {error}")
    stamp.write_text(wanted, encoding="utf-8")
    _say(f"The environment of {peer} is ready.")
    return python


def _fingerprint(peer: str) -> str:
    """Return what an environment must have been made from to be used as it is."""
    made_from = "\n".join([sys.version, *REQUIREMENTS[peer]])
    return hashlib.sha256(made_from.encode()).hexdigest()


def _cause(stderr: str | bytes | None) -> str:
    """Return pip's last error, which is the one that says what was missing."""
    lines = stderr.splitlines() if isinstance(stderr, str) else []
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return errors[-1] if errors else "pip gave no reason"


def _skip(peer: str, reason: str) -> Skipped:
    _say(f"{peer} is skipped: {reason}")
    return Skipped(peer, reason)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Make the environments that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", metavar="PEER", help=f"of {', '.join(PEERS)} (default: all)")
    made = [environment(peer) for peer in parser.parse_args().peers or PEERS]
    sys.exit(any(isinstance(one, Skipped) for one in made))


if __name__ == "__main__":
    main()
