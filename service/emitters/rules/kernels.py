"""Kernels with all their launches, so that a rule can change both sides at once."""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.emitters.rules.patterns import (
    bodies,
    calls,
    expression,
    feeding,
    reads,
    replace,
    statements,
    text,
    unused,
)
from service.operators.sources import LAUNCH_OPTIONS, LaunchSite, decorators, dotted, jit_functions, launches, walk

ALLOCATIONS = ("torch.empty", "torch.empty_like", "torch.zeros", "torch.zeros_like", "torch.full", "torch.full_like")
"""Host calls that return memory which no input shares."""

IMPORTS = {"torch": "torch", "triton": "triton", "triton.language": "tl"}
"""Modules that rules use in code: a candidate must have imported these, under these names."""

MAX_LAUNCHES = 16
"""Maximum number of launches of one kernel; a kernel with more is skipped."""


@dataclass(frozen=True)
class RewritableKernel:
    """Jit function with every use of it in the module: plain launches, each with all arguments known."""

    module: ast.Module
    function: ast.FunctionDef
    launches: tuple[LaunchSite, ...]

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters, in order."""
        return [item.arg for item in self.function.args.args]

    @property
    def constexprs(self) -> set[str]:
        """Compile-time parameters."""
        return {item.arg for item in self.function.args.args if item.annotation and is_constexpr(item.annotation)}

    def argument(self, launch: LaunchSite, parameter: str) -> ast.expr:
        """Return the argument that a launch passes for a parameter."""
        if (place := self.parameters.index(parameter)) < len(launch.call.args):
            return launch.call.args[place]
        return launch.keywords[parameter].value

    def value(self, launch: LaunchSite, parameter: str) -> ast.expr:
        """Return the argument for a parameter, or the value of its host variable if that is assigned once."""
        argument = self.argument(launch, parameter)
        assignment = assigned_once(launch.host, text(argument))
        return assignment.value if assignment else argument

    def add_parameter(self, wish: str, argument: Callable[[LaunchSite], str], *, constexpr: bool = False) -> str:
        """Add a parameter to the kernel, passed by keyword at every launch. Returns its name."""
        name = unused(wish, self.function)
        annotation = expression("tl.constexpr") if constexpr else None
        self.function.args.args.append(ast.arg(name, annotation))
        for launch in self.launches:
            options = [item for item in launch.call.keywords if item.arg in LAUNCH_OPTIONS]
            others = [item for item in launch.call.keywords if item.arg not in LAUNCH_OPTIONS]
            added = ast.keyword(name, expression(argument(launch)))
            launch.call.keywords = [*others, added, *options]
        return name

    def set_argument(self, launch: LaunchSite, parameter: str, code: str) -> None:
        """Change the argument of a launch, in its host variable if there is one."""
        argument = self.argument(launch, parameter)
        assignment = assigned_once(launch.host, text(argument))
        replace(assignment or launch.call, assignment.value if assignment else argument, expression(code))

    def name_argument(self, launch: LaunchSite, parameter: str) -> str:
        """Make sure that a launch passes a host variable for a parameter. Returns the variable's name."""
        argument = self.argument(launch, parameter)
        if isinstance(argument, ast.Name):
            return argument.id
        name = introduce(launch, parameter, text(argument))
        replace(launch.call, argument, expression(name))
        return name

    def pointers(self) -> list[str]:
        """Parameters that the kernel loads from or stores to, in order."""
        found = _roots(self, "tl.load", "tl.store")
        return [name for name in self.parameters if name in found]


def kernels(module: ast.Module) -> Iterator[RewritableKernel]:
    """Yield kernels whose every use is understood."""
    if not _has_imports(module):
        return
    found = launches(module)
    for name, function in jit_functions(module).items():
        kernel = RewritableKernel(module, function, tuple(item for item in found if item.kernel is function))
        nodes = list(walk(module))
        uses = sum(isinstance(node, ast.Name) and node.id == name for node in nodes)
        uses += sum(isinstance(node, ast.FunctionDef) and node.name == name for node in nodes) - 1
        if 0 < len(kernel.launches) == uses <= MAX_LAUNCHES and _is_plain(function) and _binds_all(kernel):
            yield kernel


def in_clusters(module: ast.Module) -> list[ast.FunctionDef]:
    """Return kernels that some launch starts with clusters of thread blocks."""
    return [item.kernel for item in launches(module) if "num_ctas" in item.keywords]


def grid(launch: LaunchSite) -> list[ast.expr] | None:
    """Return the number of programs along each axis of a launch; None if the grid is not written as a tuple.

    A grid in a host variable or in a lambda is resolved; `meta["BLOCK"]` becomes the argument of the launch.
    """
    node = launch.subscript.slice
    if isinstance(node, ast.Name) and (assignment := assigned_once(launch.host, node.id)):
        node = assignment.value
    meta = None
    if isinstance(node, ast.Lambda) and len(node.args.args) == 1:
        meta, node = node.args.args[0].arg, node.body
    if not isinstance(node, ast.Tuple):
        return None
    extents = [item if meta is None else _without_meta(item, meta, launch) for item in node.elts]
    known = [item for item in extents if item is not None]
    return known if len(known) == len(extents) else None


def set_grid(launch: LaunchSite, extents: Sequence[str]) -> None:
    """Write the grid of a launch in place; its host variable is removed if nothing else reads it."""
    carrier = text(launch.subscript.slice)
    launch.subscript.slice = expression(f"({', '.join(extents)},)")
    assignment = assigned_once(launch.host, carrier)
    if assignment and carrier not in reads(launch.host):
        next(body for body in bodies(launch.host) if assignment in body).remove(assignment)


def introduce(launch: LaunchSite, wish: str, code: str) -> str:
    """Assign a new host variable just before a launch. Returns its name."""
    name = unused(wish, launch.host)
    body = [item for item in bodies(launch.host) if any(_holds(statement, launch.call) for statement in item)][-1]
    place = next(index for index, statement in enumerate(body) if _holds(statement, launch.call))
    body[place:place] = statements(f"{name} = {code}")
    return name


def declare(launch: LaunchSite, wish: str, number: int) -> str:
    """Assign a number to a new variable at the top of a launch's host, so that `tune` finds it. Returns its name."""
    name = unused(wish, launch.host)
    launch.host.body[0:0] = statements(f"{name} = {number}")
    return name


def assigned_once(host: ast.FunctionDef, name: str) -> ast.Assign | None:
    """Return the assignment of a host variable that has exactly one and is no parameter; else None."""
    stores = sum(isinstance(node, ast.Name) and node.id == name and not _is_load(node) for node in walk(host))
    if stores != 1 or name in {node.arg for node in walk(host) if isinstance(node, ast.arg)}:
        return None
    assignments = (node for node in walk(host) if isinstance(node, ast.Assign) and len(node.targets) == 1)
    return next((node for node in assignments if dotted(node.targets[0]) == name), None)


def is_settled(host: ast.FunctionDef, node: ast.expr) -> bool:
    """Return True if an expression means the same wherever the host writes it: its names are bound once."""
    stored = [item.id for item in walk(host) if isinstance(item, ast.Name) and not _is_load(item)]
    bound = [*stored, *(item.arg for item in walk(host) if isinstance(item, ast.arg))]
    return all(bound.count(name) <= 1 for name in reads(node))


def is_private(launch: LaunchSite, argument: ast.expr, found: Sequence[LaunchSite]) -> bool:
    """Return True if a change of an argument's value affects no other launch."""
    return not isinstance(argument, ast.Name) or not any(
        argument.id in origins(other.host, other.call) for other in found if other.call is not launch.call
    )


def is_constexpr(annotation: ast.expr) -> bool:
    """Return True if an annotation marks a compile-time value."""
    return dotted(annotation) in ("tl.constexpr", "constexpr", "triton.language.constexpr")


def writes_apart(kernel: RewritableKernel) -> bool:
    """Return True if every store goes to memory that the host just allocated and that the kernel never loads.

    Returns False for kernels with atomics or device functions of their own.
    """
    functions = [dotted(node.func) for node in walk(kernel.function) if isinstance(node, ast.Call)]
    if any("atomic" in name or name in jit_functions(kernel.module) for name in functions):
        return False
    stored, loaded = _roots(kernel, "tl.store"), _roots(kernel, "tl.load")
    if None in stored | loaded:
        return False
    return all(_is_apart(kernel, launch, stored, loaded) for launch in kernel.launches)


def _is_apart(kernel: RewritableKernel, launch: LaunchSite, stored: set[str | None], loaded: set[str | None]) -> bool:
    outputs = [text(kernel.argument(launch, name)) for name in stored if name]
    inputs = [origins(launch.host, kernel.argument(launch, name)) for name in loaded if name]
    allocated = [assigned_once(launch.host, name) for name in outputs]
    fresh = all(item and dotted(getattr(item.value, "func", item)) in ALLOCATIONS for item in allocated)
    return fresh and len(set(outputs)) == len(outputs) and not any(set(outputs) & names for names in inputs)


def origins(host: ast.FunctionDef, node: ast.AST) -> set[str]:
    """Return names that a host expression's value may come from, through every assignment."""
    return feeding([item for item in walk(host) if isinstance(item, ast.Assign)], node)


def _roots(kernel: RewritableKernel, *accesses: str) -> set[str | None]:
    """Return the parameters that the pointers of some accesses start from; None among them if one is not known."""
    values = {
        node.targets[0].id: node.value
        for node in walk(kernel.function)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    return {_root(call.args[0], kernel, values) for call in calls(kernel.function, *accesses)}


def _root(pointer: ast.expr, kernel: RewritableKernel, values: Mapping[str, ast.expr]) -> str | None:
    seen: set[str] = set()
    while True:
        while isinstance(pointer, ast.BinOp):
            pointer = pointer.left
        name = dotted(pointer)
        if name not in values or name in seen:
            return name if name in kernel.parameters and name not in values else None
        seen.add(name)
        pointer = values[name]


def _without_meta(node: ast.expr, meta: str, launch: LaunchSite) -> ast.expr | None:
    """Replace `meta["BLOCK"]` in a grid expression by the launch's argument; None if it reads anything else."""
    holder = ast.Tuple([expression(text(node))], ast.Load())
    for item in [item for item in walk(holder) if isinstance(item, ast.Subscript) and text(item.value) == meta]:
        key = item.slice.value if isinstance(item.slice, ast.Constant) else None
        if key not in launch.keywords:
            return None
        replace(holder, item, launch.keywords[key].value)
    return None if meta in reads(holder) else holder.elts[0]


def _has_imports(module: ast.Module) -> bool:
    found = [alias for node in module.body if isinstance(node, ast.Import) for alias in node.names]
    names = {alias.asname or alias.name: alias.name for alias in found}
    return all(names.get(name) == package for package, name in IMPORTS.items())


def _is_plain(function: ast.FunctionDef) -> bool:
    """Return True if a kernel has no decorator but jit, and a parameter list without defaults and stars."""
    arguments = function.args
    extras = (*arguments.posonlyargs, *arguments.kwonlyargs, *arguments.defaults, arguments.vararg, arguments.kwarg)
    return decorators(function) == ["triton.jit"] and not any(extras)


def _binds_all(kernel: RewritableKernel) -> bool:
    return all(_binds(kernel, launch) for launch in kernel.launches)


def _binds(kernel: RewritableKernel, launch: LaunchSite) -> bool:
    """Return True if a launch passes every parameter once, without stars, in the host's own scope."""
    call = launch.call
    given = kernel.parameters[: len(call.args)] + [name for name in launch.keywords if name not in LAUNCH_OPTIONS]
    starred = any(isinstance(item, ast.Starred) for item in call.args) or any(not item.arg for item in call.keywords)
    scopes = (ast.Lambda, ast.FunctionDef, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
    inner = (node for node in walk(launch.host) if isinstance(node, scopes) and node is not launch.host)
    return sorted(given) == sorted(kernel.parameters) and not starred and not any(_holds(node, call) for node in inner)


def _holds(root: ast.AST, node: ast.AST) -> bool:
    return any(item is node for item in walk(root))


def _is_load(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)
