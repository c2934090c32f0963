import dataclasses
import struct
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from auxo.algorithms.paper import PaperMemory, RoundEvidence
from auxo.core.affinity import AffinityRecords
from auxo.core.aggregators import FedYogi
from auxo.core.asking import Answer, Ask, Asks, Judgement
from auxo.core.claims import Claims
from auxo.core.clustering import ClusteringState
from auxo.core.cohort_algorithm import Participants
from auxo.core.cohort_state import CohortState
from auxo.core.cohort_tree import CohortTree
from auxo.core.own_state import NOTHING, OwnState
from auxo.core.rng import stream
from auxo.core.types import ROOT, BoolArray, ClientId, CohortId, Float32Array, FloatArray, IntArray
from auxo.core.words import Words
from auxo.protocol import codec
from auxo.protocol.codec import CodecError, from_bytes, to_bytes
from auxo.protocol.messages import AffinityFeedback, AffinityRequest, CheckIn, Task, TaskFailure, TaskResult


@dataclass(frozen=True)
class Waiting:
    reason: str


@dataclass(frozen=True)
class Training:
    since: float
    weights: Float32Array


@dataclass(frozen=True)
class Branching:
    label: str
    children: tuple["Branching", ...] = ()


@dataclass(frozen=True)
class State:
    flag: bool
    client: ClientId
    number: float
    nothing: None
    mode: Literal["fast", "slow", 3, None]
    centre: FloatArray | None
    status: Waiting | Training
    last_status: Waiting | Training | None
    columns: tuple[FloatArray, ...]
    pair: tuple[int, NDArray[np.uint64]]
    cohorts: Mapping[CohortId, Training]
    shares: dict[str, tuple[float, ...]]
    tree: Branching
    codes: tuple[NDArray[np.int8], NDArray[np.int32], IntArray, BoolArray]


def is_same(one: object, other: object) -> bool:
    """Equality to the bit: == would pass 0.0 for -0.0 and fail nan for nan."""
    match one, other:
        case np.ndarray(), np.ndarray():
            same = (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
        case float(), float():
            same = struct.pack("d", one) == struct.pack("d", other)
        case tuple(), tuple():
            same = len(one) == len(other) and all(map(is_same, one, other))
        case dict(), dict():
            same = is_same(tuple(one.items()), tuple(other.items()))
        case _ if dataclasses.is_dataclass(one):
            same = all(is_same(getattr(one, f.name), getattr(other, f.name, ...)) for f in dataclasses.fields(one))
        case _:
            same = one == other
    return type(one) is type(other) and same


def kept(**members: tuple[Any, Any]) -> Any:
    """Return an instance of a new kind called Kept, from (declared type, value) pairs."""
    kind = dataclasses.make_dataclass("Kept", [(name, hint) for name, (hint, _) in members.items()], frozen=True)
    return kind(**{name: value for name, (_, value) in members.items()})


def kept_kind(**hints: Any) -> type:
    return dataclasses.make_dataclass("Kept", list(hints.items()), frozen=True)


def stored_and_read(hint: Any, value: object) -> Any:
    state = kept(item=(hint, value))
    return from_bytes(type(state), to_bytes(state)).item


def of_any_bits(dtype: str, bits: str) -> st.SearchStrategy[Any]:
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    return hnp.arrays(bits, shapes).map(lambda array: array.view(dtype))


FLOAT64 = of_any_bits("float64", "uint64")
FLOATS = st.integers(0, 2**64 - 1).map(lambda bits: float(struct.unpack("d", struct.pack("Q", bits))[0])) | st.floats()
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
TRAINING = st.builds(Training, FLOATS, of_any_bits("float32", "uint32"))
STATUS = st.builds(Waiting, TEXT) | TRAINING
TREES = st.recursive(
    st.builds(Branching, TEXT), lambda inner: st.builds(Branching, TEXT, st.lists(inner, max_size=2).map(tuple))
)
STATES = st.builds(
    State,
    flag=st.booleans(),
    client=st.integers() | TEXT,
    number=FLOATS,
    nothing=st.none(),
    mode=st.sampled_from(["fast", "slow", 3, None]),
    centre=st.none() | FLOAT64,
    status=STATUS,
    last_status=st.none() | STATUS,
    columns=st.lists(FLOAT64, max_size=3).map(tuple),
    pair=st.tuples(st.integers(), of_any_bits("uint64", "uint64")),
    cohorts=st.dictionaries(TEXT, TRAINING, max_size=3),
    shares=st.dictionaries(TEXT, st.lists(FLOATS, max_size=3).map(tuple), max_size=3),
    tree=TREES,
    codes=st.tuples(*(hnp.arrays(dtype, hnp.array_shapes(max_side=3)) for dtype in ("int8", "int32", "int64", "bool"))),
)


def small_state() -> State:
    training = Training(-0.0, np.arange(3, dtype=np.float32))
    return State(
        flag=True,
        client=7,
        number=float("inf"),
        nothing=None,
        mode="fast",
        centre=np.array([[1.0, np.nan]]),
        status=training,
        last_status=Waiting("nobody on line é"),
        columns=(np.zeros((0, 2)), np.array(2.5)),
        pair=(2**70, np.array([2**64 - 1], dtype=np.uint64)),
        cohorts={CohortId("0.1"): training, CohortId('0"]\\'): training},
        shares={"b": (0.1,), "a": ()},
        tree=Branching("0", (Branching("0.0"),)),
        codes=(np.array([1], dtype=np.int8), np.array([2], dtype=np.int32), np.array([3]), np.array([True])),
    )


@settings(max_examples=60)
@given(STATES)
def test_any_state_comes_back_to_the_bit_and_gives_the_same_bytes_again(state: State) -> None:
    data = to_bytes(state)
    back = from_bytes(State, data)
    assert is_same(back, state)
    assert to_bytes(back) == data


@pytest.mark.fault(22)
@settings(max_examples=150)
@given(st.data())
def test_a_changed_byte_is_noticed(data: st.DataObject) -> None:
    whole = to_bytes(small_state())
    position = data.draw(st.integers(0, len(whole) - 1))
    change = data.draw(st.integers(1, 255))
    damaged = whole[:position] + bytes([whole[position] ^ change]) + whole[position + 1 :]
    with pytest.raises(CodecError):
        from_bytes(State, damaged)


def test_another_blank_in_the_padding_of_the_header_is_noticed() -> None:
    whole = next(data for data in (to_bytes(Waiting("x" * n)) for n in range(8)) if data.endswith(b" "))
    with pytest.raises(CodecError):
        from_bytes(Waiting, whole[:-1] + b"\t")


def test_bytes_cut_short_anywhere_are_noticed() -> None:
    whole = to_bytes(small_state())
    for length in range(len(whole)):
        with pytest.raises(CodecError):
            from_bytes(State, whole[:length])


@pytest.mark.fault(22)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        b"\xff" * 64,
        b"[" * 100_000,
        safetensors.numpy.save({"Waiting.reason": np.zeros(2)}),
        safetensors.numpy.save({}, {"auxo": "[]"}),
        safetensors.numpy.save({}, {"auxo": "[" * 100_000}),
        safetensors.numpy.save({}, {"auxo": '{"version":NaN}'}),
        safetensors.numpy.save({}, {"auxo": '{"version":1,"version":1}'}),
        to_bytes(Waiting("x")) + b"x",
    ],
)
def test_bytes_that_are_no_state_are_refused(data: bytes) -> None:
    with pytest.raises(CodecError, match="expected bytes made by to_bytes"):
        from_bytes(Waiting, data)


def test_a_document_without_state_and_checksum_is_refused() -> None:
    with pytest.raises(CodecError, match="checksum"):
        from_bytes(Waiting, safetensors.numpy.save({}, {"auxo": '{"version":1,"kind":"Waiting"}'}))


def test_arrays_of_two_fields_that_changed_places_are_noticed() -> None:
    whole = to_bytes(kept(aa=(FloatArray, np.ones(2)), bb=(FloatArray, np.zeros(2))))
    swapped = whole.replace(b"Kept.aa", b"Kept.xx").replace(b"Kept.bb", b"Kept.aa").replace(b"Kept.xx", b"Kept.bb")
    with pytest.raises(CodecError, match="checksum"):
        from_bytes(kept_kind(aa=FloatArray, bb=FloatArray), swapped)


def test_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = to_bytes(Waiting("x"))
    monkeypatch.setattr(codec, "SCHEMA_VERSION", 2)
    with pytest.raises(CodecError, match="expected 2, got 1"):
        from_bytes(Waiting, data)


def test_another_kind_is_named() -> None:
    with pytest.raises(CodecError, match="expected 'Training', got 'Waiting'"):
        from_bytes(Training, to_bytes(Waiting("x")))


def test_fields_that_are_missing_or_unknown_are_named() -> None:
    with pytest.raises(CodecError, match=r"\['b'\] are missing and \['a'\] unknown"):
        from_bytes(kept_kind(b=int), to_bytes(kept(a=(int, 1))))


@pytest.mark.parametrize(
    ("declared", "value", "asked"),
    [
        (int, 1, bool),
        (bool, True, int),
        (int, 1, float),
        (str, "7ff0", float),
        (float, 1.0, int),
        (str, "x", int),
        (int | None, None, int),
        (str, "x", Literal["y"]),
        (bool, True, Literal[1]),
        (tuple[int, ...], (1,), Literal["y"]),
        (tuple[int, ...], (1, 2), tuple[int, int, int]),
        (tuple[int, ...], (1,), Mapping[str, int]),
        (Mapping[str, int], {"x": 1}, tuple[int, ...]),
        (Mapping[str, int], {"x": 1}, Mapping[Literal["y"], int]),
        (Mapping[str, int], {"reason": 1}, Waiting),
        (Waiting, Waiting("x"), Waiting | Training),
        (Waiting | Branching, Waiting("x"), Training | Branching),
        (str, "x", Waiting),
        (FloatArray, np.zeros(2), Float32Array),
        (IntArray, np.zeros(2, dtype=np.int64), NDArray[np.uint64]),
        (tuple[int, ...], (0,), FloatArray),
    ],
)
def test_a_value_stored_under_another_type_is_refused_with_its_path(declared: Any, value: object, asked: Any) -> None:
    data = to_bytes(kept(item=(declared, value)))
    with pytest.raises(CodecError, match=r"^Kept\.item"):
        from_bytes(kept_kind(item=asked), data)


def test_an_array_that_no_field_takes_is_refused() -> None:
    data = to_bytes(kept(item=(FloatArray, np.zeros(2))))
    with pytest.raises(CodecError, match=r"Kept\.item"):
        from_bytes(kept_kind(item=tuple[int, ...]), data)


def test_what_the_kind_itself_refuses_is_refused() -> None:
    @dataclass(frozen=True)
    class Kept:
        item: int

        def __post_init__(self) -> None:
            if self.item < 5:
                raise ValueError(f"item: expected at least 5, got {self.item}")

    assert from_bytes(Kept, to_bytes(Kept(5))) == Kept(5)
    with pytest.raises(CodecError, match="at least 5"):
        from_bytes(Kept, to_bytes(kept(item=(int, 1))))


class Colour(IntEnum):
    RED = 1


@dataclass
class Mutable:
    item: int


class NoDataclass:
    item: int


@pytest.mark.parametrize(
    "hint",
    [
        object,
        Any,
        bytes,
        complex,
        list[int],
        set[int],
        tuple,
        dict,
        int | float,
        Waiting | int,
        Colour,
        Literal[b"x"],
        Mapping[int, str],
        Mapping[Literal[1], str],
        np.ndarray,
        NDArray[np.float16],
        NDArray[Any],
        Mutable,
        NoDataclass,
        tuple[Mutable, ...],
        Mapping[str, Mutable],
        Waiting | Mutable,
    ],
)
def test_a_declared_type_outside_the_closed_list_is_refused_even_where_no_value_has_it(hint: Any) -> None:
    with pytest.raises(TypeError, match=r"^Kept\.item.*cannot be stored"):
        to_bytes(kept(item=(tuple[hint, ...], ())))


@pytest.mark.parametrize("value", [Mutable(1), 3, {"a": 1}, None])
def test_only_a_frozen_dataclass_is_a_state(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be stored"):
        to_bytes(value)


def test_fields_the_constructor_does_not_take_or_does_not_keep_are_refused() -> None:
    @dataclass(frozen=True)
    class Derived:
        item: int = field(default=1, init=False)

    @dataclass(frozen=True)
    class Seeded:
        seed: InitVar[int]

    for value in (Derived(), Seeded(1)):
        with pytest.raises(TypeError, match="constructor"):
            to_bytes(value)


def test_a_union_whose_members_share_a_name_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^Kept\.item"):
        to_bytes(kept(item=(kept_kind(a=int) | kept_kind(b=int), None)))


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, True),
        (int, 1.0),
        (int, Colour.RED),
        (int, np.timedelta64(1, "s")),
        (bool, 1),
        (float, True),
        (float, 2**53 + 1),
        (float, "1.0"),
        (float, np.longdouble(1)),
        (str, "\ud83d\ude00"),
        (str, None),
        (Literal["x"], "y"),
        (Literal["x"], ["x"]),
        (Literal[1], True),
        (tuple[int, ...], [1]),
        (tuple[int, int], (1,)),
        (Mapping[str, int], {1: 1}),
        (Mapping[str, int], [("a", 1)]),
        (Waiting, Training(0.0, np.zeros(1, dtype=np.float32))),
        (Waiting | Training, Branching("x")),
        (FloatArray, np.zeros(2, dtype=np.float32)),
        (FloatArray, np.zeros(2, dtype=">f8")),
        (FloatArray, [0.0]),
        (FloatArray, np.ma.masked_array([1.0], mask=[True])),
        (FloatArray, np.float64(1.0)),
    ],
)
def test_a_value_that_is_not_of_its_declared_type_is_refused_with_its_path(hint: Any, value: object) -> None:
    with pytest.raises(TypeError, match=r'^Kept\.items\["k"\]\[0\](\["1"\])?: expected'):
        to_bytes(kept(items=(Mapping[str, tuple[hint, ...]], {"k": (value,)})))


def test_a_subclass_of_the_declared_kind_is_refused() -> None:
    @dataclass(frozen=True)
    class Longer(Waiting):
        more: int

    with pytest.raises(TypeError, match=r"^Kept\.item: expected Waiting"):
        to_bytes(kept(item=(Waiting, Longer("x", 1))))


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (int, np.uint64(2**64 - 1), 2**64 - 1),
        (int, np.int8(-1), -1),
        (float, np.float32(0.1), float(np.float32(0.1))),
        (float, np.float64(-0.0), -0.0),
        (float, 3, 3.0),
        (float, np.int64(3), 3.0),
        (bool, np.True_, True),
        (str, np.str_("x"), "x"),
        (Mapping[str, int], MappingProxyType({"x": 1}), {"x": 1}),
    ],
)
def test_scalars_become_plain_values_of_the_declared_type(hint: Any, value: object, expected: object) -> None:
    assert is_same(stored_and_read(hint, value), expected)


def test_arrays_that_are_not_contiguous_keep_their_values() -> None:
    base = stream(0, "codec").normal(size=(6, 5, 4))
    repeated = np.broadcast_to(base[0], (2, 5, 4))
    for view in (base[::2], base[:, 1:3], base[..., ::-1], base.T, base.T[1:, ::2], repeated):
        assert is_same(stored_and_read(FloatArray, view), view)


def test_sums_of_a_restored_array_have_the_same_bits_whatever_its_memory_layout() -> None:
    base = stream(0, "codec").normal(size=(37, 41, 13))
    for array in (base, np.asfortranarray(base), base.transpose(1, 2, 0), base.transpose(1, 0, 2)):
        back = stored_and_read(FloatArray, array)
        assert back.strides == array.strides
        assert is_same(back.sum(axis=0), array.sum(axis=0))


def test_restored_arrays_are_writable_and_belong_to_nobody_else() -> None:
    state = Training(0.0, np.zeros(3, dtype=np.float32))
    data = to_bytes(state)
    back = from_bytes(Training, data)
    back.weights[:] = 1
    assert is_same(from_bytes(Training, data), state)
    assert is_same(state.weights, np.zeros(3, dtype=np.float32))


def test_an_array_kept_twice_is_two_arrays_afterwards() -> None:
    shared = np.zeros(2)
    one, other = stored_and_read(tuple[FloatArray, ...], (shared, shared))
    assert not np.shares_memory(one, other)


def test_the_bytes_are_a_safetensors_file_with_tensors_named_by_path() -> None:
    tensors = safetensors.numpy.load(to_bytes(small_state()))
    assert is_same(tensors['State.cohorts["0.1"].weights'], np.arange(3, dtype=np.float32))
    assert is_same(tensors["State.columns[1]"], np.array(2.5))


def test_cached_values_are_not_part_of_the_state() -> None:
    @dataclass(frozen=True)
    class Lazy:
        item: int

        @cached_property
        def doubled(self) -> int:
            return 2 * self.item

    fresh, used = Lazy(2), Lazy(2)
    assert used.doubled == 4
    assert to_bytes(used) == to_bytes(fresh)
    assert "doubled" not in vars(from_bytes(Lazy, to_bytes(used)))


def a_tree() -> CohortTree:
    tree = CohortTree().partition(ROOT, (0, 1, 1), (0.3, 0.7)).partition(CohortId("0.1"), (1, 0), (0.5, 0.5), 2)
    assert len(tree.leaves) == 3
    return tree


def test_a_cohort_tree_comes_back() -> None:
    assert from_bytes(CohortTree, to_bytes(a_tree())) == a_tree()


def test_affinity_records_come_back() -> None:
    records = dataclasses.replace(AffinityRecords.empty(5, 3), tree=a_tree(), reward=np.full((5, 5), 0.1))
    assert is_same(from_bytes(AffinityRecords, to_bytes(records)), records)


@pytest.mark.parametrize("centres", [None, np.eye(2, 3, order="F")])
def test_a_cohort_state_comes_back(centres: FloatArray | None) -> None:
    memory = PaperMemory(ClusteringState(generation=1, centres=centres), (RoundEvidence((2, 2), 1.0, float("nan")),))
    state = CohortState(
        server=FedYogi().initial(np.arange(4, dtype=np.float32)), round=3, check_ins=12.5, memory=memory
    )
    assert is_same(from_bytes(CohortState, to_bytes(state), own=(PaperMemory,)), state)


# States of plugged-in parts.


@dataclass(frozen=True)
class Visits:
    """What a part of one's own remembers."""

    clients: IntArray
    last: tuple[float, ...] = ()


@dataclass(frozen=True)
class Notes:
    text: str
    inner: OwnState = NOTHING  # of another part


@dataclass(frozen=True)
class Holder:
    memory: OwnState = NOTHING
    spare: OwnState | None = None
    all_of_them: Mapping[str, OwnState] = field(default_factory=dict)


OWN = (Visits, Notes)


@pytest.mark.parametrize(
    "state",
    [
        Holder(),
        Holder(Visits(np.arange(3), (0.5, float("nan")))),
        Holder(NOTHING, Notes("a")),
        Holder(Notes("b", Visits(np.zeros(0, dtype=np.int64))), None, {"x": Notes("c"), "y": NOTHING}),
    ],
)
def test_states_of_plugged_in_parts_come_back_as_what_they_were(state: Holder) -> None:
    assert is_same(from_bytes(Holder, to_bytes(state), own=OWN), state)


def test_the_state_of_a_part_without_one_can_always_be_read() -> None:
    assert from_bytes(Holder, to_bytes(Holder())) == Holder()


@pytest.mark.parametrize("own", [(), (Notes,)])
def test_a_kind_that_the_reader_does_not_allow_is_refused_by_its_path(own: tuple[type, ...]) -> None:
    data = to_bytes(Holder(all_of_them={"x": Visits(np.arange(3))}))
    with pytest.raises(CodecError, match=r'Holder\.all_of_them\["x"\]: expected the state of one of Nothing.*Visits'):
        from_bytes(Holder, data, own=own)


def test_another_kind_of_the_same_name_is_refused() -> None:
    @dataclass(frozen=True)
    class Other:
        number: int

    Other.__name__ = "Visits"
    with pytest.raises(CodecError, match=r"Holder\.memory: fields \['number'\] are missing"):
        from_bytes(Holder, to_bytes(Holder(Visits(np.arange(3)))), own=(Other,))


@pytest.mark.parametrize("state", [3, "text", [1, 2], object()])
def test_what_is_no_frozen_dataclass_is_no_state_of_a_part(state: object) -> None:
    with pytest.raises(TypeError, match=r"Holder\.memory: .* cannot be stored"):
        to_bytes(Holder(state))


def test_a_state_of_a_part_that_cannot_be_stored_is_refused_with_its_path() -> None:
    @dataclass(frozen=True)
    class Unstorable:
        what: set[int]

    with pytest.raises(TypeError, match=r"Holder\.memory\.what: .* cannot be stored"):
        to_bytes(Holder(Unstorable({1})))


@pytest.mark.parametrize(
    "participants",
    [
        Participants(np.arange(2), (ROOT,), Asks(np.full(2, -1), np.zeros(2, dtype=np.int64))),
        Participants(
            np.arange(1),
            (CohortId("0.0"), CohortId("0.1")),
            Asks(np.zeros(1, dtype=np.int64), np.full(1, -1)),
            notes=Claims(np.ones(1, bool), np.zeros(1, bool), np.zeros(1, int), np.ones(1, int)),
        ),
        Participants(np.arange(2), (ROOT,), replace(Asks.plain(2), words=(None, Words("0#1", sketch=4.0)))),
    ],
    ids=["without notes", "with notes", "with words"],
)
def test_a_rounds_participants_come_back(participants: Participants) -> None:
    assert is_same(from_bytes(Participants, to_bytes(participants), own=(Claims,)), participants)


@pytest.mark.parametrize(
    "message",
    [
        Task(3, ROOT, 7, (CohortId("0.0"), CohortId("0.1")), Ask(fold=1, judges=(0, 1), work=2.0)),
        TaskResult(
            3,
            ROOT,
            7,
            Answer(np.ones(2, dtype=np.float32), 5, model=1, loss=0.25, judged=(Judgement(0.5), Judgement(0.25, 1.0))),
        ),
        TaskResult(3, ROOT, 7, Answer(np.ones(2, dtype=np.float32), 5)),
        Task(
            3, ROOT, 7, (ROOT,), Ask(words=Words("0#1", 1, 32, label=2.0, centres=((0.5, 1.0), (0.0, -1.0)), gain=4.0))
        ),
        TaskResult(3, ROOT, 7, Answer(np.ones(2, dtype=np.float32), 5, sketch=(0.5, -2.0), label=1, gain=-0.25)),
        TaskFailure(3, ROOT, 7, "battery"),
        CheckIn(3, AffinityRequest(ROOT, 0.5, 1, 2, True), 4),
        AffinityFeedback(3, ROOT, a_tree(), None, (0.5, None), 1, 2),
    ],
    ids=lambda message: type(message).__name__,
)
def test_messages_come_back(message: object) -> None:
    assert is_same(from_bytes(type(message), to_bytes(message)), message)
