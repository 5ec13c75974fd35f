import re

from tests.service.emitters.samples import applies, rewritten, seed


def test_hints_of_loads_and_stores():
    found = {rewritten("cache_hint", seed("gelu"), draw) for draw in range(40)}
    hints = {hint for code in found for hint in re.findall(r"(cache_modifier|eviction_policy)='([\w.]+)'", code)}
    assert hints == {
        *(("eviction_policy", value) for value in ("evict_first", "evict_last")),
        *(("cache_modifier", value) for value in (".ca", ".cg", ".cs")),
    }


def test_one_hint_at_a_time():
    source = seed("gelu")
    for draw in range(12):
        source = rewritten("cache_hint", source, draw)
        assert all(len(re.findall("cache_modifier|eviction_policy", line)) < 2 for line in source.splitlines())


def test_loads_with_everything_by_position_stay():
    source = seed("gelu").replace("mask=mask, other=0.0", "mask, 0.0, (), ''")
    assert "tl.load(x_ptr + offsets, mask, 0.0, (), '')" in rewritten("cache_hint", source)
    assert not applies("cache_hint", "x = 1")
