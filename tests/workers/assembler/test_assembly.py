import pytest

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.modules import kernel_of, module
from tests.workers.assembler.plans import RMSNORM, bundle_of, rmsnorm_plan
from workers.assembler import AssemblyRefused, assemble, assemble_kernel
from workers.errors import ToolMissing
from workers.protocol import Bundle, Launch, Number, Outcome

LARGE, SMALL = {"M": 4096, "N": 4096}, {"M": 7, "N": 300}


def rmsnorm_bundle(target: str = "sm_90") -> Bundle:
    kernel = compiled("rmsnorm", target)
    return bundle_of(kernel, rmsnorm_plan(kernel, LARGE), rmsnorm_plan(kernel, SMALL))


def relaunched(bundle: Bundle, **changes: object) -> Bundle:
    """The bundle with its first plan's launch changed."""
    first = bundle.plans[0]
    steps = tuple(step.model_copy(update=changes) if isinstance(step, Launch) else step for step in first.steps)
    plans = (first.model_copy(update={"steps": steps}), *bundle.plans[1:])
    return bundle.model_copy(update={"plans": plans})


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "gfx942"])
def test_a_bundle_gets_cubins_an_identity_and_readings(target: str) -> None:
    done = assemble(rmsnorm_bundle(target), RMSNORM)
    assert (done.outcome, done.reason) == (None, "")
    assert done.bundle is not None
    assert set(done.bundle.cubins) == set(done.bundle.kernels)
    assert len(done.bundle.identity) == 64
    assert [reading.programs for reading in done.readings] == [4096, 7]
    assert done.seconds > 0


def test_cubins_claimed_by_the_trace_are_not_believed() -> None:
    bundle = rmsnorm_bundle()
    claimed = bundle.model_copy(update={"cubins": dict.fromkeys(bundle.kernels, "0" * 64)})
    honest, lied = assemble(bundle, RMSNORM), assemble(claimed, RMSNORM)
    assert honest.bundle is not None
    assert lied.bundle == honest.bundle


def test_kernels_that_no_plan_launches_are_left_out() -> None:
    bundle, other = rmsnorm_bundle(), compiled("timing")
    padded = bundle.model_copy(update={"kernels": {**bundle.kernels, other.digest: other}})
    done = assemble(padded, RMSNORM)
    assert done.bundle is not None
    assert set(done.bundle.kernels) == set(bundle.kernels)


def test_a_kernel_that_breaks_a_rule_is_an_outcome() -> None:
    kernel = kernel_of(module("mov.u32 %r1, %clock;"))
    done = assemble(bundle_of(kernel, rmsnorm_plan(kernel, SMALL)), RMSNORM)
    assert (done.bundle, done.readings, done.outcome) == (None, (), Outcome.PLAN_REJECTED)
    assert "clock" in done.reason


def test_arguments_that_the_entry_does_not_take_are_an_outcome() -> None:
    bundle = rmsnorm_bundle()
    arguments = (*bundle.plans[0].launches[0].arguments, Number(type="i32", value=3))
    done = assemble(relaunched(bundle, arguments=arguments), RMSNORM)
    assert (done.outcome, done.line) == (Outcome.PLAN_REJECTED, 12)
    assert "6 arguments" in done.reason


def test_a_grid_beyond_the_hardwares_is_an_outcome() -> None:
    done = assemble(relaunched(rmsnorm_bundle(), grid=(1, 70000, 1)), RMSNORM)
    assert (done.outcome, done.line) == (Outcome.UNSUPPORTED_LAUNCH, 12)
    assert "65535" in done.reason


def test_a_kernel_that_does_not_fit_is_a_compile_error() -> None:
    kernel = compiled("rmsnorm").model_copy(update={"shared_bytes": 300_000})
    done = assemble(bundle_of(kernel, rmsnorm_plan(kernel, SMALL)), RMSNORM)
    assert done.outcome is Outcome.COMPILE_ERROR
    assert "232448" in done.reason


def test_a_bundle_may_not_take_all_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.assembler.assembly.BUDGET_S", -1.0)
    done = assemble(rmsnorm_bundle(), RMSNORM)
    assert (done.bundle, done.outcome, done.line) == (None, Outcome.COMPILE_ERROR, 12)


def test_a_kernel_for_another_target_is_refused() -> None:
    bundle = rmsnorm_bundle().model_copy(update={"target": "sm_80"})
    done = assemble(bundle, RMSNORM)
    assert done.outcome is Outcome.PLAN_REJECTED
    assert "sm_90" in done.reason


def test_an_unknown_target_is_our_failure() -> None:
    with pytest.raises(ToolMissing, match="sm_42"):
        assemble(rmsnorm_bundle().model_copy(update={"target": "sm_42"}), RMSNORM)
    with pytest.raises(ToolMissing, match="sm_42"):
        assemble_kernel(compiled("root").model_copy(update={"target": "sm_42"}))


def test_a_kernel_in_the_wrong_language_is_refused() -> None:
    with pytest.raises(AssemblyRefused, match="amdgcn"):
        assemble_kernel(compiled("root", "gfx942").model_copy(update={"target": "sm_90"}))


@pytest.mark.parametrize(("language", "target"), [("ptx", "gfx942"), ("amdgcn", "sm_90")])
def test_a_bundle_whose_kernel_is_in_the_wrong_language_is_refused(language: str, target: str) -> None:
    """The reply of a trace may claim any language."""
    kernel = compiled("rmsnorm", target).model_copy(update={"language": language})
    done = assemble(bundle_of(kernel, rmsnorm_plan(kernel, SMALL)), RMSNORM)
    assert done.outcome is Outcome.PLAN_REJECTED and language in done.reason


def test_equal_kernels_are_assembled_once() -> None:
    kernel = compiled("root")
    again = kernel.model_validate_json(kernel.model_dump_json())
    assert assemble_kernel(again) is assemble_kernel(kernel)
    bundled = compiled("rmsnorm")
    done = assemble(rmsnorm_bundle(), RMSNORM)
    assert done.codes[bundled.digest] is assemble_kernel(bundled)
    assert assemble(rmsnorm_bundle(), RMSNORM).codes == done.codes


def test_a_refused_kernel_refuses_its_bundle_whatever_is_assembled_beside_it() -> None:
    good, bad = compiled("rmsnorm"), kernel_of(module("mov.u32 %r1, %clock;"))
    for first, second in ((good, bad), (bad, good)):
        plans = (rmsnorm_plan(first, LARGE), rmsnorm_plan(second, SMALL))
        kernels = {kernel.digest: kernel for kernel in (good, bad)}
        done = assemble(Bundle(target="sm_90", operator=RMSNORM.digest, kernels=kernels, plans=plans), RMSNORM)
        assert (done.bundle, done.outcome) == (None, Outcome.PLAN_REJECTED) and "clock" in done.reason
