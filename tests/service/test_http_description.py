"""The description that a service gives of itself is whole and true: requests made from it are answered as it says."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode

from tests.service.one_process import TOKENS, OneProcess, one_process, small_server

AnyCase = schemathesis.Case[Any]

PATHS = {
    "coordinator": {"/v1/check-ins", "/v1/pulse"},
    "cohort": {
        "/v1/join",
        "/v1/models/{name}",
        "/v1/answers/{nonce}",
        "/v1/failures",
        "/v1/feedback",
        "/v1/pulse",
    },
}


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    desks = OneProcess(small_server())
    with one_process(desks) as url:
        yield {"coordinator": url, "cohort": desks.cohort_address}


@pytest.mark.parametrize("who", PATHS)
def test_everybody_may_read_what_a_process_answers(addresses: dict[str, str], who: str) -> None:
    description = httpx.get(f"{addresses[who]}/openapi.json").json()
    assert set(description["paths"]) == PATHS[who]
    assert description["security"] == [{"token": []}]
    for kind in ("CheckIn", "Joining", "Failing"):
        schema = description["components"]["schemas"].get(kind)
        assert schema is None or schema["additionalProperties"] is False


def in_own_name(body: Any) -> Any:  # whatever JSON holds
    """Return a message as the sender's own, so that it is not refused for its name alone."""
    if not isinstance(body, dict):
        return body
    own = {"client": "c0"} if isinstance(body.get("client"), int | str) else {}
    return {key: in_own_name(value) for key, value in body.items()} | own


@pytest.mark.slow
@pytest.mark.fault(22)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["as described", "otherwise"])
@pytest.mark.parametrize("who", PATHS)
def test_whatever_is_made_of_the_description_is_answered_as_described(
    addresses: dict[str, str], who: str, mode: GenerationMode
) -> None:
    schema = schemathesis.openapi.from_url(f"{addresses[who]}/openapi.json")
    seen: set[int] = set()
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        token = TOKENS.own if operation.path == "/v1/pulse" else TOKENS.issue("c0")
        for status in statuses(operation.as_strategy(generation_mode=mode), token):
            assert status < 500
            seen.add(status)
    assert 200 in seen if mode is GenerationMode.POSITIVE else 401 in seen


def statuses(cases: SearchStrategy[AnyCase], token: str) -> set[int]:
    """Return how many requests were answered; the description says whether they may be."""
    seen: set[int] = set()

    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(case=cases)
    def is_answered(case: AnyCase) -> None:
        case.body = in_own_name(case.body)
        answer = case.call_and_validate(headers={"Authorization": f"Bearer {token}"})
        assert b"Traceback" not in answer.content
        seen.add(answer.status_code)

    is_answered()
    return seen
