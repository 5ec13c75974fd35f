"""Operators over ordered, empty and optional inputs, with right kernels and the parts that rogues change."""

from workers.protocol import Operator

HEADER = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
IDS = "torch.searchsorted(offsets, torch.arange(x.shape[0], device=x.device), right=True) - 1"
"""The segment of each row."""


def operator(name: str, reference: str, inputs: list[dict[str, object]], **fields: object) -> Operator:
    body = {"name": name, "entry": name, "reference": f"import torch\n\n\n{reference}", "inputs": inputs, **fields}
    return Operator.model_validate({"outputs": [{"name": "y", "dtype": "float32"}], **body})


def tensor(name: str, *shape: object, dtype: str = "float32", **fields: object) -> dict[str, object]:
    return {"name": name, "shape": shape, "dtype": dtype, **fields}


def offsets(name: str = "offsets", size: str = "B+1", total: str = "T", **fields: object) -> dict[str, object]:
    return tensor(name, size, dtype="int32", **{"distribution": "offsets", "high": total, **fields})


SEGMENT_SUM = operator(
    "segment_sum",
    f"def segment_sum(x, offsets):\n    ids = {IDS}\n"
    "    y = torch.zeros((offsets.shape[0] - 1, x.shape[1]), device=x.device)\n    return y.index_add(0, ids, x)\n",
    [tensor("x", "T", "N"), offsets()],
    shapes=[{"dims": {"T": 256, "N": 64, "B": 8}}],
    ranges={"T": (0, 512), "N": (1, 256), "B": (1, 64)},
)
SEGMENT_SUM_KERNEL = HEADER + '''@triton.jit
def kernel(x_ptr, offsets_ptr, y_ptr, n_rows, n_segments, n_cols, BLOCK: tl.constexpr):
    segment = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    begin = {begin}
    end = {end}
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(begin, end):
        total += tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    tl.store(y_ptr + segment * n_cols + cols, total, mask=mask)


def segment_sum(x, offsets):
    n_segments = offsets.shape[0] - 1
    y = torch.empty((n_segments, x.shape[1]), dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(x.shape[1])
    kernel[(n_segments,)](x, offsets, y, x.shape[0], n_segments, x.shape[1], BLOCK=block, num_warps=1)
    return y
'''
LOADED = {"begin": "tl.load(offsets_ptr + segment)", "end": "tl.load(offsets_ptr + segment + 1)"}

GROUPED = operator(
    "grouped_gemm",
    f"def grouped_gemm(x, w, offsets):\n    ids = {IDS}\n    y = torch.zeros((x.shape[0], w.shape[2]), device=x.device)\n"
    "    for g in range(w.shape[0]):\n        y = torch.where((ids == g)[:, None], x @ w[g], y)\n    return y\n",
    [tensor("x", "T", "K"), tensor("w", "G", "K", "N"), offsets(size="G+1")],
    shapes=[{"dims": {"T": 64, "K": 32, "N": 32, "G": 4}}],
    ranges={"T": (1, 128), "K": (1, 64), "N": (1, 64)},
)
GROUPED_KERNEL = HEADER + '''@triton.jit
def kernel(x_ptr, w_ptr, offsets_ptr, y_ptr, n_rows, n_groups, depth, width, R: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    group = tl.program_id(0).to(tl.int64)
    begin = {begin}
    end = {end}
    ks, cols = tl.arange(0, K), tl.arange(0, N)
    inside = (ks[:, None] < depth) & (cols[None, :] < width)
    w = tl.load(w_ptr + group * depth * width + ks[:, None] * width + cols[None, :], mask=inside, other=0.0)
    for start in range(begin, end, R):
        rows = start + tl.arange(0, R)
        used = (rows[:, None] < end) & (ks[None, :] < depth)
        x = tl.load(x_ptr + rows[:, None] * depth + ks[None, :], mask=used, other=0.0)
        y = tl.dot(x, w, input_precision="ieee")
        tl.store(y_ptr + rows[:, None] * width + cols[None, :], y, mask=(rows[:, None] < end) & (cols[None, :] < width))


def grouped_gemm(x, w, offsets):
    y = torch.empty((x.shape[0], w.shape[2]), dtype=x.dtype, device=x.device)
    groups, depth, width = w.shape
    sizes = {{"R": 16, "K": max(16, triton.next_power_of_2(depth)), "N": max(16, triton.next_power_of_2(width))}}
    kernel[(groups,)](x, w, offsets, y, x.shape[0], groups, depth, width, **sizes)
    return y
'''
GROUP = {"begin": "tl.load(offsets_ptr + group)", "end": "tl.load(offsets_ptr + group + 1)"}

UNPERMUTE = operator(
    "unpermute",
    "def unpermute(x, places):\n    return x[places]\n",
    [tensor("x", "T", "N"), tensor("places", "T", dtype="int64", distribution="unique", high="T")],
    shapes=[{"dims": {"T": 128, "N": 64}}],
    ranges={"T": (0, 256), "N": (1, 128)},
)
UNPERMUTE_KERNEL = HEADER + '''@triton.jit
def kernel(x_ptr, places_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    place = {place}
    x = tl.load(x_ptr + {source} * n_cols + cols, mask=mask)
    tl.store(y_ptr + {target} * n_cols + cols, x, mask=mask)


def unpermute(x, places):
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, places, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=1)
    return y
'''
GATHERED = {"place": "tl.load(places_ptr + row)", "source": "place", "target": "row"}

CACHE_WRITE = operator(
    "cache_write",
    "def cache_write(cache, new, slots):\n    cache[slots] = new\n",
    [
        tensor("cache", "T+S", 32, mutable=True),
        tensor("new", "T", 32),
        tensor("slots", "T", dtype="int64", distribution="unique", high="T+S"),
    ],
    outputs=[{"name": "cache", "dtype": "float32"}],
    shapes=[{"dims": {"T": 64, "S": 192}}],
    ranges={"T": (0, 128), "S": (0, 256)},
)
CACHE_WRITE_KERNEL = HEADER + '''@triton.jit
def kernel(cache_ptr, new_ptr, slots_ptr, N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, N)
    slot = {slot}
    tl.store(cache_ptr + slot * N + cols, tl.load(new_ptr + row * N + cols))


def cache_write(cache, new, slots):
    if {when}:
        kernel[(new.shape[0],)](cache, new, slots, N=32, num_warps=1)
'''
SLOT = {"slot": "tl.load(slots_ptr + row)", "when": "new.shape[0]"}

EMBEDDING_BAG = operator(
    "embedding_bag",
    "def embedding_bag(weight, indices, offsets):\n"
    "    return torch.nn.functional.embedding_bag(indices, weight, offsets, mode='mean', include_last_offset=True)\n",
    [
        tensor("weight", "V", 32),
        tensor("indices", "L", dtype="int32", high="V"),
        offsets(total="L"),
    ],
    shapes=[{"dims": {"V": 64, "L": 128, "B": 16}}],
    ranges={"V": (1, 128), "L": (1, 256), "B": (1, 64)},
)
EMBEDDING_BAG_KERNEL = HEADER + '''@triton.jit
def kernel(weight_ptr, indices_ptr, offsets_ptr, y_ptr, N: tl.constexpr):
    bag = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, N)
    begin, end = tl.load(offsets_ptr + bag), tl.load(offsets_ptr + bag + 1)
    total = tl.zeros((N,), tl.float32)
    for at in range(begin, end):
        total += tl.load(weight_ptr + tl.load(indices_ptr + at).to(tl.int64) * N + cols)
    tl.store(y_ptr + bag * N + cols, total / {count})


def embedding_bag(weight, indices, offsets):
    bags = offsets.shape[0] - 1
    y = torch.empty((bags, 32), dtype=weight.dtype, device=weight.device)
    kernel[(bags,)](weight, indices, offsets, y, N=32, num_warps=1)
    return y
'''
COUNT = {"count": "tl.maximum(end - begin, 1)"}

VARLEN = operator(
    "varlen_attention",
    f"def varlen_attention(x, k, v, offsets):\n    ids = {IDS}\n    h = x.transpose(0, 1)\n"
    "    scores = (h @ k.permute(1, 2, 0)) * 0.25\n"
    "    scores = scores.masked_fill(ids[:, None] != ids[None, :], float('-inf'))\n"
    "    return (torch.softmax(scores, dim=-1) @ v.transpose(0, 1)).transpose(0, 1).contiguous()\n",
    [tensor("x", "T", "H", 16), tensor("k", "T", "H", 16), tensor("v", "T", "H", 16, low=-4, high=4), offsets()],
    shapes=[{"dims": {"T": 64, "H": 2, "B": 4}}],
    ranges={"T": (1, 96), "H": (1, 3), "B": (1, 16)},
)
VARLEN_KERNEL = HEADER + '''@triton.jit
def kernel(q_ptr, k_ptr, v_ptr, offsets_ptr, y_ptr, n_segments, n_heads, R: tl.constexpr, D: tl.constexpr):
    segment, head = tl.program_id(0), tl.program_id(1)
    begin, end = tl.load(offsets_ptr + segment), tl.load(offsets_ptr + segment + 1)
    begin = {begin}
    lanes, dims = tl.arange(0, R), tl.arange(0, D)
    stride = n_heads * D
    for start in range(begin, end, R):
        rows = start + lanes
        q = tl.load(q_ptr + rows[:, None] * stride + head * D + dims[None, :], mask=rows[:, None] < end, other=0.0)
        most = tl.full((R,), float("-inf"), tl.float32)
        total = tl.zeros((R,), tl.float32)
        found = tl.zeros((R, D), tl.float32)
        for first in range(begin, {last}, R):
            keys = first + lanes
            inside = keys[:, None] < end
            at = keys[:, None] * stride + head * D + dims[None, :]
            k = tl.load(k_ptr + at, mask=inside, other=0.0)
            v = tl.load(v_ptr + at, mask=inside, other=0.0)
            scores = tl.dot(q, tl.trans(k), input_precision="ieee") * 0.25
            scores = tl.where(keys[None, :] < end, scores, float("-inf"))
            higher = tl.maximum(most, tl.max(scores, 1))
            share = tl.exp(scores - higher[:, None])
            scale = tl.exp(most - higher)
            total = total * scale + tl.sum(share, 1)
            found = found * scale[:, None] + tl.dot(share, v, input_precision="ieee")
            most = higher
        at = rows[:, None] * stride + head * D + dims[None, :]
        tl.store(y_ptr + at, found / total[:, None], mask=rows[:, None] < end)


def varlen_attention(x, k, v, offsets):
    y = torch.empty_like(x)
    segments = offsets.shape[0] - 1
    kernel[(segments, x.shape[1])](x, k, v, offsets, y, segments, x.shape[1], R=16, D=16)
    return y
'''
KEYS = {"begin": "begin", "last": "end"}

LINEAR = operator(
    "row_affine",
    "def row_affine(x, scale, bias):\n    y = x if scale is None else x * scale\n"
    "    return y if bias is None else y + bias\n",
    [tensor("x", "M", "N"), tensor("scale", "N", optional=True), tensor("bias", "N", optional=True)],
    shapes=[{"dims": {"M": 64, "N": 128, "scale": 1, "bias": 1}}],
    ranges={"M": (0, 128), "N": (1, 256)},
)
LINEAR_KERNEL = HEADER + '''@triton.jit
def kernel(x_ptr, scale_ptr, bias_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    y = tl.load(x_ptr + row * n_cols + cols, mask=mask)
    if scale_ptr is not None:
        y *= tl.load(scale_ptr + cols, mask=mask)
    if {has_bias}:
        y += tl.load(bias_ptr + cols, mask=mask)
    tl.store(y_ptr + row * n_cols + cols, y, mask=mask)


def row_affine(x, scale, bias):
    {first}
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, scale, bias, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=1)
    return y
'''
BIAS = {"has_bias": "bias_ptr is not None", "first": "pass"}

RIGHT = {
    "segment sum": (SEGMENT_SUM, SEGMENT_SUM_KERNEL.format(**LOADED)),
    "grouped product": (GROUPED, GROUPED_KERNEL.format(**GROUP)),
    "unpermute": (UNPERMUTE, UNPERMUTE_KERNEL.format(**GATHERED)),
    "cache write": (CACHE_WRITE, CACHE_WRITE_KERNEL.format(**SLOT)),
    "embedding bag": (EMBEDDING_BAG, EMBEDDING_BAG_KERNEL.format(**COUNT)),
    "varlen attention": (VARLEN, VARLEN_KERNEL.format(**KEYS)),
    "optional inputs": (LINEAR, LINEAR_KERNEL.format(**BIAS)),
}
WRONG = {
    "counts on equal segments": (
        SEGMENT_SUM,
        SEGMENT_SUM_KERNEL.format(
            begin="(segment * n_rows // n_segments).to(tl.int32)",
            end="((segment + 1) * n_rows // n_segments).to(tl.int32)",
        ),
    ),
    "counts on segments that are not empty": (
        SEGMENT_SUM,
        SEGMENT_SUM_KERNEL.format(**LOADED | {"end": "tl.minimum(tl.maximum(tl.load(offsets_ptr + segment + 1), begin + 1), n_rows)"}),
    ),
    "counts on segments of at most 64 rows": (
        SEGMENT_SUM,
        SEGMENT_SUM_KERNEL.format(**LOADED | {"end": "tl.minimum(tl.load(offsets_ptr + segment + 1), begin + 64)"}),
    ),
    "counts on one segment": (
        SEGMENT_SUM,
        SEGMENT_SUM_KERNEL.format(begin="(segment * 0).to(tl.int32)", end="tl.where(segment == 0, n_rows, 0)"),
    ),
    "counts on even groups": (
        GROUPED,
        GROUPED_KERNEL.format(
            begin="(group * n_rows // n_groups).to(tl.int32)", end="((group + 1) * n_rows // n_groups).to(tl.int32)"
        ),
    ),
    "counts on the identity": (UNPERMUTE, UNPERMUTE_KERNEL.format(**GATHERED | {"place": "row"})),
    "scatters instead of gathering": (
        UNPERMUTE,
        UNPERMUTE_KERNEL.format(**GATHERED | {"source": "row", "target": "place"}),
    ),
    "trusts a permutation whose start is in order": (
        UNPERMUTE,
        UNPERMUTE_KERNEL.format(**GATHERED | {"place": "tl.where(tl.load(places_ptr) == 0, row, tl.load(places_ptr + row))"}),
    ),
    "counts on slots in order": (CACHE_WRITE, CACHE_WRITE_KERNEL.format(**SLOT | {"slot": "tl.load(slots_ptr) + row"})),
    "writes all rows to one slot": (CACHE_WRITE, CACHE_WRITE_KERNEL.format(**SLOT | {"slot": "tl.load(slots_ptr)"})),
    "divides by an empty bag": (EMBEDDING_BAG, EMBEDDING_BAG_KERNEL.format(count="(end - begin)")),
    "looks into the segment before": (VARLEN, VARLEN_KERNEL.format(**KEYS | {"begin": "begin // 16 * 16"})),
    "counts on segments within one block": (VARLEN, VARLEN_KERNEL.format(**KEYS | {"last": "tl.minimum(end, begin + 16)"})),
    "takes an absent input for ones": (
        LINEAR,
        LINEAR_KERNEL.format(
            **BIAS | {"first": "bias = torch.ones((x.shape[1],), dtype=x.dtype, device=x.device) if bias is None else bias"}
        ),
    ),
    "ignores an optional input": (LINEAR, LINEAR_KERNEL.format(**BIAS | {"has_bias": "False"})),
    "counts on the optional input": (LINEAR, LINEAR_KERNEL.format(**BIAS | {"has_bias": "True"})),
}
