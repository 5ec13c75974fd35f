"""The comparison of verdicts covers every operator and every rogue, and finds what differs."""

from benchmarks.same_verdicts import ROGUES, differences, sources
from service.operators.catalogue import load_catalogue


def test_every_operator_and_every_rogue_is_a_source() -> None:
    names = [name for name, _, _ in sources()]
    kernels = {f"{path.parent.name}/{path.stem}" for path in ROGUES.glob("*/*.py")}
    assert len(names) == len(set(names)) and set(names) == kernels | {f"seed/{name}" for name in load_catalogue()}
    assert {operator.name for name, operator, _ in sources() if name.startswith("host/")} == {"scale"}


def test_a_difference_is_told_with_its_place() -> None:
    before = {"trace": {"outcome": "correct", "line": None}, "variants": [{"plan": "a", "predicted_us": {"N=1": 2.5}}]}
    after = {"trace": {"outcome": "correct", "line": 3}, "variants": [{"plan": "a", "predicted_us": {"N=1": 2.6}}]}
    assert list(differences(before, before, "seed/x")) == []
    assert list(differences(before, after, "seed/x")) == [
        "seed/x/trace/line: None -> 3",
        "seed/x/variants/0/predicted_us/N=1: 2.5 -> 2.6",
    ]
    assert list(differences(before, {}, "seed/x")) != []
    assert list(differences([1, 2], [1], "seed/x")) == ["seed/x: [1, 2] -> [1]"]
