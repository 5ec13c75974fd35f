"""Loading of a Python file: finds its function or module, and makes module and example arguments.

Runs inside the sandbox, because the file is untrusted Python. Nothing has data except constants of the file.
"""

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch

from workers.kernelbench.arguments import SplitCall, put_together, spelled, split_call
from workers.kernelbench.extents import SizeNumber
from workers.kernelbench.hints import hinted
from workers.kernelbench.orders import INTEGERS
from workers.kernelbench.values import ValueOrigin, ValueOrigins
from workers.protocol.kernelbench import (
    EXAMPLES,
    GIVEN,
    MODULE,
    RESULTS,
    Device,
    Form,
    ProblemQuestion,
    objects_of,
    preparation,
)
from workers.protocol.operator import MAX_INPUTS
from workers.tracer.constants import Recorder
from workers.tracer.reference import FILENAME, RAISED
from workers.tracer.without_card import without_card

MOST_MADE = 2**28
"""Maximum elements of all example arguments that are made with data, to look at integers: 1 GiB of float32."""
NEEDED = ("Model", "get_inputs", "get_init_inputs")
"""Names that a problem of KernelBench defines."""


class ProblemUnfit(Exception):
    """The file cannot become an operator; the message has the reason."""


@dataclass(frozen=True)
class ProblemTensor:
    """One tensor of a problem.

    Attributes:
        name: Its name in our spec.
        made: The tensor.
        origin: Origin of its values.
        parameter: Its name in the module; None for an argument of the call.
        sizes: Its shape in each example.
        values: Its values in each example, if they are integers and could be made; otherwise empty.
        optional: True if it is None in some example; these examples tell no sizes.
    """

    name: str
    made: torch.Tensor
    origin: ValueOrigin
    parameter: str | None
    sizes: tuple[tuple[int, ...], ...]
    values: tuple[torch.Tensor, ...] = ()
    optional: bool = False


@dataclass(frozen=True)
class LoadedProblem:
    """A file's computation with its inputs.

    Attributes:
        form: Kind of the computation.
        target: Its name in the file.
        real: True if the module was made with data, because constants in it belong to the reference.
        call: The module, or the function.
        arguments: Tensors and numbers of the call by our names, in order; None for an absent tensor.
        texts: Arguments of the call by name, as Python text over the names of `arguments`.
        keywords: Names of keyword arguments, by position.
        tensors: The arguments that are tensors, then parameters and buffers.
        sizes: Named numbers of its text.
        flatten: Function that lists the tensors of a result.
        recorder: Record of the tensors that the file made.
        hinted: Dimensions that type hints name.
        notes: Notes for readers of the operator.
        objects: Device on which objects among the arguments are made; None if there are none.
        example: Number of the example that the arguments are from; None if the file has only one.
        is_ambiguous: True if a list of lists was taken for several examples, and may be one.
        names: Names of the file.
    """

    form: Form
    target: str
    real: bool
    call: Any
    arguments: Mapping[str, object]
    texts: Mapping[str, str]
    keywords: Mapping[int, str]
    tensors: tuple[ProblemTensor, ...]
    sizes: Mapping[str, int]
    flatten: Callable[[object], tuple[torch.Tensor, ...]]
    recorder: Recorder
    hinted: tuple[SizeNumber, ...]
    notes: tuple[str, ...]
    objects: Device | None
    example: int | None
    is_ambiguous: bool
    names: Mapping[str, Any]

    def called_with(self, values: Mapping[str, object]) -> tuple[tuple[object, ...], dict[str, object]]:
        """Return positional and keyword arguments of the call, with other values of `arguments` or parts of them."""
        given = [*put_together(self.texts, {**self.arguments, **values}, self.names).values()]
        positional = tuple(value for index, value in enumerate(given) if index not in self.keywords)
        return positional, {name: given[index] for index, name in self.keywords.items()}

    @property
    def module(self) -> torch.nn.Module | None:
        """The module; None for a function."""
        return self.call if isinstance(self.call, torch.nn.Module) else None

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of every tensor in the first example."""
        return [tensor.sizes[0] for tensor in self.tensors]


def load(question: ProblemQuestion, *, single: bool = False) -> LoadedProblem:
    """Load a file, with data in its module only if constants of the module need it.

    Args:
        question: The file.
        single: True to take its examples for one, also if they are a list of lists.

    Raises:
        ProblemUnfit: If the file cannot become an operator.
        Exception: Any exception of the file.
    """
    tree = ast.parse(question.source, FILENAME)
    try:
        loading = _Loading(tree, question.target, real=False, single=single)
        needs_data = loading.holds_constants
    except RAISED:
        needs_data = True  # Its constructor may read values.
    return (_Loading(tree, question.target, real=True, single=single) if needs_data else loading).problem()


def loaded_like(tree: ast.Module, problem: LoadedProblem) -> LoadedProblem:
    """Load a file with other numbers than one that is loaded."""
    target = "" if problem.form == "problem" else problem.target.replace("()", "")
    return _Loading(tree, target, real=problem.real, single=problem.example is None).problem()


class _Loading:
    """One run of a file."""

    def __init__(self, tree: ast.Module, target: str, *, real: bool, single: bool) -> None:
        self._real, self._single = real, single
        self._origins, self._recorder = ValueOrigins(), Recorder()
        self._namespace: dict[str, Any] = {"__name__": "reference", "__package__": ""}
        with without_card(), self._recorder, self._origins, torch.no_grad():
            exec(compile(tree, FILENAME, "exec"), self._namespace)
            self._form, self._target = find_target(tree, self._namespace, target)
            try:
                self._prepare(preparation(self._form, self._target, real=real))
            except TypeError as error:
                if "required positional argument" not in str(error):
                    raise
                raise ProblemUnfit(_not_made(self._target)) from error
        self._call = self._namespace["_function" if self._form == "function" else MODULE]
        self._state: list[tuple[str, torch.Tensor]] = []
        self._hinted: tuple[SizeNumber, ...] = ()
        self._ambiguous = self._numbered = False
        self._device: Device = "meta"
        if isinstance(self._call, torch.nn.Module):
            buffers = [(path, value) for path, value in self._call.named_buffers() if not self._is_constant(value)]
            self._state = [*self._call.named_parameters(), *buffers]

    def _prepare(self, text: str) -> None:
        exec(compile(text, "<preparation>", "exec"), self._namespace)

    @property
    def holds_constants(self) -> bool:
        """True if the module has a tensor that the reference must make: a constant buffer, or a plain attribute."""
        if not isinstance(self._call, torch.nn.Module):
            return False
        constant = any(self._is_constant(value) for value in self._call.buffers())
        return constant or any(any(True for _ in _plain_tensors(part)) for part in self._call.modules())

    def _is_constant(self, buffer: torch.Tensor) -> bool:
        """Return True for a buffer with values of its own, such as a mask. Equal numbers are a state to be learned."""
        origin = self._origins.of(buffer)
        return self._recorder.is_constant(buffer) and not (origin.kind == "constant" and origin.low == origin.high)

    def problem(self) -> LoadedProblem:
        """Return the file's computation, with arguments from its examples.

        Raises:
            ProblemUnfit: If it cannot become an operator.
        """
        examples, notes = self._examples()
        calls = [self._named(each) for each in examples]
        given = [call.leaves for call, _ in calls]
        if any(row.keys() != given[0].keys() for row in given):
            raise ProblemUnfit("its examples differ in their tensors")
        optional = _optional(given)
        whole = [number for number, row in enumerate(given) if all(row[name] is not None for name in optional)]
        if not whole:
            raise ProblemUnfit(f"no example gives all of the optional arguments {', '.join(sorted(optional))}")
        (arguments, texts), keywords = calls[whole[0]]
        example = whole[0] if self._numbered else None
        objects = self._make_objects(example) if any(GIVEN in text for text in texts.values()) else None
        tensors = self._tensors(given, whole, optional)
        if not any(tensor.made.dim() for tensor in tensors):
            raise ProblemUnfit("none of its inputs has a dimension")
        if len(tensors) > MAX_INPUTS:
            raise ProblemUnfit(f"it has {len(tensors)} inputs and parameters; an operator takes at most {MAX_INPUTS}")
        return LoadedProblem(
            form=self._form,
            target=self._target,
            real=self._real,
            call=self._call,
            arguments=arguments,
            texts=texts,
            keywords=keywords,
            tensors=tuple(tensors),
            sizes={name: value for name, value in self._namespace.items() if type(value) is int and value > 0},
            flatten=self._namespace[RESULTS],
            recorder=self._recorder,
            hinted=self._hinted,
            notes=(*notes, *_layouts(arguments)),
            objects=objects,
            example=example,
            is_ambiguous=self._ambiguous,
            names=self._namespace,
        )

    def _make_objects(self, example: int | None) -> Device:
        """Make the objects among the arguments as the reference will; returns their device."""
        with without_card(), self._recorder, self._origins, torch.no_grad():
            self._prepare(objects_of(self._form, self._device, example))
        return self._device

    def _tensors(
        self, given: Sequence[Mapping[str, object]], whole: Sequence[int], optional: Set[str]
    ) -> list[ProblemTensor]:
        """Return the tensors of the arguments, then those of the module."""
        rows, made = [given[number] for number in whole], self._made(given, whole)
        tensors = [
            ProblemTensor(
                name,
                value,
                _origin(self._origins.of(value), [row[name] for row in made if name in row]),
                None,
                tuple(_shape(row[name]) for row in rows),
                tuple(row[name] for row in made if name in row),
                optional=name in optional,
            )
            for name, value in rows[0].items()
            if isinstance(value, torch.Tensor)
        ]
        for path, value in self._state:
            name = spelled(path, {*rows[0], *(tensor.name for tensor in tensors)})
            sizes = (tuple(value.shape),) * len(rows)
            tensors.append(ProblemTensor(name, value, self._origins.of(value), path, sizes))
        return tensors

    def _examples(self) -> tuple[list[Any], tuple[str, ...]]:
        """Return the example arguments, one entry per example, and notes on them."""
        maker = self._namespace.get("get_inputs" if self._form == "problem" else EXAMPLES)
        if maker is None:
            # Parameters of the function with a size each; they need no data either.
            with self._recorder, self._origins, torch.device("meta"), without_card():
                found = hinted(self._signature, self._namespace)
            if found is None:
                other = "; get_inputs() counts beside a class Model alone" if "get_inputs" in self._namespace else ""
                raise ProblemUnfit(
                    f"it does not say what '{self._target}' is called with{other}: beside it define {EXAMPLES}(), "
                    "which returns a list of arguments, or give each tensor a hint with dtype and sizes: "
                    'x: "float32[M, 64]"'
                )
            self._hinted = found.dimensions
            return [found.arguments], found.notes
        try:
            with self._recorder, self._origins, torch.no_grad(), torch.device("meta"), without_card():
                return self._separate(maker()), ()
        except RAISED:  # It may read values, which tensors without data do not have.
            self._device = "cpu"
            with without_card(), self._recorder, self._origins, torch.no_grad():
                return self._separate(maker()), ()

    def _separate(self, made: object) -> list[Any]:
        """Return the examples that a function made: one list of arguments or mapping of keywords per example.

        A list of lists is several examples, or the lists that one call takes: as the function's signature allows.
        """
        if isinstance(made, torch.Tensor):
            return [[made]]
        if isinstance(made, Mapping):
            return [made]
        if not isinstance(made, Iterable):
            raise ProblemUnfit(f"its examples are a {type(made).__name__}, not a list of arguments")
        rows: list[Any] = list(made)
        is_nested = bool(rows) and all(isinstance(row, tuple | list | Mapping) for row in rows)
        if self._single or not is_nested:
            return [rows]
        fits, fits_one = all(map(self._takes, rows)), self._takes(rows)
        if fits_one and not fits:
            return [rows]
        first = rows[0]
        if any(len(row) != len(first) or isinstance(row, Mapping) != isinstance(first, Mapping) for row in rows):
            raise ProblemUnfit("its examples differ in their number of arguments")
        self._ambiguous, self._numbered = fits_one, True
        return rows

    def _takes(self, arguments: Sequence[object] | Mapping[str, object]) -> bool:
        """Return True if the signature of the function has room for these arguments."""
        given, named = ((), arguments) if isinstance(arguments, Mapping) else (arguments, {})
        try:
            self._signature.bind(*given, **named)
        except TypeError:
            return False
        return True

    def _made(self, given: Sequence[Mapping[str, object]], whole: Sequence[int]) -> list[dict[str, torch.Tensor]]:
        """Return integers and single numbers of whole examples with data; none if the examples would be too large.

        Functions that make other arguments each time, or fail with data, give none.

        Args:
            given: Arguments of all examples.
            whole: Numbers of those without an absent argument.
        """
        rows = [given[number] for number in whole]
        tensors = [value for row in rows for value in row.values() if isinstance(value, torch.Tensor)]
        if self._hinted or not any(map(_telling_in, rows)):
            return []
        if not any(value.is_meta for value in tensors):
            return [_telling_in(row) for row in rows]
        if sum(value.numel() for value in tensors) > MOST_MADE:
            return []
        try:
            with without_card(), torch.no_grad():
                maker = self._namespace["get_inputs" if self._form == "problem" else EXAMPLES]
                examples = self._separate(maker())
                made = [self._named(examples[number])[0].leaves for number in whole]
            alike = [_shapes_of(row) for row in made] == [_shapes_of(row) for row in rows]
        except RAISED:
            return []
        return [_telling_in(row) for row in made] if alike else []

    @property
    def _signature(self) -> inspect.Signature:
        return signature_of(self._call)

    def _named(self, example: Sequence[object] | Mapping[str, object]) -> tuple[SplitCall, dict[int, str]]:
        """Return an example, split, and the names of arguments that are passed by keyword, by position."""
        if isinstance(example, Mapping):
            keys = {spelled(str(name), set()): name for name in example}
            places = {name: f"[{key!r}]" for name, key in keys.items()}
            split = split_call({name: example[key] for name, key in keys.items()}, places)
            return split, dict(enumerate(map(str, example)))
        parameters = self._signature.parameters.values()
        known = [item.name for item in parameters if item.kind in (item.POSITIONAL_OR_KEYWORD, item.POSITIONAL_ONLY)]
        names: list[str] = []
        for index in range(len(example)):
            names.append(spelled(known[index] if index < len(known) else f"input_{index}", set(names)))
        places = {name: f"[{at}]" for at, name in enumerate(names)}
        return split_call(dict(zip(names, example, strict=True)), places), {}


def _not_made(target: str) -> str:
    """Return the reason why a class that takes settings cannot be used, with the remedy."""
    owner = target.partition("(")[0].partition(".")[0]
    return (
        f"'{owner}' takes arguments: make one in the file, as in `model = {owner}(...)`, and name that, or give its "
        "arguments defaults"
    )


def _layouts(arguments: Mapping[str, object]) -> Iterator[str]:
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
            raise ProblemUnfit(f"'{name}' is a sparse tensor; take its indices and values as arguments")
        if isinstance(value, torch.Tensor) and not value.is_contiguous():
            yield f"'{name}' is not contiguous in the example; kernels are given a contiguous tensor of its shape."


def signature_of(function: Callable[..., object]) -> inspect.Signature:
    """Return the signature of a function, or of a module's `forward`. A builtin function takes any arguments."""
    try:
        return inspect.signature(function.forward if isinstance(function, torch.nn.Module) else function)
    except ValueError:
        return inspect.Signature([inspect.Parameter("inputs", inspect.Parameter.VAR_POSITIONAL)])


def find_target(tree: ast.Module, namespace: Mapping[str, Any], target: str) -> tuple[Form, str]:
    """Find the computation of a file.

    Args:
        tree: Syntax tree of the file.
        namespace: What it defined.
        target: Name of a function or module; empty to take a problem of KernelBench, or the only one.

    Raises:
        ProblemUnfit: If there is none, or there are several.
    """
    if not target and "Model" in namespace and "get_inputs" in namespace:
        missing = [name for name in NEEDED if not callable(namespace.get(name))]
        if missing:
            raise ProblemUnfit(f"it defines no '{missing[0]}'; a problem of KernelBench has {', '.join(NEEDED)}")
        return "problem", "Model"
    if not target:
        target = _only(tree, namespace)
    owner, found = _attribute(namespace, target)
    if owner is not None and (method := _method(owner, found, target)) is not None:
        return method
    if isinstance(found, torch.nn.Module):
        return "module", target
    if isinstance(found, type) and issubclass(found, torch.nn.Module):
        return "class", target
    if not callable(found):
        raise ProblemUnfit(f"'{target}' is a {type(found).__name__}, neither a function nor a module")
    # A function without arguments makes a module; a computation has some.
    return ("function" if signature_of(found).parameters else "class"), target


def _attribute(namespace: Mapping[str, Any], target: str) -> tuple[object, Any]:
    """Return what a dotted name stands for, and what it is an attribute of; None for a name of the file.

    Raises:
        ProblemUnfit: If there is none.
    """
    first, *attributes = target.split(".")
    if first not in namespace:
        raise ProblemUnfit(f"it defines no '{first}'")
    owner, found = None, namespace[first]
    for name in attributes:
        if not hasattr(found, name):
            raise ProblemUnfit(f"it defines no '{target}': '{first}' has no '{name}'")
        owner, found = found, getattr(found, name)
    return owner, found


def _method(owner: object, found: object, target: str) -> tuple[Form, str] | None:
    """Return the form and the text of a method that needs an instance; None for anything else."""
    path, _, name = target.rpartition(".")
    if isinstance(owner, type) and inspect.isfunction(inspect.getattr_static(owner, name)):
        return "method" if issubclass(owner, torch.nn.Module) else "function", f"{path}().{name}"
    return ("method", target) if isinstance(owner, torch.nn.Module) and inspect.ismethod(found) else None


def _only(tree: ast.Module, namespace: Mapping[str, Any]) -> str:
    """Return the name of the only function or module of a file that is not private."""
    defined = [item.name for item in tree.body if isinstance(item, ast.FunctionDef | ast.ClassDef)]
    defined += [
        each.id
        for item in tree.body
        if isinstance(item, ast.Assign)
        for each in item.targets
        if isinstance(each, ast.Name) and isinstance(namespace.get(each.id), torch.nn.Module)
    ]
    names = [name for name in defined if not name.startswith("_") and name != EXAMPLES]
    # Functions and classes that another one uses are its helpers.
    used = {
        node.id
        for item in tree.body
        if getattr(item, "name", "") in (*names, *(name for name in defined if name.startswith("_")))
        for node in ast.walk(item)
        if isinstance(node, ast.Name)
    } | {
        node.id
        for item in tree.body
        if isinstance(item, ast.Assign)
        for node in ast.walk(item.value)
        if isinstance(node, ast.Name)
    }
    roots = [name for name in names if name not in used]
    if len(roots) != 1:
        if not names:
            raise ProblemUnfit("it defines no function and no module")
        raise ProblemUnfit(f"it defines several functions: name one of them, as in FILE:{(roots or names)[0]}")
    return roots[0]


def _telling_in(row: Mapping[str, object]) -> dict[str, torch.Tensor]:
    """Return the tensors whose values tell more than how they were made: integers, and single numbers; by name."""
    tensors = {name: value for name, value in row.items() if isinstance(value, torch.Tensor)}
    return {
        name: value
        for name, value in tensors.items()
        if str(value.dtype).removeprefix("torch.") in INTEGERS or (value.is_floating_point() and not value.dim())
    }


def _origin(origin: ValueOrigin, values: Sequence[torch.Tensor]) -> ValueOrigin:
    """Return the origin of an argument; a single number of unknown origin is near that of the examples."""
    if origin.kind != "unknown" or not values or not values[0].is_floating_point():
        return origin
    found = [float(value) for value in values]
    return ValueOrigin("constant" if len(set(found)) == 1 else "uniform", min(found), max(found))


def _optional(rows: Sequence[Mapping[str, object]]) -> set[str]:
    """Return the names of arguments that are a tensor in one example and None in another."""

    def is_optional(name: str) -> bool:
        values = [row[name] for row in rows]
        return any(value is None for value in values) and any(isinstance(value, torch.Tensor) for value in values)

    return {name for name in rows[0] if is_optional(name)}


def _shapes_of(row: Mapping[str, object]) -> list[object]:
    return [tuple(value.shape) if isinstance(value, torch.Tensor) else None for value in row.values()]


def _shape(value: object) -> tuple[int, ...]:
    if not isinstance(value, torch.Tensor):
        raise ProblemUnfit("an argument is a tensor in one example and none in another")
    return tuple(value.shape)


def _plain_tensors(part: torch.nn.Module) -> Iterator[torch.Tensor]:
    """List the tensors of a module that are neither parameters nor buffers."""
    for value in vars(part).values():
        items = value if isinstance(value, tuple | list) else (value,)
        yield from (item for item in items if isinstance(item, torch.Tensor))
