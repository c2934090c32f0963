import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.protocol.events import (
    ClientBanned,
    CohortEnded,
    CohortMembers,
    CohortScore,
    Disturbance,
    EmptyRound,
    Evaluated,
    Event,
    Measured,
    OwnerChanged,
    Partitioned,
    RoundClosed,
    StoppedLooking,
    UpdateRejected,
    from_json,
    to_json,
)

numbers = st.floats(allow_nan=False, allow_infinity=False)
scores = st.builds(CohortScore, accuracy=numbers)
any_event = st.one_of(
    st.builds(
        RoundClosed,
        time_s=numbers,
        duration_s=numbers,
        gain=st.one_of(st.none(), numbers),
        gain_needed=numbers,
        heterogeneity=numbers,
    ),
    st.builds(EmptyRound, time_s=numbers),
    st.builds(Partitioned, time_s=numbers, gain=numbers),
    st.builds(StoppedLooking, time_s=numbers),
    st.builds(UpdateRejected, time_s=numbers),
    st.builds(CohortEnded, time_s=numbers),
    st.builds(OwnerChanged, time_s=numbers),
    st.builds(Disturbance, time_s=numbers),
    st.builds(CohortMembers, time_s=numbers),
    st.builds(Measured, time_s=numbers, values=st.lists(numbers, max_size=3).map(tuple)),
    st.builds(
        Evaluated,
        time_s=numbers,
        round=numbers,
        device_s=numbers,
        wasted_device_s=numbers,
        accuracy=numbers,
        worst_10=numbers,
        best_10=numbers,
        variance=numbers,
        variance_beyond_binomial=numbers,
        cohorts=st.lists(scores, max_size=3).map(tuple),
        ari=st.none() | numbers,
        matched_accuracy=numbers,
        matched_ari=st.none() | numbers,
        perplexity=st.none() | numbers,
    ),
)
EVENTS: list[Event] = [
    RoundClosed(12.5, "0.1", 7, 20, 3, 2, 1, 4.25, 11, 9, 8, 0.031, 0.07, 0.9, 2, False, 0),
    RoundClosed(12.5, "0.1", 7, 20, 3, 2, 1, 4.25, 11, 9, 0, None, 0.07, 0.9, 1, True, 4),
    EmptyRound(60.0, "0", 1, "nobody on line"),
    Partitioned(99.0, "0", 30, ("0.0", "0.1"), (50, 50), 0.12),
    StoppedLooking(50.0, "0.1", 27),
    ClientBanned(1.0, "0.1", 3, "client-7", "forges what is signed", "a bad signature in cohort 0.1, round 3", 203),
    UpdateRejected(1.0, "0", 3, "client-0042 ü\n", "NON_FINITE"),
    OwnerChanged(7.5, "0.1", 12, 3, "ended by SIGKILL"),
    Disturbance(8.0, "", 0, "no room on the disk"),
    CohortEnded(1e6, "0.1.0", 500),
    CohortMembers(1e6, "0.1.0", 500, ("1287361", "7")),
    Measured(3.0, "0.1", 7, "evaluation", ("eval_loss", "eval_acc"), (0.25, 0.9)),
    Evaluated(
        time_s=5.0,
        round=10.5,
        participations=1050,
        wasted_participations=300,
        device_s=1e5,
        wasted_device_s=2e4,
        downloads=4000,
        accuracy=0.81,
        worst_10=0.5,
        best_10=0.99,
        variance=120.5,
        variance_beyond_binomial=-3.25,
        cohorts=(CohortScore("0.0", 40, 0.8), CohortScore("0.1", 60, 0.82)),
        ari=0.97,
        lost=7,
        matched_accuracy=0.78,
        matched_ari=0.9,
        perplexity=12.5,
        tuning_device_s=3.5,
    ),
    Evaluated(0.0, 0.0, 0, 0, 0.0, 0.0, 0, 0.1, 0.0, 0.2, 10.0, 1.0, (), None, 0, 0.1, None, None, 0.0),
]


def changed(event: Event, **fields: object) -> str:
    return json.dumps({**json.loads(to_json(event)), **fields})


def without(event: Event, name: str) -> str:
    fields = json.loads(to_json(event))
    del fields[name]
    return json.dumps(fields)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_as_it_was_written_on_one_line(event: Event) -> None:
    line = to_json(event)

    assert "\n" not in line
    assert from_json(line) == event
    assert hash(from_json(line)) == hash(event)


@settings(max_examples=50)
@given(any_event)
def test_any_event_comes_back_to_the_last_bit(event: Event) -> None:
    assert from_json(to_json(event)) == event


def test_every_kind_of_event_is_tried_here() -> None:
    assert {type(event) for event in EVENTS} == set(Event.__args__)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_number_that_json_does_not_have_is_not_written(bad: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        to_json(CohortEnded(bad, "0", 1))


@pytest.mark.parametrize(
    "line",
    ['{"type": "Exploded"}', "{}", '{"type": null}', '{"type": ["RoundClosed"]}', '{"type": {}}', "[]", "5", "null"],
)
def test_an_unknown_type_is_an_error_that_names_the_known_ones(line: str) -> None:
    with pytest.raises(ValueError, match=r"type: expected one of ClientBanned, .*UpdateRejected, got "):
        from_json(line)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_unknown_field_is_an_error_that_names_it(event: Event) -> None:
    with pytest.raises(ValueError, match=f"event {type(event).__name__}: .*surprise"):
        from_json(changed(event, surprise=1))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_missing_field_is_an_error_that_names_it(event: Event) -> None:
    for name in json.loads(to_json(event)):
        if name not in {"type", "capped"}:  # which events of before have not
            with pytest.raises(ValueError, match=f"event {type(event).__name__}: .*{name}"):
                from_json(without(event, name))


def test_a_score_with_an_unknown_field_is_an_error_that_names_it() -> None:
    score = {"cohort": "0", "clients": 3, "accuracy": 0.5, "surprise": 1}

    with pytest.raises(ValueError, match=r"event Evaluated: .*surprise"):
        from_json(changed(EVENTS[-1], cohorts=[score]))


@pytest.mark.parametrize(
    ("event", "fields", "message"),
    [
        (EVENTS[0], {"time_s": "12.5"}, "event RoundClosed: time_s: expected a number, got '12.5'"),
        (EVENTS[0], {"participants": 20.5}, r"event RoundClosed: participants: expected a whole number, got 20\.5"),
        (EVENTS[0], {"participants": True}, "event RoundClosed: participants: expected a whole number, got True"),
        (EVENTS[0], {"cohort": 0}, "event RoundClosed: cohort: expected text, got 0"),
        (EVENTS[0], {"gain": "high"}, "event RoundClosed: gain: expected a number, got 'high'"),
        (EVENTS[0], {"gain_needed": None}, "event RoundClosed: gain_needed: expected a number, got None"),
        (EVENTS[0], {"restarted": 0}, "event RoundClosed: restarted: expected true or false, got 0"),
        (EVENTS[0], {"heterogeneity": float("nan")}, "event RoundClosed: heterogeneity: expected a finite number"),
        (EVENTS[3], {"children": 5}, "event Partitioned: children: expected a list, got 5"),
        (EVENTS[3], {"shares": ["50", 50]}, r"event Partitioned: shares\.0: expected a whole number, got '50'"),
        (EVENTS[-1], {"cohorts": [7]}, r"event Evaluated: cohorts\.0: expected an object, got 7"),
        (
            EVENTS[-2],
            {"cohorts": [{"cohort": "0", "clients": "3", "accuracy": 0.5}]},
            r"event Evaluated: cohorts\.0\.clients: expected a whole number, got '3'",
        ),
    ],
)
def test_a_value_of_another_type_is_an_error_that_names_the_field(
    event: Event, fields: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        from_json(changed(event, **fields))


@pytest.mark.parametrize("line", ["", "{", '{"type": "CohortEnded", "time_s": 1.0,'])
def test_half_a_line_is_an_error(line: str) -> None:
    with pytest.raises(json.JSONDecodeError, match="line 1 column"):
        from_json(line)


def test_a_partition_need_not_know_a_gain() -> None:
    event = Partitioned(99.0, "0", 30, ("0.0", "0.1"), (50, 50), None)
    assert from_json(to_json(event)) == event
