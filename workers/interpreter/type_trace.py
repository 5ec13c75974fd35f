"""Type trace: compares the interpreter's values with the record of Triton's compiler, expression by expression."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set

from triton.language import core

from workers.interpreter.expression_ids import LOOP
from workers.interpreter.faults import NotInterpretable
from workers.interpreter.formats import TritonType
from workers.interpreter.record import Description, Page, Record, Sheet, describe, format_description

_NOWHERE: Page = {}


class TraceFrame:
    """One call of a function, with its position in the record."""

    __slots__ = ("page", "sheet", "turns")

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self.turn_to(())

    def turn_to(self, turns: tuple[object, ...]) -> None:
        """Go to these iterations of unrolled loops."""
        self.turns = turns
        self.page = self.sheet.get(turns, _NOWHERE)


class TypeTrace:
    """The record of the launch that is interpreted.

    Attributes:
        provided: Functions that translated functions call, by name.
    """

    def __init__(self) -> None:
        self._record: Record = {}
        self.provided: Mapping[str, object] = {
            "__enter__": self._enter, "__as__": as_compiled, "__turns__": turns, "__keep__": keep,
            "__parts__": parts,
        }  # fmt: skip

    def follow(self, record: Record) -> None:
        """Use another record."""
        self._record = record

    def _enter(self, name: str, arguments: tuple[object, ...]) -> TraceFrame:
        given: Description = tuple(map(describe, arguments))
        sheet = self._record.get((name, given))
        if sheet is None:
            raise NotInterpretable(
                f"'{name}' is interpreted with arguments that Triton's compiler does not pass it, or confuses with "
                f"others: {', '.join(map(format_description, given))}"
            )
        return TraceFrame(sheet)


def as_compiled(here: TraceFrame, site: int, value: TritonType) -> object:
    """Return a value after comparison with the compiler's.

    Raises:
        NotInterpretable: If the compiler never reached the expression, or had another type or constant.
    """
    expected = here.page.get(site)
    if type(value) is core.tensor and value.type.name == expected:
        return value
    found = describe(value)
    if found != expected:
        had = "never gets here" if expected is None else f"has {format_description(expected)} here"
        raise NotInterpretable(
            f"Triton's compiler {had}, and the interpreter {format_description(found)}: the two read this in different "
            "ways; write it more plainly"
        )
    return value


def turns(here: TraceFrame, loop: Iterable[object]) -> Iterator[object]:
    """Iterate over a loop; each iteration has its own page if the compiler unrolls the loop."""
    outer = here.turns
    for number in loop:
        if isinstance(number, int):
            here.turn_to((*outer, number))
        yield number
    if here.turns != outer:
        here.turn_to(outer)


def parts(here: TraceFrame | None, values: object, part: Callable[[object], object]) -> tuple[object, ...]:
    """Evaluate a list comprehension over a tuple; each part has its own page.

    Raises:
        NotInterpretable: If the values are no tuple.
    """
    if not isinstance(values, tuple | core.tuple):
        raise NotInterpretable("a list is made of something else than a tuple")
    if here is None:
        return tuple(map(part, values))
    made = []
    outer = here.turns
    for place, value in enumerate(values):
        here.turn_to((*outer, place))
        made.append(part(value))
    here.turn_to(outer)
    return tuple(made)


def keep(here: TraceFrame, loop: int, names: Collection[str], scope: Mapping[str, object]) -> Mapping[str, object]:
    """Return the values that names get back after each iteration of a loop, as the compiler does not carry them."""
    kept = here.page.get((LOOP, loop))
    return {name: scope[name] for name in names if name in kept and name in scope} if isinstance(kept, Set) else {}
