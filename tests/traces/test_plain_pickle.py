"""Pickles of plain data are read in every protocol, and those that would run something are not run."""

import collections
import contextlib
import os
import pickle  # noqa: TID251 - to write what is then read without it
import pickletools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auxo.files.errors import FileError
from auxo.traces.plain_pickle import read_plain_pickle

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
plain = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.integers() | st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


def read(path: Path, data: bytes) -> object:
    path.write_bytes(data)
    return read_plain_pickle(path)


@given(value=plain, protocol=st.sampled_from(PROTOCOLS))
@settings(deadline=None, max_examples=150)
def test_plain_data_come_back_in_every_protocol(
    tmp_path_factory: pytest.TempPathFactory, value: object, protocol: int
) -> None:
    found = read(tmp_path_factory.getbasetemp() / "plain.pkl", pickle.dumps(value, protocol))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_large_values_and_shared_parts_come_back(protocol: int, tmp_path: Path) -> None:
    shared = [1, 2.5]
    value = {
        "big": 2**3000,
        "long": list(range(3000)),
        "text": "é" * 70_000,
        "shared": [shared, shared],
        7: {str(key): key for key in range(1500)},
    }
    found = read(tmp_path / "a.pkl", pickle.dumps(value, protocol))
    assert found == value
    assert isinstance(found, dict)
    assert found["shared"][0] is found["shared"][1]


class Malicious:
    """Runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_malicious_pickle_is_refused_and_not_run(protocol: int, tmp_path: Path) -> None:
    mark = tmp_path / "it-ran"
    data = pickle.dumps({1: {"computation": Malicious(mark)}}, protocol)
    opcodes = [(opcode.name, at) for opcode, _, at in pickletools.genops(data)]
    name, at = next(pair for pair in opcodes if pair[0] in ("GLOBAL", "STACK_GLOBAL"))
    with pytest.raises(FileError) as error:
        read(tmp_path / "a.pkl", data)
    assert f"byte {at}, opcode {name}: expected plain data only" in str(error.value)
    assert "nothing was executed" in str(error.value)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("data", "opcode"),
    [
        (b"cos\nsystem\n.", "GLOBAL"),
        (b"(S'true'\nios\nsystem\n.", "INST"),
        (b"(cos\nsystem\nS'true'\no.", "GLOBAL"),
        (b"I1\nI2\nR.", "REDUCE"),
        (b"I1\nI2\nb.", "BUILD"),
        (b"(I1\no.", "OBJ"),
        (b"\x80\x02I1\n)\x81.", "NEWOBJ"),
        (b"\x80\x04I1\n)}\x92.", "NEWOBJ_EX"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL"),
        (b"\x80\x02\x82\x01.", "EXT1"),
        (b"\x80\x02\x83\x01\x00.", "EXT2"),
        (b"\x80\x02\x84\x01\x00\x00\x00.", "EXT4"),
        (b"Pid\n.", "PERSID"),
        (b"I1\nQ.", "BINPERSID"),
        (b"\x80\x05\x97.", "NEXT_BUFFER"),
        (b"\x80\x04\x8f.", "EMPTY_SET"),
        (b"\x80\x03C\x01a.", "SHORT_BINBYTES"),
        (b"\x80\x05\x96\x01\x00\x00\x00\x00\x00\x00\x00a.", "BYTEARRAY8"),
    ],
)
def test_every_opcode_that_is_not_plain_data_is_named(data: bytes, opcode: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=f"opcode {opcode}: expected plain data only"):
        read(tmp_path / "a.pkl", data)


def test_objects_of_the_standard_library_are_refused_too(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="GLOBAL: expected plain data only"):
        read(tmp_path / "a.pkl", pickle.dumps(collections.OrderedDict(a=1)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_cut_pickle_is_refused_wherever_it_is_cut(protocol: int, tmp_path: Path) -> None:
    data = pickle.dumps({1: {"active": [1, 70_000, 2**40], "x": ("é", None, True, 0.5)}}, protocol)
    for length in range(len(data)):
        with pytest.raises(FileError, match=r"a\.pkl: byte \d+: expected a whole pickle"):
            read(tmp_path / "a.pkl", data[:length])


@pytest.mark.parametrize(
    "data",
    [
        b"not a pickle",
        b"a.",  # appends to nothing
        b"I1\nI2\na.",  # appends to a number
        b"I1\nI2\nI3\ns.",  # sets an item of a number
        b"}(I1\nu.",  # a key without a value
        b"}]I1\ns.",  # a key that cannot be one
        b"})I1\ns.",  # a tuple: hashed with all that is in it, each time
        b"e.",  # items since a mark that is not there
        b"I1\nI2\n.",  # two results
        b"(I1\n.",  # an open mark
        b"g7\n.",  # a memo that is empty
        b"p0\n.",
        b"\x85.",  # a tuple of nothing
        b"X\xff\xff\xff\x7fabc.",  # a text longer than the file
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.",
        b"\x8b\xff\xff\xff\x7fabc.",  # a number longer than the file
        b"L" + b"9" * 10_000 + b"L\n.",  # a number with too many digits
    ],
)
def test_a_damaged_pickle_is_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="expected a whole pickle"):
        read(tmp_path / "a.pkl", data)


def test_keys_that_take_for_ever_to_hash_or_end_the_process_are_refused(tmp_path: Path) -> None:
    pairs = b"})q\0" + b"".join(b"h%c\x86q%c" % (level, level + 1) for level in range(60)) + b"K\1s."
    deep = b"})" + 1_000_000 * b"\x85" + b"K\1s."
    for data in (pairs, deep):
        with pytest.raises(FileError, match="texts and numbers for keys, but one is a tuple"):
            read(tmp_path / "a.pkl", data)


def test_what_follows_the_end_is_not_looked_at(tmp_path: Path) -> None:
    assert read(tmp_path / "a.pkl", b"}.cos\nsystem\n") == {}


@given(st.binary(max_size=60))
@settings(deadline=None, max_examples=200)
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    with contextlib.suppress(FileError):  # any other error fails
        read(tmp_path_factory.getbasetemp() / "bytes.pkl", data)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="got no such file"):
        read_plain_pickle(tmp_path / "absent.pkl")
    with pytest.raises(FileError, match="got a folder"):
        read_plain_pickle(tmp_path)
