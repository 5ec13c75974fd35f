"""Backend `command`: a person's own coding agent, started in a folder of its own, that submits kernels by itself.

The program is trusted by the person who configures it in `backends.toml`; REST can only name it. It gets an empty
environment, the address of the service, and a token that is of use for one search until its time is over. A guard ends
everything that it started (`workers.agent_guard`).
"""

import asyncio
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, StringConstraints, model_validator

from service.llm.base import Backend, Completion, LlmPrompt, PermanentFailure, TransientFailure
from service.llm.options import AgentPass, ApiKey, BackendContext, BackendOptions, from_environment
from service.tasks import end
from workers.safe_python import PYTHON, SAFE

GUARD = (*PYTHON, "-m", "workers.agent_guard")
"""Command that guards an agent."""
TAIL_BYTES = 16_384
"""Length of the agent's output that is kept, from its end."""
NOT_STARTED = 127
"""Exit status of a command that cannot be started."""
LATE_S = 30.0
"""Seconds over an agent's time after which its guard is killed, which ends the agent too."""
PROMPT, SKILL, SERVERS = "PROMPT.md", "SKILL.md", "mcp.json"
"""Files in the agent's folder: its task, how to work, and the configuration of the MCP server."""
SKILL_FILE = Path(__file__).with_name("skill.md")
"""The skill file: what an agent must know to use the tools well."""
MCP = (*PYTHON, "-m", "kernelreef", "mcp")
"""Command of the MCP server that the agent starts."""

Text = Annotated[str, StringConstraints(min_length=1, max_length=4000, pattern=r"^[^\x00]*$")]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]


class CommandOptions(BackendOptions):
    """Options of an agent.

    Attributes:
        command: Command line; the task comes as standard input, and is in `PROMPT.md` too.
        seconds: Seconds that one run may take.
        evaluations: Maximum number of candidates of one run.
        environment: Environment variables of the agent. A value `$NAME` is read from the service's environment.
        writable: Folders besides its own where the agent may write, such as its own configuration.
        max_concurrency: Maximum number of agents at once, over all searches.
    """

    command: Annotated[list[Text], Field(min_length=1, max_length=100)]
    seconds: float = Field(default=1800.0, ge=1, le=86_400, allow_inf_nan=False)
    evaluations: int = Field(default=20, ge=1, le=100_000)
    environment: dict[Variable, Text] = Field(default_factory=dict)
    writable: Annotated[list[Path], Field(max_length=32)] = []
    max_concurrency: int = Field(default=1, ge=1, le=64)

    @model_validator(mode="after")
    def _limitable(self) -> Self:
        if self.price or self.per_search.tokens is not None or self.per_search.usd is not None:
            raise ValueError("an agent pays for its models itself: limit seconds, evaluations and per_search.calls")
        taken = sorted(name for name in self.environment if name.startswith("REEF_"))
        if taken:
            raise ValueError(f"environment may not set {', '.join(taken)}")
        return self


class Command(Backend):
    """Backend whose answers are runs of an agent; the kernels come over REST meanwhile."""

    kind: ClassVar[str] = "command"
    options: ClassVar[type[BackendOptions]] = CommandOptions
    submits: ClassVar[bool] = True

    def __init__(self, options: CommandOptions, surroundings: BackendContext) -> None:
        self._options = options
        self._surroundings = surroundings
        self._environment = {name: from_environment(value) for name, value in options.environment.items()}
        self._secrets = [self._environment[name] for name, value in options.environment.items() if value[:1] == "$"]

    @classmethod
    def make(cls, options: BackendOptions, surroundings: BackendContext) -> Self:
        """Create a backend; nothing is started yet.

        Raises:
            InvalidInput: If an environment variable that it names is not set.
        """
        assert isinstance(options, CommandOptions)
        return cls(options, surroundings)

    async def complete(self, prompt: LlmPrompt, key: str = "") -> Completion:
        """Run the agent until it ends or its time is over. The text is the end of its output, without its secrets.

        Raises:
            PermanentFailure: If the service cannot admit an agent, or the command cannot be started.
            TransientFailure: If the guard failed.
        """
        if self._surroundings.admit is None:
            raise PermanentFailure("an agent needs a running service: reef serve")
        options = self._options
        async with self._surroundings.admit(key, options.evaluations, options.seconds) as admitted:
            folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="reef-agent-"))
            try:
                await asyncio.to_thread(self._furnish, folder, prompt, admitted)
                text, result = await self._run(folder, admitted)
            finally:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        text = ApiKey(admitted.token, *self._secrets).redact(text).strip() or "The agent printed nothing."
        if result["status"] == NOT_STARTED:
            raise PermanentFailure(f"the agent cannot be started: {text[-500:]}", paid=True)
        return Completion(text, options.command[0], 0, 0, None, truncated=bool(result["timed_out"]))

    def _furnish(self, folder: Path, prompt: LlmPrompt, admitted: AgentPass) -> None:
        """Write the agent's task, the skill file, and the configuration of its MCP server."""
        (folder / "tmp").mkdir()
        limits = (
            f"You have {self._options.seconds:.0f} seconds and at most {self._options.evaluations} evaluations; "
            f"both end by themselves."
        )
        (folder / PROMPT).write_text(f"{prompt.system}\n\n{prompt.user}\n\n{limits}\n", encoding="utf-8")
        (folder / SKILL).write_text(SKILL_FILE.read_text(encoding="utf-8"), encoding="utf-8")
        server = {"command": MCP[0], "args": list(MCP[1:]), "env": self._connection(admitted)}
        (folder / SERVERS).write_text(json.dumps({"mcpServers": {"reef": server}}, indent=1), encoding="utf-8")

    def _connection(self, admitted: AgentPass) -> dict[str, str]:
        return {"REEF_URL": admitted.url, "REEF_TOKEN": admitted.token, "REEF_SEARCH": admitted.search, **SAFE}

    async def _run(self, folder: Path, admitted: AgentPass) -> tuple[str, dict[str, Any]]:
        """Run the guard. Returns the end of the agent's output, and the guard's result."""
        request = {
            "command": self._options.command,
            "environment": self._whole_environment(folder, admitted),
            "folder": str(folder),
            "seconds": self._options.seconds,
            "input": str(folder / PROMPT),
            "writable": [str(path.expanduser()) for path in self._options.writable],
            "hidden": [str(self._surroundings.folder)],
        }
        pipe = asyncio.subprocess.PIPE
        guard = await asyncio.create_subprocess_exec(
            *GUARD, stdin=pipe, stdout=pipe, stderr=pipe, env=guard_environment(), start_new_session=True
        )
        assert guard.stdin is not None and guard.stdout is not None and guard.stderr is not None
        guard.stdin.write(json.dumps(request).encode() + b"\n")
        said, result = asyncio.create_task(_tail(guard.stdout)), asyncio.create_task(_tail(guard.stderr))
        try:
            async with asyncio.timeout(self._options.seconds + LATE_S):
                await guard.wait()
            found = json.loads(await result)
            return (await said).decode(errors="replace"), found
        except (TimeoutError, ValueError) as error:
            raise TransientFailure("the guard of the agent failed", paid=True) from error
        finally:
            await _end(guard)
            await end([said, result])

    def _whole_environment(self, folder: Path, admitted: AgentPass) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder),
            "TMPDIR": str(folder / "tmp"),
            "LANG": "C.UTF-8",
            **self._environment,
            **self._connection(admitted),
        }


def guard_environment() -> dict[str, str]:
    """Return the environment of the guard: what Python needs to find our packages. The agent gets nothing of it."""
    kept = ("PATH", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "PYTHONDONTWRITEBYTECODE")
    return {name: os.environ[name] for name in kept if name in os.environ} | SAFE


async def _tail(stream: asyncio.StreamReader) -> bytes:
    """Read a stream to its end, and return its tail."""
    tail = b""
    while chunk := await stream.read(65_536):
        tail = (tail + chunk)[-TAIL_BYTES:]
    return tail


async def _end(guard: asyncio.subprocess.Process) -> None:
    """End a guard: it ends the agent when its lifeline breaks, and the kernel does if it has to be killed."""
    if guard.stdin is not None:
        guard.stdin.close()
    try:
        async with asyncio.timeout(LATE_S):
            await guard.wait()
    except TimeoutError:
        guard.kill()
        await guard.wait()
