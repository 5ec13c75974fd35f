"""Preparation and check of contenders, before any is timed.

A contender that fails or computes something else is left out, with a reason.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

import torch
from triton.runtime.errors import TritonError

from workers.baselines.agreement import Disagrees, check, most_summands
from workers.baselines.client import TUNING_S
from workers.baselines.contenders import EAGER, Maker
from workers.baselines.helion import HELION
from workers.baselines.module import Function, Tensors
from workers.baselines.time_limit import at_most
from workers.checks.expectation import NUDGE_ROUNDOFFS
from workers.errors import lacks_memory
from workers.gpu_lock import GpuLock
from workers.protocol import Operator

FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    TritonError,
)
"""Exceptions of torch.compile, Triton and the libraries if they cannot run something, including lack of memory."""
READY_S = 60.0
"""Seconds for a contender to get ready, without its waits for the card. torch.compile took 2 to 20 s on an idle host,
and minutes if max-autotune tries kernels for float32 products of the whole attention matrix."""
REASON_CHARS = 300
"""Maximum length of a stored reason."""


class ContenderPreparation:
    """Runs contenders of one operator on one set of inputs and compares them with eager PyTorch.

    Args:
        operator: The contract.
        inputs: The set; its contents are restored after every run.
        turns: Lock of their card.
        alone: True if no other process has memory of the card.

    Attributes:
        spent_s: Seconds until each contender was ready or failed, by name.
    """

    def __init__(self, operator: Operator, inputs: Tensors, turns: GpuLock, *, alone: bool = True) -> None:
        self.spent_s: dict[str, float] = {}
        self._operator = operator
        self._gpu_lock = turns
        self._alone = alone
        self._inputs = inputs
        self._pristine = [tensor.clone() for tensor in inputs]
        self._summands = most_summands(inputs)
        self._expected: Sequence[torch.Tensor] = ()
        self._nudged: Callable[[], Sequence[torch.Tensor]] = tuple

    def admit(self, makers: Mapping[str, Maker]) -> tuple[dict[str, Function], dict[str, str]]:
        """Prepare and check all contenders, eager first: the others are compared with it.

        Returns:
            The contenders that can be timed, and the reasons for the others, by name.

        Raises:
            RuntimeError: If the reference itself does not run on this card, or a contender lacks memory beside others.
        """
        eager = makers[EAGER]()
        self._expected = self._outputs(eager)
        self._nudged = cache(partial(self._outputs_nudged, eager))
        admitted, refused = {EAGER: eager}, {}
        for name, make in makers.items():
            if name == EAGER:
                continue
            begun = time.perf_counter()
            limit_s = READY_S + (TUNING_S if name == HELION else 0.0)
            try:
                # The lock encloses the time limit, so that no interruption prevents its release.
                with self._gpu_lock.shared(), at_most(limit_s, lambda: self._gpu_lock.waited_s):
                    function = make()
                    self.compare(function)
            except Disagrees as error:
                refused[name] = str(error)
            except FAILURES as error:
                refused[name] = why_left_out(error, alone=self._alone)
            else:
                admitted[name] = function
            finally:
                self.spent_s[name] = time.perf_counter() - begun
        return admitted, refused

    def compare(self, function: Callable[[Tensors], Sequence[torch.Tensor]]) -> None:
        """Run a contender on the set.

        Raises:
            Disagrees: If its result differs from eager PyTorch's, or it changes inputs that are not mutable.
        """
        check(self._operator, self._outputs(function), self._expected, self._summands, self._nudged)

    def _outputs(self, function: Callable[[Tensors], Sequence[torch.Tensor]]) -> list[torch.Tensor]:
        outputs = [output.clone() for output in function(self._inputs)]
        if changed := self._restore():
            raise Disagrees(f"it changes its inputs: {', '.join(changed)}")
        return outputs

    def _outputs_nudged(self, eager: Function) -> list[torch.Tensor]:
        """Run eager PyTorch on inputs a few roundoffs of float32 off; narrower inputs stay as they are."""
        generator = torch.Generator(self._inputs[0].device).manual_seed(0)
        step = NUDGE_ROUNDOFFS * torch.finfo(torch.float32).eps / 2
        for tensor in self._inputs:
            if tensor.is_floating_point() and tensor.dtype.itemsize >= torch.float32.itemsize:
                moves = torch.rand(tensor.shape, generator=generator, device=tensor.device)
                tensor.mul_(moves.mul_(2 * step).add_(1 - step))
        outputs = [output.clone() for output in eager(self._inputs)]
        self._restore()
        return outputs

    def _restore(self) -> list[str]:
        """Restore the inputs. Returns the names of immutable ones that were changed."""
        changed = []
        for item, tensor, before in zip(self._operator.given, self._inputs, self._pristine, strict=True):
            if not item.mutable and not torch.equal(tensor, before):
                changed.append(item.name)
            tensor.copy_(before)
        return changed


def why_left_out(error: BaseException, *, alone: bool) -> str:
    """Return the reason why a contender is left out: the first line of its library's error.

    A lack of memory may be behind another error: while one leaves a module that torch.compile watches, torch lists its
    frames by a generator, which torch 2.11 then refuses to trace.

    Raises:
        RuntimeError: If it lacks memory, and other processes have some.
    """
    errors = [error]
    while behind := errors[-1].__cause__ or errors[-1].__context__:
        errors.append(behind)
    told = next((each for each in errors if lacks_memory(str(each))), error)
    said = str(told).strip().partition("\n")[0]
    if lacks_memory(str(told)) and not alone:
        raise RuntimeError(str(told)) from error
    return f"{type(told).__name__}: {said}"[:REASON_CHARS]
