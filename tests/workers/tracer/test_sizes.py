"""Symbolic sizes: every idiom of host code gives the number of a plain size, wherever its guards hold."""

import math

import pytest
import torch
import triton
from torch._dispatch.python import enable_python_dispatcher

from tests.workers.tracer.jobs import in_jail
from workers.protocol.formula import evaluate
from workers.tracer import sizes
from workers.tracer.sizes import MAX_RECORDED, GuardLimit, SizeLog, plain, term_of

RANGES = {"M": (1, 300), "N": (1, 5000)}

IDIOMS = {
    "cdiv": lambda m, n: triton.cdiv(m, 64),
    "negative floor": lambda m, n: -(-n // 128),
    "ceil": lambda m, n: math.ceil(n / 3),
    "floor": lambda m, n: math.floor(n / 3),
    "remainder": lambda m, n: (n + m) % 7,
    "shifts": lambda m, n: (n << 3) >> 2,
    "masks": lambda m, n: (n + 127) & -128,
    "or": lambda m, n: n | 1,
    "xor": lambda m, n: n ^ 5,
    "power of two": lambda m, n: triton.next_power_of_2(n),
    "bit length": lambda m, n: 1 << (n - 1).bit_length(),
    "divmod": lambda m, n: divmod(n, 48)[0] + divmod(n, m)[1],
    "min and max": lambda m, n: min(n, 1024) + max(m, 16),
    "symbolic min": lambda m, n: torch.sym_min(n, 1024),
    "choice": lambda m, n: 4 if n > 2048 else 8,
    "chain": lambda m, n: 1 if 16 < n <= 700 and m % 2 == 0 else 2,
    "either": lambda m, n: 1 if (n < 10) | (m == 3) else 2,
    "loop": lambda m, n: sum(1 for _ in range(n // 1000)),
    "table": lambda m, n: {1: 5, 64: 6}.get(m, 7),
    "product": lambda m, n: math.prod((m, n, 2)),
    "sum": lambda m, n: sum((m, n, 2)),
    "square": lambda m, n: n**2 - abs(m - n),
    "round": lambda m, n: round(n / 7),
    "integer": lambda m, n: int(n * 0.5),
    "reciprocal": lambda m, n: 1.0 / n,
    "root": lambda m, n: n**-0.5 * 1.44269504,
    "square root": lambda m, n: 1.0 / math.sqrt(m),
    "logarithms": lambda m, n: -math.log(n) + math.log2(m) + math.exp(1 / m),
    "base": lambda m, n: math.log(m, 2),
    "numel": lambda m, n: torch.empty((m, n), device="meta").numel(),
    "strides": lambda m, n: torch.empty((m, n), device="meta").t().contiguous().stride()[0],
    "view": lambda m, n: torch.empty((2 * m, n), device="meta").view(2, -1).shape[1],
    "channels": lambda m, n: torch.empty_like(torch.empty((1, m, 3, n), device="meta")).stride()[1],
    "part": lambda m, n: torch.empty((m + 8, n), device="meta")[8:].storage_offset(),
    "is it contiguous": lambda m, n: int(torch.empty((m, n), device="meta").t().is_contiguous()),
}
POINTS = [{"M": m, "N": n} for m in (1, 2, 3, 64, 65, 300) for n in (1, 2, 9, 16, 700, 1024, 1025, 2048, 2049, 5000)]


def _all_idioms(_: bytes) -> bytes:
    expected = {name: [idiom(each["M"], each["N"]) for each in POINTS] for name, idiom in IDIOMS.items()}
    sizes.install()
    for name, idiom in IDIOMS.items():
        for start in POINTS:
            log = SizeLog(start, RANGES)
            with enable_python_dispatcher():
                term = term_of(idiom(log.size("M"), log.size("N")))
            served = 0
            for point, wanted in zip(POINTS, expected[name], strict=True):
                if all(evaluate(guard, point) for guard in log.guards):
                    served += 1
                    found = evaluate(term, point)
                    assert (type(found), found) == (type(wanted), wanted), (name, start, point, term, log.guards)
            assert served, (name, start, "not even its own sizes")
    return b"done"


def test_every_idiom_is_right_wherever_its_guards_hold() -> None:
    assert in_jail(_all_idioms) == b"done"


def _guards(idiom, **start: int) -> list[str]:
    log = SizeLog(start, RANGES)
    idiom(*(log.size(name) for name in start))
    return [str(guard) for guard in log.guards]


def test_only_decisions_make_guards_and_only_once() -> None:
    assert _guards(lambda n: (n + 63) // 64 * 64 % 7, N=100) == []
    assert _guards(lambda n: bool(n > 64) and bool(n > 64) and bool(n > 32), N=100) == ["['>', 'N', 64]"]
    assert _guards(lambda n: bool(n >= 1) or bool(n > 5000), N=100) == [], "the range says so"
    assert _guards(int, N=100) == ["['==', 'N', 100]"]
    assert _guards(lambda k: k, K=7) == ["['==', 'K', 7]"], "a size without a range is fixed"


def test_endless_decisions_end() -> None:
    def decide(n: torch.SymInt) -> None:
        for limit in range(2, 2 * MAX_RECORDED):
            bool(n * n % limit == 0)

    with pytest.raises(GuardLimit, match="more than 256 decisions"):
        _guards(decide, N=4999)


def test_plain_numbers_stay_plain() -> None:
    assert [term_of(each) for each in (3, 0.5, True)] == [3, 0.5, True] == [plain(each) for each in (3, 0.5, True)]
