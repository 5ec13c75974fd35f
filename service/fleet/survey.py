"""Survey of this machine by a worker process: its sandbox, tools and cards."""

import asyncio
import os
from collections.abc import Sequence

from pydantic import ValidationError

from service.errors import Unavailable
from workers.protocol.survey import Survey
from workers.safe_python import PYTHON, safe_environment

COMMAND = (*PYTHON, "-m", "workers", "survey")
SURVEY_S = 300.0
"""Seconds for the survey: it imports libraries from a cold disk and opens cards for the first time."""


async def survey(command: Sequence[str] = COMMAND) -> Survey:
    """Survey this machine.

    Raises:
        Unavailable: If the survey failed or took too long.
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
        last = (complaints.decode(errors="replace").strip().splitlines() or ["it printed nothing"])[-1]
        raise Unavailable(f"the survey failed: {last}") from error
