"""An exported package on the card: its own tests, which hold it against its reference at every verified shape.

The searches are on the card's target without measuring, since it is the package that is tried here: forward kernels of
one search, and those of another where gradients are wanted.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from service.certificates.document import sealed
from service.export.decision_tree import Leaf, TimedShape
from service.export.executors import ExportExecutors
from service.export.package_files import PackageParts, render
from service.export.verification import ExportVerifier, VerifiedModule
from tests.service.export.pieces import GLUON_SHAPES, gluon_module
from workers.protocol import Device

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(find_spec("sqlalchemy") is None, reason="searches need the extra [service]"),
]
REEF = (sys.executable, "-c", "from service.cli import main; main()")
REEF_S = 300
"""Seconds for one command."""


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    surroundings = {**os.environ, **environment}
    return subprocess.run(command, env=surroundings, cwd=cwd, capture_output=True, text=True, timeout=REEF_S)


@pytest.fixture(scope="module")
def package(device: Device, tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("reef")
    ours = {"REEF_DATA_DIR": str(data)}
    found = {}
    for operator in ("rmsnorm", "rmsnorm_backward"):
        model = f"model:{device.target}"
        done = run(*REEF, "search", operator, "--device", model, "--evaluations", "2", "--json", cwd=data, **ours)
        assert done.returncode == 0, done.stderr[-2000:]
        found[operator] = json.loads(done.stdout)["search"]
    out = ("--backward", found["rmsnorm_backward"], "--out", "package", "--json")
    done = run(*REEF, "export", found["rmsnorm"], *out, cwd=data, **ours)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["training"], done.stdout
    return data / "package"


def test_it_equals_the_reference_also_compiled_and_in_a_cuda_graph(package: Path) -> None:
    assert passed(package) >= 20


def passed(package: Path) -> int:
    """Run a package's own tests, alone; the number that passed."""
    alone = (sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull)
    path = os.pathsep.join((str(package), str(Path(pytest.__file__).parents[1])))
    done = run(*alone, f"--rootdir={package}", str(package / "tests"), cwd=package, PYTHONPATH=path)
    assert done.returncode == 0, done.stdout[-4000:]
    found = re.search(r"(\d+) passed", done.stdout)
    assert found is not None and "skipped" not in done.stdout, done.stdout[-500:]
    return int(found[1])


def test_its_benchmark_runs(package: Path) -> None:
    done = run(sys.executable, "-P", "benchmark.py", cwd=package, PYTHONPATH=str(package))
    assert done.returncode == 0, done.stderr[-2000:]
    times = re.findall(r"^  (rmsnorm_kernels|eager|torch.compile) +(\d+\.\d+) \(", done.stdout, re.MULTILINE)
    assert len(times) == 6 and all(float(time_us) > 0 for _, time_us in times), done.stdout
    assert "because" not in done.stdout, "its own kernels were timed"


IN_A_MODEL = """
import torch
from matmul_kernels import matmul, override, why_not

torch.manual_seed(0)


class Layers(torch.nn.Module):
    def __init__(self, product):
        super().__init__()
        self.product = product
        sizes = ((256, 512), (512, 128))
        self.weights = torch.nn.ParameterList(torch.randn(size, dtype=torch.bfloat16) / 16 for size in sizes)

    def forward(self, x):
        for weight in self.weights:
            x = torch.relu(self.product(x, weight))
        return x


with torch.no_grad():
    ours, theirs = Layers(matmul).cuda(), Layers(torch.mm).cuda()
    theirs.load_state_dict(ours.state_dict())
    compiled = torch.compile(ours, dynamic=True, fullgraph=True)
    for batch in (7, 33, 128, 1000):
        x = torch.randn(batch, 256, device="cuda", dtype=torch.bfloat16)
        assert why_not((x, ours.weights[0]), ()) is None
        expected = theirs(x)
        graph, given = torch.cuda.CUDAGraph(), torch.zeros_like(x)
        ours(given)
        with torch.cuda.graph(graph):
            captured = ours(given)
        given.copy_(x)
        graph.replay()
        with override("mm", lambda a, b: (a, b)):
            overridden = theirs(x)
        for name, found in (("eager", ours(x)), ("compiled", compiled(x)), ("graph", captured), ("aten", overridden)):
            error = (found.double() - expected.double()).abs().max() / expected.double().abs().max()
            assert error < 0.01, (name, batch, error.item())
print("right")
"""


def test_a_kernel_in_gluon_is_judged_and_runs_in_a_small_model(device: Device, tmp_path: Path) -> None:
    elite = sealed(gluon_module().certificate.model_copy(update={"device": device}))

    async def judged() -> VerifiedModule:
        async with ExportExecutors(device) as executors:
            return await ExportVerifier(executors).verified(elite, GLUON_SHAPES)

    found = asyncio.run(judged())
    assert not found.remarks
    kept = {step.function for each in found.verdicts for step in each.function.plan.launches}
    assert kept == {"specialised_kernel", "plain_kernel"}
    timed = tuple(TimedShape(shape.dims, {"elite_0": found.times[shape.key]}) for shape in GLUON_SHAPES.all[-1:])
    packed = PackageParts("matmul_kernels", {"elite_0": found}, Leaf(("elite_0",)), timed, None, device, ())
    for path, text in render(packed).items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert passed(tmp_path) >= 3
    done = run(sys.executable, "-P", "-c", IN_A_MODEL, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0 and "right" in done.stdout, done.stderr[-2000:]
