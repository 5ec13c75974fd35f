import os
from collections.abc import Iterator
from functools import partial

import pytest

from tests.workers.devices.kernels import PLAIN, job_for
from workers.assembler import AssemblyRefused, assemble, assemble_kernel
from workers.assembler.ptx.tools import own_tool
from workers.devices.assembling import NICENESS, Assemblers
from workers.sandbox.forkserver import fork_server


@pytest.fixture(scope="module")
def assemblers() -> Iterator[Assemblers]:
    found = Assemblers()
    yield found
    found.close()


def test_a_bundle_comes_out_as_it_does_one_after_the_other(assemblers):
    job = job_for(PLAIN)
    at_once = assemble(job.bundle, job.operator, assemblers.start(job.bundle))
    assert at_once.outcome is None and at_once.bundle.cubins == assemble(job.bundle, job.operator).bundle.cubins
    assert at_once.codes.keys() == job.bundle.kernels.keys()


def test_the_processes_that_use_the_card_come_first(assemblers):
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert [*assemblers.spread(partial(os.getpriority, os.PRIO_PROCESS), [0])] == [own + NICENESS]


def test_a_kernel_is_assembled_once(assemblers):
    bundle = job_for(PLAIN).bundle
    kernel = next(iter(bundle.kernels.values()))
    first = assemblers.start(bundle)(kernel)
    assert assemblers.start(bundle)(kernel) is first
    assert first.code == assemble_kernel(kernel).code


def test_what_is_under_way_is_not_begun_again(assemblers):
    bundle = job_for(PLAIN).bundle
    text = "// another\n"
    other = {
        kernel.digest: kernel
        for kernel in (
            kernel.model_copy(update={"assembly": kernel.assembly + text}) for kernel in bundle.kernels.values()
        )
    }
    odd = bundle.model_copy(update={"kernels": other})
    assemblers.start(odd)
    kept = dict(assemblers._kept)
    wait = assemblers.start(odd)
    assert all(assemblers._kept[key] is future for key, future in kept.items())
    assert {digest for digest, tool in kept if tool == odd.toolchain.ptxas} >= set(other)
    assert all(wait(kernel).code for kernel in other.values())


def test_a_refusal_says_what_it_says_without_help(assemblers):
    bundle = job_for(PLAIN).bundle
    kernel = next(iter(bundle.kernels.values()))
    broken = kernel.model_copy(update={"assembly": kernel.assembly.replace(".entry", ".func", 1)})
    with pytest.raises(AssemblyRefused) as alone:
        assemble_kernel(broken)
    odd = bundle.model_copy(update={"kernels": {broken.digest: broken}})
    with pytest.raises(AssemblyRefused) as helped:
        assemblers.start(odd)(broken)
    assert (helped.value.reason, helped.value.outcome) == (alone.value.reason, alone.value.outcome)


def test_a_bundle_is_done_when_all_its_kernels_are(assemblers):
    bundle = job_for(PLAIN).bundle
    kernel = next(iter(bundle.kernels.values()))
    new = kernel.model_copy(update={"assembly": kernel.assembly + "// a third\n"})
    odd = bundle.model_copy(update={"kernels": {new.digest: new}})
    assert not assemblers.is_done(odd)
    assemblers.start(odd)(new)
    assert assemblers.is_done(odd)


def test_a_new_process_is_ready_to_assemble(assemblers):
    """What each has to do first took a second of the first measurement."""
    (told,) = assemblers.spread(_readiness, [None])
    assert told == (True, True)


def _readiness(_: object) -> tuple[bool, bool]:
    started = fork_server()._process
    return started is not None and started.alive, own_tool.cache_info().currsize > 0
