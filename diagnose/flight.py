"""Dumps of torch's flight recorder: what a rank waited for, read without building an object."""

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NoReturn

from typing_extensions import override

from gpu_node.diagnose.limited import Meter
from gpu_node.diagnose.sources import Log, blocks

_MOST = 16 * 1024 * 1024
_SHOWN = 200
# A dump of 2000 collectives with their stacks has about a million.
_MOST_OPCODES = 3_000_000
# Those of plain things since protocol 2; and how many objects of the stack become a tuple.
_PLAIN = b"".join(
    (
        *(pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK, pickle.MEMOIZE),
        *(pickle.BINPUT, pickle.LONG_BINPUT, pickle.BINGET, pickle.LONG_BINGET),
        *(pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.BINFLOAT),
        *(pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1),
        *(pickle.BINUNICODE, pickle.SHORT_BINUNICODE, pickle.BINUNICODE8),
        *(pickle.BINBYTES, pickle.SHORT_BINBYTES),
        pickle.EMPTY_DICT,
        *(pickle.EMPTY_LIST, pickle.APPEND, pickle.APPENDS),
        *(pickle.GLOBAL, pickle.STACK_GLOBAL),  # both call find_class
    )
)
_TUPLES = {
    **{pickle.EMPTY_TUPLE[0]: 0, pickle.TUPLE1[0]: 1, pickle.TUPLE2[0]: 2, pickle.TUPLE3[0]: 3},
    pickle.TUPLE[0]: -1,
}
_ENTRIES = {pickle.SETITEM[0]: 2, pickle.SETITEMS[0]: -1}


@dataclass(frozen=True)
class Flight:
    """A dump: `waiting` is the first collective that did not end; `error` why it is unread."""

    log: str
    rank: int | None
    waiting: str = ""
    sequence: int | None = None
    error: str = ""


class _Plain(pickle._Unpickler):
    """Builds dicts, lists, texts and numbers alone; of a tuple it makes a list.

    An entry whose key is no text is left out: the hash of nested tuples may take for ever, or more
    stack than there is, and numbers can be chosen so that all have one hash. The unpickler in C
    reserves as much memory for its memo as a pickle says.
    """

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {}
    stack: list[Any]
    append: Callable[[object], None]
    pop_mark: Callable[[], list[Any]]
    _left = _MOST_OPCODES

    @override
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module[:100]}.{name[:100]}")

    def step(self, build: Callable[[Any], None]) -> None:
        """Build one thing, unless there are too many of them."""
        self._left -= 1
        if self._left < 0:
            raise pickle.UnpicklingError(f"more than {_MOST_OPCODES} opcodes")
        build(self)

    def as_list(self, count: int) -> None:
        """Make a list of the last objects of the stack; of -1 those since the mark."""
        items = self.pop_mark() if count < 0 else self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - max(count, 0) :]
        self.append(items)

    def as_entries(self, count: int) -> None:
        """Put pairs of the stack's end into the dict before them; of -1 those since the mark."""
        items = self.pop_mark() if count < 0 else [self.stack.pop() for _ in range(count)][::-1]
        target, pairs = self.stack[-1], zip(items[::2], items[1::2], strict=True)
        if not isinstance(target, dict):
            raise pickle.UnpicklingError("entries of what is no dict")
        target.update((key, value) for key, value in pairs if isinstance(key, str))

    def refuse(self) -> NoReturn:
        raise pickle.UnpicklingError("more than dicts, lists, tuples, texts and numbers")


_Plain.dispatch.update(dict.fromkeys(range(256), _Plain.refuse))
for _code in _PLAIN:
    _Plain.dispatch[_code] = partial(_Plain.step, build=pickle._Unpickler.dispatch[_code])
for _build, _codes in ((_Plain.as_list, _TUPLES), (_Plain.as_entries, _ENTRIES)):
    for _code, _count in _codes.items():
        _Plain.dispatch[_code] = partial(_Plain.step, build=partial(_build, count=_count))


def read_flight(log: Log, meter: Meter | None = None) -> Flight:
    """Return what a dump says; what it is not able to say is in `error`."""
    try:
        return _flight(log, meter or Meter())
    except Exception as error:  # what a broken pickle raises is listed nowhere
        why = str(error) or type(error).__name__
        return Flight(log.name, log.rank, error=f"not a dump of collectives: {why}"[:_SHOWN])


def _flight(log: Log, meter: Meter) -> Flight:
    data = b""
    for block in blocks(log, [], meter):
        data += block
        if len(data) > _MOST:
            raise pickle.UnpicklingError(f"larger than {_MOST >> 20} MiB")
    dump = _Plain(io.BytesIO(data)).load()
    entries = dump.get("entries") if isinstance(dump, dict) else None
    if not entries or not all(isinstance(dict(each).get("state"), str) for each in entries):
        raise pickle.UnpicklingError("no `entries`, or one without a `state`")
    for entry in entries:
        if entry["state"] != "completed":
            sequence = entry.get("collective_seq_id", entry.get("seq_id"))
            number = sequence if isinstance(sequence, int) and 0 <= sequence < 1 << 53 else None
            what = _text(entry.get("profiling_name"), "a collective")
            return Flight(log.name, log.rank, f"{what} ({_text(entry['state'], '?')})", number)
    return Flight(log.name, log.rank)


def _text(value: object, other: str) -> str:
    """Return a text as it is: another object may hold itself many times."""
    return value[:_SHOWN] if isinstance(value, str) else other
