"""The outcomes of a candidate. A candidate that fails is a value, not an exception."""

from enum import StrEnum


class Outcome(StrEnum):
    """The verdict on a candidate or a variant. `docs/reference/outcomes.md` says what to do about each."""

    CORRECT = "correct"
    SYNTAX_ERROR = "syntax_error"
    FORBIDDEN_IMPORT = "forbidden_import"
    FORBIDDEN_OP = "forbidden_op"
    HOST_READ = "host_read"
    UNSUPPORTED_LAUNCH = "unsupported_launch"
    COMPILE_ERROR = "compile_error"
    TRACE_TIMEOUT = "trace_timeout"
    TRACE_MEMORY = "trace_memory"
    TRACE_CRASHED = "trace_crashed"
    PLAN_REJECTED = "plan_rejected"
    WRONG_RESULT = "wrong_result"
    WRONG_OUTPUT_TYPE = "wrong_output_type"
    INPUT_MUTATED = "input_mutated"
    OUT_OF_BOUNDS = "out_of_bounds"
    NONDETERMINISTIC = "nondeterministic"
    PRECISION = "precision"
    DEVICE_FAULT = "device_fault"
    HANG = "hang"
    BELOW_FLOOR = "below_floor"
    NOT_INTERPRETABLE = "not_interpretable"
    NOT_RECORDED = "not_recorded"
    WORKER_LOST = "worker_lost"


class Stage(StrEnum):
    """The stage at which a candidate's outcome was decided, in order."""

    PARSE = "parse"
    TRACE = "trace"
    COMPILE = "compile"
    ASSEMBLE = "assemble"
    CHECK = "check"
    TIME = "time"
    FINAL = "final"


class Trust(StrEnum):
    """The guarantee that the judging host could give; A is the best, and D never holds a record.

    It grades the verdict, not the origin of times, which is `Provenance`. `workers.protocol.trust` lists the conditions
    of each letter.
    """

    A = "A"
    B = "B"
    C = "C"
    D = "D"


class Provenance(StrEnum):
    """The source of the times in a report. The three never mix in one archive."""

    MEASURED = "measured"
    PREDICTED = "predicted"
    RECORDED = "recorded"
