"""Workers of this machine look at problems and draft seeds; what fails is said."""

import sys

import pytest

from service.errors import InvalidInput, Unavailable
from service.fleet.kernelbench import (
    TF32_NOTE,
    KernelbenchImporter,
    SourceFile,
    chosen,
    narrowed_by,
    searchable,
    with_seeds,
)
from tests.workers.kernelbench.problems import forward
from tests.workers.tracer.jobs import operator
from workers.protocol.kernelbench import ProblemInspection

GATE = SourceFile(forward("return torch.sigmoid(x) * x"), "gate")


async def test_a_problem_becomes_an_operator_with_a_seed_by_inductor() -> None:
    async with KernelbenchImporter(target="sm_90") as importer:
        imported = await importer.operator(GATE)
        assert imported.no_seed == "" and "@triton.jit" in imported.operator.seeds[0]
        unseeded = await importer.operator(GATE, seeded=False)
        assert unseeded.operator.seeds == () and unseeded.operator.shapes == imported.operator.shapes
        with pytest.raises(InvalidInput, match="draws random numbers"):
            await importer.operator(SourceFile(forward("return torch.dropout(x, 0.5, True)"), "drop"))


async def test_a_problem_with_products_has_a_first_seed_on_the_matrix_units() -> None:
    async with KernelbenchImporter(target="sm_90") as importer:
        imported = await importer.operator(SourceFile(forward("return x @ x.T"), "product"))
    first, second, third = imported.operator.seeds
    assert "input_precision='tf32x3'" in first and "ieee" not in first and "product_fixed(" in first
    assert "input_precision='tf32x3'" in second and "product_fixed" not in second
    assert "input_precision='ieee'" in third and "tf32x3" not in third and "product_fixed" not in third


async def test_a_convolution_may_use_tf32_as_its_baseline_does_unless_that_is_refused() -> None:
    text = forward("return self.inner(x)", "torch.rand(2, 16, 24)", "self.inner = nn.Conv1d(16, 16, 3)")
    async with KernelbenchImporter(target="sm_90") as importer:
        usual = await importer.operator(SourceFile(text, "conv"))
        strict = await importer.operator(SourceFile(text, "conv", strict=True))
    assert usual.operator.precision.allow_tf32 and TF32_NOTE in usual.notes
    assert "ieee" not in usual.operator.seeds[0]
    assert "return conv_fixed(" in usual.operator.seeds[0] and "conv_fixed" not in usual.operator.seeds[1]
    assert not strict.operator.precision.allow_tf32 and TF32_NOTE not in strict.notes
    quick, general, exact = strict.operator.seeds
    assert "tf32x3" in quick and "conv_fixed" in quick and "tf32x3" in general and "conv_fixed" not in general
    assert "ieee" in exact and "conv_fixed" not in exact


async def test_a_search_needs_a_kernel_to_start_from() -> None:
    with pytest.raises(InvalidInput, match=r"no seed kernel: TorchInductor has no Triton kernel.*add a seed"):
        await searchable(SourceFile(forward("return torch.complex(x, x).pow(2.5).real"), "turning"), "model:sm_90")


async def test_a_range_that_would_cost_the_seed_is_left_out() -> None:
    told: list[str] = []
    async with KernelbenchImporter(target="sm_90") as importer:
        file = SourceFile(forward("return x * float(x.shape[1]) + x.shape[0]"), "sized")
        imported = await importer.operator(file, ask=lambda found: tuple(found.ranges), tell=told.append)
    assert imported.no_seed == "" and set(imported.operator.ranges) < {"D0", "D1"}
    assert any("has no range" in note for note in imported.notes) and len(told) > 2


def test_a_named_range_is_left_out_and_without_a_name_the_first_axis_stays_longest() -> None:
    of = operator(ranges={"M": [1, 64], "N": [1, 128]})
    assert set(narrowed_by(of, "it uses the size 'M' as a Python number").ranges) == {"N"}
    first = narrowed_by(of, "it did not end within 60 s")
    assert dict(first.ranges) == {"M": (1, 64)}
    assert not narrowed_by(first, "it did not end within 60 s").ranges


async def test_a_spec_without_a_seed_gets_one() -> None:
    async with KernelbenchImporter(target="sm_90") as importer:
        bare = (await importer.operator(GATE, seeded=False)).operator
    assert bare.seeds == () and "@triton.jit" in (await with_seeds(bare, "model:sm_90")).seeds[0]


def test_choices_are_those_of_the_caller() -> None:
    found = ProblemInspection(ranges={"M": (1, 8), "N": (1, 8)})
    kept = chosen(found, SourceFile("", vary=("N",)))
    assert dict(kept.ranges) == {"N": (1, 8)}
    assert chosen(found, SourceFile("")) == found
    with pytest.raises(InvalidInput, match="'K' is no size that may vary; those are: M, N"):
        chosen(found, SourceFile("", vary=("K",)))


async def test_what_is_no_problem_file_is_refused() -> None:
    async with KernelbenchImporter() as importer:
        with pytest.raises(InvalidInput, match="not a problem file"):
            await importer.inspect("#" * 100_000)


async def test_a_machine_without_workers_says_so() -> None:
    async with KernelbenchImporter(command=(sys.executable, "-c", "raise SystemExit(1)")) as importer:
        with pytest.raises(Unavailable, match="doctor"):
            await importer.operator(GATE)


async def test_silence_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.fleet.kernelbench.ANSWER_S", 0.2)
    monkeypatch.setattr("service.fleet.kernelbench.FAREWELL_S", 0.2)
    async with KernelbenchImporter(command=(sys.executable, "-c", "import time; time.sleep(600)")) as importer:
        with pytest.raises(Unavailable, match="no answer"):
            await importer.inspect("x = 1\n")
