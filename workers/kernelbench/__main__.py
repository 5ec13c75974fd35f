"""`python -m workers kernelbench`: one `ProblemQuestion` per line in, one `ProblemInspection` per line out."""

import gc
import os
import sys

import torch
from pydantic import ValidationError

from workers.errors import WorkerError
from workers.kernelbench import inspect
from workers.protocol.kernelbench import ProblemInspection, ProblemQuestion


def main() -> int:
    """Answer questions until standard input ends; returns the exit status."""
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    # Answers use a separate descriptor; prints of libraries go to standard error.
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        try:
            for line in sys.stdin.buffer:
                answers.write(_answer(line).model_dump_json().encode() + b"\n")
                answers.flush()
        except WorkerError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    return 0


def _answer(line: bytes) -> ProblemInspection:
    try:
        return inspect(ProblemQuestion.model_validate_json(line))
    except ValidationError as error:
        return ProblemInspection(reason=f"not a problem file: {error.errors(include_url=False)[0]['msg']}")


if __name__ == "__main__":
    sys.exit(main())
