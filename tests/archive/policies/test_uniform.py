import random
from collections import Counter

from archive.policies import CellContext
from archive.policies.uniform import Uniform
from tests.archive.policies.test_contract import ELITES


def test_cells_are_treated_alike() -> None:
    rng = random.Random(1)
    drawn = Counter(Uniform().choose(ELITES, CellContext({0: 99}), rng).parent.cell for _ in range(4000))
    assert set(drawn) == {elite.cell for elite in ELITES}
    assert max(drawn.values()) < 1.3 * min(drawn.values())
