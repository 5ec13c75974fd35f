"""The lot of published kernels: files of public repositories, drawn before any of them was judged.

python -m benchmarks.published_lot MIRRORS    # writes published_lot.tsv: repository, commit, path

MIRRORS is a folder of bare git repositories, `<owner>+<name>/repo`. The query takes every Python file with a line
`@triton.jit` or `@jit`, whose name has one of `WORDS` and whose path matches nothing of `LEFT_OUT`. The lot is the
order of SHA-256 over a fixed text, the repository and the path: the first `EACH` files of every repository, and of
`COLLECTION`, whose files come from many, the first `COLLECTED`.
"""

import argparse
import hashlib
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

LOT = Path(__file__).parent / "published_lot.tsv"
WORDS = (
    *("softmax", "layer_norm", "layernorm", "group_norm", "rms_norm", "rmsnorm", "rope", "rotary", "swiglu", "silu"),
    *("geglu", "gelu", "relu", "activation", "cross_entropy", "matmul", "gemm", "mlp", "linear", "attention", "attn"),
    *("flash", "fwd", "add", "embedding", "argmax", "quant", "dequant", "cumsum", "mean", "sum", "norm"),
)
"""Words of file names: operators with one reference in PyTorch."""
LEFT_OUT = re.compile(
    r"(^|/)(tests?|benchmarks?|runtime|_?backends?)/|test_|_test|bench[^/]*$|bwd|backward|ascend|npu|xpu|amd|paged|moe"
    r"|sparse|blackwell|tlx|gluon|dist|varlen|chunk|nsa|ring|puzzle",
    re.IGNORECASE,
)
"""Tests, other vendors, backward passes, and kernels over page tables or ragged batches, which no spec can say."""
EACH = 3
COLLECTION, COLLECTED = "thunlp/TritonBench", 12
NO_KERNELS_OF = {"ScalingIntelligence/KernelBench"}
"""Problems without kernels."""


def drawn(mirrors: Path) -> list[tuple[str, str, str]]:
    """Return repository, commit and path of every file of the lot, in the lot's order."""
    found = sorted((_place(repository, path), repository, commit, path) for repository, commit, path in files(mirrors))
    count: Counter[str] = Counter()
    lot = []
    for _, repository, commit, path in found:
        count[repository] += 1
        if count[repository] <= (COLLECTED if repository == COLLECTION else EACH):
            lot.append((repository, commit, path))
    return lot


def files(mirrors: Path) -> Iterator[tuple[str, str, str]]:
    """Yield repository, commit and path of every file that the query finds."""
    for mirror in sorted(mirrors.glob("*/repo")):
        repository = mirror.parent.name.replace("+", "/", 1)
        if repository in NO_KERNELS_OF:
            continue
        commit = _git(mirror, "rev-parse", "HEAD").strip()
        for line in _git(mirror, "grep", "-lE", r"^\s*@(triton\.)?jit\b", "HEAD", "--", "*.py").splitlines():
            path = line.partition(":")[2]
            name = path.rpartition("/")[2].lower()
            if any(word in name for word in WORDS) and not LEFT_OUT.search(path):
                yield repository, commit, path


def _place(repository: str, path: str) -> str:
    return hashlib.sha256(f"kernelreef published 1 {repository}/{path}".encode()).hexdigest()


def _git(mirror: Path, *command: str) -> str:
    return subprocess.run(["git", "--git-dir", str(mirror), *command], capture_output=True, text=True).stdout


def main() -> None:
    """Write the lot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mirrors", type=Path)
    lot = drawn(parser.parse_args().mirrors)
    LOT.write_text("".join("\t".join(row) + "\n" for row in lot))
    print(f"{len(lot)} files of {len({row[0] for row in lot})} repositories")


if __name__ == "__main__":
    main()
