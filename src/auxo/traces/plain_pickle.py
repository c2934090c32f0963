"""Pickles of plain data, read without running them: dicts, lists, tuples, texts, numbers, None, true and false.

Keys of dicts are texts, numbers, None, true and false.

A pickle is a program for a small machine with a stack. Most of its opcodes put data together; a few import and call
whatever the writer of the file liked. This machine knows only the former and refuses a file at the first of the
others, so the worst that a file can do is to be refused.
"""

import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import final

from auxo.files.errors import FileError, file_error

_NUMBERS = ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT")
_TEXTS = ("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
_VALUES = frozenset((*_NUMBERS, *_TEXTS))
_KEYS = (str, int, float, type(None))  # of dicts; true and false are whole numbers
_REMEDY = "write it again from plain dicts, lists, texts and numbers, on a machine where you trust it"


def read_plain_pickle(path: Path) -> object:
    """Return the value in a pickle of any protocol; nothing in it is executed.

    Time and memory are in proportion to the size of the file. Parts that the file mentions twice are shared.

    Raises:
        FileError: the file is missing, damaged, or holds anything but plain data; then the opcode is named.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise file_error(path, "file", "a pickle", "no such file", "check the path") from error
    except IsADirectoryError as error:
        raise file_error(path, "file", "a pickle", "a folder", "name the file in it") from error
    machine = _Machine()
    actions: dict[str, Callable[[], None]] = machine.actions()
    position: int | None = 0
    try:
        for opcode, argument, at in pickletools.genops(data):
            position, name = at, opcode.name
            if name in _VALUES:
                machine.stack.append(argument)
            elif name in actions:
                actions[name]()
            elif name in ("BINGET", "LONG_BINGET", "GET"):
                machine.stack.append(machine.memo[argument])
            elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
                machine.memo[argument] = machine.stack[-1]
            elif name == "STOP":
                return machine.result()
            elif name not in ("PROTO", "FRAME"):
                place, expected = f"byte {at}, opcode {name}", "plain data only"
                got = "an opcode that imports, calls or builds other objects"
                raise file_error(path, place, expected, got, f"nothing was executed; {_REMEDY}")
    except FileError:
        raise
    except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
        got = f"a damaged or cut one ({str(error) or type(error).__name__})"
        raise file_error(path, f"byte {position}", "a whole pickle", got, "get the file again") from error
    raise file_error(path, f"byte {position}", "a whole pickle", "one without an end", "get the file again")


@final
class _Machine:
    """The stack and the memo of a pickle, and what opcodes without an argument do to them."""

    def __init__(self) -> None:
        self.stack: list[object] = []
        self.memo: dict[object, object] = {}
        self._below: list[list[object]] = []  # one stack for each mark that is open, the outermost first

    def actions(self) -> dict[str, Callable[[], None]]:
        return {
            "MARK": self._mark,
            "MEMOIZE": self._memoize,
            "NONE": lambda: self._put(None),
            "NEWTRUE": lambda: self._put(True),
            "NEWFALSE": lambda: self._put(False),
            "EMPTY_DICT": lambda: self._put({}),
            "EMPTY_LIST": lambda: self._put([]),
            "EMPTY_TUPLE": lambda: self._put(()),
            "DICT": lambda: self._put_dict(self._since_mark()),
            "LIST": lambda: self._put(self._since_mark()),
            "TUPLE": lambda: self._put(tuple(self._since_mark())),
            "TUPLE1": lambda: self._put(self._last(1)),
            "TUPLE2": lambda: self._put(self._last(2)),
            "TUPLE3": lambda: self._put(self._last(3)),
            "APPEND": lambda: self._extend(self._last(1)),
            "APPENDS": lambda: self._extend(self._since_mark()),
            "SETITEM": lambda: self._set(self._last(2)),
            "SETITEMS": lambda: self._set(self._since_mark()),
        }

    def result(self) -> object:
        if len(self.stack) != 1 or self._below:
            raise ValueError(f"{len(self.stack)} values and {len(self._below)} open marks at its end")
        return self.stack[0]

    def _put(self, value: object) -> None:
        self.stack.append(value)  # the stack of now: to find the value may have closed a mark

    def _mark(self) -> None:
        self._below.append(self.stack)
        self.stack = []

    def _since_mark(self) -> list[object]:
        items, self.stack = self.stack, self._below.pop()
        return items

    def _memoize(self) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def _last(self, number: int) -> tuple[object, ...]:
        if len(self.stack) < number:
            raise IndexError("too few values on the stack")
        items = tuple(self.stack[-number:])
        del self.stack[-number:]
        return items

    def _extend(self, items: list[object] | tuple[object, ...]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise TypeError(f"items for a list, but it is a {type(target).__name__}")
        target.extend(items)

    def _put_dict(self, items: list[object]) -> None:
        self._put({})
        self._set(items)

    def _set(self, items: list[object] | tuple[object, ...]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise TypeError(f"keys and values for a dict, but it is a {type(target).__name__}")
        keys = items[::2]
        for key in keys:
            # A tuple is hashed anew each time, with all that is in it: one in another, often enough, never comes back.
            if not isinstance(key, _KEYS):
                raise TypeError(f"texts and numbers for keys, but one is a {type(key).__name__}")
        target.update(zip(keys, items[1::2], strict=True))
