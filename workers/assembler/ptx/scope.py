"""The names that a function may use."""

import re

from workers.assembler.ptx.syntax import Function, Label, Module, Variable
from workers.assembler.refusal import Refused

_RESERVED = re.compile(r"(kernel|(function|const|shared|global|parameter)_\d+)\Z")
"""Names that canonical text gives."""
_COMPILER_REGISTERS = frozenset(("%p", "%rs", "%r", "%rd", "%rq", "%f", "%fd", "%h", "%hh", "%SP", "%SPL"))
"""The only names with a percent sign that LLVM's PTX back end declares; all others are special registers."""
_COMPONENT = re.compile(r"\.[xyzwrgba]\Z")


class Scope:
    """Names of a function and of the module around it.

    A name means one thing in all of a function's blocks, since no local name may hide one of the module: hiding is
    refused rather than resolved.

    Attributes:
        functions: Functions of the module.
        labels: Labels of this function.
    """

    def __init__(self, function: Function, module: Module) -> None:
        """Collect the names.

        Raises:
            Refused: If a local name hides one of the module, a special register or one that canonical text uses.
        """
        self.functions = frozenset(item.name for item in module.functions)
        self._shared = frozenset(item.name for item in module.variables)
        self._counts: dict[str, int] = {}
        parameters = {item.name for item in (*function.parameters, *function.results)}
        labels, names = set(), set()
        for item in function.body.walk() if function.body else ():
            if isinstance(item, Label):
                labels.add(item.name)
            elif isinstance(item, Variable) and item.count:
                self._counts[item.name] = max(item.count, self._counts.get(item.name, 0))
            elif isinstance(item, Variable):
                names.add(item.name)
        self.labels = frozenset(labels)
        self._names = frozenset(names | labels | parameters)
        self._known: dict[str, bool] = {}
        self._check(function, names | labels)

    def _check(self, function: Function, reservable: set[str]) -> None:
        outer = self.functions | self._shared
        for name in (*self._names, *self._counts):
            special = name.startswith("%") and name not in _COMPILER_REGISTERS
            reserved = name in reservable and _RESERVED.match(name)
            if name in outer or special or reserved or "." in name or "::" in name:
                raise Refused(f"the name '{name}' inside '{function.name}' is taken", function.line)
        for name in outer:
            if self._is_counted(name):
                raise Refused(f"the name '{name}' is a register of '{function.name}' too", function.line)

    def declares(self, name: str) -> bool:
        """Whether an operand may say this name: a local one, a label, module memory, or a register's component."""
        known = self._known.get(name)
        if known is None:
            base = _COMPONENT.sub("", name)
            known = self._known[name] = name in self._shared or base in self._names or self._is_counted(base)
        return known

    def _is_counted(self, name: str) -> bool:
        """Whether the name is one of `%r<count>`: a prefix with a number below its count."""
        for cut in range(len(name) - 1, max(0, len(name) - 9), -1):
            number = name[cut:]
            if not number.isdigit():
                return False
            if str(int(number)) == number and int(number) < self._counts.get(name[:cut], 0):
                return True
        return False
