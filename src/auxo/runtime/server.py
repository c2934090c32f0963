"""The server half for any FL loop: match check-ins, open and close cohorts' rounds; the loop stays the user's."""

import secrets
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from auxo.core.affinity import FeedbackColumns
from auxo.core.aggregators import Aggregator, FedAvg, asks_for_loss
from auxo.core.asking import LEAST_LOSS, Answer, Ask, Judgement
from auxo.core.cohort_algorithm import Closing, CohortAlgorithm, Participants, held_by
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.gathering import Gathered, Returned
from auxo.core.guard import Ban, Bans, Guard, Unguarded
from auxo.core.layers import Layer, check_layers
from auxo.core.matching import Matched
from auxo.core.own_state import NOTHING, OwnState
from auxo.core.owners import Shelf
from auxo.core.rng import stream
from auxo.core.selectors import Selector, Uniform
from auxo.core.types import ClientId, CohortId, Float32Array
from auxo.core.usual_updates import MOST_WEIGHT
from auxo.core.validation import Reason
from auxo.core.words import possible_gain, possible_label, possible_sketch
from auxo.files.key_file import Key
from auxo.protocol.codec import from_bytes, to_bytes
from auxo.protocol.messages import AffinityFeedback, CheckIn, Task, TaskFailure, TaskResult
from auxo.protocol.notes import NO_JUDGEMENT, TrialsSeen, renamed, why_no_partition
from auxo.protocol.tokens import UsedTokens
from auxo.runtime.checked_in import CheckedIn, finite
from auxo.runtime.client_numbers import client_number
from auxo.runtime.closing import Closed, close_round, closing_of, models_in
from auxo.runtime.coordinator import start
from auxo.runtime.federation import Federation
from auxo.runtime.flat_arrays import as_flat, models_in_arrays
from auxo.runtime.in_vain import InVain
from auxo.runtime.made_with import federation_id, made_with
from auxo.runtime.reported_times import times_of
from auxo.runtime.round_events import RoundEnd, round_events
from auxo.runtime.rounds import Arrived, end_round, open_round, there_for
from auxo.runtime.rounds import match as match_check_ins
from auxo.runtime.server_record import ServerRecord, check_record
from auxo.runtime.signing import Signing, SigningMoment, tokens_of
from auxo.runtime.singled_out import SingledOut

_MOST_SAMPLES = 2**53  # that a judge may say it judges by: a float knows every one of them
_MOST_LOSS = float(np.finfo(np.float32).max)  # so that sums and squares of losses stay finite
_MOST_SECRET_BYTES = 64  # of a key of blake2b
_ARGUMENTS = {"training.participants": "participants", "training.rounds": "rounds"}  # by settings of a configuration
_HELD = "~"  # between a cohort and the number of a model that it holds besides its own


@dataclass(frozen=True)
class Rejection:
    """An answer that was refused: it took part in nothing, or was too unusual to move a model."""

    client: ClientId
    reason: Reason


@dataclass(frozen=True)
class _Open:
    """A round between its tasks and its results; forgotten when it closes."""

    tasks: tuple[Task, ...]
    participants: Participants
    tokens: tuple[str, ...] = ()  # that they have come with, where claims are signed
    check_ins: Mapping[CohortId, float] = field(default_factory=dict)  # running means with this round, by leaf

    @property
    def rows(self) -> dict[int, int]:
        """Return the row of each client that has a task, by its number."""
        return {number: row for row, number in enumerate(self.participants.clients.tolist())}


@dataclass(frozen=True)
class GatheredRound:
    """A round whose answers have been gathered, before it has changed anything."""

    opened: _Open
    closing: Closing
    closed: Closed
    rejections: tuple[Rejection, ...]


class Server:
    """Auxo's server half, driven by a loop of your own.

    A round of a cohort is `open_round` -> your training -> `close_round`; `match` says whose round a check-in
    belongs to. Between rounds it keeps the cohorts' models and no table of clients, unless its selector, method or
    guard has one, as Oort does. examples/plain_numpy.py is a whole loop.
    """

    def __init__(  # noqa: PLR0913 - by name, all but the first
        self,
        weights: ArrayLike | Sequence[ArrayLike],
        *,
        participants: int,
        rounds: int,
        method: CohortAlgorithm,
        aggregator: Aggregator | None = None,
        selector: Selector | None = None,
        guard: Guard | None = None,
        seed: int = 0,
        shapes: Sequence[tuple[int, ...]] | Sequence[Layer] = (),
        secret: str | None = None,
        most_weight: float = MOST_WEIGHT,
    ) -> None:
        """Start with the cohorts that the method begins with: most often one.

        Args:
            weights: (parameters,) the initial model: an array or a torch tensor, flattened if it is not flat, or a
                list of numbers; or a list of such, one for each cohort of a method that begins with several, which
                otherwise all begin with the same.
            participants: updates wanted in a round over all cohorts together.
            rounds: that each cohort trains, counted from the root; partition criteria look at the share done.
            method: how cohorts are found, such as ``Auxo()``.
            aggregator: how updates move a cohort's model; None: federated averaging.
            selector: who takes part of those that are there; None: a uniform sample.
            guard: who of those that check in is refused, and for what; None: nobody.
            seed: of selection, clustering and fingerprints.
            shapes: of the model's tensors, in the order of the flat weights, so that updates can be compared unit by
                unit; a plain shape has its units along the first axis. None given: each update is compared as one,
                and where clients differ in their class frequencies, that hides groups that differ in their inputs.
            secret: of the run, up to 64 bytes, which marks of clients are made with; a record has it, no message does.
                None: drawn from the system's entropy, and not from the seed, which may be known to others.
            most_weight: share of a round's weight that one participant may have by the examples it claims, where the
                others claim what is usual; ten times the usual count in any case. 1: as many as it claims.
        """
        models = [model.astype(np.float32) for model in models_in_arrays(weights)]
        layers = tuple(one if isinstance(one, Layer) else Layer(tuple(one)) for one in shapes)
        if layers:
            check_layers(layers, len(models[0]), "shapes")
        rules = Federation(
            algorithm=method,
            aggregator=aggregator or FedAvg(),
            n_params=len(models[0]),
            total_participants=participants,
            total_rounds=rounds,
            seed=seed,
            selector=selector or Uniform(),
            layers=layers,
            guard=guard or Unguarded(),
            most_weight=most_weight,
        )
        if secret is not None and not 0 < len(secret.encode()) <= _MOST_SECRET_BYTES:
            raise ValueError(f"secret: expected 1 to {_MOST_SECRET_BYTES} bytes, got {len(secret.encode())}")
        self._begin(rules, models, secret or secrets.token_hex())
        why_not = why_no_partition(method, participants, rounds)
        _warn(None if why_not is None else renamed(why_not, _ARGUMENTS))

    @classmethod
    def with_rules(cls, rules: Federation, weights: Float32Array) -> "Server":
        """Return a server with all the rules of a federation, as a configuration has them, for a service.

        No cohort is given up there: one without clients waits for them.
        """
        server = cls.__new__(cls)
        server._begin(rules, [weights], secrets.token_hex())
        server._in_vain = InVain(rules.total_participants, gives_up=False)
        return server

    def _begin(self, rules: Federation, models: list[Float32Array], secret: str) -> None:
        self._rules = rules
        state = start(rules, lambda number: models[0] if len(models) == 1 else models[number])
        self._state = replace(state, secret=secret)
        self._open: dict[CohortId, _Open] = {}
        self._attempts: dict[CohortId, int] = {}  # matches and openings of each cohort; name their streams
        self._federation = federation_id(rules, models)
        self._signing: Signing | None = None
        self._used = UsedTokens()  # as a record has it
        self._shelf: Shelf | None = None
        self._in_vain, self._singled_out = InVain(rules.total_participants), SingledOut()
        self.rejections: tuple[Rejection, ...] = ()  # of the last `close_round`
        self.refused: dict[ClientId, str] = {}  # by the guard, at the last `match`, and why
        self.banned: dict[ClientId, Ban] = {}  # by the guard, in the last `close_round`
        self.closed: Closed | None = None  # what the last `close_round` came to, for whoever keeps a record of a run
        self._trials = TrialsSeen()

    @property
    def cohorts(self) -> tuple[CohortId, ...]:
        """Return the cohorts that open rounds now."""
        return self._rules.openers(self._state)

    @property
    def is_over(self) -> bool:
        """Return whether every cohort has trained its rounds, or was given up: see `close_round`."""
        return all(self.has_ended(cohort) for cohort in self.cohorts)

    def has_ended(self, cohort: CohortId) -> bool:
        """Return whether a cohort has trained its rounds, or was given up."""
        return self._rules.is_done(self._state, cohort) or cohort in self._in_vain.given_up

    def weights(self, name: CohortId) -> Float32Array:
        """Return a model, flattened; a copy. Participants are sent those that their task names.

        Args:
            name: of a cohort, or of a model that a cohort holds besides its own, such as ``0~2``.

        Raises:
            KeyError: there is no such model now.
        """
        state, place = self._found(name)
        return models_in(state)[place].copy()

    def _found(self, name: CohortId) -> tuple[CohortState, int]:
        """Return the cohort that has a model of this name, and the model's place among those that it has."""
        cohort = CohortId(name.partition(_HELD)[0])
        state = self._state.cohorts.get(cohort)
        names = () if state is None else _names((cohort,), state)
        if state is None or name not in names:
            known = (one for leaf, kept in self._state.cohorts.items() for one in _names((leaf,), kept))
            raise KeyError(f"{name}: no model of this name; there are: {_listed(known)}")
        return state, names.index(name)

    def kept_beside(self, name: CohortId) -> OwnState:
        """Return what the aggregator keeps of its own beside a model that is trained; of others nothing is kept.

        Raises:
            KeyError: there is no such model now.
        """
        state, place = self._found(name)
        servers = (state.server, *held_by(state)[0])
        return servers[place].own if place < len(servers) else NOTHING

    @property
    def tree(self) -> CohortTree:
        """Return the cohort tree as it stands."""
        return self._state.tree

    @property
    def federation(self) -> str:
        """Return what tells this federation from others; feedback carries it."""
        return self._federation

    def share(self, cohort: CohortId) -> int:
        """Return the updates that the cohort's rounds want: its part of the participants.

        Raises:
            KeyError: the cohort does not train now.
        """
        self.round(cohort)
        return self._rules.share(self._state, cohort)

    def wanted(self, cohort: CohortId) -> int:
        """Return the updates that complete the cohort's next round; `invited` may be more."""
        return self._rules.wanted(self._state, cohort)

    def invited(self, cohort: CohortId) -> int:
        """Return how many clients the cohort's next round selects at most."""
        return self._rules.invited(self._state, cohort)

    def round(self, cohort: CohortId) -> int:
        """Return how many rounds the cohort has closed, its ancestors' included.

        Raises:
            KeyError: the cohort does not train now.
        """
        return self._rules.of(self._state, cohort).round

    def match(self, check_ins: Sequence[CheckIn], *, everybody: bool = False) -> dict[CohortId, CheckedIn]:
        """Return the check-ins of each cohort that still trains; a request of any age, or none, finds one.

        Of a client that checks in more than once the last check-in counts; one whose id is no id is in no list. With
        ``everybody``, cohorts that have trained all their rounds are among the answer, by leaf: whose model is for
        whom, and in ``vouched`` who is there by its own request and not by a draw. To ask that changes nothing.
        Clients that are in no cohort's list compare the models (see `Task`) to find theirs.
        """
        tree, matching = self._state.tree, self._rules.algorithm.matching
        here = self._read(check_ins)
        if everybody:
            placed, led = (
                ask(self._state, here.columns, stream(self._rules.seed, "placement"))
                for ask in (matching.place, matching.match)
            )
            of_leaf = {leaf: np.flatnonzero(placed.cohort == tree.index[leaf]) for leaf in tree.leaves}
            return {leaf: replace(here.take(mine), vouched=led.vouched[mine]) for leaf, mine in of_leaf.items()}
        tried = (part for cohort in self.cohorts for part in (cohort, self._attempts.get(cohort, 0)))
        rng = stream(self._rules.seed, "match", *tried)
        arrived = match_check_ins(self._rules, self._state, here.columns, rng)
        here = replace(here, columns=arrived.check_ins)
        matched, named = arrived.matched, zip(arrived.refused.rows.tolist(), arrived.refused.reasons, strict=True)
        self.refused = {here[row].client: reason for row, reason in named}
        trains = [cohort for cohort in self.cohorts if not self.has_ended(cohort)]
        rows = {cohort: np.flatnonzero(matched.cohort == tree.index[cohort]) for cohort in trains}
        found = {
            cohort: replace(here.take(mine), cohort=cohort, vouched=matched.vouched[mine])
            for cohort, mine in rows.items()
        }
        # The clients of a cohort whose round is open may all be at work.
        idle = {cohort: len(mine) for cohort, mine in found.items() if cohort not in self._open}
        for cohort in idle:
            self._next_attempt(cohort)
        _warn(self._in_vain.matched(idle, len(here)))
        return found

    def open_round(
        self, cohort: CohortId, check_ins: Sequence[CheckIn], chosen: Sequence[ClientId] | None = None
    ) -> list[Task]:
        """Select participants among the cohort's check-ins and return their tasks, at most its share; a client once.

        Args:
            cohort: that opens a round.
            check_ins: those that `match` has found for it, or others: then they are here because you say so.
            chosen: whom you have selected of them, in that order; those beyond the cohort's share, and who has not
                checked in, are left out. None: the selector selects.

        Raises:
            KeyError: the cohort does not train now, or not in rounds of its own.
        """
        number = self.round(cohort) + 1
        if cohort not in self.cohorts:
            raise KeyError(f"{cohort}: opens no rounds of its own; these do: {_listed(self.cohorts)}")
        attempt = self._next_attempt(cohort)
        if isinstance(check_ins, CheckedIn) and check_ins.cohort == cohort:
            here = check_ins
        else:
            here = self._read_for(cohort, check_ins, attempt)
        called = here.names()
        arrived = Arrived(here.columns, Matched(np.full(len(here), self._state.tree.index[cohort]), here.vouched))
        there = there_for(self._rules, self._state, cohort, arrived)
        opened = open_round(self._rules, self._state, there, attempt, None if chosen is None else here.rows(chosen))
        asked = opened.participants
        if (asked.asks.steps, asked.asks.pre_training, asked.asks.centres) != (None, None, None):
            raise NotImplementedError(
                f"{type(self._rules.algorithm).__name__}: expected a method whose participants train once, in epochs, "
                "got one that asks for steps, pre-training or centres, of which no task speaks; run it in a simulation"
            )
        self._state = opened.state
        names = _names(asked.offered, self._state.cohorts[asked.offered[0]])
        own = names.index(cohort) if cohort in names else 0
        needed = [ask.needed(len(names), own) for ask in asked.each(self._rules.epochs)]
        tasks = tuple(
            Task(called[client], cohort, number, tuple(names[place] for place in places), ask)
            for client, (places, ask) in zip(asked.clients.tolist(), needed, strict=True)
        )
        tokens = self._tokens(here, asked) if self._signing is not None else ()
        noted = {leaf: self._state.cohorts[leaf].check_ins for leaf in self._state.tree.leaves_of(cohort)}
        self._open[cohort] = _Open(tasks, asked, tokens, noted)
        return list(tasks)

    def _read_for(self, cohort: CohortId, check_ins: Sequence[CheckIn], attempt: int) -> CheckedIn:
        """Read check-ins that are here because the loop says so; whether by their own requests, these say.

        Whom the guard refuses is not here, whatever the loop says.
        """
        here = self._read(check_ins)
        rng = stream(self._rules.seed, "vouch", cohort, attempt)
        arrived = match_check_ins(self._rules, self._state, here.columns, rng)
        here = replace(here, columns=arrived.check_ins)
        led, admitted = arrived.matched, np.setdiff1d(np.arange(len(here)), arrived.refused.rows)
        vouched = led.vouched & (led.cohort == self._state.tree.index[cohort])
        return replace(here.take(admitted), cohort=cohort, vouched=vouched[admitted])

    def _read(self, check_ins: Sequence[CheckIn]) -> CheckedIn:
        """Read check-ins, with what their tokens prove where claims are signed."""
        here = CheckedIn.of(check_ins, self._state.tree)
        if self._signing is None:
            return here
        columns = here.columns
        asked = self._signing.with_proofs(here.check_ins, columns.clients, columns.requests, self._moment)
        return replace(here, columns=replace(columns, requests=asked))

    def _tokens(self, here: CheckedIn, asked: Participants) -> tuple[str, ...]:
        """Return the tokens that participants have come with."""
        held = dict(zip(here.columns.clients.tolist(), tokens_of(here.check_ins), strict=True))
        return tuple(held[client] for client in asked.clients.tolist())

    @property
    def _moment(self) -> SigningMoment:
        state, guard = self._state, self._rules.guard
        banned = guard.last_bans(state.guard) if isinstance(guard, Bans) else {}
        return SigningMoment(state.tree, self.farthest, banned)

    @property
    def farthest(self) -> int:
        """Return the round of the cohort that is farthest."""
        return max(one.round for one in self._state.cohorts.values())

    @property
    def bans(self) -> tuple[Ban, ...]:
        """Return the bans that hold, of a guard that bans."""
        guard = self._rules.guard
        return guard.bans(self._state.guard) if isinstance(guard, Bans) else ()

    def lift(self, bans: Iterable[Ban]) -> None:
        """End some bans; what had spoken against these clients is forgotten. Older tokens of theirs count no more."""
        guard, clients = self._rules.guard, [ban.client for ban in bans]
        if isinstance(guard, Bans) and clients:
            self._state = replace(self._state, guard=guard.lift(self._state.guard, clients))

    def sign_with(self, keys: Sequence[Key]) -> None:
        """Have claims count from now on only as far as this server has signed them; see docs/security.md.

        `ServerCheckpoints` and `AuxoStrategy` call it where they have a directory. Methods whose clients keep no record
        claim nothing, and nothing is signed.

        Args:
            keys: from `auxo.files.key_file.keys_at`; the last one signs.
        """
        half = self._rules.algorithm.client_half
        if half is not None:
            used = self._used if self._signing is None else self._signing.used
            self._signing = Signing.of(keys, self._federation, half, used)

    def _next_attempt(self, cohort: CohortId) -> int:
        """Return the number of a new attempt of a cohort: nobody else's attempts make a difference to it."""
        attempt = self._attempts.get(cohort, 0)
        self._attempts[cohort] = attempt + 1
        return attempt

    def close_round(
        self,
        cohort: CohortId,
        results: Sequence[TaskResult | TaskFailure],
        replies: Mapping[ClientId, object] | None = None,
    ) -> list[AffinityFeedback]:
        """Aggregate, cluster, reward and perhaps partition; return the feedback to send.

        Results may come in any order. A participant without a result has failed, and so has one with several; the same
        result delivered again counts once. An update may be whatever plainly means a flat array: a torch tensor, a
        list, an array of more axes, or a list of arrays, one for each tensor of the model. ``replies`` are what an
        aggregator is to have besides, by client, if it hands answers as they came to another framework.
        `rejections` tells which results were refused, and why. Without any usable result nothing changes and no
        feedback is due; where results came and all were refused, a warning says why, and one names a client that is
        refused again and again, or counts for fewer examples than it claims. A cohort to which that happens
        100 times in a row, or to which none of many check-ins leads, is given up with a warning: it counts as one that
        has trained its rounds.

        Raises:
            KeyError: no round of this cohort is open.
        """
        return self.end_round(self.gather_round(cohort, results, replies))

    def gather_round(
        self,
        cohort: CohortId,
        results: Sequence[TaskResult | TaskFailure],
        replies: Mapping[ClientId, object] | None = None,
    ) -> GatheredRound:
        """Do what takes long of `close_round`: all but what becomes of the state, which `end_round` says.

        Raises:
            KeyError: no round of this cohort is open.
        """
        opened = self._open.pop(cohort, None)
        if opened is None:
            raise KeyError(f"{cohort}: no round is open; call open_round first (open: {_listed(self._open)})")
        asked = _as_done(_without_silent(opened.participants, cohort, results), results)
        times = times_of(opened.tasks, opened.rows, results)
        # Where several processes share a state, it has been put back since the round has opened.
        kept = self._state.cohorts
        noted = {leaf: replace(kept[leaf], check_ins=mean) for leaf, mean in opened.check_ins.items() if leaf in kept}
        state = replace(self._state, cohorts={**kept, **noted})
        closing = closing_of(self._rules, state, cohort, asked, times, self._shelf)
        answers, rejected = _sort_out(opened, closing, results, asks_for_loss(self._rules.aggregator))
        replies = replies or {}
        returned = (Returned(row, one, reply=replies.get(opened.tasks[row].client)) for row, one in answers.items())
        closed = close_round(self._rules, closing, returned)
        refused = (*closed.gathered.rejected, *closed.gathered.unusual)
        rejected += [Rejection(opened.tasks[row].client, reason) for row, reason in refused]
        _warn(self._in_vain.closed(cohort, [one.reason for one in rejected], is_usable=closed.outcome is not None))
        for one in rejected if closed.outcome is not None else ():
            _warn(self._singled_out.refused(f"{one.client!s:.80}", one.reason))  # it need be no name at all
        for row in closed.gathered.capped:
            name, claimed = str(opened.tasks[row].client), answers[row].examples
            _warn(self._singled_out.capped(name, claimed, self._rules.most_weight))
        _warn(self._unjudged(cohort, closed))
        told = tuple(sorted(rejected, key=lambda one: (str(one.client), one.reason)))
        return GatheredRound(opened, closing, closed, told)

    def end_round(self, gathered: GatheredRound) -> list[AffinityFeedback]:
        """Have a round make its change to the state as it is now, and return the feedback to send.

        The guard may have seen others' rounds since it was gathered, and the tree may have grown. It is quick, and may
        be done again where the state has been put back (`refresh`).
        """
        opened, closed = gathered.opened, gathered.closed
        self.closed, self.rejections = closed, gathered.rejections
        ended = end_round(self._rules, self._state, gathered.closing, closed)
        self._state = ended.state
        named = {
            int(number): task.client for number, task in zip(opened.participants.clients, opened.tasks, strict=True)
        }
        self.banned = {named[ban.client]: ban for ban in ended.banned}
        if ended.feedback is None:
            return []
        return self._signed(opened, closed.gathered, ended.feedback)

    def _signed(self, opened: _Open, gathered: Gathered, columns: FeedbackColumns) -> list[AffinityFeedback]:
        """Return the feedback of a round, with tokens where claims are signed."""
        tokens = [""] * len(gathered.rows)
        if self._signing is not None:
            presented = [opened.tokens[row] for row in gathered.rows.tolist()]
            clients = opened.participants.clients[gathered.rows]
            tokens, self._signing = self._signing.given(columns, presented, clients, self._moment)
        return _messages(opened.tasks, gathered, columns, tokens, self._federation)

    def _unjudged(self, cohort: CohortId, closed: Closed) -> str | None:
        """Take note of what a round says of a partition on trial; return that nobody could judge it, if it is so."""
        before, end = self._trials, RoundEnd(cohort, 0, 0.0, 0.0, 0, 0)
        for event in round_events(closed, end, (), {}):
            self._trials = self._trials.after(event)
        is_new = self._trials.unjudged > before.unjudged or self._trials.unsure.keys() > before.unsure.keys()
        return self._trials.note(NO_JUDGEMENT) if is_new else None

    @property
    def record(self) -> ServerRecord:
        """Return all that must survive a crash; rounds that are open are lost and simply opened again."""
        used = self._used if self._signing is None else self._signing.used
        return ServerRecord(
            self._state, dict(sorted(self._attempts.items())), self._federation, made_with(self._rules), used
        )

    def to_bytes(self) -> bytes:
        """Return the record as bytes."""
        return to_bytes(self.record)

    @property
    def own_states(self) -> tuple[type, ...]:
        """Return the kinds of states that the parts bring along: what the codec needs to read a record."""
        return self._rules.own_states

    def restore(self, data: bytes) -> None:
        """Take up a record that `to_bytes` gave, on a server that was made with the same arguments.

        Raises:
            CodecError: the bytes are damaged or not such a record.
            ValueError: they are of another model, seed, number of participants or rounds, or of other settings, or
                hold what no server can go on from; nothing has changed.
        """
        self.take_up(from_bytes(ServerRecord, data, self._rules.own_states))

    def take_up(self, record: ServerRecord) -> None:
        """Go on from a record; see `restore`.

        Raises:
            ValueError: it is of another server, or holds what no server can go on from; nothing has changed.
        """
        check_record(record, self._rules)
        self.refresh(record)
        self._attempts, self._open, self.rejections = dict(record.attempts), {}, ()
        self._in_vain = InVain(self._rules.total_participants)

    def refresh(self, record: ServerRecord, shelf: Shelf | None = None) -> None:
        """Have the state that a record says, where several processes share one; rounds that are open stay open.

        Args:
            record: of the same federation, which is not checked; other owners' leaves may be in it without models.
            shelf: where these models are; None: in the record.
        """
        self._state, self._federation, self._used, self._shelf = record.state, record.federation, record.used, shelf
        self._attempts |= {one: max(tried, self._attempts.get(one, 0)) for one, tried in record.attempts.items()}
        if self._signing is not None:
            signer = replace(self._signing.signer, federation=record.federation)
            self._signing = replace(self._signing, signer=signer, used=record.used)


def _warn(words: str | None) -> None:
    if words is not None:
        warnings.warn(words, RuntimeWarning, stacklevel=3)


def _listed(cohorts: Iterable[CohortId]) -> str:
    return ", ".join(cohorts) or "none"


def _messages(
    tasks: Sequence[Task], gathered: Gathered, columns: FeedbackColumns, tokens: Sequence[str], federation: str
) -> list[AffinityFeedback]:
    placed = np.full(len(gathered.rows), -1) if columns.placed is None else columns.placed
    return [
        AffinityFeedback(
            client=tasks[int(row)].client,
            cohort=columns.cohort,
            tree=columns.tree,
            instant_reward=None if np.isnan(reward) else float(reward),
            similarity=tuple(None if np.isnan(value) else float(value) for value in similarity),
            fold=None if fold < 0 else fold,
            generation=columns.generation,
            placed=None if place < 0 else columns.tree.cohorts[place],
            round=tasks[int(row)].round,
            federation=federation,
            token=token,
        )
        for row, reward, similarity, fold, place, token in zip(
            gathered.rows,
            columns.instant_reward,
            columns.similarity,
            columns.fold.tolist(),
            placed.tolist(),
            tokens,
            strict=True,
        )
    ]


def _sort_out(
    opened: _Open, closing: Closing, results: Sequence[TaskResult | TaskFailure], needs_loss: bool
) -> tuple[dict[int, Answer], list[Rejection]]:
    """Return the answers to the round's tasks by row, in their order, so that their arrival decides nothing."""
    row_of, n_params = opened.rows, len(closing.states[0].server.weights)
    # Without leaves that were partitioned since the round opened.
    names = _names(closing.participants.offered, closing.states[0])
    answers: dict[int, list[Answer]] = {}  # with their updates as arrays, if they are any
    rejected: list[Rejection] = []
    for result in results:
        if not isinstance(result, TaskResult):
            continue
        # Types are what the transport promised; a peer that breaks the promise must not break the round.
        answer: object = result.answer
        number = client_number(result.client)
        row = None if number is None else row_of.get(number)
        if result.cohort != closing.cohort:
            rejected.append(Rejection(result.client, "UNKNOWN_COHORT"))
        elif row is None or result.round != opened.tasks[row].round:
            rejected.append(Rejection(result.client, "NOT_SELECTED"))
        elif not isinstance(answer, Answer):
            rejected.append(Rejection(result.client, "SCHEMA_MISMATCH"))
        elif _trained(opened.tasks[row], answer) not in names:
            rejected.append(Rejection(result.client, "UNKNOWN_COHORT"))
        else:
            answers.setdefault(row, []).append(_possible(opened.tasks[row], answer, names, n_params))
    single = {}
    for row in sorted(answers):
        same, client = answers[row], opened.tasks[row].client
        if not _are_alike(same):  # to take the first of several would let the order of arrival decide
            rejected += [Rejection(client, "NOT_SELECTED")] * len(same)
        elif needs_loss and same[0].loss is None:
            rejected.append(Rejection(client, "NO_LOSS"))
        else:
            single[row] = same[0]
    return single, rejected


def _possible(task: Task, answer: Answer, names: Sequence[CohortId], n_params: int) -> Answer:
    """Return an answer in the numbers of the round's models, with nothing in it that cannot be but for the update."""
    trained = _trained(task, answer)
    assert trained is not None  # noqa: S101 - others were rejected
    return replace(
        answer,
        update=as_flat(answer.update, n_params),  # type: ignore[arg-type]  # what is none is refused by its reason
        model=names.index(trained),
        loss=finite(answer.loss),
        squared_loss=finite(answer.squared_loss),
        judged=_judged(task.ask, answer.judged),
        judged_by=_count(answer.judged_by),
        centres=None,
        sketch=possible_sketch(answer.sketch),
        label=possible_label(answer.label),
        gain=possible_gain(answer.gain),
    )


def _count(said: object) -> int | None:
    """Return a number of samples; None where it cannot be."""
    number = finite(said)
    return None if number is None or not 1 <= number <= _MOST_SAMPLES else int(number)


def _judged(ask: Ask, said: object) -> tuple[Judgement, ...]:
    """Return what a judge says in the order asked; nothing where a loss cannot be: it would judge by the others."""
    if not isinstance(said, tuple | list) or len(said) != len(ask.judges):
        return ()
    if not all(isinstance(one, Judgement) for one in said):
        return ()
    losses, *others = (
        _all_possible([getattr(one, name) for one in said], least)
        for name, least in (
            ("loss", 0.0),
            ("score", -_MOST_LOSS),
            ("other_loss", 0.0),
            ("other_score", -_MOST_LOSS),
            ("error", 0.0),
        )
    )
    columns = [[None] * len(said) if column is None else column for column in others]
    return () if losses is None else tuple(Judgement(*row) for row in zip(losses, *columns, strict=True))


def _all_possible(values: Sequence[object], least: float) -> list[float] | None:
    """Return losses or scores; None where one of them cannot be."""
    numbers = [number for number in map(finite, values) if number is not None and least <= number <= _MOST_LOSS]
    return numbers if len(numbers) == len(values) else None


def _are_alike(answers: Sequence[Answer]) -> bool:
    """Return whether all are the same answer: a transport that is not sure whether it has arrived sends it again."""
    return len(answers) == 1 or len({_said(one) for one in answers}) == 1


def _said(answer: Answer) -> tuple[object, ...]:
    """Return all that an answer says, so that what is no number equals itself; what is no array equals nothing."""
    update: object = answer.update
    array = (update.dtype, update.tobytes()) if isinstance(update, np.ndarray) else (object(),)
    judged, words = (answer.judged, answer.judged_by), (answer.sketch, answer.label, answer.gain)
    return *array, repr((answer.examples, answer.model, answer.loss, answer.squared_loss, judged, words))


def _names(offered: tuple[CohortId, ...], state: CohortState) -> tuple[CohortId, ...]:
    """Return what the models of a round are called, in their order; ``state`` is of the first of the offered leaves."""
    held = sum(map(len, held_by(state)))
    return (*offered, *(CohortId(f"{offered[0]}{_HELD}{number}") for number in range(held)))


def _without_silent(
    participants: Participants, cohort: CohortId, results: Sequence[TaskResult | TaskFailure]
) -> Participants:
    """Return the participants as those who do not say which model they have trained see it: they have not compared."""
    if cohort not in participants.offered:
        return participants
    silent = {client_number(one.client) for one, answer in _answered(results) if answer.model is None}
    asks, is_silent = participants.asks, np.array([client in silent for client in participants.clients.tolist()], bool)
    is_silent &= asks.model == LEAST_LOSS
    own = participants.offered.index(cohort)
    return replace(participants, asks=replace(asks, model=np.where(is_silent, own, asks.model)))


def _as_done(participants: Participants, results: Sequence[TaskResult | TaskFailure]) -> Participants:
    """Return the participants with no half for those who have trained on all their samples all the same."""
    on_all = {client_number(one.client) for one, answer in _answered(results) if answer.on_all is True}
    if not on_all:
        return participants
    did, asks = np.array([client in on_all for client in participants.clients.tolist()], bool), participants.asks
    return replace(participants, asks=replace(asks, fold=np.where(did, -1, asks.fold)))


def _answered(results: Sequence[TaskResult | TaskFailure]) -> Iterator[tuple[TaskResult, Answer]]:
    """Yield the results that hold an answer."""
    for one in results:
        if isinstance(one, TaskResult) and isinstance(one.answer, Answer):
            yield one, one.answer


def _trained(task: Task, answer: Answer) -> CohortId | None:
    """Return whose model a participant has trained; None: none that it was offered."""
    said: object = answer.model
    offered = task.models[: task.ask.choices]
    # Who cannot compare trains the first: the cohort's own, or a branch on trial, which has to be trained by somebody.
    if said is None and (len(offered) == 1 or task.cohort in offered or _HELD in offered[0]):
        return offered[0]
    return offered[said] if isinstance(said, int) and 0 <= said < len(offered) else None
