"""The bench's side: cache first, a process for the rest, and every way in which that process may fail."""

import sys
import time
from base64 import b64decode
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
import torch

from tests.workers.assembler.modules import kernel_of, module
from tests.workers.assembler.plans import RMSNORM, bundle_of, rmsnorm_plan
from tests.workers.baselines.catalogue import graph_of
from workers.assembler import assemble_kernel
from workers.baselines import (
    BackgroundBaselines,
    BaselineProcess,
    BaselinesFailed,
    client,
    measure_baselines,
    measure_copy,
)
from workers.baselines.cache import FigureCache
from workers.baselines.client import request_for
from workers.errors import Transient
from workers.protocol import Bundle, Device, Shape, ShapeRole

OPERATOR = RMSNORM.model_copy(
    update={"reference": "import torch\ndef rmsnorm(x, weight):\n    return (x.float() * weight.float()).to(x.dtype)"}
)
LARGE, SMALL = {"M": 4, "N": 8}, {"M": 2, "N": 8}
H200 = Device.parse("h200")
VERSIONS = {"torch": "2.11", "driver": "570.1"}
GRAPHS = tuple(graph_of(OPERATOR, Shape(dims=dims)) for dims in (LARGE, SMALL))


def pacer(*dims, held_out=None) -> Bundle:
    """An assembled bundle with a plan a shape; `held_out` gets one that is not timed."""
    kernel = kernel_of(PTX)
    plans = [rmsnorm_plan(kernel, each) for each in dims]
    if held_out:
        plan = rmsnorm_plan(kernel, held_out)
        plans.insert(0, plan.model_copy(update={"shape": Shape(dims=held_out, role=ShapeRole.HELD_OUT)}))
    cubins = {kernel.digest: "c" * 64}
    return bundle_of(kernel, *plans).model_copy(update={"cubins": cubins})


PTX = module("add.s64 %rd1, %rd1, 1;")


class Process(BaselineProcess):
    """The bench's side of the stand-in on card 1; a call sets what its process does with requests."""

    def __init__(self, folder: Path) -> None:
        super().__init__(1)
        self.order, self.log = folder / "order", folder / "log"
        self.log.touch()
        self("answer")

    def __call__(self, order: str) -> None:
        self.order.write_text(order)

    @property
    def asked(self) -> int:
        """How many requests there were."""
        return self.log.read_text().count("asked")

    @property
    def starts(self) -> list[str]:
        """The options of every process that was started."""
        return [line for line in self.log.read_text().splitlines() if line.startswith("--card")]

    def wait_until_it_left(self) -> None:
        """Wait for the end of a process that was to leave when it had answered."""
        pid = self.log.read_text().split(" leaves")[0].split()[-1]
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)


@pytest.fixture
def process(tmp_path, monkeypatch):
    with closing(Process(tmp_path)) as process:
        monkeypatch.setenv("BASELINES_ORDER", str(process.order))
        monkeypatch.setenv("BASELINES_LOG", str(process.log))
        monkeypatch.setattr(client, "COMMAND", (sys.executable, str(Path(__file__).with_name("answering.py"))))
        yield process


def measure(process: BaselineProcess, bundle: Bundle, folder: Path | None, **versions: str):
    cache = None if folder is None else FigureCache(folder / "baselines")
    return measure_baselines(OPERATOR, GRAPHS, bundle, H200, process.ask, cache, VERSIONS | versions)


def test_every_benchmark_shape_is_measured_by_one_process_on_the_card(process):
    found = measure(process, pacer(LARGE, SMALL, held_out={"M": 3, "N": 8}), None)
    assert {shape: figure.pacer_us for shape, figure in found.items()} == {"M=4,N=8": 20.0, "M=2,N=8": 20.0}
    assert found["M=4,N=8"].best().over_pacer == 2.0
    assert process.starts == ["--card 1"]


def test_a_process_may_get_ready_before_it_is_asked(process):
    process.start("sm_90")
    measure(process, pacer(LARGE), None)
    assert (process.asked, process.starts) == (1, ["--card 1 --warm-up sm_90"])


def test_a_process_of_another_turn_says_so_at_its_start(process):
    process._turn = 2
    measure(process, pacer(LARGE), None)
    assert process.starts == ["--card 1 --turn 2"]


def test_without_a_folder_it_is_measured_every_time_by_one_process(process):
    measure(process, pacer(LARGE), None)
    measure(process, pacer(LARGE), None)
    assert (process.asked, process.starts) == (2, ["--card 1"])


@pytest.mark.parametrize("order", ["leave", "die", "elsewhere"])
def test_a_process_that_left_died_or_lied_is_replaced(process, order):
    process(order)
    with suppress(BaselinesFailed):
        measure(process, pacer(LARGE), None)
    if order == "leave":
        process.wait_until_it_left()
    process("answer")
    assert set(measure(process, pacer(LARGE), None)) == {"M=4,N=8"}
    assert (process.asked, process.starts) == (2, ["--card 1"] * 2)


def test_what_is_known_is_not_measured_again(process, tmp_path):
    first = measure(process, pacer(LARGE), tmp_path)
    again = measure(process, pacer(LARGE, held_out={"M": 3, "N": 8}), tmp_path)
    assert (first, process.asked) == (again, 1)
    both = measure(process, pacer(LARGE, SMALL), tmp_path)
    assert (set(both), process.asked) == ({"M=4,N=8", "M=2,N=8"}, 2)
    assert measure(process, pacer(SMALL, LARGE), tmp_path) == both
    assert process.asked == 2


def test_another_driver_measures_again(process, tmp_path):
    measure(process, pacer(LARGE), tmp_path)
    measure(process, pacer(LARGE), tmp_path, driver="580.2")
    assert process.asked == 2


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ("die", "status 3: CUDA error: no kernel image"),
        ("babble", "invalid reply"),
        ("elsewhere", "other shapes"),
        ("astray", "other copies"),
    ],
)
def test_a_process_that_fails_is_transient_and_leaves_nothing(process, tmp_path, order, reason):
    process(order)
    with pytest.raises(BaselinesFailed, match=reason) as caught:
        measure(process, pacer(LARGE), tmp_path)
    assert isinstance(caught.value, Transient)
    assert not [*(tmp_path / "baselines").glob("*.json")]


def test_a_process_that_takes_too_long_is_ended(process, monkeypatch):
    process("sleep")
    monkeypatch.setattr(client, "START_S", 1.0)
    monkeypatch.setattr(client, "SHAPE_S", 0.5)
    started = time.monotonic()
    with pytest.raises(BaselinesFailed, match=r"more than 1\.5 s: tuning"):
        measure(process, pacer(LARGE), None)
    assert time.monotonic() - started < 60


def test_a_figure_that_cannot_be_stored_is_transient(process, tmp_path):
    (tmp_path / "baselines").touch()
    with pytest.raises(BaselinesFailed, match="cannot be stored"):
        measure(process, pacer(LARGE), tmp_path)


def test_each_baseline_has_the_time_of_a_copy_of_its_bytes(process):
    found = measure(process, pacer(LARGE, SMALL), None)
    # Bytes of x, of the weight and of the output, all bfloat16, over 16.
    assert [found[shape].copy_us for shape in ("M=4,N=8", "M=2,N=8")] == [(64 + 16 + 64) / 16, (32 + 16 + 32) / 16]


def test_a_copy_is_measured_once_per_size_and_card(process, tmp_path):
    measure(process, pacer(LARGE), tmp_path)
    plan, asked, cache = pacer(LARGE).plans[0], process.asked, FigureCache(tmp_path / "baselines")

    def copy_us(device: Device, **versions: str) -> float | None:
        return measure_copy(OPERATOR, pacer(LARGE), plan, device, process.ask, cache, VERSIONS | versions)

    assert (copy_us(H200), process.asked) == (9.0, asked)
    assert (copy_us(Device.parse("h100")), process.asked) == (9.0, asked + 1)
    assert (copy_us(H200, driver="580.2"), process.asked) == (9.0, asked + 2)


def test_a_copy_that_does_not_fit_costs_no_baseline(process, tmp_path):
    process("full")
    found = measure(process, pacer(LARGE), tmp_path)["M=4,N=8"]
    assert (found.pacer_us, found.copy_us) == (20.0, None)
    process("answer")
    assert measure(process, pacer(LARGE), tmp_path)["M=4,N=8"].copy_us == 9.0


def test_a_request_carries_machine_code_and_the_graphs_of_its_plans():
    bundle = pacer(LARGE, SMALL)
    request = request_for(OPERATOR, GRAPHS, bundle, bundle.plans[1:])
    assert [graph.shape.key for graph in request.graphs] == ["M=2,N=8"]
    ((digest, kernel),) = bundle.kernels.items()
    assert b64decode(request.machine_code[digest]) == assemble_kernel(kernel).code
    assert request.pacer.plans == bundle.plans[1:]


def test_a_request_leaves_out_kernels_that_only_other_plans_launch():
    other = kernel_of(module("add.s64 %rd1, %rd1, 2;"))
    bundle = pacer(LARGE)
    plans = (*bundle.plans, rmsnorm_plan(other, SMALL))
    kernels = {**bundle.kernels, other.digest: other}
    request = request_for(
        OPERATOR, GRAPHS, bundle.model_copy(update={"plans": plans, "kernels": kernels}), bundle.plans
    )
    assert set(request.pacer.kernels) == set(request.machine_code) == set(bundle.kernels)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a card")
def test_on_a_machine_without_a_card_the_process_says_so():
    with (
        closing(BaselineProcess(1)) as process,
        pytest.raises(BaselinesFailed, match=r"status 1: (?s:.*)(cuda|CUDA)"),
    ):
        measure(process, pacer(LARGE), None)


def test_a_process_that_is_started_early_has_the_variables_that_it_was_given(monkeypatch):
    monkeypatch.setattr(client, "COMMAND", (sys.executable, "-c", "import os, sys; sys.exit(os.environ['KERNELS'])"))
    with closing(BaselineProcess(0, {"KERNELS": "/in/a/folder"})) as process:
        process.start()
        with pytest.raises(BaselinesFailed, match="status 1: /in/a/folder"):
            measure(process, pacer(LARGE), None)


@pytest.fixture
def beside(process):
    with closing(BackgroundBaselines(process, H200, None)) as found:
        yield found


def test_eager_alone_is_asked_for_without_copies_and_kept_for_no_one_else(process, tmp_path):
    request = request_for(OPERATOR, GRAPHS, pacer(LARGE), pacer(LARGE).plans, eager_alone=True)
    assert request.eager_alone and not request.copies
    with closing(BackgroundBaselines(process, H200, tmp_path)) as beside:
        for brief in (True, True, False):
            assert beside.begin(OPERATOR, GRAPHS, pacer(LARGE), VERSIONS, eager_alone=brief) or process.asked
            found = beside.find(OPERATOR, pacer(LARGE), wait=True, eager_alone=brief)
            assert set(found) == {"M=4,N=8"} and (found["M=4,N=8"].copy_us is None) == brief
    assert process.asked == 2, "once briefly, and once in full"
    again = measure(process, pacer(LARGE), tmp_path)
    assert process.asked == 2 and again["M=4,N=8"].copy_us is not None


def begin(beside: BackgroundBaselines, bundle: Bundle, *, again: bool = False) -> bool:
    return beside.begin(OPERATOR, GRAPHS, bundle, VERSIONS, again=again)


def test_baselines_are_measured_beside_other_jobs_once(process, beside):
    assert beside.find(OPERATOR, pacer(LARGE)) == {}, "nobody asked for them yet"
    assert begin(beside, pacer(LARGE)) and not begin(beside, pacer(LARGE))
    found = beside.find(OPERATOR, pacer(LARGE), wait=True)
    assert set(found) == {"M=4,N=8"} and beside.find(OPERATOR, pacer(LARGE)) == found
    assert process.asked == 1


def test_executors_that_share_a_card_have_its_baselines_measured_once(process, tmp_path):
    with ExitStack() as stack:
        sharers = [stack.enter_context(closing(BackgroundBaselines(process, H200, tmp_path))) for _ in range(3)]
        assert begin(sharers[0], pacer(LARGE))
        found = [sharers[0].find(OPERATOR, pacer(LARGE), wait=True)]
        for sharer in sharers[1:]:
            assert not begin(sharer, pacer(LARGE)), "the figures are known"
            found.append(sharer.find(OPERATOR, pacer(LARGE), wait=True))
    assert process.asked == 1 and found[0] == found[1] == found[2] and set(found[0]) == {"M=4,N=8"}


def test_an_executor_that_waits_for_anothers_baselines_can_end(process, tmp_path):
    first, second = (BackgroundBaselines(each, H200, tmp_path) for each in (process, Process(tmp_path)))
    process("sleep")
    with closing(first):
        begin(first, pacer(LARGE))
        while "asked" not in process.log.read_text():
            time.sleep(0.01)
        begun = time.monotonic()
        assert not begin(second, pacer(LARGE)), "the first measures them"
        second.close()
        with pytest.raises(BaselinesFailed, match="still measuring it"):
            second.find(OPERATOR, pacer(LARGE), wait=True)
        assert time.monotonic() - begun < 10


def test_nobody_waits_for_a_process_that_takes_long(process, beside):
    process("sleep")
    begun = time.monotonic()
    begin(beside, pacer(LARGE))
    assert beside.find(OPERATOR, pacer(LARGE)) == {} and time.monotonic() - begun < 5


def test_baselines_that_failed_are_measured_again_only_for_who_waits(process, beside):
    process("die")
    begin(beside, pacer(LARGE))
    with pytest.raises(BaselinesFailed, match="status 3"):
        beside.find(OPERATOR, pacer(LARGE), wait=True)
    process("answer")
    assert not begin(beside, pacer(LARGE)) and beside.find(OPERATOR, pacer(LARGE)) == {}
    assert begin(beside, pacer(LARGE), again=True)
    assert set(beside.find(OPERATOR, pacer(LARGE), wait=True)) == {"M=4,N=8"}


def test_whoever_waits_for_baselines_gives_up_meanwhile_what_others_wait_for(process):
    rested = []

    def rest():
        rested.append(True)
        if len(rested) == 2:
            waiting.close()

    waiting = BackgroundBaselines(process, H200, None, rest)
    process("sleep")
    begin(waiting, pacer(LARGE))
    assert waiting.find(OPERATOR, pacer(LARGE)) == {} and not rested
    with pytest.raises(BaselinesFailed):
        waiting.find(OPERATOR, pacer(LARGE), wait=True)
    assert len(rested) == 2
