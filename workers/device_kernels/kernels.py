"""The Triton support kernels. Jobs come in tables of 64-bit words in the card's memory, one row per program along y.

Random words are Philox 4x32 with seven rounds, the fewest that pass BigCrush (Salmon et al. 2011, table 2). The key is
a row's seed, the counter follows from the position. Each word gives two values, the second with its halves swapped.
"""

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl

_jit: Callable[[Callable[..., Any]], Any] = triton.jit

ROUNDS = tl.constexpr(7)
TWO_LOG_2 = tl.constexpr(1.3862943611198906)
"""Twice the natural logarithm of two."""
RARE = tl.constexpr(4096)
"""One in this many words makes its first value an outlier, and one makes its second value one. Without outliers a few
values would tell all: the sum of a row's exponentials is right to a per mille after reading a quarter of the row."""
OUTLYING = tl.constexpr(16.0)
"""Factor on outliers: one weighs more in a row's exponentials than 32000 other values."""
FARTHEST = tl.constexpr(112.0)
"""Bound on the magnitude of values: the root of twice the logarithm of 2^32 is 6.7, and outliers are 16 times as
large."""
UNLIKELY = tl.constexpr(0x2545F491)
"""A word that random data holds once in four billion."""
VECTOR = tl.constexpr(16)
"""Elements that are stored together."""
SWAPS = tl.constexpr(32)
"""Turns of a random order: after each, half of all numbers are elsewhere (Hoang et al. 2012)."""


@_jit
def share(word: tl.tensor) -> tl.tensor:
    """Return 23 of a word's bits as a number in [0, 1)."""
    return ((word >> 9) | 0x3F800000).to(tl.float32, bitcast=True) - 1.0


@_jit
def swap(word: tl.tensor) -> tl.tensor:
    """Return a word with its halves swapped."""
    return (word >> 16) | (word << 16)


@_jit
def minus_log2(word: tl.tensor) -> tl.tensor:
    """Return minus the binary logarithm of a word as a number in (0, 1].

    The bits of a float32 are its logarithm except for a bow over each octave. The bow is a fit over Chebyshev points,
    off by 6e-5 at most.
    """
    bits = (word | 1).to(tl.float32).to(tl.uint32, bitcast=True)
    part = ((bits & 0x7FFFFF) | 0x3F800000).to(tl.float32, bitcast=True) - 1.0
    bow = (part - part * part) * (0.442454 + part * (-0.270160 + part * (0.152021 - part * 0.0458415)))
    return 159.0 - bits.to(tl.int32).to(tl.float32) * (1.0 / 8388608) - bow


@_jit
def draw_normals(word: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """Draw two normal values (Box and Muller 1958), rarely outliers: radius from the word, angle from its swapped self.

    Sine and cosine of pi x are fits over the Chebyshev points of [-1, 1], off by 5e-5 at most.
    """
    radius = tl.sqrt(tl.abs(minus_log2(word)) * TWO_LOG_2)
    turn = swap(word).to(tl.int32, bitcast=True).to(tl.float32) * (1.0 / 2147483648)
    square = turn * turn
    sine = 3.1415806 + square * (-5.1671040 + square * (2.5452408 + square * (-0.5852298 + square * 0.0655241)))
    cosine = 0.9999590 + square * (-4.9327356 + square * (4.0419651 + square * (-1.2873563 + square * 0.1782072)))
    rare = word % RARE
    one = radius * (turn * sine) * tl.where(rare == 0, OUTLYING, 1.0)
    return one, radius * cosine * tl.where(rare == 1, OUTLYING, 1.0)


@_jit
def draw_floats(word: tl.tensor, normal: tl.tensor, low: tl.tensor, high: tl.tensor) -> tl.tensor:
    """Draw two values per word side by side, (block, 2)."""
    if normal:
        one, other = draw_normals(word)
    else:
        one = low + (high - low) * share(word)
        other = low + (high - low) * share(swap(word))
    values = tl.join(one, other)
    if (low > -FARTHEST) | (high < FARTHEST):
        values = tl.clamp(values, low, high)
    return values


@_jit
def draw_integers(word: tl.tensor, low: tl.tensor, span: tl.tensor) -> tl.tensor:
    """Draw two values per word side by side, (block, 2) int64."""
    return low + tl.join(tl.umulhi(word, span), tl.umulhi(swap(word), span)).to(tl.int64)


@_jit
def draw_words(seed: tl.tensor, counter: tl.tensor) -> tl.tensor:
    """Draw four random words per counter (uint32)."""
    one_key, other_key = seed.to(tl.uint32), (seed.to(tl.uint64) >> 32).to(tl.uint32)
    one, two, three, four = counter, counter * 0, counter * 0, counter * 0
    for _ in tl.static_range(ROUNDS):
        low, high = one.to(tl.uint64) * 0xD2511F53, three.to(tl.uint64) * 0xCD9E8D57
        one = (high >> 32).to(tl.uint32) ^ two ^ one_key
        three = (low >> 32).to(tl.uint32) ^ four ^ other_key
        two, four = high.to(tl.uint32), low.to(tl.uint32)
        one_key = tl.add(one_key, 0x9E3779B9, sanitize_overflow=False)
        other_key = tl.add(other_key, 0xBB67AE85, sanitize_overflow=False)
    return one, two, three, four


@_jit
def count_up(block: tl.constexpr) -> tl.tensor:
    """Return the counters of this program."""
    return (tl.program_id(0) * block + tl.arange(0, block)).to(tl.uint32)


@_jit
def line_up(one: tl.tensor, two: tl.tensor, three: tl.tensor, four: tl.tensor) -> tl.tensor:
    """Join four blocks of pairs, the eight values of a counter side by side."""
    return tl.reshape(tl.join(tl.join(one, two), tl.join(three, four)), (8 * one.shape[0],))


@_jit
def put(target: tl.tensor, elements: tl.tensor, values: tl.tensor, block: tl.constexpr) -> None:
    """Store a program's share of the elements: whole vectors, then the remainder at the end."""
    start = tl.program_id(0).to(tl.int64) * block
    left = tl.maximum(tl.minimum(elements - start, block), 0).to(tl.int32)
    vectors = left // VECTOR * VECTOR
    lane = tl.arange(0, block)
    tl.store(target + start + lane, values, mask=lane < vectors)
    if vectors < left:
        tl.store(target + start + lane, values, mask=(lane >= vectors) & (lane < left))


@_jit
def make_floats(
    seed: tl.tensor, normal: tl.tensor, low: tl.tensor, high: tl.tensor, dtype: tl.constexpr, block: tl.constexpr
) -> tl.tensor:
    """Make this program's share of a seed's values: normal ones clamped to [low, high], or uniform ones in between."""
    one, two, three, four = draw_words(seed, count_up(block))
    values = line_up(
        draw_floats(one, normal, low, high),
        draw_floats(two, normal, low, high),
        draw_floats(three, normal, low, high),
        draw_floats(four, normal, low, high),
    )
    return values.to(dtype)


@_jit
def make_integers(
    seed: tl.tensor, low: tl.tensor, span: tl.tensor, dtype: tl.constexpr, block: tl.constexpr
) -> tl.tensor:
    """Make this program's share of the values of a seed: uniform over low, low + 1, ..., low + span - 1."""
    one, two, three, four = draw_words(seed, count_up(block))
    wide = tl.zeros((block,), tl.uint32) + span.to(tl.uint32)
    return line_up(
        draw_integers(one, low, wide).to(dtype),
        draw_integers(two, low, wide).to(dtype),
        draw_integers(three, low, wide).to(dtype),
        draw_integers(four, low, wide).to(dtype),
    )


@_jit
def fill_floats(
    table: tl.tensor,
    elements: tl.tensor,
    normal: tl.tensor,
    low: tl.tensor,
    high: tl.tensor,
    dtype: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Write values. Rows are (address, seed)."""
    row = table + 2 * tl.program_id(1)
    target = tl.multiple_of(tl.load(row).to(tl.pointer_type(dtype)), 16)
    put(target, elements, make_floats(tl.load(row + 1), normal, low, high, dtype, block), 8 * block)


@_jit
def fill_integers(
    table: tl.tensor,
    elements: tl.tensor,
    low: tl.tensor,
    span: tl.tensor,
    dtype: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Write values. Rows are (address, seed)."""
    row = table + 2 * tl.program_id(1)
    target = tl.multiple_of(tl.load(row).to(tl.pointer_type(dtype)), 16)
    put(target, elements, make_integers(tl.load(row + 1), low, span, dtype, block), 8 * block)


@_jit
def spread_out(seed: tl.tensor, row: tl.tensor, number: tl.tensor, count: tl.tensor, among: tl.tensor) -> tl.tensor:
    """Draw one number from each of `count` equal parts of the numbers below `among`; half are at an end of their part.

    So numbers never fall along a row, and some are equal.
    """
    first, behind = number * among // count, (number + 1) * among // count
    word = mix(row * 4294967296 + number, number + 1, seed | 1).to(tl.uint64, bitcast=True)
    share = (word >> 32).to(tl.int64)
    inside = (share * (behind - first + 1)) >> 32
    end = word & 3
    found = first + tl.where(end == 0, 0, tl.where(end == 1, behind - first, inside))
    return tl.minimum(found, among - 1)


@_jit
def boundary(seed: tl.tensor, row: tl.tensor, number: tl.tensor, segments: tl.tensor, total: tl.tensor) -> tl.tensor:
    """Return boundaries of segments that divide `total` elements: the first is 0, none falls, the last is `total`."""
    inner = tl.minimum(tl.maximum(number - 1, 0), tl.maximum(segments - 2, 0))
    found = spread_out(seed, row, inner, tl.maximum(segments - 1, 1), total + 1)
    return tl.where(number <= 0, 0, tl.where(number >= segments, total, found))


@_jit
def permuted(seed: tl.tensor, row: tl.tensor, number: tl.tensor, count: tl.tensor) -> tl.tensor:
    """Return the place of each number below `count` in a random order (swap or not, Hoang et al. 2012)."""
    place = number
    for turn in range(SWAPS):
        key = mix(row, row * 0 + turn + 1, seed | 1)
        pivot = (key.to(tl.uint64, bitcast=True) >> 1).to(tl.int64) % count
        other = (pivot + count - place) % count
        coin = mix(key ^ tl.maximum(place, other), -1 - row, seed | 1)
        place = tl.where((coin & 1) == 1, other, place)
    return place


@_jit
def place_integers(
    table: tl.tensor,
    elements: tl.tensor,
    form: tl.tensor,
    low: tl.tensor,
    among: tl.tensor,
    dtype: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Write ordered integers. Rows of the table are (address, seed).

    `form` is eight times the elements of an input's row, plus a kind: 0 for sorted numbers and 1 for different ones,
    `low` plus numbers below `among`; 2 for offsets, 3 for ends, 4 for counts and 5 for starts of segments of `among`
    elements.
    """
    columns, kind = form // 8, form % 8
    job = table + 2 * tl.program_id(1)
    target = tl.multiple_of(tl.load(job).to(tl.pointer_type(dtype)), 16)
    seed = tl.load(job + 1)
    element = tl.program_id(0).to(tl.int64) * (8 * block) + tl.arange(0, 8 * block)
    row, number = element // columns, element % columns
    if kind == 0:
        found = low + spread_out(seed, row, number, columns, among)
    elif kind == 1:
        place = permuted(seed, row, number, columns)
        first, behind = place * among // columns, (place + 1) * among // columns
        share = (mix(row * 4294967296 + place, -1 - place, seed | 1).to(tl.uint64, bitcast=True) >> 32).to(tl.int64)
        found = low + first + ((share * (behind - first)) >> 32)
    elif kind == 2:
        found = boundary(seed, row, number, columns - 1, among)
    elif kind == 5:
        found = boundary(seed, row, number, columns, among)
    else:
        found = boundary(seed, row, number + 1, columns, among)
        if kind == 4:
            found -= boundary(seed, row, number, columns, among)
    put(target, elements, found.to(dtype), 8 * block)


@_jit
def poison(table: tl.tensor, block: tl.constexpr) -> None:
    """Set every byte to 0xFF. Rows are (address, bytes)."""
    row = table + 2 * tl.program_id(1)
    target = tl.multiple_of(tl.load(row).to(tl.pointer_type(tl.int8)), 16)
    put(target, tl.load(row + 1), tl.full((block,), -1, tl.int8), block)


@_jit
def count_unpoisoned(table: tl.tensor, differing: tl.tensor, block: tl.constexpr) -> None:
    """Add the words in which a byte is not 0xFF to a 64-bit counter. Rows are (address, words of 64 bits)."""
    row = table + 2 * tl.program_id(1)
    target = tl.multiple_of(tl.load(row).to(tl.pointer_type(tl.int64)), 16)
    start, lane = tl.program_id(0).to(tl.int64) * block, tl.arange(0, block)
    left = tl.maximum(tl.minimum(tl.load(row + 1) - start, block), 0).to(tl.int32)
    vectors = left // VECTOR * VECTOR
    whole, rest = lane < vectors, (lane >= vectors) & (lane < left)
    count = tl.sum((tl.load(target + start + lane, mask=whole, other=-1) != -1).to(tl.int32), 0)
    if vectors < left:
        count += tl.sum((tl.load(target + start + lane, mask=rest, other=-1) != -1).to(tl.int32), 0)
    if count > 0:
        tl.atomic_add(differing, count.to(tl.int64))


@_jit
def mix(word: tl.tensor, place: tl.tensor, key: tl.tensor) -> tl.tensor:
    """Return 64 bits that follow from a word, its place and the key (finaliser of SplitMix64, Steele et al. 2014)."""
    bits = word.to(tl.uint64, bitcast=True) ^ (place.to(tl.uint64, bitcast=True) * key.to(tl.uint64))
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB
    return (bits ^ (bits >> 31)).to(tl.int64, bitcast=True)


@_jit
def sum_up(table: tl.tensor, key: tl.tensor, block: tl.constexpr) -> None:
    """Add memory up to 64 bits. Rows are (address, bytes, address of a sum), addresses multiples of 8.

    Words of eight bytes are mixed with their place and added, the remaining bytes one by one; sums wrap. Without the
    key, an odd number, memory cannot be changed so that the sum stays. A program takes `block` words.
    """
    row = table + 3 * tl.program_id(1)
    source, size = tl.load(row), tl.load(row + 1)
    place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = place < size // 8
    words = tl.load(source.to(tl.pointer_type(tl.int64)) + place, mask=inside, other=0)
    total = tl.sum(tl.where(inside, mix(words, place + 1, key), 0), 0)
    if tl.program_id(0) == 0:
        byte = (size // 8 * 8 + tl.arange(0, 8)).to(tl.int64)
        left = tl.load(source.to(tl.pointer_type(tl.int8)) + byte, mask=byte < size, other=0).to(tl.int64)
        total += tl.sum(tl.where(byte < size, mix(left, -1 - byte, key), 0), 0)
    if tl.program_id(0).to(tl.int64) * block * 8 < tl.maximum(size, 1):
        tl.atomic_add(tl.load(row + 2).to(tl.pointer_type(tl.int64)), total)


@_jit
def expect_zone(seed: tl.tensor, offsets: tl.tensor) -> tl.tensor:
    """Return the byte of a red zone at an offset in the arena."""
    word, _, _, _ = draw_words(seed, (offsets >> 2).to(tl.uint32))
    return (word >> ((offsets & 3) * 8).to(tl.uint32)).to(tl.uint8)


@_jit
def fill_zones(table: tl.tensor, seed: tl.tensor, block: tl.constexpr) -> None:
    """Write red zones. Rows are (address, offset in the arena, bytes)."""
    row = table + 3 * tl.program_id(1)
    target = tl.load(row).to(tl.pointer_type(tl.uint8))
    lane = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = lane < tl.load(row + 2)
    tl.store(target + lane, expect_zone(seed, tl.load(row + 1) + lane), mask=inside)


@_jit
def count_zones(table: tl.tensor, seed: tl.tensor, differing: tl.tensor, block: tl.constexpr) -> None:
    """Add the bytes that `fill_zones` did not write to a 64-bit counter. Rows as in `fill_zones`."""
    row = table + 3 * tl.program_id(1)
    target = tl.load(row).to(tl.pointer_type(tl.uint8))
    lane = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = lane < tl.load(row + 2)
    differs = inside & (tl.load(target + lane, mask=inside, other=0) != expect_zone(seed, tl.load(row + 1) + lane))
    count = tl.sum(differs.to(tl.int32), 0)
    if count > 0:
        tl.atomic_add(differing, count.to(tl.int64))


@_jit
def flush(buffer: tl.tensor, block: tl.constexpr) -> None:
    """Write every word of a buffer: what runs next has as much to write back as it leaves (decision 49)."""
    tl.store(buffer + tl.program_id(0).to(tl.int64) * block + tl.arange(0, block), 0)


@_jit
def copy(source: tl.tensor, read: tl.tensor, target: tl.tensor, written: tl.tensor, block: tl.constexpr) -> None:
    """Read `read` words of four bytes and write `written` words, a block of each per program.

    Words that have no place to go are compared with a rare value, so that the compiler cannot leave them unread.
    """
    lane = tl.arange(0, block)
    place = tl.program_id(0).to(tl.int64) * block + lane
    words = tl.load(source + place, mask=place < read, other=0)
    if tl.program_id(0).to(tl.int64) * block < written:
        tl.store(target + place, words, mask=place < written)
    else:
        tl.store(target + lane % VECTOR, words, mask=words == UNLIKELY)


@_jit
def read_timer() -> tl.tensor:
    """Read the card's timer in nanoseconds."""
    return tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l", [], tl.int64, is_pure=False, pack=1)


@_jit
def read_clock() -> tl.tensor:
    """Read the cycles of this multiprocessor."""
    return tl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], tl.int64, is_pure=False, pack=1)


@_jit
def delay(nanoseconds: tl.tensor, held: tl.tensor) -> None:
    """Spin from one tick of the timer to another, then write the cycles and nanoseconds in between, and the timer.

    The timer need not count every nanosecond: on some cards it moves once in a microsecond.
    """
    first = read_timer()
    begin = first
    while begin == first:
        begin = read_timer()
    cycles = read_clock()
    now = begin
    while now - begin < nanoseconds:
        now = read_timer()
    tl.store(held, read_clock() - cycles)
    tl.store(held + 1, now - begin)
    tl.store(held + 2, now)
