"""The codec takes one frozen state to bytes and back without loss, led by declared types and by nothing in the data.

The bytes are a safetensors file: each array is a tensor named by its path (``CohortState.server.slots[1]``), and one
entry of the metadata holds all the rest as JSON, with the schema version, the name of the kind and a checksum.
"""

import hashlib
import json
import math
import re
import struct
import types
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field, fields, is_dataclass
from typing import Literal, NewType, Protocol, TypeVar, Union, get_args, get_origin

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from auxo.core.own_state import Nothing, OwnState
from auxo.core.settings import field_types

SCHEMA_VERSION = 1
"""Rises when the layout of the bytes changes, not when a state gets another field."""

_ENTRY = "auxo"  # of the metadata; a single one, so that no order of entries can make equal states differ in bytes
_DTYPES = (np.float64, np.float32, np.int64, np.int32, np.int8, np.bool_, np.uint64)
_SUPPORTED = (
    "bool, int, float, str, None, Literal, int | str, X | None, unions of frozen dataclasses, tuple[X, ...], "
    f"tuple[X, Y], Mapping[str, X], frozen dataclasses, and NDArray of {', '.join(dtype.__name__ for dtype in _DTYPES)}"
)

T = TypeVar("T")
_Arrays = dict[str, NDArray[np.generic]]  # by path


class CodecError(ValueError):
    """The bytes are not a whole and unchanged state of the kind asked for."""


def to_bytes(value: object) -> bytes:
    """Return a frozen dataclass as bytes; equal states in equal memory layout give equal bytes.

    Only dataclass fields count. Whole numbers where ``float`` is declared become floats, numpy scalars plain ones.

    Raises:
        TypeError: a field's declared type is none of those the codec knows, or its value is not of that type; the
            message begins with the path of the field.
        CodecError: what is outside of arrays exceeds what a safetensors header can hold.
    """
    kind = type(value)
    document, arrays = _written(value)
    document["sha256"] = _checksum(document, arrays)
    try:
        return safetensors.numpy.save(arrays, {_ENTRY: _canonical(document)})
    except safetensors.SafetensorError as error:
        raise CodecError(f"{kind.__name__}: {error}; keep long columns in arrays, not in tuples or mappings") from error


def from_bytes(kind: type[T], data: bytes, own: tuple[type, ...] = ()) -> T:
    """Return the state that `to_bytes` was given.

    Where a field is declared as `OwnState`, a plugged-in part's own state is stored; its kind must be one of ``own``.

    Arrays are writable copies in the memory layout they had, because the bits of a sum depend on it; a view with gaps
    comes back without them. Mappings are plain dicts in the order they had.

    Raises:
        CodecError: the bytes are damaged, or of another version or kind, or do not fit the fields of ``kind``.
        TypeError: ``kind`` itself is nothing the codec knows.
    """
    form = _form_of(kind, own)
    document, arrays = _open(data)
    checksum = document.pop("sha256", None)
    _check_kind(kind, document)
    if checksum != _checksum(document, arrays):
        raise CodecError("checksum: the bytes are not those that were written; use another copy")
    return _read(kind, form, document, arrays)


def to_parts(value: object) -> tuple[str, dict[str, NDArray[np.generic]]]:
    """Return a frozen dataclass as JSON and its arrays by path, for whoever stores and checks them in its own way.

    Arrays in C order are those of ``value`` itself, not copies.

    Raises:
        TypeError: as `to_bytes` does.
    """
    document, arrays = _written(value)
    return _canonical(document), arrays


def from_parts(
    kind: type[T], document: str, arrays: Mapping[str, NDArray[np.generic]], own: tuple[type, ...] = ()
) -> T:
    """Return the state that `to_parts` was given; see `from_bytes`. Nothing says whether the parts are unchanged.

    Raises:
        CodecError: the parts are of another version or kind, or do not fit the fields of ``kind``.
        TypeError: ``kind`` itself is nothing the codec knows.
    """
    form = _form_of(kind, own)
    try:
        stored = json.loads(document)
    except ValueError as error:
        raise CodecError(f"expected JSON made by to_parts, got something else ({error}); use another copy") from error
    if not isinstance(stored, dict):
        raise CodecError(f"expected JSON made by to_parts, got {stored!r:.80}; use another copy")
    _check_kind(kind, stored)
    return _read(kind, form, stored, dict(arrays))


def _written(value: object) -> tuple[dict[str, object], _Arrays]:
    kind = type(value)
    arrays: _Arrays = {}
    state = _form_of(kind).write(value, kind.__name__, arrays)
    return {"version": SCHEMA_VERSION, "kind": kind.__name__, "state": state}, arrays


def _check_kind(kind: type, document: Mapping[str, object]) -> None:
    version, stored_kind = document.get("version"), document.get("kind")
    if version != SCHEMA_VERSION:
        raise CodecError(f"schema version: expected {SCHEMA_VERSION}, got {version!r}; use the release that wrote it")
    if stored_kind != kind.__name__:
        raise CodecError(f"kind: expected {kind.__name__!r}, got {stored_kind!r}; ask for the kind that is stored")


def _read(kind: type[T], form: "_Record", document: Mapping[str, object], arrays: _Arrays) -> T:
    values = form.read_fields(document.get("state"), kind.__name__, arrays)
    if arrays:
        raise CodecError(f"arrays: {sorted(arrays)} belong to no field of {kind.__name__}; it had other fields then")
    return _built(kind, kind.__name__, values)


def _canonical(document: object) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _checksum(document: Mapping[str, object], arrays: _Arrays) -> str:
    digest = hashlib.sha256(_canonical(document).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.name} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()


def _open(data: bytes) -> tuple[dict[str, object], _Arrays]:
    """Return what a file holds; checks everything that the checksum does not cover."""
    try:
        arrays = safetensors.numpy.load(data)
        length = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:length])
        # The writer's spelling is the only one, or else a change to it would go unnoticed. The padding is spaces.
        if data[8:length].rstrip(b" ") != json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode():
            raise ValueError("the header is not spelled as it was written")
        text = header["__metadata__"].pop(_ENTRY)
        document = json.loads(text)
        if header["__metadata__"] or text != _canonical(document) or not isinstance(document, dict):
            raise ValueError(f"the metadata is not one JSON object under {_ENTRY!r}")
    except (safetensors.SafetensorError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise CodecError(
            f"expected bytes made by to_bytes, got {len(data)} that are cut short, damaged or something else "
            f"({type(error).__name__}: {error}); use another copy"
        ) from error
    return document, arrays


def _built(kind: Callable[..., T], path: str, values: Mapping[str, object]) -> T:
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise CodecError(f"{path}: the stored fields are refused: {error}") from error


def _refused(path: str, expected: str, value: object) -> TypeError:
    return TypeError(f"{path}: expected {expected}, got {type(value).__name__} {value!r:.80}")


def _unexpected(path: str, expected: str, stored: object) -> CodecError:
    return CodecError(f"{path}: expected {expected}, but {stored!r:.80} is stored; the field had another type then")


class _Form(Protocol):
    """How values of one declared type become JSON; ``arrays`` is filled by writing and emptied by reading."""

    def write(self, value: object, path: str, arrays: _Arrays) -> object: ...

    def read(self, stored: object, path: str, arrays: _Arrays) -> object: ...


@dataclass(frozen=True)
class _Plain:
    """What JSON holds as it is."""

    expected: str
    holds: Callable[[object], bool]
    numpy_kinds: str = ""  # letters of np.dtype.kind whose scalars are converted

    def write(self, value: object, path: str, arrays: _Arrays) -> object:
        if isinstance(value, np.generic) and value.dtype.kind in self.numpy_kinds:
            value = value.item()
        if not self.holds(value):
            raise _refused(path, self.expected, value)
        return value

    def read(self, stored: object, path: str, arrays: _Arrays) -> object:
        if not self.holds(stored):
            raise _unexpected(path, self.expected, stored)
        return stored


@dataclass(frozen=True)
class _Float:
    """Finite numbers are JSON numbers (shortest exact decimals), others the hexadecimal digits of their bits."""

    def write(self, value: object, path: str, arrays: _Arrays) -> object:
        if isinstance(value, np.generic) and value.dtype.kind in "iuf" and value.dtype.itemsize <= 8:
            value = value.item()
        if type(value) is int and abs(value) <= 2**53:  # beyond that not every int is a float
            value = float(value)
        if type(value) is not float:
            raise _refused(path, "float, or int up to 2**53", value)
        return value if math.isfinite(value) else struct.pack(">d", value).hex()

    def read(self, stored: object, path: str, arrays: _Arrays) -> object:
        if type(stored) is float:
            return stored
        if isinstance(stored, str) and re.fullmatch("[0-9a-f]{16}", stored):
            return struct.unpack(">d", bytes.fromhex(stored))[0]
        raise _unexpected(path, "float", stored)


@dataclass(frozen=True)
class _Array:
    """The tensor is in C order whatever the array was; the JSON lists its axes from the slowest to the fastest."""

    dtype: np.dtype[np.generic]

    def write(self, value: object, path: str, arrays: _Arrays) -> object:
        if type(value) is not np.ndarray or value.dtype != self.dtype:
            got = f"{value.dtype} in" if isinstance(value, np.ndarray) else "a"
            raise TypeError(f"{path}: expected a numpy array of {self.dtype}, got {got} {type(value).__name__}")
        arrays[path] = np.asarray(value, dtype=self.dtype, order="C")
        axes = list(range(value.ndim))
        return axes if value.flags.c_contiguous else sorted(axes, key=lambda axis: -abs(value.strides[axis]))

    def read(self, stored: object, path: str, arrays: _Arrays) -> object:
        array = arrays.pop(path, None)
        if array is None or array.dtype != self.dtype:
            raise _unexpected(path, f"array of {self.dtype}", stored if array is None else array.dtype)
        axes = [axis for axis in stored if type(axis) is int] if isinstance(stored, list) else []
        if axes != stored or sorted(axes) != list(range(array.ndim)):
            raise _unexpected(path, f"an order of {array.ndim} axes", stored)
        return np.array(array.transpose(axes), order="C").transpose(np.argsort(axes))


@dataclass(frozen=True)
class _Tuple:
    items: tuple[_Form, ...]
    repeats: bool  # the only item, any number of times

    def _forms(self, length: int) -> tuple[_Form, ...]:
        return self.items * length if self.repeats else self.items

    def write(self, value: object, path: str, arrays: _Arrays) -> object:
        if type(value) is not tuple or len(self._forms(len(value))) != len(value):
            raise _refused(path, "tuple" if self.repeats else f"tuple of {len(self.items)}", value)
        pairs = zip(self._forms(len(value)), value, strict=True)
        return [form.write(item, f"{path}[{place}]", arrays) for place, (form, item) in enumerate(pairs)]

    def read(self, stored: object, path: str, arrays: _Arrays) -> object:
        if not isinstance(stored, list) or len(self._forms(len(stored))) != len(stored):
            raise _unexpected(path, "tuple" if self.repeats else f"tuple of {len(self.items)}", stored)
        pairs = zip(self._forms(len(stored)), stored, strict=True)
        return tuple(form.read(item, f"{path}[{place}]", arrays) for place, (form, item) in enumerate(pairs))


@dataclass(frozen=True)
class _Table:
    key: _Form
    item: _Form

    def write(self, value: object, path: str, arrays: _Arrays) -> object:
        if not isinstance(value, Mapping) or type(value) not in (dict, types.MappingProxyType):
            raise _refused(path, "dict", value)
        table: dict[object, object] = {}
        for key, item in value.items():
            place = f"{path}[{json.dumps(str(key))}]"
            table[self.key.write(key, place, arrays)] = self.item.write(item, place, arrays)
        return table

    def read(self, stored: object, path: str, arrays: _Arrays) -> object:
        if not isinstance(stored, dict):
            raise _unexpected(path, "mapping", stored)
        table: dict[object, object] = {}
        for key, item in stored.items():
            place = f"{path}[{json.dumps(key)}]"
            table[self.key.read(key, place, arrays)] = self.item.read(item, place, arrays)
        return table


@dataclass(frozen=True)
class _Optional:
    item: _Form

    def write(self, value: object, path: str, arrays: _Arrays) -> object:
        return None if value is None else self.item.write(value, path, arrays)

    def read(self, stored: object, path: str, arrays: _Arrays) -> object:
        return None if stored is None else self.item.read(stored, path, arrays)


@dataclass(frozen=True)
class _Variant:
    """One of several dataclasses, stored as [name, fields]; the name only picks from the declared ones."""

    members: Mapping[str, "_Record"]

    def write(self, value: object, path: str, arrays: _Arrays) -> object:
        name = type(value).__name__
        if name not in self.members:
            raise _refused(path, f"one of {', '.join(self.members)}", value)
        return [name, self.members[name].write(value, path, arrays)]

    def read(self, stored: object, path: str, arrays: _Arrays) -> object:
        match stored:
            case [str(name), item] if name in self.members:
                return self.members[name].read(item, path, arrays)
        raise _unexpected(path, f"one of {', '.join(self.members)}", stored)


@dataclass(frozen=True, eq=False)
class _Record:
    kind: type
    fields: dict[str, _Form]  # filled after construction, because a kind may contain itself

    def write(self, value: object, path: str, arrays: _Arrays) -> object:
        if type(value) is not self.kind:
            raise _refused(path, self.kind.__name__, value)
        return {name: form.write(getattr(value, name), f"{path}.{name}", arrays) for name, form in self.fields.items()}

    def read(self, stored: object, path: str, arrays: _Arrays) -> object:
        return _built(self.kind, path, self.read_fields(stored, path, arrays))

    def read_fields(self, stored: object, path: str, arrays: _Arrays) -> dict[str, object]:
        if not isinstance(stored, dict):
            raise _unexpected(path, self.kind.__name__, stored)
        if stored.keys() != self.fields.keys():
            missing, extra = sorted(self.fields.keys() - stored.keys()), sorted(stored.keys() - self.fields.keys())
            raise CodecError(f"{path}: fields {missing} are missing and {extra} unknown; use the release that wrote it")
        return {name: form.read(stored[name], f"{path}.{name}", arrays) for name, form in self.fields.items()}


@dataclass(frozen=True)
class _Known:
    """Kinds looked at so far, and those of plugged-in parts that may be read."""

    own: tuple[type, ...] = ()
    records: dict[type, _Record] = field(default_factory=dict)


@dataclass(frozen=True)
class _Plugged:
    """A part's own state, stored as [name, fields]; the name only picks from the kinds that the reader allows."""

    known: _Known

    def write(self, value: object, path: str, arrays: _Arrays) -> object:
        kind = type(value)
        return [kind.__name__, _record(kind, path, self.known).write(value, path, arrays)]

    def read(self, stored: object, path: str, arrays: _Arrays) -> object:
        allowed = {kind.__name__: kind for kind in (Nothing, *self.known.own)}
        match stored:
            case [str(name), item] if name in allowed:
                return _record(allowed[name], path, self.known).read(item, path, arrays)
        raise CodecError(
            f"{path}: expected the state of one of {', '.join(allowed)}, but {stored!r:.80} is stored; "
            "read it with the parts that made it"
        )


# Not isinstance: a bool is no int here, and a member of an enumeration would come back as something else. No
# surrogates: JSON makes one character of two.
_NONE = _Plain("None", lambda value: value is None)
_PLAIN_INT = _Plain("int", lambda value: type(value) is int, "iu")
_PLAIN_STR = _Plain("str without surrogates", lambda v: type(v) is str and not re.search("[\ud800-\udfff]", v), "U")
_PLAIN: Mapping[object, _Form] = {
    bool: _Plain("bool", lambda value: type(value) is bool, "b"),
    int: _PLAIN_INT,
    float: _Float(),
    str: _PLAIN_STR,
    None: _NONE,
    type(None): _NONE,
}


_INT_OR_STR = _Plain(
    "int, or str without surrogates", lambda v: any(form.holds(v) for form in (_PLAIN_INT, _PLAIN_STR)), "iuU"
)


_found: dict[tuple[type, tuple[type, ...]], _Record] = {}  # by kind, and the kinds of parts


def _form_of(kind: type, own: tuple[type, ...] = ()) -> _Record:
    """Return the form of a kind; to find it takes longer than to read or write a small state."""
    form = _found.get((kind, own))
    if form is None:
        form = _found[kind, own] = _record(kind, kind.__name__, _Known(own))
    return form


def _record(kind: type, path: str, known: _Known) -> _Record:
    """Return the form of a dataclass; every kind within reach is looked at, whether a value has one or not."""
    if kind in known.records:
        return known.records[kind]
    if not is_dataclass(kind) or not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]  # typeshed omits
        raise _unknown(path, kind)
    try:
        hints = field_types(kind)
    except NameError as error:
        raise TypeError(f"{path}: {error}; types of fields must be known when the program runs") from error
    record = known.records[kind] = _Record(kind, {})
    unset = [one.name for one in fields(kind) if not one.init]
    unset += [name for name, hint in hints.items() if isinstance(hint, InitVar)]
    if unset:
        raise TypeError(f"{path}: {unset} cannot be set from what is kept; use fields that the constructor takes")
    for one in fields(kind):
        record.fields[one.name] = _form(hints[one.name], f"{path}.{one.name}", known)
    return record


def _form(hint: object, path: str, known: _Known) -> _Form:
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    if hint in _PLAIN:
        return _PLAIN[hint]
    if hint is OwnState:
        return _Plugged(known)
    if isinstance(hint, type) and get_origin(hint) is None:
        return _record(hint, path, known)
    maker = _FORMS.get(get_origin(hint))
    form = maker(get_args(hint), path, known) if maker else None
    if form is None:
        raise _unknown(path, hint)
    return form


def _unknown(path: str, hint: object) -> TypeError:
    return TypeError(f"{path}: {hint.__qualname__ if type(hint) is type else hint} cannot be stored; use {_SUPPORTED}")


def _choice_form(arguments: tuple[object, ...], path: str, known: _Known) -> _Form | None:
    if not all(type(option) in (str, int, bool, type(None)) for option in arguments):
        return None
    # With types, because True equals 1.
    return _Plain(f"one of {arguments}", lambda v: any(type(v) is type(option) and v == option for option in arguments))


def _tuple_form(arguments: tuple[object, ...], path: str, known: _Known) -> _Form:
    repeats = len(arguments) == 2 and arguments[1] is ...
    items = arguments[:1] if repeats else arguments
    return _Tuple(tuple(_form(item, f"{path}[{place}]", known) for place, item in enumerate(items)), repeats)


def _table_form(arguments: tuple[object, ...], path: str, known: _Known) -> _Form | None:
    key, item = (_form(argument, f"{path}[]", known) for argument in arguments)
    names = get_origin(arguments[0]) is Literal and all(isinstance(name, str) for name in get_args(arguments[0]))
    return _Table(key, item) if names or key is _PLAIN[str] else None


def _union_form(arguments: tuple[object, ...], path: str, known: _Known) -> _Form | None:
    forms = [_form(member, path, known) for member in arguments if member is not type(None)]
    if len(forms) == 1:
        return _Optional(forms[0])
    if len(arguments) == 2 and all(form in (_PLAIN_INT, _PLAIN_STR) for form in forms):  # JSON tells them apart
        return _INT_OR_STR
    members = {form.kind.__name__: form for form in forms if isinstance(form, _Record)}
    if len(members) < len(forms):
        return None
    return _Variant(members) if len(forms) == len(arguments) else _Optional(_Variant(members))


def _array_form(arguments: tuple[object, ...], path: str, known: _Known) -> _Form | None:
    scalars = get_args(arguments[-1])
    return _Array(np.dtype(scalars[0])) if len(scalars) == 1 and scalars[0] in _DTYPES else None


_FORMS: Mapping[object, Callable[[tuple[object, ...], str, _Known], _Form | None]] = {
    Literal: _choice_form,
    tuple: _tuple_form,
    dict: _table_form,
    Mapping: _table_form,
    Union: _union_form,
    types.UnionType: _union_form,
    np.ndarray: _array_form,
}
