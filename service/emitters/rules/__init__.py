"""Rewriting rules: changes of a candidate's text that keep what it computes.

To add one: a file with a `Rule`, a line in the table below, and a test that it keeps the meaning (the contract suite
runs every rule of the table over the catalogue's seeds). The helpers, in the order to look through them:

    patterns   match and build trees
    facts      shapes and dtypes of a kernel's values
    loops      sweeps over an axis, and what they fold
    kernels    a kernel with all its launches
    programs   mapping from programs to pieces of the work
    boxes      loads of a box of a matrix
    rows       a row in one tile, as straight-line code
"""

from collections.abc import Collection
from typing import Any

from service.emitters.rules.backward import ReverseOrder
from service.emitters.rules.base import Rule
from service.emitters.rules.block_pointers import BlockPointers
from service.emitters.rules.cache_hint import CacheHint
from service.emitters.rules.chunk_row import ChunkRow
from service.emitters.rules.clusters import Clusters
from service.emitters.rules.contiguity import Contiguity
from service.emitters.rules.even_mask import EvenMask
from service.emitters.rules.exp2 import Exp2
from service.emitters.rules.flat_grid import FlatGrid
from service.emitters.rules.group_programs import GroupPrograms
from service.emitters.rules.hoist_load import HoistLoad
from service.emitters.rules.limit_registers import LimitRegisters
from service.emitters.rules.load_order import LoadOrder
from service.emitters.rules.online_sum import OnlineSum
from service.emitters.rules.persistent import MakePersistent
from service.emitters.rules.pipeline_loop import PipelineLoop
from service.emitters.rules.pipeline_pieces import PipelinePieces
from service.emitters.rules.reciprocal import Reciprocal
from service.emitters.rules.rows_tile import RowsTile
from service.emitters.rules.run_of_pieces import RunOfPieces
from service.emitters.rules.size_warps import SizeWarps
from service.emitters.rules.split_ahead import SplitAhead
from service.emitters.rules.split_k import SplitK
from service.emitters.rules.tensor_descriptors import TensorDescriptors
from service.emitters.rules.tf32x3 import Tf32x3
from service.emitters.rules.warp_specialize import WarpSpecialize
from service.emitters.rules.whole_row import WholeRow

RULES: dict[str, Rule[Any]] = {
    rule.name: rule
    for rule in (
        ChunkRow(),
        WholeRow(),
        OnlineSum(),
        RowsTile(),
        MakePersistent(),
        RunOfPieces(),
        HoistLoad(),
        EvenMask(),
        SizeWarps(),
        CacheHint(),
        LoadOrder(),
        PipelineLoop(),
        Contiguity(),
        ReverseOrder(),
        FlatGrid(),
        GroupPrograms(),
        Exp2(),
        Reciprocal(),
        LimitRegisters(),
        WarpSpecialize(),
        TensorDescriptors(),
        SplitK(),
        PipelinePieces(),
        Clusters(),
        BlockPointers(),
        Tf32x3(),
        SplitAhead(),
    )
}
"""Every rule, by name."""


def rules_for(compilers: Collection[str]) -> dict[str, Rule[Any]]:
    """Return the rules whose results all of some Triton releases know, by name."""
    return {name: rule for name, rule in RULES.items() if rule.is_known_to(compilers)}


__all__ = ["RULES", "Rule", "rules_for"]
