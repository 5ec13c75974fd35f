"""From a search to an installed package that runs in a process where nothing of ours can be imported."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.journeys.small import small_operator

pytestmark = pytest.mark.timeout(900)
REEF = (sys.executable, "-c", "from service.cli import main; main()")
ROOT = Path(__file__).parents[2]
ALONE = """
import sys, warnings

class Nothing:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] in ("archive", "workers", "service", "operators"):
            raise ImportError(name)

sys.meta_path.insert(0, Nothing())
import torch, softmax_kernels
x = torch.randn(3, 8).bfloat16()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    got = [softmax_kernels.softmax(x) for _ in range(2)]
    other = softmax_kernels.softmax(x[:2])
    compiled = torch.compile(softmax_kernels.softmax, backend="aot_eager", fullgraph=True)(x)
    wanted = softmax_kernels.softmax(x.requires_grad_())
    wanted.sum().backward()
assert x.grad is not None and not x.grad.isnan().any()
assert torch.equal(got[0], got[1]) and torch.equal(got[0], compiled) and torch.equal(got[0], wanted.detach())
assert torch.equal(got[0], torch.softmax(x.detach().float(), dim=-1).bfloat16())
said = [str(item.message) for item in caught if "PyTorch computes" in str(item.message)]
assert len(said) == 2 and "the kernels need one GPU" in said[0] and "gradients are wanted" in said[1], said
print(softmax_kernels.__file__)
"""


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env={**os.environ, **environment}, cwd=cwd, capture_output=True, text=True, timeout=400
    )


INSTALL = (sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--quiet", "--target")


def settings(tmp_path: Path) -> dict[str, str]:
    return {"REEF_DATA_DIR": str(tmp_path / "data"), "REEF_LOCAL_WORKERS": "2"}


def test_a_search_becomes_a_package_that_is_installed_and_used(tmp_path: Path) -> None:
    ours = settings(tmp_path)
    spec = str(small_operator(tmp_path))
    found = run(*REEF, "search", spec, "--evaluations", "1", "--json", cwd=tmp_path, **ours)
    assert found.returncode == 0, found.stderr
    done = run(*REEF, "export", "--out", "package", "--json", cwd=tmp_path, **ours)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["package"], told["refusals"], told["training"]) == ("softmax_kernels", [], {})
    package = tmp_path / "package"
    again = run(*REEF, "export", "--out", "package", cwd=tmp_path, **ours)
    assert again.returncode == 2 and "is not empty" in again.stderr
    site = tmp_path / "site"
    installed = run(*INSTALL, str(site), str(package), cwd=tmp_path)
    assert installed.returncode == 0, installed.stderr
    used = run(sys.executable, "-P", "-W", "ignore", "-c", ALONE, cwd=tmp_path, PYTHONPATH=str(site))
    assert used.returncode == 0, used.stderr
    assert str(site) in used.stdout
    pytest_ = (sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull)
    tried = run(*pytest_, f"--rootdir={package}", str(package / "tests"), cwd=tmp_path, PYTHONPATH=str(site))
    assert tried.returncode == 0 and "2 passed" in tried.stdout, tried.stdout


@pytest.mark.slow(reason="the journey above, with a seed by Inductor and a model that is timed under torch.compile")
def test_an_operator_that_nobody_prepared_ends_in_a_small_model(tmp_path: Path) -> None:
    ours, example = settings(tmp_path), tmp_path / "relu2_gate"
    shutil.copytree(ROOT / "examples" / "relu2_gate", example)
    written = run(*REEF, "operators", "seed", "./relu2_gate", cwd=tmp_path, **ours)
    assert written.returncode == 0, written.stderr
    assert ast.unparse(ast.parse(written.stdout)) == ast.unparse(ast.parse((example / "seed.py").read_text()))
    found = run(*REEF, "search", "./relu2_gate", "--evaluations", "1", "--json", cwd=tmp_path, **ours)
    assert found.returncode == 0, found.stderr
    done = run(*REEF, "export", "--out", "package", "--json", cwd=tmp_path, **ours)
    assert done.returncode == 0, done.stderr
    installed = run(*INSTALL, str(tmp_path / "site"), str(tmp_path / "package"), cwd=tmp_path)
    assert installed.returncode == 0, installed.stderr
    small = ("--tokens", "3", "--features", "32", "--layers", "1", "--rounds", "2", "--out", "model.json")
    command = (sys.executable, "-P", "-W", "ignore", str(example / "model.py"), *small)
    used = run(*command, cwd=tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert used.returncode == 0, used.stderr
    told = json.loads((tmp_path / "model.json").read_text())
    assert "the kernels need one GPU" in told["why_not"]
    assert set(told["median_us"]) == {"eager", "compiled", "with_kernel", "with_kernel_compiled"}
    assert told["relative_difference"]["with_kernel"] == 0 and max(told["relative_difference"].values()) < 0.01
