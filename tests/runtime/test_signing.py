"""A server that signs: what a client claims counts as far as it brings proof, and nothing that is lost is an attack."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from auxo.core.affinity import AffinitySettings
from auxo.core.guard import Ban
from auxo.core.proofs import FORGED, PROVED, UNPROVED
from auxo.core.watchful import Watched, Watchful
from auxo.files.key_file import Key
from auxo.protocol.messages import CheckIn
from auxo.runtime.client import feedback_columns
from auxo.runtime.server import Server
from auxo.simulation.client_records import ClientRecords
from tests.runtime.test_server import CLIENTS, Loop, everybody, new_server

KEY = Key("ab" * 32)


def signing(server: Server, key: Key = KEY) -> Server:
    server.sign_with([key])
    return server


def played(loops: int = 8) -> Loop:
    """Return a federation that has found cohorts, and whose server has signed from the start."""
    loop = Loop(signing(new_server())).play(loops)
    assert len(loop.server.cohorts) > 1
    return loop


def proofs_of(server: Server, check_ins: list[CheckIn]) -> list[int]:
    """Return what the server finds proved of check-ins, by client."""
    found = dict[int, int]()
    for here in server.match(check_ins).values():
        proof = here.columns.requests.proof
        assert proof is not None
        found |= {int(one.client): value for one, value in zip(here, proof.tolist(), strict=True)}
    return [found[number] for number in sorted(found)]


def changed(check_in: CheckIn, **request: Any) -> CheckIn:
    """Return a check-in with another request; who asks for nothing still does."""
    return check_in if check_in.request is None else replace(check_in, request=replace(check_in.request, **request))


def token_of(check_in: CheckIn) -> str:
    return "" if check_in.request is None else check_in.request.token


def forged(check_in: CheckIn) -> CheckIn:
    """Return a check-in whose token says something else than was signed, and names the key that it was signed with."""
    token = token_of(check_in)
    return changed(check_in, token=f"{token[:60]}{'B' if token[60:61] == 'A' else 'A'}{token[61:]}")


def test_a_client_that_brings_what_was_signed_is_a_proved_member() -> None:
    loop = played()
    proofs = proofs_of(loop.server, loop.check_ins())
    assert proofs.count(PROVED) > len(proofs) / 2
    assert FORGED not in proofs


@pytest.mark.parametrize(
    "lose",
    [
        lambda one: changed(one, token=""),
        lambda one: changed(one, token="a" * 5),
        lambda one: replace(one, request=None),
        lambda one: changed(one, token=5),
    ],
    ids=["no token", "garbage", "no request", "no text"],
)
def test_whatever_is_lost_is_no_claim_and_no_forgery(lose: Callable[[CheckIn], CheckIn]) -> None:
    loop = played()
    assert set(proofs_of(loop.server, [lose(one) for one in loop.check_ins()])) == {UNPROVED}


def test_a_key_that_the_server_no_longer_has_is_no_forgery() -> None:
    loop = played()
    other = signing(new_server(), Key("cd" * 32))
    other.restore(loop.server.to_bytes())
    assert set(proofs_of(other, loop.check_ins())) == {UNPROVED}


def test_a_changed_token_is_a_forgery_and_another_clients_is_no_claim() -> None:
    loop = played()
    check_ins = [one for one in loop.check_ins() if token_of(one)]
    tokens = [token_of(one) for one in check_ins]
    assert set(proofs_of(loop.server, [forged(one) for one in check_ins])) == {FORGED}
    swapped = [changed(one, token=token) for one, token in zip(check_ins, tokens[1:] + tokens[:1], strict=True)]
    assert set(proofs_of(loop.server, swapped)) == {UNPROVED}


def test_what_a_client_says_beside_its_token_proves_nothing() -> None:
    loop = played()
    mine = {int(one.client): one for one in loop.check_ins() if token_of(one)}
    for leaf in loop.server.tree.leaves:
        claims = [changed(one, cohort=leaf, reward=1.0, ranked_first=True, confirmed=6) for one in mine.values()]
        for here in loop.server.match(claims).values():
            proof = here.columns.requests.proof
            assert proof is not None
            for one, found in zip(here, proof.tolist(), strict=True):
                honest = mine[int(one.client)].request
                assert honest is not None
                assert found <= UNPROVED or honest.cohort == leaf or loop.server.tree.is_below(leaf, honest.cohort)


def test_who_claims_less_than_its_token_says_is_held_to_the_token() -> None:
    loop = played()
    check_ins = [one for one in loop.check_ins() if token_of(one)]

    def rewards(said: list[CheckIn]) -> dict[int, float]:
        matched = loop.server.match(said).values()
        columns = [(one, here.columns.requests) for here in matched for one in (here,)]
        return {
            int(one.client): reward
            for here, asked in columns
            for one, reward in zip(here, asked.reward.tolist(), strict=True)
        }

    honest, modest = rewards(check_ins), rewards([changed(one, reward=0.0) for one in check_ins])
    assert max(honest.values()) > 0
    assert sum(modest[client] >= reward for client, reward in honest.items() if reward > 0) > 0.5 * len(honest)


@pytest.mark.fault(17)
def test_a_token_counts_once_and_a_replay_is_no_claim() -> None:
    loop = played()
    before = loop.check_ins()
    loop.play(1)
    after = {int(one.client): token_of(one) for one in loop.check_ins()}
    moved = [one for one in before if token_of(one) and after[int(one.client)] != token_of(one)]
    assert moved
    assert set(proofs_of(loop.server, moved)) == {UNPROVED}


def test_what_was_used_and_what_was_signed_survive_a_restart() -> None:
    loop = played()
    before = loop.check_ins()
    loop.play(1)
    again = new_server()
    again.restore(loop.server.to_bytes())
    signing(again)
    assert proofs_of(again, loop.check_ins()) == proofs_of(loop.server, loop.check_ins())
    assert proofs_of(again, before) == proofs_of(loop.server, before)


def test_a_token_older_than_a_ban_never_counts_again() -> None:
    loop = Loop(signing(new_server(guard=Watchful()))).play(8)
    bans = tuple(Ban(client, "a reason", "evidence", 8, 9, is_lifted=True) for client in range(CLIENTS))
    record = loop.server.record
    loop.server.take_up(replace(record, state=replace(record.state, guard=Watched(8, banned=bans))))
    assert set(proofs_of(loop.server, loop.check_ins())) == {UNPROVED}


def test_the_columns_of_a_simulation_hold_and_prove_what_tokens_do() -> None:
    loop, columns = Loop(signing(new_server())), None
    for _ in range(8):
        for cohort, check_ins in loop.server.match(loop.check_ins()).items():
            tasks = loop.server.open_round(cohort, check_ins)
            for feedback in loop.server.close_round(cohort, everybody(tasks)):
                loop.clients[int(feedback.client)].receive(feedback)
                if columns is None:
                    columns = ClientRecords.empty(CLIENTS, len(feedback.similarity), feedback.tree, signed=True)
                columns = columns.learn(np.array([feedback.client]), feedback_columns(feedback), AffinitySettings())
    assert columns is not None
    assert columns.signed is not None
    for here in loop.server.match(loop.check_ins()).values():
        clients, requests = here.columns.clients, here.columns.requests
        simulated = columns.with_proofs(clients, replace(requests, proof=None))
        np.testing.assert_array_equal(simulated.proof, requests.proof)
        mine = columns.signed.rewards(clients, np.where(requests.cohort < 0, 0, requests.cohort))
        np.testing.assert_array_equal(np.where(requests.cohort < 0, 0.0, np.nan_to_num(mine)), requests.reward)


@pytest.mark.fault(17)
def test_forged_tokens_are_strikes_and_the_third_is_a_ban_that_survives_a_restart() -> None:
    """Faults 17 and 20: who forges is refused, also when it comes again and when the server does."""
    loop = Loop(signing(new_server(guard=Watchful(ban_rounds=100)))).play(2)
    number = next(int(one.client) for one in loop.check_ins() if token_of(one))
    liar, took_part = loop.clients[number], 0
    for _ in range(3):
        assert loop.server.bans == ()
        check_in = forged(liar.check_in())
        cohort, here = next((name, one) for name, one in loop.server.match([check_in]).items() if len(one))
        tasks = loop.server.open_round(cohort, here)
        took_part += len(tasks)
        for feedback in loop.server.close_round(cohort, everybody(tasks)):
            liar.receive(feedback)
    (ban,) = loop.server.bans
    assert (ban.client, ban.reason, took_part) == (number, "forges what is signed", 3)
    assert ban.evidence.count("a bad signature") == 3
    assert loop.server.banned == {number: ban}
    again = signing(new_server(guard=Watchful(ban_rounds=100)))
    again.restore(loop.server.to_bytes())
    again.match([liar.check_in()])
    assert list(again.refused) == [number]
    again.match([CheckIn(number)])  # without a claim it is the same client
    assert list(again.refused) == [number]
    again.lift(again.bans)
    assert number in [one.client for here in again.match([liar.check_in()]).values() for one in here]
