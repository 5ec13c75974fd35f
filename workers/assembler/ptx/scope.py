"""The names that a function may use, and where it may use them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from workers.assembler.ptx.syntax import Block, Function, Instruction, Label, Module, Variable
from workers.assembler.refusal import Refused

_RESERVED = re.compile(r"(kernel|(function|const|shared|global|parameter)_\d+)\Z")
"""Names that canonical text gives."""
_RESERVED_COUNTED = re.compile(r"(function|const|shared|global|parameter)_\d*\Z")
"""Beginnings of counted names that, with a number behind them, are names that canonical text gives."""
_COMPILER_REGISTERS = frozenset(("%p", "%rs", "%r", "%rd", "%rq", "%f", "%fd", "%h", "%hh", "%SP", "%SPL"))
"""The only names with a percent sign that LLVM's PTX back end declares; all others are special registers."""
_COMPONENT = re.compile(r"\.[xyzwrgba]\Z")
_COUNT_DIGITS = 8


def without_component(name: str) -> str:
    """The register that a name such as `v.x` is a component of; other names as they are."""
    return _COMPONENT.sub("", name) if "." in name else name


class Names:
    """The names that are declared at one place of a function: those of its block so far, and of the blocks around."""

    def __init__(self, known: frozenset[str], outer: "Names | None" = None) -> None:
        """Start a block.

        Args:
            known: Names that hold everywhere in the function: labels and module-scope variables.
            outer: Names of the block around.
        """
        self._known = known
        self._outer = outer
        self._own: dict[str, Variable] = {}
        self._counted: dict[str, Variable] = {}
        self._found: dict[str, Variable | None] = {}

    def add(self, variable: Variable) -> None:
        """Declare a variable, or as many registers as it counts."""
        self._found.clear()
        if not variable.count:
            self._own[variable.name] = variable
        elif variable.name not in self._counted or self._counted[variable.name].count < variable.count:
            self._counted[variable.name] = variable

    def inside(self) -> "Names":
        """The names at the beginning of a block inside this one."""
        return Names(self._known, self)

    def declares(self, name: str) -> bool:
        """Whether an operand may say this name: a local one, a label, module memory, or a register's component."""
        return name in self._known or self.find(without_component(name)) is not None

    def find(self, name: str) -> Variable | None:
        """The nearest local variable of this name, None if there is none."""
        if name not in self._found:
            found = self._own.get(name) or self._find_counted(name)
            self._found[name] = found or (self._outer.find(name) if self._outer else None)
        return self._found[name]

    def _find_counted(self, name: str) -> Variable | None:
        """The variable `%r<count>` that the name is one of: a prefix with a number below its count."""
        for cut in range(len(name) - 1, max(0, len(name) - _COUNT_DIGITS - 1), -1):
            number = name[cut:]
            if not number.isdigit():
                return None
            variable = self._counted.get(name[:cut])
            if variable and str(int(number)) == number and int(number) < variable.count:
                return variable
        return None


@dataclass(frozen=True, slots=True)
class Outside:
    """Names of a module: of its functions and of its variables."""

    functions: frozenset[str]
    variables: frozenset[str]

    @classmethod
    def of(cls, module: Module) -> "Outside":
        """Collect them."""
        functions = frozenset(item.name for item in module.functions)
        return cls(functions, frozenset(item.name for item in module.variables))


class Scope:
    """Names of a function and of the module around it.

    A name is never both one of the module and a local one: hiding is refused rather than resolved. Blocks of a function
    are held apart, as the assembler does: what one declares is not there behind its end.

    Attributes:
        function: The function.
        functions: Functions of the module.
        labels: Labels of this function.
    """

    def __init__(self, function: Function, outside: Outside) -> None:
        """Collect the names.

        Raises:
            Refused: If a local name hides one of the module, a parameter, a special register or one that canonical text
                uses.
        """
        self.function = function
        self.functions = outside.functions
        items = tuple(function.body.walk()) if function.body else ()
        self.labels = frozenset(item.name for item in items if isinstance(item, Label))
        self._parameters = (*function.parameters, *function.results)
        self._known = outside.variables | self.labels
        self._check([item for item in items if isinstance(item, Variable)], outside)

    def steps(self) -> Iterator[tuple[Instruction, Names]]:
        """All instructions in order of the text, each with the names that are declared where it stands."""
        names = Names(self._known)
        for item in self._parameters:
            names.add(item)
        if self.function.body:
            yield from _steps(self.function.body, names)

    def _check(self, variables: list[Variable], outside: Outside) -> None:
        outer = outside.functions | outside.variables
        parameters = {item.name for item in self._parameters}
        local = {item.name for item in variables if not item.count} | self.labels
        counted = Names(frozenset())
        for item in variables:
            if item.count:
                counted.add(item)
        prefixes = {item.name for item in variables if item.count}
        for name in parameters | local | prefixes:
            special = name.startswith("%") and name not in _COMPILER_REGISTERS
            reserved = (name in local and _RESERVED.match(name)) or (name in prefixes and _RESERVED_COUNTED.match(name))
            hides = name in outer or (name in parameters and name in local)
            if hides or special or reserved or "." in name or "::" in name:
                raise Refused(f"the name '{name}' inside '{self.function.name}' is taken", self.function.line)
        for name in outer | parameters:
            if counted.find(name):
                raise Refused(f"the name '{name}' is a register of '{self.function.name}' too", self.function.line)


def scopes(module: Module) -> Iterator[Scope]:
    """The scope of each function of a module.

    Raises:
        Refused: As `Scope` does.
    """
    outside = Outside.of(module)
    return (Scope(function, outside) for function in module.functions)


def _steps(block: Block, names: Names) -> Iterator[tuple[Instruction, Names]]:
    for statement in block.statements:
        if isinstance(statement, Block):
            yield from _steps(statement, names.inside())
        elif isinstance(statement, Variable):
            names.add(statement)
        elif isinstance(statement, Instruction):
            yield statement, names
