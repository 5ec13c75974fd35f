"""From elites to a package: the winners are in it, and who does not do what was judged is not."""

from pathlib import Path

import pytest

from service.certificates.document import Certificate, sealed
from service.errors import InvalidInput
from service.export.package import ExportSource, export
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
    "liar": SOURCE.replace("BY - 1.0", "BY - 0.5"),
    "odd": SOURCE.replace("libdevice.fma", "print"),
}


OTHER = "def double(x, by):\n    return x + x\n"


@pytest.fixture(scope="module", autouse=True)
def _traced() -> None:
    traced(), traced(OTHER)


async def test_winners_are_packed_and_liars_are_not(tmp_path: Path) -> None:
    package = await export(offer(SOURCES, BEST, FAST, LIAR, ODD), shapes=[{"N": 77}])
    assert package.name == "double_kernels" and set(package.serving.values()) <= {"best", "fast"}
    assert {"N=77", KEYS[1]} <= set(package.serving) and package.training == package.serving
    odd, liar = sorted(package.refusals, reverse=True)
    assert "uses 'print'" in odd and "candidate liar, variant 0: the plan of its exported module differs" in liar
    folder = package.write(tmp_path / "package")
    assert (folder / "double_kernels/elite_1.py").read_text() == package.files["double_kernels/elite_1.py"]
    assert "| N=77 |  |" in package.files["README.md"] and f"| {KEYS[1]} | yes |" in package.files["README.md"]
    with pytest.raises(InvalidInput, match="is not empty"):
        package.write(folder)


async def test_if_nobody_can_be_packed_it_says_why() -> None:
    with pytest.raises(InvalidInput, match=r"no elite can be exported: candidate odd, variant 0: .*'print'"):
        await export(offer(SOURCES, ODD))


async def test_searches_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(InvalidInput, match="is not double: entry, inputs or reference differ"):
        await export(offer(SOURCES, BEST), offer(SOURCES, BEST, reference=OTHER))


async def test_a_search_that_is_compared_with_is_of_the_same_operator_and_its_shapes_are_timed() -> None:
    package = await export(offer(SOURCES, BEST), against=offer(SOURCES, FAST))
    readme = package.files["README.md"]
    assert "These times are predictions" in readme and "A search at shapes of its own" not in readme, "no card"
    assert KEYS[1] in package.serving
    with pytest.raises(InvalidInput, match=r"is not double: entry.* differ"):
        await export(offer(SOURCES, BEST), against=offer(SOURCES, FAST, reference=OTHER))


async def test_a_shape_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="N=5000 is not within 1 to 4096"):
        await export(offer(SOURCES, BEST), shapes=[{"N": 5000}])
