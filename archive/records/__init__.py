"""The frozen values that leave the archive. No SQL, no ORM objects: what a caller holds never changes under it.

Documents of the other room (operator, bundle, report) are kept as JSON text or mappings; the archive stores them and
never looks inside, except for readings, which descriptors map to coordinates. One file a subject.
"""

from archive.records.searching import (
    EMPTY_CELL,
    SEED_EMITTER,
    Axis,
    BundleRecord,
    Candidate,
    CandidateState,
    Elite,
    NewCandidate,
    NewReport,
    NewSearch,
    NewVariant,
    Offer,
    OperatorRecord,
    Placement,
    PlacementRecord,
    Progress,
    Search,
    SearchCounts,
    SearchState,
    Traced,
    TrialRecord,
    Variant,
)

__all__ = [
    "EMPTY_CELL",
    "SEED_EMITTER",
    "Axis",
    "BundleRecord",
    "Candidate",
    "CandidateState",
    "Elite",
    "NewCandidate",
    "NewReport",
    "NewSearch",
    "NewVariant",
    "Offer",
    "OperatorRecord",
    "Placement",
    "PlacementRecord",
    "Progress",
    "Search",
    "SearchCounts",
    "SearchState",
    "Traced",
    "TrialRecord",
    "Variant",
]
