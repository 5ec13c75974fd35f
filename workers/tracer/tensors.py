"""Tensors without data that claim to live on the target: torch's meta tensors behind a function mode.

Inside torch they stay meta tensors; only the candidate's own queries are answered for the target. Calls that need a
value are refused here, where they still have the name that the candidate wrote.
"""

from collections.abc import Callable, Mapping, Sequence
from types import GetSetDescriptorType
from typing import Any

import torch
import torch.utils._device  # Loaded by `with torch.device(...)` on behalf of its caller, who may not import it.
from torch.overrides import TorchFunctionMode

from workers.protocol import Outcome
from workers.tracer.fake_device import DEVICE
from workers.tracer.refusal import TraceRefused

_META = torch.device("meta")

_READS = frozenset(
    {
        *("item", "tolist", "numpy", "cpu", "equal", "allclose", "nonzero", "argwhere", "unique", "masked_select"),
        *("is_nonzero", "__bool__", "__int__", "__float__", "__index__", "__complex__", "__contains__", "__array__"),
        *("__dlpack__", "__repr__", "__format__", "__reduce_ex__", "__deepcopy__", "to_dlpack", "_from_dlpack"),
    }
)
# Functions of torch that give values to the host.
_READS_BY_SYNTAX = {
    "__bool__": "as a condition",
    "__format__": "to print it",
    "__repr__": "to print it",
    "__int__": "int",
    "__float__": "float",
    "__index__": "as an index or a size",
    "__contains__": "in",
}
# Syntax that the candidate wrote instead of such a name.
_UPLOADS = (torch.tensor, torch.as_tensor, torch.asarray, torch.from_numpy)
_SHAPES_ONLY = "while tracing tensors have no values: decide on shapes, strides and dtypes, or inside the kernel"
_UPLOAD = (
    "host code copies host data to the device: compute it in a kernel, pass numbers as launch arguments, or make a "
    "table of them an input of the operator"
)

Args = Sequence[Any]
Kwargs = Mapping[str, Any]


class TargetTensors(TorchFunctionMode):
    """Mode in which meta tensors answer as tensors of the target; `address_of` gives their fake addresses."""

    def __init__(self, address_of: Callable[[torch.Tensor], int]) -> None:
        super().__init__()
        self._answers: dict[object, Callable[[torch.Tensor], object]] = {
            _property("device").__get__: lambda _: DEVICE,
            _property("is_cuda").__get__: lambda _: True,
            _property("is_meta").__get__: lambda _: False,
            torch.Tensor.get_device: lambda _: 0,
            torch.Tensor.data_ptr: address_of,
            torch.Tensor.cuda: lambda tensor: tensor,
            torch.Tensor.record_stream: lambda _: None,
        }

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> object:
        """Answer for the target, or pass the call on with the target's device replaced by meta."""
        kwargs = kwargs or {}
        subject = args[0] if args else None
        if isinstance(subject, torch.Tensor):
            if subject.is_meta:
                return self._ask(func, subject, args, kwargs)
            _refuse_upload(func, args, kwargs)
        if func is torch.device:
            return _device(args, kwargs)
        if func in _UPLOADS and _is_target(kwargs.get("device")):
            return _constant(*args, **kwargs)
        return _pass_on(func, args, kwargs)

    def _ask(self, func: Callable[..., Any], subject: torch.Tensor, args: Args, kwargs: Kwargs) -> object:
        name = getattr(func, "__name__", "")
        if name in _READS:
            what = _READS_BY_SYNTAX.get(name, name)
            raise TraceRefused(Outcome.HOST_READ, f"host code reads a tensor's values ({what}): {_SHAPES_ONLY}")
        if func == _property("data").__set__:
            raise TraceRefused(Outcome.FORBIDDEN_OP, "host code replaces a tensor's data; write to it in a kernel")
        answer = self._answers.get(func)
        return answer(subject) if answer else _pass_on(func, args, kwargs)


class LoadingTensors(TorchFunctionMode):
    """Mode in which a module loads: a plan has no memory that was made before the call of the entry.

    Tensors of torch's own device `meta` are free to be made, such as parameters of a module; a plan cannot hold them.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> object:
        """Pass calls on that stay on the host."""
        kwargs = kwargs or {}
        if func is torch.device:
            return _device(args, kwargs)
        named = [value for value in args if isinstance(value, str | torch.device)]
        if func == torch.Tensor.cuda or any(map(_is_target, (kwargs.get("device"), *named))):
            raise TraceRefused(
                Outcome.FORBIDDEN_OP,
                f"host code makes a tensor on the device while the module loads ({getattr(func, '__name__', 'to')}): "
                "make it in the entry, in every call",
            )
        return func(*args, **kwargs)


def _property(name: str) -> GetSetDescriptorType:
    found = getattr(torch.Tensor, name)
    assert isinstance(found, GetSetDescriptorType)
    return found


def _is_target(device: object) -> bool:
    if isinstance(device, torch.device):
        return device.type == "cuda"
    if isinstance(device, str):
        return device.partition(":")[0] == "cuda"
    return isinstance(device, int) and not isinstance(device, bool)


def _device(args: Args, kwargs: Kwargs) -> torch.device:
    """Return a device as host code names it; a number is one of the target's."""
    with torch._C.DisableTorchFunction():
        return torch.device("cuda", *args) if args and type(args[0]) is int else torch.device(*args, **kwargs)


def _translate(value: object) -> object:
    """Replace the target's device by meta; return other values unchanged."""
    if not isinstance(value, str | torch.device) or not _is_target(value):
        return value
    if torch.device(value).index not in (None, 0):
        raise TraceRefused(Outcome.FORBIDDEN_OP, f"host code asks for {value}: there is one device, cuda:0")
    return _META


def _pass_on(func: Callable[..., Any], args: Args, kwargs: Kwargs) -> object:
    named = {name: _translate(value) for name, value in kwargs.items()}
    if isinstance(kwargs.get("device"), int):
        named["device"] = _META
    return func(*(_translate(value) for value in args), **named)


def _refuse_upload(func: Callable[..., Any], args: Args, kwargs: Kwargs) -> None:
    """Refuse a call that moves a host tensor to the target."""
    moves = getattr(func, "__name__", "") in ("to", "cuda", "copy_")
    if func == torch.Tensor.cuda or (moves and any(_is_elsewhere(value) for value in (*args[1:], *kwargs.values()))):
        raise TraceRefused(Outcome.FORBIDDEN_OP, _UPLOAD)


def _is_elsewhere(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_meta
    return isinstance(value, str | torch.device) and _is_target(value)


def _constant(data: object, dtype: torch.dtype | None = None, **_: object) -> torch.Tensor:
    """Evaluate `torch.tensor` of one number, or of none, on the target."""
    if data in ([], ()):
        return torch.empty(0, dtype=dtype, device=_META)
    number = data[0] if isinstance(data, list | tuple) and len(data) == 1 else data
    if not isinstance(number, bool | int | float):
        raise TraceRefused(Outcome.FORBIDDEN_OP, _UPLOAD)
    made = torch.scalar_tensor(number, dtype=dtype or torch.tensor(number).dtype, device=_META)
    return made if number is data else made.view(1)
