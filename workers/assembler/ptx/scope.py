"""Names that a function may use, by place."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from workers.assembler.ptx.syntax import PtxBlock, PtxFunction, PtxInstruction, PtxLabel, PtxModule, PtxVariable
from workers.assembler.refusal import AssemblyRefused

_RESERVED = re.compile(r"(kernel|(function|const|shared|global|parameter)_\d+)\Z")
"""Names that canonical text uses."""
_RESERVED_COUNTED = re.compile(r"(function|const|shared|global|parameter)_\d*\Z")
"""Prefixes of counted registers that, with a number, are names that canonical text uses."""
_COMPILER_REGISTERS = frozenset(("%p", "%rs", "%r", "%rd", "%rq", "%f", "%fd", "%h", "%hh", "%SP", "%SPL"))
"""The only names with a percent sign that LLVM's PTX back end declares; all others are special registers."""
_COMPONENT = re.compile(r"\.[xyzwrgba]\Z")
_COUNT_DIGITS = 8


def without_component(name: str) -> str:
    """Return the register of a component such as `v.x`; other names unchanged."""
    return _COMPONENT.sub("", name) if "." in name else name


class BlockNames:
    """Names that are declared at one place of a function: in its block so far, and in the blocks around it."""

    def __init__(self, known: frozenset[str], outer: "BlockNames | None" = None) -> None:
        """Start a block.

        Args:
            known: Names that are valid everywhere in the function: labels and module-scope variables.
            outer: Names of the surrounding block.
        """
        self._known = known
        self._outer = outer
        self._own: dict[str, PtxVariable] = {}
        self._counted: dict[str, PtxVariable] = {}
        self._found: dict[str, PtxVariable | None] = {}

    def add(self, variable: PtxVariable) -> None:
        """Declare a variable, or its counted registers."""
        self._found.clear()
        if not variable.count:
            self._own[variable.name] = variable
        elif variable.name not in self._counted or self._counted[variable.name].count < variable.count:
            self._counted[variable.name] = variable

    def inside(self) -> "BlockNames":
        """Return the names at the beginning of a block inside this one."""
        return BlockNames(self._known, self)

    def declares(self, name: str) -> bool:
        """Return True if an operand may use this name: a local, a label, module memory, or a register's component."""
        return name in self._known or self.find(without_component(name)) is not None

    def find(self, name: str) -> PtxVariable | None:
        """Return the nearest local variable of this name; None if there is none."""
        if name not in self._found:
            found = self._own.get(name) or self._find_counted(name)
            self._found[name] = found or (self._outer.find(name) if self._outer else None)
        return self._found[name]

    def _find_counted(self, name: str) -> PtxVariable | None:
        """Return the variable `%r<count>` that covers the name: a prefix with a number below its count."""
        for cut in range(len(name) - 1, max(0, len(name) - _COUNT_DIGITS - 1), -1):
            number = name[cut:]
            if not number.isdigit():
                return None
            variable = self._counted.get(name[:cut])
            if variable and str(int(number)) == number and int(number) < variable.count:
                return variable
        return None


@dataclass(frozen=True, slots=True)
class ModuleNames:
    """Names of a module's functions and variables."""

    functions: frozenset[str]
    variables: frozenset[str]

    @classmethod
    def of(cls, module: PtxModule) -> "ModuleNames":
        """Collect the names of a module."""
        functions = frozenset(item.name for item in module.functions)
        return cls(functions, frozenset(item.name for item in module.variables))


class NameScope:
    """Names of a function and of the module around it.

    A local name must not equal a name of the module: hiding is refused rather than resolved. As in the assembler, a
    block's names are not valid after its end.

    Attributes:
        function: The function.
        functions: Functions of the module.
        labels: Labels of this function.
    """

    def __init__(self, function: PtxFunction, outside: ModuleNames) -> None:
        """Collect the names.

        Raises:
            AssemblyRefused: If a local name hides a name of the module, a parameter, a special register or a name that
                canonical text uses.
        """
        self.function = function
        self.functions = outside.functions
        items = tuple(function.body.walk()) if function.body else ()
        self.labels = frozenset(item.name for item in items if isinstance(item, PtxLabel))
        self._parameters = (*function.parameters, *function.results)
        self._known = outside.variables | self.labels
        self._check([item for item in items if isinstance(item, PtxVariable)], outside)

    def steps(self) -> Iterator[tuple[PtxInstruction, BlockNames]]:
        """Yield all instructions in order of the text, each with the names that are declared there."""
        names = BlockNames(self._known)
        for item in self._parameters:
            names.add(item)
        if self.function.body:
            yield from _steps(self.function.body, names)

    def _check(self, variables: list[PtxVariable], outside: ModuleNames) -> None:
        outer = outside.functions | outside.variables
        parameters = {item.name for item in self._parameters}
        local = {item.name for item in variables if not item.count} | self.labels
        counted = BlockNames(frozenset())
        for item in variables:
            if item.count:
                counted.add(item)
        prefixes = {item.name for item in variables if item.count}
        for name in parameters | local | prefixes:
            special = name.startswith("%") and name not in _COMPILER_REGISTERS
            reserved = (name in local and _RESERVED.match(name)) or (name in prefixes and _RESERVED_COUNTED.match(name))
            hides = name in outer or (name in parameters and name in local)
            if hides or special or reserved or "." in name or "::" in name:
                raise AssemblyRefused(f"the name '{name}' inside '{self.function.name}' is taken", self.function.line)
        for name in outer | parameters:
            if counted.find(name):
                raise AssemblyRefused(
                    f"the name '{name}' is also a register of '{self.function.name}'", self.function.line
                )


def scopes(module: PtxModule) -> Iterator[NameScope]:
    """Return the scope of each function of a module.

    Raises:
        AssemblyRefused: As `NameScope` does.
    """
    outside = ModuleNames.of(module)
    return (NameScope(function, outside) for function in module.functions)


def _steps(block: PtxBlock, names: BlockNames) -> Iterator[tuple[PtxInstruction, BlockNames]]:
    for statement in block.statements:
        if isinstance(statement, PtxBlock):
            yield from _steps(statement, names.inside())
        elif isinstance(statement, PtxVariable):
            names.add(statement)
        elif isinstance(statement, PtxInstruction):
            yield statement, names
