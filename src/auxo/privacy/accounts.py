"""Who keeps account of what a client says: its ledger, or in a simulation the number of its visits."""

import hashlib
import logging
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol

from auxo.core.asking import Answer, Ask, Device
from auxo.privacy.accounting import PrivacyBudget, Releases
from auxo.privacy.draws import Draws, SecretDraws, SeededDraws
from auxo.privacy.kept_answers import keep_answer, read_answer
from auxo.privacy.kept_words import Word, keep_word, read_word
from auxo.privacy.ledger import Ledger, spent_words
from auxo.privacy.spent import LedgerError, Promise

_LOG = logging.getLogger("auxo.privacy")


@dataclass(frozen=True)
class Visit:
    """One participant that is asked something."""

    device: Device
    row: int
    ask: Ask

    @property
    def client(self) -> int:
        """Return who it is."""
        return int(self.device.clients[self.row])

    @property
    def number(self) -> int:
        """Return how often it has taken part before."""
        return int(self.device.visits[self.row])

    @property
    def question(self) -> bytes:
        """Return what tells it from all other questions: the ask, and the models that it may train."""
        asked = hashlib.blake2b(digest_size=16)
        asked.update(repr([getattr(self.ask, one.name) for one in fields(self.ask)]).encode())
        for place in self.ask.offered(self.device.models):
            asked.update(self.device.model(place).tobytes())
        return asked.digest()


class Account(Protocol):
    """Pays for what leaves a client, gives the noise for it, and knows what has been said already."""

    def refusal(self, visit: Visit, most: Releases, budget: PrivacyBudget | None) -> str:
        """Return why nothing can be said, before any work is done; nothing: there is room for this much."""
        ...

    def said(self, visit: Visit) -> Answer | None:
        """Return what was answered to the same question: it is said again, and costs nothing; None: nothing was."""
        ...

    def draws(self, visit: Visit, what: str) -> Draws:
        """Return the chance for something that is about to leave."""
        ...

    def charge(self, visit: Visit, releases: Releases, budget: PrivacyBudget | None) -> str:
        """Pay for an answer before it leaves, and return why it may not; nothing: it may."""
        ...

    def remember(self, visit: Visit, answer: Answer) -> None:
        """Keep a private answer that is paid for."""
        ...

    def word(self, visit: Visit, name: str) -> Word | None:
        """Return the word that was said to the same question, see `Words.about`; None: none was."""
        ...

    def remember_word(self, visit: Visit, name: str, word: Word) -> None:
        """Keep a private word that is paid for."""
        ...


@dataclass(frozen=True)
class OnDevice:
    """A real client: its ledger pays, its noise is the system's entropy, and its answers are kept beside the ledger."""

    ledger: Ledger
    data: str = ""  # a name for the samples; another one when they have changed, so that questions are answered anew

    @staticmethod
    def at(ledger: Path, mark: Path, promise: Promise, data: str = "") -> "OnDevice":
        """Return the account in a ledger; see `Ledger`."""
        return OnDevice(Ledger(ledger, mark, promise), data)

    def refusal(self, visit: Visit, most: Releases, budget: PrivacyBudget | None) -> str:
        """Return why nothing can be said."""
        try:
            spent = self.ledger.spent()
        except LedgerError as error:
            return _unreliable(error)
        if budget is None or budget.holds(spent.after(most).releases):
            return ""
        return spent_words(spent.releases, budget)

    def said(self, visit: Visit) -> Answer | None:
        """Return what was answered to the same question with the same samples, as long as there is a ledger."""
        try:
            self.ledger.spent()
        except LedgerError:
            return None
        return read_answer(self._folder / self._name(visit))

    def draws(self, visit: Visit, what: str) -> SecretDraws:
        """Return chance that nobody has seen."""
        return SecretDraws()

    def charge(self, visit: Visit, releases: Releases, budget: PrivacyBudget | None) -> str:
        """Write down what leaves."""
        try:
            return self.ledger.charge(releases, budget)
        except LedgerError as error:
            return _unreliable(error)

    def remember(self, visit: Visit, answer: Answer) -> None:
        """Keep an answer; where that fails it would be made, and paid for, anew."""
        keep_answer(self._folder / self._name(visit), answer)

    def word(self, visit: Visit, name: str) -> Word | None:
        """Return the word that was said to the same question with the same samples."""
        return read_word(self._word_path(visit, name), name)

    def remember_word(self, visit: Visit, name: str, word: Word) -> None:
        """Keep a word."""
        keep_word(self._word_path(visit, name), word)

    def _word_path(self, visit: Visit, name: str) -> Path:
        about = "" if visit.ask.words is None else visit.ask.words.about
        named = hashlib.blake2b(
            f"{name} {about}".encode(), key=hashlib.sha256(self.data.encode()).digest(), digest_size=16
        ).hexdigest()
        return self.ledger.path.with_name(f"{self.ledger.path.name}-words") / named

    @property
    def _folder(self) -> Path:
        return self.ledger.path.with_name(f"{self.ledger.path.name}-answers")

    def _name(self, visit: Visit) -> str:
        return hashlib.blake2b(
            visit.question, key=hashlib.sha256(self.data.encode()).digest(), digest_size=16
        ).hexdigest()


def _unreliable(error: LedgerError) -> str:
    """Log what is wrong with a ledger, and return what may be told: the server has no business with paths."""
    _LOG.warning("%s", error)
    return "the privacy ledger cannot be relied on, and nothing leaves this client; its own log says why"


@dataclass(frozen=True)
class Simulated:
    """Simulated clients, in any process: noise from a seed, and a budget that is spent after so many visits.

    Each visit counts as if the client had said all that it may say in one.
    """

    seed: int
    visits: int | None  # None: as many as they like

    def refusal(self, visit: Visit, most: Releases, budget: PrivacyBudget | None) -> str:
        """Return that a client has been here too often."""
        if self.visits is None or visit.number < self.visits:
            return ""
        return f"the privacy budget is spent after {self.visits} visits; this client says nothing more"

    def said(self, visit: Visit) -> None:
        """Return nothing: a simulation asks nothing twice."""

    def draws(self, visit: Visit, what: str) -> SeededDraws:
        """Return chance that follows from the seed, the client and its visit."""
        return SeededDraws(self.seed, (visit.client, visit.number, what))

    def charge(self, visit: Visit, releases: Releases, budget: PrivacyBudget | None) -> str:
        """Return nothing: the next visit knows how many there were."""
        return ""

    def remember(self, visit: Visit, answer: Answer) -> None:
        """Do nothing."""

    def word(self, visit: Visit, name: str) -> None:
        """Return nothing: a simulation asks nothing twice but where feedback is lost."""

    def remember_word(self, visit: Visit, name: str, word: Word) -> None:
        """Do nothing."""
