"""From elites to a package: the winners are in it, and who does not do what was judged is not."""

from dataclasses import replace
from pathlib import Path

import pytest

from service.certificates.document import Certificate, sealed
from service.errors import InvalidInput
from service.evaluation.executor_client import LocalExecutor
from service.export.modules import ExportedModule, write_module
from service.export.package import ExportSource, export, retrace
from service.export.selection import ExportCandidate
from tests.service import records
from tests.service.export.pieces import KEYS, OPERATOR, SOURCE, certificate, traced


def contender(name: str, objective: float, time_us: float) -> ExportCandidate:
    return ExportCandidate(name, 0, objective, records.report({KEYS[1]: time_us}))


def offer(sources: dict[str, str], *contenders: ExportCandidate, reference: str = OPERATOR.reference) -> ExportSource:
    """Elites whose sources say something and whose bundles are what was judged."""

    async def certified(contender: ExportCandidate) -> Certificate:
        told = certificate(sources[contender.candidate], reference=reference)
        origin = told.origin.model_copy(update={"candidate": contender.candidate})
        return sealed(told.model_copy(update={"origin": origin}))

    return ExportSource(contenders, certified)


BEST, FAST, LIAR, ODD = (
    contender("best", 2.0, 9.0),
    contender("fast", 1.5, 4.0),
    contender("liar", 3.0, 2.0),
    contender("odd", 1.0, 1.0),
)
SOURCES = {
    "best": SOURCE,
    "fast": SOURCE + "\n# another",
    "liar": SOURCE.replace("1024.0", "512.0"),
    "odd": SOURCE.replace("libdevice.rint", "print"),
}


OTHER = "def double(x, by):\n    return x + x\n"


@pytest.fixture(scope="module", autouse=True)
def _traced() -> None:
    traced(), traced(OTHER)


async def test_winners_are_packed_and_liars_are_not(tmp_path: Path) -> None:
    package = await export(offer(SOURCES, BEST, FAST, LIAR, ODD))
    assert (package.name, dict(package.serving)) == ("double_kernels", {KEYS[0]: "best", KEYS[1]: "fast"})
    assert package.training == package.serving
    odd, liar = sorted(package.refusals, reverse=True)
    assert "uses 'print'" in odd and "candidate liar, variant 0: the plan of its exported module differs" in liar
    folder = package.write(tmp_path / "package")
    assert (folder / "double_kernels/elite_1.py").read_text() == package.files["double_kernels/elite_1.py"]
    with pytest.raises(InvalidInput, match="is not empty"):
        package.write(folder)


async def test_if_nobody_can_be_packed_it_says_why() -> None:
    with pytest.raises(InvalidInput, match=r"no elite can be exported: candidate odd, variant 0: .*'print'"):
        await export(offer(SOURCES, ODD))


async def test_searches_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(InvalidInput, match="is not double with gradients: entry, inputs or reference differ"):
        await export(offer(SOURCES, BEST), offer(SOURCES, BEST, reference=OTHER))


async def test_only_what_was_judged_passes() -> None:
    traced()
    module = write_module(certificate(), KEYS)
    other = certificate()
    then = {"triton": "3.6.0"}
    aged = other.model_copy(update={"verdict": other.verdict.model_copy(update={"versions": then})})

    def changed(before: str, after: str) -> ExportedModule:
        assert before in module.text
        return replace(module, text=module.text.replace(before, after), certificate=aged)

    async with LocalExecutor("trace") as tracer:
        assert await retrace(module, tracer) == ""
        assert await retrace(write_module(certificate(), KEYS[1:]), tracer) == ""
        wrong = await retrace(
            changed("b3.fill_(0)\n    double_kernel[(4,", "b3.fill_(1)\n    double_kernel[(4,"), tracer
        )
        assert wrong.startswith(
            "the plan of its exported module differs from the judged one at N=1024; judged with triton 3.6.0"
        )
        slow = await retrace(changed("1024.0) / 1024.0", "512.0) / 512.0"), tracer)
        assert "differs from the judged one at N=4, N=1024" in slow
        broken = await retrace(changed("import torch\n", "from sys import *\nimport torch\n"), tracer)
        assert "does not trace: forbidden_import" in broken
