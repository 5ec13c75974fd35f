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

FORMS = """
import torch
from softmax_kernels import operation, override


class Attention(torch.nn.Module):
    # As in models of Hugging Face: the scores of new queries against a cache of keys.
    def __init__(self, features=16):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (torch.nn.Linear(features, features) for _ in range(3))

    def forward(self, states, cache):
        scores = self.q_proj(states) @ self.k_proj(cache).transpose(-1, -2) / 4
        return torch.nn.functional.softmax(scores.to(torch.bfloat16), dim=-1) @ self.v_proj(cache).bfloat16()


def rows(x, dim, half_to_float):
    return (x.reshape(-1, x.shape[-1]),) if dim in (-1, x.dim() - 1) and not half_to_float else None


def shaped(outputs, x, *rest):
    return outputs.view(x.shape)


torch.manual_seed(0)
model, states, cache = Attention(), torch.randn(2, 4, 16), torch.randn(2, 64, 16)
other = torch.randn(2, 5, 16)
eager = model(states, cache)
grads = torch.autograd.grad(eager.float().sum(), model.q_proj.weight)[0]
with override("_softmax", rows, shaped, key="CPU"):
    assert torch.equal(model(states, cache), eager), "no card: the operator stays"
ran = []
operation._found.clear()
operation._why_no_shape = lambda tensors, scalars: None  # Triton's interpreter stands in for the card.
operation._run = lambda function, tensors, sizes: ran.append(sizes) or function(*tensors, *sizes)
with override("_softmax", rows, shaped, key="CPU"):
    ours = model(states, cache)
    ours_grads = torch.autograd.grad(ours.float().sum(), model.q_proj.weight)[0]
    assert ran == [(8, 64)], ran
    model(other, cache)
    torch.softmax(torch.randn(8, 64), 0)
    assert len(ran) == 1, "a shape without a kernel, and another axis"
torch.testing.assert_close(ours, eager, rtol=0.02, atol=0.02)
torch.testing.assert_close(ours_grads, grads, rtol=0.05, atol=0.02)
assert torch.equal(model(states, cache), eager) and len(ran) == 1, "it is taken back"
try:
    override("softmax.int", rows, key="CPU").__enter__()
except ValueError as error:
    assert "name the operator that it calls" in str(error)
else:
    raise AssertionError("an operator that is composed of others is refused")
"""
HUB = """
import sys
from pathlib import Path

import torch
import softmax_kernels
from kernels import get_local_kernel

loaded = get_local_kernel(Path(sys.argv[1]))
assert loaded.__name__ != "softmax_kernels" and "softmax_kernels" in loaded.__name__
x = torch.randn(8, 64).bfloat16()
assert torch.equal(loaded.softmax(x), softmax_kernels.softmax(x))
assert torch.equal(torch.compile(loaded.softmax, backend="aot_eager", fullgraph=True)(x), loaded.softmax(x))
assert "one GPU" in loaded.why_not((x,))
operators = getattr(torch.ops, loaded.__name__)
assert torch.equal(operators.softmax(x), torch.ops.softmax_kernels.softmax(x))
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
    alone = (sys.executable, "-P", "-W", "ignore", "-c")
    forms = run(*alone, FORMS, cwd=tmp_path, PYTHONPATH=str(site), TRITON_INTERPRET="1")
    assert forms.returncode == 0, forms.stderr
    repository = tmp_path / "repository"
    shutil.copytree(package / "softmax_kernels", repository / "build" / "torch-universal")
    for folder in (package / "softmax_kernels", repository):
        loaded = run(*alone, HUB, str(folder), cwd=tmp_path, PYTHONPATH=str(site))
        assert loaded.returncode == 0, loaded.stderr


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
