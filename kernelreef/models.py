"""Documents of the service's REST interface, as clients receive them. Times are UTC ISO 8601.

Pure models: `service.api.builders` fills them from the archive's records.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar, Literal

from pydantic import ConfigDict, JsonValue

from kernelreef.former import ShowsFormerNames
from kernelreef.states import CandidateState, SearchState

Document = dict[str, JsonValue]
"""A document with an identity of its own, as JSON: an operator, a bundle, a certificate, a report on checks."""
Provenance = Literal["measured", "predicted", "recorded"]
"""Origin of the times of a device."""
Standing = Literal["passed", "failed", "not possible", "unexamined"]
"""Result of examining a finalist; `unexamined` until there is one."""


class Resource(ShowsFormerNames):
    """A document of the REST interface; immutable once read."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class FinalistResult(Resource):
    """Result of examining a finalist: its standing, and in words the findings and what could not be examined."""

    standing: Standing
    reason: str


class ScreeningReport(Resource):
    """Effect of screening on the recent proposals of a search: `chosen` ones, and `blind` ones stored unranked.

    `saved` is the number of evaluations that the same promotions would have cost more without screening; negative if
    fewer; None before a blind proposal won a cell.
    """

    chosen: int
    chosen_promotions: int
    blind: int
    blind_promotions: int
    saved: float | None

    def in_words(self, dropped: int) -> str:
        """Describe the effect of screening.

        Args:
            dropped: Number of edits that screening skipped in the whole search.
        """
        said = (
            f"Screening skipped {dropped:,} edits. Of the recent proposals that it chose, {self.chosen_promotions:,} "
            f"of {self.chosen:,} won a cell; of those made without it, {self.blind_promotions:,} of {self.blind:,}"
        )
        if self.saved is None:
            return f"{said}."
        return f"{said}: {abs(round(self.saved)):,} evaluations {'saved' if self.saved >= 0 else 'lost'}."


class Axis(Resource):
    """One axis of a grid: the descriptor in words, its borders, and a label for each bin."""

    descriptor: str
    unit: str
    meaning: str
    bins: int
    edges: tuple[float, ...]
    labels: tuple[str, ...]


class Search(Resource):
    """A search. `operator` is the operator's name, `operator_digest` the exact one that was submitted.

    `evaluations` is the maximum number of evaluations. `name`, `tags` and `notes` are for people. `owner` is the id of
    the token that submitted it; empty for the machine's own user. Only lists show `evaluated`, the number of
    evaluations so far, and `best`, the largest objective per device with an elite. A search that is done may be
    `finishing`: its finalists are still to be examined, or its baselines to be measured. `admitted` is the reason for
    which mutation testing failed the operator, if the search went on by `admit`; it then has no best. `reference_seed`
    is the number of the operator's seed kernel that figures relate to, and `refused_seeds` a sentence about the seeds
    before it, which were refused. `compiler` is the release of Triton that it asks for, None if any will do.
    """

    former: ClassVar[Mapping[str, str]] = {"evaluations": "budget", "selection": "choosing"}

    id: str
    operator: str
    operator_digest: str
    devices: tuple[str, ...]
    emitters: tuple[str, ...]
    axes: tuple[str, ...]
    axes_version: int
    evaluations: int
    seed: int
    priority: int
    shapes: tuple[Mapping[str, JsonValue], ...]
    llm: Mapping[str, JsonValue] | None = None
    stop: Mapping[str, JsonValue] | None = None
    selection: Mapping[str, JsonValue] | None = None
    state: SearchState
    reason: str
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None
    finishing: bool = False
    name: str = ""
    tags: tuple[str, ...] = ()
    notes: str = ""
    owner: str = ""
    admit: bool = False
    admitted: str = ""
    reference_seed: int = 0
    refused_seeds: str = ""
    compiler: str | None = None
    evaluated: int | None = None
    best: Mapping[str, float] | None = None


class Speedup(Resource):
    """Baseline time over candidate time, with its bounds."""

    low: float
    mid: float
    high: float


class Coordinate(Resource):
    """Position of a kernel on one axis."""

    value: float
    bin: int


class Elite(Resource):
    """The holder of a cell. `objective` is what the archive compares; `revision` counts the cell's promotions.

    `job` is the job of the report that its speedup rests on. `finalist` is the result of its examination, or says that
    it is unexamined; `…/archive` leaves it out. `protocol_version` is the report's, None if the archive lacks
    it; the elite is `outdated` if the service judges by another one, with checks that it has not passed. `compiler`
    names the Triton and the ptxas of its kernels. `admitted` is the search's: the reason for which a wrong kernel may
    be here.
    """

    device: str
    cell: int
    bins: tuple[int, ...]
    coordinates: Mapping[str, Coordinate]
    candidate: str
    variant: int
    bundle: str
    job: str
    emitter: str
    objective: float
    speedup: Speedup
    revision: int
    placed_at: datetime
    protocol_version: int | None = None
    outdated: bool = False
    compiler: str = ""
    admitted: str = ""
    finalist: FinalistResult | None = None


class ProvisionalHolder(Resource):
    """Holder of a cell by its first measurement alone, until a confirm makes it an elite or gives the cell back."""

    device: str
    cell: int
    bins: tuple[int, ...]
    coordinates: Mapping[str, Coordinate]
    candidate: str
    variant: int
    bundle: str
    job: str
    emitter: str
    objective: float
    speedup: Speedup
    placed_at: datetime


class Archive(Resource):
    """A search's map on one device: the axes, and every filled cell. Cells not listed are empty.

    Elites are confirmed where times are measured. `provisional` lists holders that wait for their confirm, the largest
    objective first; a cell may have one beside its elite. `relative_to` names the denominator of speedups; `provenance`
    says if they were measured.
    """

    search: str
    device: str
    provenance: Provenance
    relative_to: str
    axes_version: int
    axes: tuple[Axis, ...]
    cells: int
    elites: tuple[Elite, ...]
    provisional: tuple[ProvisionalHolder, ...] = ()


class DeviceProgress(Resource):
    """Progress of a search on one device, with statistics of its elites as pyribs defines them.

    `provisional` counts cells with a provisional holder.
    """

    former: ClassVar[Mapping[str, str]] = {"evaluated": "evaluations"}

    device: str
    provenance: Provenance
    relative_to: str
    evaluated: int
    correct: int
    elites: int
    cells: int
    coverage: float
    qd_score: float
    norm_qd_score: float
    best: float | None
    outcomes: Mapping[str, int]
    emitters: Mapping[str, Mapping[str, int]]
    provisional: int = 0


class EmitterStatus(Resource):
    """Share of an emitter in the coming turns (`share`, 0 to 1), and the reasons.

    `trials`, `promotions` and `gain` count its recent proposals, `cost` is in evaluations. `suspended` maps its
    suspended parts to the reasons.
    """

    former: ClassVar[Mapping[str, str]] = {"trials": "tries", "suspended": "resting"}

    emitter: str
    share: float
    trials: int
    promotions: int
    gain: float
    cost: float
    suspended: Mapping[str, str]


class Progress(Resource):
    """Progress of a search. `proposals` counts duplicates too, `candidates` does not.

    `evaluated` of `evaluations` are used. `equal_plans` counts candidates whose launch plans had a verdict in the
    search already: they use no evaluation, and are in no other count.
    `devices_without_worker` are devices that no worker judges on at present. `missing_workers` describes the workers
    that the search waits for, such as `a trusted worker that traces for sm_90`; it is empty if none is missing.
    `screening` is None if the search screens nothing. `elapsed_s` counts from its submission to now or to its end.
    `activity` says what it does now, such as `evaluating 5, tracing 2`; it is empty if it is paused or has ended.
    `running_s` is its running time since the first verdict, without pauses, and `left_s` what the stop rule `seconds`
    leaves of it; None without that rule. A search that is done may be `finishing`: of its `finalists`, the best elites,
    some are not `examined` yet, or its baselines are not measured. `activity` then says so. `refused_seeds` says which
    seed kernel figures relate to, if the first was refused.
    """

    former: ClassVar[Mapping[str, str]] = {
        "evaluations": "budget",
        "evaluated": "judged",
        "devices_without_worker": "unserved",
        "missing_workers": "waits_for",
        "emitters": "turns",
    }

    search: str
    state: SearchState
    reason: str
    refused_seeds: str = ""
    evaluations: int
    proposals: int
    candidates: int
    in_flight: int
    evaluated: int
    devices_without_worker: tuple[str, ...]
    missing_workers: tuple[str, ...]
    devices: tuple[DeviceProgress, ...]
    emitters: tuple[EmitterStatus, ...]
    screening: ScreeningReport | None = None
    activity: str = ""
    elapsed_s: float = 0.0
    running_s: float = 0.0
    left_s: float | None = None
    finishing: bool = False
    finalists: int = 0
    examined: int = 0
    equal_plans: int = 0


class CandidateSummary(Resource):
    """A candidate in a list, without its source.

    `objectives` are those of its best variant on each device where one is correct; `objective` is the one on the
    search's first device.
    """

    id: str
    search: str
    ordinal: int
    emitter: str
    parents: tuple[str, ...]
    note: str
    state: CandidateState
    outcome: str | None
    reason: str
    line: int | None
    objective: float | None
    objectives: Mapping[str, float]
    created_at: datetime


class PlanDescription(Resource):
    """One plan of a variant in words, one line per step, with the readings of its machine code."""

    shape: str
    words: tuple[str, ...]
    readings: Mapping[str, JsonValue]


class Variant(Resource):
    """One autotune configuration of a candidate. Without a bundle it has no plans."""

    index: int
    configuration: Mapping[str, JsonValue]
    bundle: str | None
    outcome: str | None
    reason: str
    line: int | None
    plans: tuple[PlanDescription, ...]


class PredictedTime(Resource):
    """Predicted time of a variant at a benchmark shape, microseconds; None with the reason, if it is unknown.

    It is what a `model` device of the target predicts; nothing was measured. No kernel can be faster than the floors:
    the required bytes at the peak bandwidth of the target's data sheet, and the operations at its peak rate.
    """

    variant: int
    shape: str
    predicted_us: float | None
    reason: str
    memory_floor_us: float | None
    arithmetic_floor_us: float | None


class SourceCheck(Resource):
    """Result of a quick check: the variants that a source compiles to, or the reason why it cannot be judged.

    The outcome `correct` means traced and compiled, not right: no result was looked at, and no time was measured.
    """

    outcome: str
    reason: str
    line: int | None
    variants: tuple[Variant, ...]
    predicted: tuple[PredictedTime, ...] = ()
    stages_s: Mapping[str, float]


class Candidate(CandidateSummary):
    """A candidate with all its data. `reports` are as the workers sent them, oldest first."""

    source: str
    stages_s: Mapping[str, float]
    variants: tuple[Variant, ...]
    reports: tuple[Mapping[str, JsonValue], ...]


class Reward(Resource):
    """Reward of a step from the candidate `over` (None: the search's first seed) to another one, for training.

    `gain` is the time of `over` divided by the candidate's; None unless both are correct. `reward` is from -1 to 1;
    None if the outcome says nothing about the candidate, as for an operator that mutation testing fails.
    """

    candidate: str
    over: str | None
    device: str
    provenance: Provenance
    outcome: str
    gain: Speedup | None
    reward: float | None


class OperatorSummary(Resource):
    """An operator in a list. `catalogue` is True if it comes with Kernelreef, False if it was submitted."""

    name: str
    digest: str
    entry: str
    catalogue: bool
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dimensions: tuple[str, ...]
    shapes: int


class Pin(Resource):
    """A cell whose holder is preferred as a parent, or a candidate that is preferred while it holds a cell."""

    id: str
    search: str
    device: str
    cell: int | None
    candidate: str | None
    author: str
    created_at: datetime


class Hint(Resource):
    """Hint of a person for the models that write a search's candidates."""

    id: str
    search: str
    text: str
    author: str
    created_at: datetime


class Token(Resource):
    """A token without its secret. `created_by` is the token that it was made with, null for the machine's own user."""

    id: str
    name: str
    scopes: tuple[str, ...]
    created_by: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class IssuedToken(Token):
    """A token with its text, which is shown only once and cannot be recovered."""

    token: str


class AuditEntry(Resource):
    """An action that was done or refused; `detail` is the reason of a refusal."""

    seq: int
    at: datetime
    token: str | None
    caller: str
    address: str
    action: str
    target: str
    status: int
    detail: str
