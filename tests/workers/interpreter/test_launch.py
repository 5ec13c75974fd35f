"""Programs that take different ways, and what their parameters receive."""

import numpy as np
import pytest
import torch

from tests.workers.interpreter.stage import Out, interpret, sample
from workers.interpreter.launch import _shuffled, _split, _strides
from workers.interpreter.memory import LaneGroup

X = torch.arange(40.0)


def test_programs_take_their_own_branch():
    source = """
@triton.jit
def kernel(a0, a1):
    pid = tl.program_id(0)
    if pid % 3 == 0:
        value = tl.load(a0 + pid)
    elif pid == 7:
        value = -1.0
    else:
        value = 100.0 if pid > 10 else 50.0
    tl.store(a1 + pid, value)
"""
    got = interpret(source, X, Out((20,)), grid=(20,)).only
    expected = [i if i % 3 == 0 else -1 if i == 7 else 100 if i > 10 else 50 for i in range(20)]
    assert got.tolist() == expected


def test_a_persistent_grid_strides_over_rows():
    source = """
@triton.jit
def kernel(a0, a1, a2):
    for row in tl.range(tl.program_id(0), a2, tl.num_programs(0), num_stages=3):
        tl.store(a1 + row, tl.load(a0 + row) + 1)
"""
    assert torch.equal(interpret(source, X, Out((40,)), 40, grid=(7,)).only, X + 1)


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ("range(pid, 40, 7)", lambda pid: range(pid, 40, 7)),
        ("tl.range(pid * 3, pid * 3 + pid % 4, pid + 1)", lambda pid: range(pid * 3, pid * 3 + pid % 4, pid + 1)),
        ("range(pid + 5, pid, -1)", lambda pid: range(pid + 5, pid, -1)),
        ("range((pid - 9).to(tl.int8), tl.full((), 100, tl.int8))", lambda pid: range(pid - 9, 100)),
        ("range(tl.load(a0 + pid).to(tl.int32) % 5, 9, 2)", lambda pid: range(pid % 5, 9, 2)),
    ],
)
def test_loops_that_start_at_the_program_count_as_its_own(turns, expected):
    source = f"""
@triton.jit
def kernel(a0, a1):
    pid = tl.program_id(0)
    total = 0
    for k in {turns}:
        total = total * 3 + k
    tl.store(a1 + pid, total)
"""
    got = interpret(source, X, Out((12,), torch.int32), grid=(12,)).only

    def total(pid):
        found = 0
        for k in expected(pid):
            found = (found * 3 + k + 2**31) % 2**32 - 2**31
        return found

    assert got.tolist() == [total(pid) for pid in range(12)]


def test_programs_that_walk_over_rows_run_together():
    source = """
@triton.jit
def kernel(a0, a1, a2):
    for row in range(tl.program_id(0), a2, tl.num_programs(0)):
        tl.store(a0 + row, 1.0)
        tl.store(a1 + row, tl.load(a0 + (row + 1) % a2))
"""
    seen = interpret(source, torch.zeros(2500), Out((2500,)), 2500, grid=(1000,)).only
    assert seen.mean() > 0.7, "one by one, half of them see the store of their neighbour"


def test_loop_bounds_depend_on_the_program():
    source = """
@triton.jit
def kernel(a0, a1):
    total = 0.0
    for i in range(tl.program_id(0) + 1):
        total += tl.load(a0 + i)
    tl.store(a1 + tl.program_id(0), total)
"""
    assert torch.equal(interpret(source, X, Out((40,)), grid=(40,)).only, X.cumsum(0))


def test_control_flow_on_values_differs_between_draws_and_programs():
    source = """
@triton.jit
def kernel(a0, a1):
    x = tl.load(a0 + tl.program_id(0))
    steps = 0
    while x > 1.0:
        x = x / 2
        steps += 1
    tl.store(a1 + tl.program_id(0), steps)
"""
    draws = [[torch.tensor([1.0, 5.0, 64.0])], [torch.tensor([9.0, 0.0, 3.0])]]
    run = interpret(source, draws[0][0], Out((3,), torch.int32), grid=(3,), draws=draws)
    assert [row[0].tolist() for row in run.outputs] == [[0, 3, 6], [4, 0, 2]]


def test_what_lanes_wrote_before_they_disagreed_happens_once():
    source = """
@triton.jit
def kernel(a0, a1):
    pid = tl.program_id(0)
    tl.atomic_add(a0, 1.0)
    if pid % 2 == 0:
        tl.atomic_add(a0, 10.0)
    tl.atomic_add(a1, 1.0)
"""
    run = interpret(source, torch.zeros(1), Out((1,)), grid=(6,))
    assert torch.frombuffer(bytearray(run.inputs_after[0][0]), dtype=torch.float32).item() == 36
    assert run.reply.finished[0].moved_bytes == 8 * (6 + 3 + 6)


def test_traffic_counts_active_lanes_of_every_program():
    source = """
@triton.jit
def kernel(a0, a1, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(a0 + i, mask=i < 5)
    tl.store(a1 + tl.program_id(0) * 5 + i, x, mask=i < 5)
"""
    assert interpret(source, X, Out((15,)), grid=(3,), B=8).reply.finished[0].moved_bytes == 3 * 5 * 4 * 2


SOME = """
@triton.jit
def kernel(a0, a1, FIRST: tl.constexpr):
    i = tl.arange(0, 8)
    for turn in range(20):
        if tl.program_id(0) >= FIRST:
            tl.store(a1 + i, tl.load(a0 + i) + turn)
"""


def test_where_little_is_touched_every_program_and_turn_is_counted():
    assert sample(SOME, X, Out((8,)), grid=(50,), FIRST=49).moved_bytes == 20 * 8 * 4 * 2


MUCH = Out((2 << 20,))


def test_where_much_is_touched_some_programs_stand_for_all():
    assert sample(SOME, X, MUCH, grid=(1000,), FIRST=500).moved_bytes == 500 * 20 * 8 * 4 * 2
    for count in (1, 2, 3, 5, 100):
        assert sample(SOME, X, MUCH, grid=(count,), FIRST=0).moved_bytes == count * 20 * 8 * 4 * 2


def test_more_programs_are_drawn_where_they_do_not_do_the_same():
    all_of_them = 10 * 20 * 8 * 4 * 2
    assert sample(SOME, X, MUCH, grid=(64,), FIRST=54).moved_bytes == all_of_them, "one in six works"
    found = [
        sample(SOME, X, MUCH, grid=(6400,), sample_seed=sample_seed, FIRST=5400).moved_bytes for sample_seed in "abc"
    ]
    assert all(0.5 < each / (100 * all_of_them) < 1.5 for each in found)


def test_few_programs_that_do_much_are_found_behind_many_that_do_little():
    source = """
@triton.jit
def kernel(a0, a1):
    i = tl.arange(0, 8)
    for turn in range(64):
        if (tl.program_id(0) % 8 == 5) or turn == 0:
            tl.store(a1 + i, tl.load(a0 + i) + turn)
"""
    found = [
        sample(source, X, MUCH, grid=(4096,), sample_seed=str(sample_seed)).moved_bytes for sample_seed in range(8)
    ]
    expected = (512 * 64 + 4096 * 7 / 8) * 8 * 4 * 2
    assert min(found) > 0.3 * expected
    assert 0.7 < sum(found) / len(found) / expected < 1.4


@pytest.mark.parametrize("working", ["tl.program_id(0) % 16 == 5", "turn % 2 == 1", "turn == tl.program_id(0) % 16"])
def test_nobody_knows_which_programs_and_turns_are_drawn(working):
    source = f"""
@triton.jit
def kernel(a0, a1):
    i = tl.arange(0, 8)
    for turn in range(64):
        if {working}:
            tl.store(a1 + i, tl.load(a0 + i) + turn)
"""
    share = {"turn % 2 == 1": 1 / 2, "turn == tl.program_id(0) % 16": 1 / 64}.get(working, 1 / 16)
    found = [
        sample(source, X, MUCH, grid=(4096,), sample_seed=str(sample_seed)).moved_bytes for sample_seed in range(8)
    ]
    assert len(set(found)) > 1
    assert found == [
        sample(source, X, MUCH, grid=(4096,), sample_seed=str(sample_seed)).moved_bytes for sample_seed in range(8)
    ], "drawn anew"
    assert 0.6 < sum(found) / len(found) / (4096 * 64 * share * 8 * 4 * 2) < 1.5


def test_triangles_average_out():
    source = """
@triton.jit
def kernel(a0, a1):
    i = tl.arange(0, 8)
    for turn in range(tl.program_id(0) + 1):
        tl.store(a1 + i, tl.load(a0 + i) + turn)
"""
    assert sample(source, X, Out((2 << 20,)), grid=(16,)).moved_bytes == sum(range(17)) * 8 * 4 * 2


def test_grids_have_three_axes():
    source = """
@triton.jit
def kernel(a0, a1):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    where = (x * tl.num_programs(1) + y) * tl.num_programs(2) + z
    tl.store(a1 + where, where)
"""
    assert interpret(source, X, Out((24,), torch.int32), grid=(2, 3, 4)).only.tolist() == list(range(24))


def test_wide_grids_run_in_groups():
    source = """
@triton.jit
def kernel(a0, a1, B: tl.constexpr):
    i = tl.program_id(0) * 16 + tl.arange(0, 16)
    wide = tl.load(a0 + tl.arange(0, B) % 40)
    tl.store(a1 + i, i + tl.sum(wide, 0) * 0)
"""
    got = interpret(source, X, Out((800,)), grid=(50,), B=65536).only
    assert torch.equal(got, torch.arange(800.0))


def test_constants_of_every_kind():
    source = """
@triton.jit
def double(x):
    return x * 2


@triton.jit
def kernel(a0, a1, DTYPE: tl.constexpr, FN: tl.constexpr, NAME: tl.constexpr, TOP: tl.constexpr, BIAS, STEP):
    i = tl.arange(0, 4)
    x = FN(tl.load(a0 + i * STEP).to(DTYPE))
    if BIAS is not None:
        x = x + 1000
    if NAME == "relu":
        x = tl.maximum(x, TOP)
    tl.store(a1 + i, x)
"""
    constants = {"DTYPE": "dtype:fp16", "FN": "function:double", "NAME": "relu", "TOP": float("-inf"), "BIAS": None}
    assert interpret(source, X, Out((4,)), STEP=1, **constants).only.tolist() == [0, 2, 4, 6]
    for named in ("function:missing", "torch:builtins", "torch:nn", "dtype:fp7", "dtype:pointer<fp32>"):
        refused = interpret(source, X, Out((4,)), STEP=1, **constants | {"FN": named}).reply
        assert refused.outcome == "not_interpretable", refused
    other = constants | {"FN": "function:missing"}
    assert interpret(source, X, Out((4,)), STEP=1, **other).reply.outcome == "not_interpretable"


def test_float_arguments_are_tensors():
    source = "@triton.jit\ndef kernel(a0, a1, a2):\n    tl.store(a1, tl.load(a0) + a2.to(tl.float32))\n"
    assert interpret(source, torch.ones(1), Out((1,)), 0.5).only == 1.5


def test_lanes_split_by_draw_first_and_keep_their_order():
    lanes = LaneGroup(torch.arange(2).numpy(), torch.arange(3).repeat(3, 1).T.numpy())
    by_program = _split(lanes, torch.tensor([[5, 1, 5]]).numpy())
    assert [group.programs[:, 0].tolist() for group in by_program] == [[0, 2], [1]]
    by_draw = _split(lanes, torch.tensor([[5, 1, 5], [5, 5, 5]]).numpy())
    assert [group.draws.tolist() for group in by_draw] == [[0], [1]]


TICKETS = """
@triton.jit
def kernel(a0, a1, WAIT: tl.constexpr):
    if WAIT:
        while tl.atomic_add(a0 + 1, 0) < tl.program_id(0):
            pass
    ticket = tl.atomic_add(a0, 1)
    tl.store(a1 + ticket, tl.program_id(0))
    tl.atomic_add(a0 + 1, 1)
"""


def test_programs_run_in_an_order_that_follows_from_the_inputs():
    def order(first: int, **constants) -> list[int]:
        x = torch.tensor([0, 0, first], dtype=torch.int32)
        return interpret(TICKETS, x, Out((40,), torch.int32), grid=(40,), **constants).only.tolist()

    orders = [order(seed, WAIT=False) for seed in (1, 2, 1)]
    assert all(sorted(each) == list(range(40)) for each in orders)
    assert orders[0] == orders[2] != orders[1]
    assert all(each != sorted(each) for each in orders)


def test_programs_may_wait_for_any_other():
    x = torch.zeros(2, dtype=torch.int32)
    assert interpret(TICKETS, x, Out((40,), torch.int32), grid=(40,), WAIT=True).only.tolist() == list(range(40))
    backwards = TICKETS.replace("< tl.program_id(0)", "< 39 - tl.program_id(0)")
    got = interpret(backwards, x, Out((40,), torch.int32), grid=(40,), WAIT=True).only.tolist()
    assert got == list(range(39, -1, -1))


def test_a_long_loop_ends_even_if_it_seems_to_wait():
    source = """
@triton.jit
def kernel(a0, a1):
    turns = 0
    while turns < 1000 + tl.program_id(0):
        turns += 1
    tl.store(a1 + tl.program_id(0), turns)
"""
    got = interpret(source, torch.zeros(1), Out((5,), torch.int32), grid=(5,)).only
    assert got.tolist() == [1000, 1001, 1002, 1003, 1004]


def test_neighbours_stay_together():
    shuffled = _shuffled(100, 8, np.random.default_rng(1))
    assert sorted(shuffled) == list(range(100))
    starts = [number // 8 for number in shuffled]
    assert starts != sorted(starts)
    groups = [set(shuffled[first : first + 8].tolist()) for first in range(0, 96, 8)]
    assert sum(len(group & {number + 1 for number in group}) for group in groups) > 5 * len(groups) // 2


@pytest.mark.parametrize("grid", [(40,), (20, 2), (2, 20), (5, 2, 4)])
def test_any_two_programs_meet_now_and_then(grid):
    count = int(np.prod(grid))
    order, met = np.random.default_rng(1), np.zeros((count, count), bool)
    for _ in range(2000):
        for group in np.split(_shuffled(count, 4, order, _strides(grid)), range(4, count, 4)):
            met[np.ix_(group, group)] = True
    assert met.all()


@pytest.mark.parametrize(("grid", "other"), [((16, 2), 1), ((2, 16), 0), ((2, 16, 1), 0), ((4, 2, 4), 1)])
def test_neighbours_along_some_axis_meet_at_once(grid, other):
    places = np.stack(np.unravel_index(np.arange(np.prod(grid)), grid), 1)
    order, met = np.random.default_rng(2), set()
    for _ in range(20):
        for group in np.split(_shuffled(len(places), 4, order, _strides(grid)), range(4, len(places), 4)):
            met |= {tuple(np.flatnonzero(one != two)) for one in places[group] for two in places[group]}
    assert (other,) in met


RACE = """
@triton.jit
def kernel(a0, a1, a2, B: tl.constexpr):
    row, half = tl.program_id(0), tl.program_id(1)
    wide = tl.load(a0 + row + tl.arange(0, B), tl.arange(0, B) < 0)
    tl.store(a1 + row, half)
    tl.store(a2 + row * 2 + half, tl.load(a1 + row))
"""


@pytest.mark.parametrize("width", [8, 1 << 17, 1 << 19])
def test_programs_meet_others_however_wide_their_blocks_are(width):
    """By itself each finds what it has stored."""
    expected = torch.arange(32, dtype=torch.int32).reshape(16, 2) % 2
    outs = Out((16,), torch.int32), Out((16, 2), torch.int32)
    runs = [interpret(RACE, torch.arange(8.0) + seed, *outs, grid=(16, 2), B=width) for seed in range(4)]
    assert not all(torch.equal(run.outputs[0][1], expected) for run in runs)


SWAPPING = """
@triton.jit
def kernel(a0, a1, a2):
    place = tl.program_id(0)
    tl.store(a2 + place, tl.load(a0 + place))
    tl.store(a1 + place, tl.load(a2 + (place ^ 1)))
"""


def test_who_does_not_wait_for_what_others_store_may_find_nothing():
    expected = torch.arange(32) ^ 1

    def is_right(seed: int) -> bool:
        x = torch.cat([torch.arange(32), torch.tensor([seed])]).int()
        got = interpret(SWAPPING, x, Out((32,), torch.int32), Out((32,), torch.int32), grid=(32,)).only
        return torch.equal(got, expected.int())

    assert not all(is_right(seed) for seed in range(12))
