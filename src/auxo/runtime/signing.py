"""A server that signs: it reads the tokens of those who check in, and gives newer ones with the feedback.

It keeps no record of anybody: what it has observed of a client the client brings along. What it keeps are the tokens
that it has replaced, until they expire, so that nobody presents a better past twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auxo.core.affinity import AffinitySettings, ClusterIndices, FeedbackColumns, Requests
from auxo.core.cohort_algorithm import ClientHalf
from auxo.core.cohort_tree import CohortTree
from auxo.core.proofs import FORGED, observe, proofs
from auxo.core.types import IntArray
from auxo.files.key_file import Key
from auxo.protocol.messages import AffinityFeedback, AffinityRequest, CheckIn
from auxo.protocol.tokens import Flaw, Signer, Token, UsedTokens, records_of, token_digest

VALID_ROUNDS = 500
"""Rounds for which a token holds; our choice.

A client that stays away for longer has to prove anew where it belongs, which takes it a visit or two. The server
remembers as many rounds' tokens: 16 bytes for each participant.
"""


@dataclass(frozen=True)
class Moment:
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

    def read(self, check_ins: Sequence[CheckIn], clients: IntArray, moment: Moment) -> list[Token | Flaw]:
        """Return what the token of each check-in says, or why it proves nothing."""
        texts = [_token(one) for one in check_ins]
        used = self.used.have([token_digest(text) for text in texts])
        return [
            self._read(text, client, was_used, moment)
            for text, client, was_used in zip(texts, clients.tolist(), used, strict=True)
        ]

    def _read(self, text: str, client: int, was_used: bool, moment: Moment) -> Token | Flaw:
        found = self.signer.read(text, moment.tree, client, moment.round)
        if not isinstance(found, Token):
            return found
        if was_used:
            return "used"
        return "older than a ban" if found.round <= moment.banned.get(client, -1) else found

    def with_proofs(self, check_ins: Sequence[CheckIn], clients: IntArray, asked: Requests, moment: Moment) -> Requests:
        """Return what clients ask, with what their tokens prove of it."""
        read = self.read(check_ins, clients, moment)
        held = [one if isinstance(one, Token) else None for one in read]
        signed = records_of(held, moment.tree, self.half.clusters)
        rows = np.array([-1 if token is None else row for row, token in enumerate(held)], dtype=np.int64)
        found = proofs(signed, ClusterIndices.of(signed), rows, asked, moment.tree)
        is_forged = np.array([one == "forged" for one in read], dtype=np.bool_)
        return replace(asked, proof=np.where(is_forged, FORGED, found))

    def given(
        self,
        feedback: Sequence[AffinityFeedback],
        columns: FeedbackColumns,
        presented: Sequence[tuple[str, int]],
        moment: Moment,
    ) -> "tuple[list[AffinityFeedback], Signing]":
        """Return feedback with a token each, and that those which these take the place of were used.

        Args:
            feedback: to participants of a round.
            columns: the same, row aligned.
            presented: the token that each had come with, and its number; row aligned.
            moment: after the round.
        """
        # One may have been used in another cohort's round meanwhile.
        was_used = self.used.have([token_digest(text) for text, _ in presented])
        read = [
            self._read(text, client, again, moment) for (text, client), again in zip(presented, was_used, strict=True)
        ]
        held = [one if isinstance(one, Token) else None for one in read]
        settings: AffinitySettings = self.half.affinity
        after = observe(records_of(held, moment.tree, self.half.clusters), columns, settings)
        signed = [
            replace(one, token=self.signer.sign(client, moment.round, after, row))
            for row, (one, (_, client)) in enumerate(zip(feedback, presented, strict=True))
        ]
        spent = [(token_digest(text), token.expires) for (text, _), token in zip(presented, held, strict=True) if token]
        return signed, replace(self, used=self.used.after(spent, moment.round))


def _token(check_in: CheckIn) -> str:
    """Return the token of a check-in; what is none counts as none."""
    wish: object = check_in.request
    token: object = wish.token if isinstance(wish, AffinityRequest) else ""
    return token if isinstance(token, str) else ""


def tokens_of(check_ins: Iterable[CheckIn]) -> list[str]:
    """Return the tokens of check-ins."""
    return [_token(one) for one in check_ins]
