"""Isolation: untrusted calls must do only their own work, within their own sample.

Several calls of a plan are timed one after the other and inspected after the round. A call could leave its work to a
later one, or do that of others: it needs only notes, and memory in which something is due.
"""

import torch

from workers.commands import ExamineRound, PairSide, RunCase, TimedSample
from workers.device_kernels import checksum_key
from workers.memory_layout import written
from workers.oracle.base import OracleCard, PlanRun
from workers.oracle.views import inputs_after, inputs_before
from workers.protocol import Operator

UNCALLED = "it writes into the buffers of a call that never ran: a call may write to its own buffers only"
"""Reason for a side that did the work of a call that never ran."""
LATE = "its results change after the end of their sample: all work of a call has to be done when it ends"
"""Reason for a side that left work to calls of later samples, or undid there what it should not have done."""


def describe_misdeed(card: OracleCard, operator: Operator, order: ExamineRound, side: PairSide) -> str | None:
    """Describe forbidden work of an untrusted side's calls: for other calls, or too late. None if there is none."""
    if not _are_untouched(card, operator, uncalled_runs(order, side)):
        return UNCALLED
    return None if _keep_their_checksums(card, operator, order, side) else LATE


def uncalled_runs(order: ExamineRound, side: PairSide) -> list[PlanRun]:
    """Return a side's decoys, as runs that never ran."""
    return [run_of(order, side, case) for case in order.round.decoys(side)]


def run_of(order: ExamineRound, side: PairSide, case: RunCase) -> PlanRun:
    """Return a case of a round as a run to inspect."""
    return PlanRun(order.plans[side], case.slot, case.content)


def _are_untouched(card: OracleCard, operator: Operator, runs: list[PlanRun]) -> bool:
    """Return True if decoys are as they were filled: poison, and mutable inputs."""
    inputs = len(operator.given)
    blank = [
        region for run in runs for region in written(operator, run.slot) if region[0] not in run.slot.buffers[:inputs]
    ]
    if blank and not card.is_poisoned(blank):
        return False
    mutable = [number for number, item in enumerate(operator.given) if item.mutable]
    pairs = ((inputs_before(card, operator, run), inputs_after(card, operator, run)) for run in runs if mutable)
    return not any(
        (card.differences([before[number]], [after[number]]) > 0).any() for before, after in pairs for number in mutable
    )


def _keep_their_checksums(card: OracleCard, operator: Operator, order: ExamineRound, side: PairSide) -> bool:
    """Return True if everything a side's samples may have written is as it was at the end of each sample."""
    numbered = [(number, sample) for number, sample in enumerate(order.round.samples) if sample.side is side]
    owners = [number for number, sample in numbered for _ in sample.filled]
    regions = [_by_size(operator, order, sample, index) for _, sample in numbered for index in sample.filled]
    sizes = [end - start for start, end in regions[0]]
    memory = [[card.address(start, end - start) for start, end in each] for each in regions]
    found = card.sums(memory, sizes, checksum_key(order.round.seed)).sum(1)
    totals = torch.zeros(len(order.checksums), dtype=torch.int64, device=found.device)
    totals.index_add_(0, torch.tensor(owners, device=found.device), found)
    same = (totals.cpu() == torch.tensor(order.checksums)).tolist()
    return all(same[number] for number, _ in numbered)


def _by_size(operator: Operator, order: ExamineRound, sample: TimedSample, index: int) -> list[tuple[int, int]]:
    """Return the ranges that a run in a slot may write to: the same sizes in the same order for all slots of a plan."""
    places = written(operator, order.round.slots[sample.side][index])
    return sorted(places, key=lambda place: place[1] - place[0])
