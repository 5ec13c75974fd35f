"""Asking this machine's workers what it can do: its jail, its tools, its cards."""

import asyncio
import os
from collections.abc import Sequence

from pydantic import ValidationError

from service.errors import Unavailable
from workers.protocol.survey import Survey
from workers.safe_python import PYTHON, safe_environment

COMMAND = (*PYTHON, "-m", "workers", "survey")
SURVEY_S = 300.0
"""Seconds for it: libraries are imported from cold disks, and cards opened for the first time."""


async def survey(command: Sequence[str] = COMMAND) -> Survey:
    """What this machine can do.

    Raises:
        Unavailable: If it did not say.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        env=safe_environment(os.environ),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        said, complaints = await asyncio.wait_for(process.communicate(), SURVEY_S)
        return Survey.model_validate_json(said.splitlines()[-1] if said else b"")
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise Unavailable(f"the survey gave no answer in {SURVEY_S:g} s") from error
    except ValidationError as error:
        last = (complaints.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        raise Unavailable(f"the survey failed: {last}") from error
