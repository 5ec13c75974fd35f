"""Decode attention over a cache in pages: Kwon et al., "... Large Language Model Serving with PagedAttention" (2023).

Attention of one new token, head by head and in groups as in GQA, to the first `16 * full_pages + last_page_len`
positions of its sequence, whose pages `page_table` names in order. The paper was not at hand; lengths are split as
FlashInfer splits them, with a table of equal rows for its indices.
"""

import torch


def paged_decode(q, k_pages, v_pages, page_table, full_pages, last_page_len):
    batch, heads, _, head_dim = q.shape
    pages = page_table.flatten()
    k = k_pages.index_select(0, pages).view(batch, -1, heads, head_dim).transpose(1, 2)
    v = v_pages.index_select(0, pages).view(batch, -1, heads, head_dim).transpose(1, 2)
    scores = (q.float() @ k.float().transpose(-2, -1)) * head_dim**-0.5
    length = full_pages * 16 + last_page_len
    seen = torch.arange(scores.shape[-1], device=q.device) < length.unsqueeze(1)
    scores = scores.masked_fill(~seen.view(batch, 1, 1, -1), float("-inf"))
    return (torch.softmax(scores, dim=-1) @ v.float()).to(q.dtype)
