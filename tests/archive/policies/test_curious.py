import random
from collections import Counter

from archive.policies import CellContext
from archive.policies.curious import Curious
from tests.archive.policies.test_contract import ELITES


def test_it_goes_where_few_have_been() -> None:
    rng, around = random.Random(2), CellContext({0: 99, 1: 99, 10: 99})
    drawn = Counter(Curious().choose(ELITES, around, rng).parent.cell for _ in range(4000))
    # Weights are 1/10, 1/10, 1 and 1/10.
    assert 0.7 < drawn[5] / 4000 < 0.84
