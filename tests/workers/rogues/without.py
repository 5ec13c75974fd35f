"""Which line of defence stops which rogue: without it, the rogue gets through.

What is not named here is stopped by how the judge is built, and there is nothing to take out: no data while host code runs,
nobody's code beside the timer, types that cannot hold what is claimed, memory that is given anew before every call.
"""

CLAIMS = {
    "claims_another_dtype": "output_types",
    "claims_larger_inputs": "inputs",
    "replaces_the_checks": "own_memory",
    "slips_in_a_copy": "copies",
    "writes_elsewhere": "written",
}
"""Rogues of the host by the claim of `workers.trace_job.claims` that is held against the spec."""

RULES = {
    "asks_for_the_launch": "references",
    "asks_where_it_runs": "references",
    "calls_itself": "calls",
    "hides_a_launch_option": "entry",
    "keeps_shared_memory": "bodies",
    "reaches_the_host": "instructions",
    "reads_before_its_parameters": "parameters",
    "reads_the_clock": "references",
    "sleeps": "instructions",
    "waits_for_its_neighbours": "instructions",
    "writes_its_own_assembly": "variables",
}
"""Rogues of the host by the rule of `workers.assembler.ptx.lint` that their assembly breaks."""

TYPES = {"adds_in_half", "multiplies_in_float8"}
"""Rogues of the host by whose matrix instructions the contract's precision is broken."""

IMPORTS = {"imports_by_name": "sys", "imports_numpy_late": "numpy"}
"""Rogues of the host by the module that the list of imports leaves out. The list is there for a reason in words: what the
modules would do, the jail stops."""

CHECKS = {
    "flag_memo": {"special_values", "error_ratio"},
    "fp16_intermediates": {"special_values", "error_ratio"},
    "guesses_equal_rows": {"error_ratio"},
    "input_overwritten": {"untouched_inputs"},
    "last_of_a_tie": {"exact_integers"},
    "nan_swallowed": {"special_values"},
    "scaled": {"bias"},
    "tells_poison_apart": {"special_values", "error_ratio"},
}
"""Rogues of the device by the checks of `workers.checks` each of which stops them on any device. `model` tries these first."""

MORE_CHECKS = {
    "counter_from_nowhere": {"special_values", "error_ratio"},
    "ignores_weight": {"special_values", "error_ratio", "bias"},
    "knows_the_benchmarks": {"special_values", "error_ratio", "bias"},
    "last_columns_skipped": {"special_values", "error_ratio", "bias"},
    "last_program_skipped": {"special_values", "error_ratio"},
    "no_epsilon": {"special_values", "error_ratio"},
    "no_maximum": {"special_values"},
    "short_series": {"special_values", "error_ratio", "bias"},
    "skips_zeros": {"error_ratio"},
    "stale_output": {"special_values", "error_ratio", "bias"},
    "tf32_sums": {"special_values", "error_ratio", "bias"},
    "truncated_sum": {"special_values", "error_ratio"},
    "uncleared_accumulator": {"special_values", "error_ratio"},
    "uninitialised_read": {"special_values", "error_ratio"},
}
"""More of them, which take longer."""

SHAPES = {"skips_zeros": 6}
"""How many of the smallest shapes a rogue is judged at, where a few of them do not do: the structured draw has all its
patterns where there are rows enough."""
