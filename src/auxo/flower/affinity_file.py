"""A node's affinity record: in the context's state from message to message, in a file over runs and restarts.

A context's state ends with its run and with its SuperNode. The file is written whole or not at all; a damaged one is
left out, and the client starts exploring again, which is all that losing it costs.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from flwr.app import ConfigRecord, Context

from auxo.core.affinity import AffinitySettings
from auxo.core.client_mod import ClientMod
from auxo.files.atomic_write import write_whole
from auxo.files.errors import FileError
from auxo.flower.logs import LOG
from auxo.flower.wire import KEY
from auxo.protocol.codec import CodecError
from auxo.runtime.client import Client

FOLDER_SETTING = "auxo-state"
"""In a node's config: a folder of its own. In the run's config: one for all nodes of a simulation."""

_SUFFIX = ".affinity"
_MOST_FEDERATIONS = 16  # files kept in a folder; our choice: a node may take part in several, by turns


def load_client(
    context: Context, node_id: int, federation: str, settings: AffinitySettings, mods: Sequence[ClientMod] = ()
) -> Client:
    """Return a node's client half with the record that it has of this federation; without one it will explore."""
    client = Client(node_id, settings=settings, mods=mods)
    state = _kept(context)
    kept = state.get("record") if state.get("federation") == federation else None
    if isinstance(kept, bytes) and _takes_up(client, kept, "the record in the context's state"):
        return client
    path = _path(context, federation)
    if path is not None and path.is_file():
        try:
            content = path.read_bytes()
        except OSError as error:
            LOG.warning("%s: cannot be read (%s); this client starts exploring again", path, error.strerror)
            return client
        _takes_up(client, content, str(path))
    return client


def keep_client(context: Context, client: Client, federation: str, *, to_file: bool) -> None:
    """Keep a client's record in the state, and in the file where there is one and the record has news."""
    record = client.record_to_bytes()
    context.state[KEY] = ConfigRecord({**_kept(context), "federation": federation, "record": record})
    path = _path(context, federation)
    if path is None or not to_file:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, record)
        _forget_oldest(path.parent)
    except (OSError, FileError) as error:
        LOG.warning("%s: the affinity record cannot be kept there (%s); it lasts as long as this run", path, error)


def note_cohort(context: Context, cohort: str) -> None:
    """Keep whose model a node was sent."""
    context.state[KEY] = ConfigRecord({**_kept(context), "cohort": cohort})


def cohort_of(context: Context) -> str | None:
    """Return the cohort of the node whose context it is: the one whose model it was last sent.

    An app may ask in its training and in its evaluation. None: no server with an `AuxoStrategy` has said it yet.
    """
    cohort = _kept(context).get("cohort")
    return cohort if isinstance(cohort, str) else None


def _kept(context: Context) -> ConfigRecord:
    return context.state.config_records.get(KEY, ConfigRecord())


def _takes_up(client: Client, record: bytes, where: str) -> bool:
    try:
        client.record_from_bytes(record)
    except CodecError as error:
        LOG.warning("%s is damaged; this client starts exploring again (%s)", where, error)
        return False
    return True


def _path(context: Context, federation: str) -> Path | None:
    """Return the file of a node's record; None: there is to be none."""
    if not re.fullmatch("[0-9a-f]{1,64}", federation):  # it comes from outside, and becomes a name
        return None
    own, common = context.node_config.get(FOLDER_SETTING), context.run_config.get(FOLDER_SETTING)
    if isinstance(own, str) and own:
        return Path(own) / f"{federation}{_SUFFIX}"
    if isinstance(common, str) and common:
        place = context.node_config.get("partition-id", context.node_id)
        return Path(common) / f"node-{place}" / f"{federation}{_SUFFIX}"
    return None


def _forget_oldest(folder: Path) -> None:
    files = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime)
    for path in files[:-_MOST_FEDERATIONS]:
        path.unlink(missing_ok=True)
