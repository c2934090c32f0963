"""A server that signs: it reads the tokens of those who check in, and gives newer ones with the feedback.

It keeps no record of anybody: what it has observed of a client the client brings along. What it keeps are the tokens
that it has replaced, until they expire, so that nobody presents a better past twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auxo.core.affinity import ClusterIndices, FeedbackColumns, Requests
from auxo.core.cohort_algorithm import ClientHalf
from auxo.core.cohort_tree import CohortTree
from auxo.core.proofs import FORGED, observe, proofs
from auxo.core.types import IntArray
from auxo.files.key_file import Key
from auxo.protocol.messages import AffinityRequest, CheckIn
from auxo.protocol.tokens import Signer, Tokens, UsedTokens, records_of

VALID_ROUNDS = 500
"""Rounds for which a token holds; our choice.

A client that stays away for longer has to prove anew where it belongs, which takes it a visit or two. The server
remembers as many rounds' tokens: 16 bytes for each participant.
"""


@dataclass(frozen=True)
class SigningMoment:
    """How things stand when tokens are read or given."""

    tree: CohortTree
    round: int  # of the cohort that is farthest
    banned: Mapping[int, int]  # by client: the round of its last ban; tokens up to it never count again


@dataclass(frozen=True)
class Signing:
    """Signs for one federation, and remembers which tokens were used."""

    signer: Signer
    half: ClientHalf
    used: UsedTokens

    @staticmethod
    def of(keys: Sequence[Key], federation: str, half: ClientHalf, used: UsedTokens) -> "Signing":
        """Return a server's, with its keys."""
        return Signing(Signer(tuple(keys), federation, VALID_ROUNDS), half, used)

    def with_proofs(
        self, check_ins: Sequence[CheckIn], clients: IntArray, asked: Requests, moment: SigningMoment
    ) -> Requests:
        """Return what clients ask, with what their tokens prove of it."""
        read = self._read(tokens_of(check_ins), clients, moment)
        signed = records_of(read, moment.tree, self.half.clusters)
        rows = np.where(read.hold, np.arange(len(clients)), -1)
        found = proofs(signed, ClusterIndices.of(signed), rows, asked, moment.tree)
        is_forged = np.array([flaw == "forged" for flaw in read.flaws], dtype=np.bool_)
        # Who says less than its token does would be a member whom nobody holds to anything.
        places = np.array([*(moment.tree.index.get(one, -1) for one in asked.tree.cohorts), -1])[asked.cohort]
        proved = np.where(read.hold & (places >= 0), signed.reward[np.arange(len(clients)), places], -np.inf)
        reward = np.fmax(asked.reward, proved)
        return replace(asked, reward=reward, proof=np.where(is_forged, FORGED, found))

    def given(
        self, columns: FeedbackColumns, presented: Sequence[str], clients: IntArray, moment: SigningMoment
    ) -> "tuple[list[str], Signing]":
        """Return a token for each participant of a round, and that those which these take the place of were used.

        Args:
            columns: the feedback to them.
            presented: the token that each had come with, row aligned.
            clients: their numbers, row aligned.
            moment: after the round.
        """
        read = self._read(presented, clients, moment)  # one may have been used in another cohort's round meanwhile
        after = observe(records_of(read, moment.tree, self.half.clusters), columns, self.half.affinity)
        used = self.used.after(read.marks[read.hold], read.expires[read.hold], moment.round)
        return self.signer.sign(clients, moment.round, after), replace(self, used=used)

    def _read(self, texts: Sequence[str], clients: IntArray, moment: SigningMoment) -> Tokens:
        """Return what tokens say, or why they prove nothing."""
        read = self.signer.read(texts, clients, moment.tree, moment.round)
        last_ban = np.array([moment.banned.get(client, -1) for client in clients.tolist()], dtype=np.int64)
        return read.but([(self.used.have(read.marks), "used"), (read.rounds <= last_ban, "older than a ban")])


def _token(check_in: CheckIn) -> str:
    """Return the token of a check-in; what is none counts as none."""
    wish: object = check_in.request
    token: object = wish.token if isinstance(wish, AffinityRequest) else ""
    return token if isinstance(token, str) else ""


def tokens_of(check_ins: Iterable[CheckIn]) -> list[str]:
    """Return the tokens of check-ins."""
    return [_token(one) for one in check_ins]
