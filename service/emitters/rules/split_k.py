"""The inner axis of a matrix product split among programs, whose parts a second kernel adds up."""

import ast
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from service.emitters.rules.base import Rule
from service.emitters.rules.kernels import RewritableKernel, assigned_once, grid, kernels, set_grid, writes_apart
from service.emitters.rules.loops import Sweep, exposed, sweep
from service.emitters.rules.patterns import calls, expression, is_call, reads, replace, statements, text, unused, writes
from service.operators.sources import LaunchSite, walk

PARTS = (2, 4, 8)
"""Parts to start from; `tune` varies the number where it can."""

ADDING = """
@triton.jit
def {name}(parts_ptr, total_ptr, n_elements, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(PARTS):
        total += tl.load(parts_ptr + part * n_elements + offsets, mask=mask, other=0.0)
    tl.store(total_ptr + offsets, total, mask=mask)
"""
"""Adds parts in their order, so that the sum is the same in every run."""


@dataclass(frozen=True)
class Splittable:
    """A kernel that stores a sum over one sweep.

    Attributes:
        kernel: The kernel, with one launch.
        sweep: Over the inner axis.
        store: Of the sum, the only store there is.
        output: The parameter that it stores to.
        line: The host's statement that launches.
    """

    kernel: RewritableKernel
    sweep: Sweep
    store: ast.Call
    output: str
    line: ast.Expr


class SplitK(Rule[Splittable]):
    """Few tiles leave multiprocessors idle: a long inner axis has work for them."""

    name = "split_k"
    meaning = "split the inner axis of a matrix product among programs"

    def sites(self, module: ast.Module) -> Iterable[Splittable]:
        """Find kernels that add products up in one sweep from zero and store the sum as it is."""
        return (site for kernel in kernels(module) for site in _splittable(kernel))

    def change(self, site: Splittable, rng: random.Random) -> None:
        """Split into some number of parts."""
        self.split(site, rng.choice(PARTS))

    def split(self, site: Splittable, parts: int) -> None:
        """Have each program take every `parts`-th step of the sweep, and add up their sums."""
        kernel, (launch,) = site.kernel, site.kernel.launches
        axis = f"tl.program_id({len(grid(launch) or [])})"
        total = text(kernel.argument(launch, site.output))
        size = kernel.add_parameter("part_size", lambda _: f"{total}.numel()")
        count = kernel.add_parameter("PARTS", lambda _: str(parts), constexpr=True)
        step = site.sweep.step
        assert isinstance(site.sweep.loop.iter, ast.Call)
        site.sweep.loop.iter.args[0] = expression(f"{axis} * {step}")
        site.sweep.loop.iter.args[2] = expression(f"{step} * {count}")
        start = next(node for node in walk(site.store.args[0]) if text(node) == site.output)
        replace(site.store, start, expression(f"{site.output} + {axis}.to(tl.int64) * {size}"))
        self._add_up(site, launch, total, parts)

    def _add_up(self, site: Splittable, launch: LaunchSite, total: str, parts: int) -> None:
        """Let the launch write parts, and add a launch that sums them."""
        module, host = site.kernel.module, launch.host
        adding, held = unused("add_parts_kernel", module), unused("parts", host)
        set_grid(launch, [*(text(extent) for extent in grid(launch) or []), str(parts)])
        replace(launch.call, site.kernel.argument(launch, site.output), expression(held))
        shape = f"({parts}, {total}.numel())"
        before = statements(f"{held} = torch.empty({shape}, dtype=torch.float32, device={total}.device)")
        size = f"{total}.numel()"
        adds = f"{adding}[(triton.cdiv({size}, 1024),)]({held}, {total}, {size}, PARTS={parts}, BLOCK=1024)"
        after = statements(adds)
        place = host.body.index(site.line)
        host.body[place : place + 1] = [*before, site.line, *after]
        module.body[module.body.index(host) : module.body.index(host)] = statements(ADDING.format(name=adding))


def _splittable(kernel: RewritableKernel) -> Iterator[Splittable]:
    sweeps = [found for line in kernel.function.body if (found := sweep(line))]
    loops = [node for node in walk(kernel.function) if isinstance(node, ast.For | ast.While | ast.If)]
    stores = calls(kernel.function, "tl.store")
    if len(kernel.launches) != 1 or len(sweeps) != 1 or len(loops) != 1 or len(stores) != 1 or not writes_apart(kernel):
        return
    (launch,), (found,), (store,) = kernel.launches, sweeps, stores
    line = next((item for item in launch.host.body if isinstance(item, ast.Expr) and item.value is launch.call), None)
    outputs = [name for name in kernel.pointers() if name in reads(store.args[0])]
    if line is None or len(outputs) != 1 or not 1 <= len(grid(launch) or []) <= 2 or not _is_sum(kernel, found, store):
        return
    if assigned_once(launch.host, text(kernel.argument(launch, outputs[0]))):
        yield Splittable(kernel, found, store, outputs[0], line)


def _is_sum(kernel: RewritableKernel, found: Sweep, store: ast.Call) -> bool:
    """Return True if what is stored begins at zero, only gains products in the sweep, and is stored as it is."""
    total = text(store.args[1])
    gains = [line for line in found.loop.body if total in reads(line)]
    starts = [
        line.value for line in kernel.function.body if isinstance(line, ast.Assign) and text(line.targets[0]) == total
    ]
    match gains:
        case [
            ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[left, right, ast.Name(id=added)]) as product)
        ]:
            grows = name == added == total and is_call(product, "tl.dot") and total not in reads(left, right)
        case _:
            grows = False
    alone = exposed(found.loop.body) & writes(*found.loop.body) == {total}
    return grows and alone and len(starts) == 1 and is_call(starts[0], "tl.zeros")
