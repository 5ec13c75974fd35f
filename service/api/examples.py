"""Examples for the OpenAPI document: one for each main answer, by the name of its schema."""

from collections.abc import Mapping

from pydantic import JsonValue

from workers.protocol import PROTOCOL_VERSION

SEARCH = "0199a2af-3d10-7c55-9b1e-52f0c1d2e3f4"
CANDIDATE = "0199a2b0-7c1e-7d3f-8a45-6b7c8d9e0f12"
BUNDLE = "5f2c" * 16
AT = "2026-03-14T09:26:53.589793Z"

_ELITE: dict[str, JsonValue] = {
    "device": "model:sm_90",
    "cell": 17,
    "bins": [2, 5],
    "coordinates": {"num_warps": {"value": 4.0, "bin": 2}, "registers": {"value": 40.0, "bin": 5}},
    "candidate": CANDIDATE,
    "variant": 0,
    "bundle": BUNDLE,
    "job": f"{CANDIDATE}:0:model:sm_90",
    "emitter": "tune",
    "objective": 1.31,
    "speedup": {"low": 1.31, "mid": 1.31, "high": 1.31},
    "revision": 3,
    "placed_at": AT,
    "protocol_version": PROTOCOL_VERSION,
    "outdated": False,
    "compiler": "Triton 3.7.1, ptxas 12.8.93",
}
_SUMMARY: dict[str, JsonValue] = {
    "id": CANDIDATE,
    "search": SEARCH,
    "ordinal": 12,
    "emitter": "tune",
    "parents": [],
    "note": "num_warps 4 -> 8",
    "state": "judged",
    "outcome": "correct",
    "reason": "",
    "line": None,
    "objective": 1.31,
    "objectives": {"model:sm_90": 1.31},
    "created_at": AT,
}

EXAMPLES: Mapping[str, dict[str, JsonValue]] = {
    "Search": {
        "id": SEARCH,
        "operator": "rmsnorm",
        "operator_digest": "9d41" * 16,
        "devices": ["model:sm_90"],
        "emitters": ["tune", "rewrite"],
        "axes": ["num_warps", "registers"],
        "axes_version": 1,
        "evaluations": 200,
        "seed": 0,
        "priority": 5,
        "shapes": [{"dims": {"M": 4096, "N": 4096}, "role": "benchmark", "weight": 1.0}],
        "state": "running",
        "reason": "",
        "created_at": AT,
        "updated_at": AT,
    },
    "Elite": _ELITE,
    "Archive": {
        "search": SEARCH,
        "device": "model:sm_90",
        "provenance": "predicted",
        "relative_to": "seed kernel",
        "axes_version": 1,
        "axes": [
            {
                "descriptor": "persistent",
                "unit": "",
                "meaning": "whether programs loop over tiles",
                "bins": 2,
                "edges": [0.5],
                "labels": ["one tile each", "loops over tiles"],
            }
        ],
        "cells": 2,
        "elites": [_ELITE],
    },
    "Progress": {
        "search": SEARCH,
        "state": "running",
        "reason": "",
        "evaluations": 200,
        "proposals": 61,
        "candidates": 58,
        "in_flight": 8,
        "evaluated": 50,
        "devices_without_worker": [],
        "missing_workers": [],
        "devices": [
            {
                "device": "model:sm_90",
                "provenance": "predicted",
                "relative_to": "seed kernel",
                "evaluated": 50,
                "correct": 41,
                "elites": 12,
                "cells": 48,
                "coverage": 0.25,
                "qd_score": 13.2,
                "norm_qd_score": 0.275,
                "best": 1.31,
                "outcomes": {"correct": 41, "compile_error": 9},
                "emitters": {"tune": {"proposals": 34, "judged": 30, "correct": 25, "promotions": 9}},
            }
        ],
        "emitters": [
            {
                "emitter": "rewrite",
                "share": 0.62,
                "trials": 41,
                "promotions": 7,
                "gain": 0.93,
                "cost": 41.0,
                "suspended": {"block_pointers": "4 of 4 trials ended in compile_error"},
            }
        ],
        "activity": "tracing 2, evaluating 6",
        "elapsed_s": 41.5,
        "running_s": 27.0,
        "left_s": 273.0,
        "finishing": False,
        "finalists": 3,
        "examined": 1,
    },
    "CandidateSummary": _SUMMARY,
    "Candidate": {
        **_SUMMARY,
        "source": "import torch\nimport triton\n",
        "stages_s": {"trace": 0.41, "assemble": 0.22},
        "variants": [
            {
                "index": 0,
                "configuration": {"BLOCK": 4096},
                "bundle": BUNDLE,
                "outcome": None,
                "reason": "",
                "line": None,
                "plans": [
                    {
                        "shape": "M=4096,N=4096",
                        "words": ["launch rmsnorm_kernel on 4096 programs of 8 warps"],
                        "readings": {"launches": 1, "programs": 4096, "registers": 40},
                    }
                ],
            }
        ],
        "reports": [{"job": f"{CANDIDATE}:0:model:sm_90", "outcome": "correct", "provenance": "predicted"}],
    },
    "OperatorSummary": {
        "name": "rmsnorm",
        "digest": "9d41" * 16,
        "entry": "rmsnorm",
        "catalogue": True,
        "inputs": ["x", "weight"],
        "outputs": ["y"],
        "dimensions": ["M", "N"],
        "shapes": 3,
    },
    "MutationResult": {
        "operator": "rmsnorm",
        "digest": "9d41" * 16,
        "mutation_report": {
            "verdict": "passed",
            "shapes": ["M=3,N=129"],
            "entries": [{"name": "zeros", "kind": "trivial", "verdict": "killed", "check": "error_ratio", "cases": 4}],
            "kill_rate": 1.0,
            "seconds": 6.5,
        },
        "tried_at": AT,
    },
    "Pin": {
        "id": "0199a2b3-11aa-7b2c-9d3e-4f5a6b7c8d9e",
        "search": SEARCH,
        "device": "model:sm_90",
        "cell": 17,
        "candidate": None,
        "author": "ada",
        "created_at": AT,
    },
    "Hint": {
        "id": "0199a2b4-22bb-7c3d-8e4f-5a6b7c8d9e0f",
        "search": SEARCH,
        "text": "Rows fit into shared memory; try one pass over them.",
        "author": "ada",
        "created_at": AT,
    },
}
