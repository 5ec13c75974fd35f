"""Commands in a sandbox: input files, a program that runs beside them, output files."""

import base64
import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from workers.sandbox.base import CommandResult, SandboxEnding, SandboxResult
from workers.sandbox.syscalls import fix_addresses

_TOOLS = ".tools"
# Directory with a link to the program under its own name, because some programs read it.
OUTPUT = ".stdout"
"""File with all of a program's standard output, for programs that can write their result nowhere else."""
_STREAM_BYTES = 64 * 1024
# Length at which standard output and standard error are cut.


@dataclass(frozen=True)
class SandboxCommand:
    """A program to run, as a function for a sandbox.

    It starts with the same name, environment and addresses on every machine that allows it: the output of ptxas for
    some kernels depends on the addresses of its own objects.

    Attributes:
        argv: The program's path and arguments.
        files: Files to write into the working directory first, by plain name.
        collect: Names of the files to return.
    """

    argv: Sequence[str]
    files: Mapping[str, bytes]
    collect: Sequence[str]

    def __call__(self, request: bytes) -> bytes:
        """Run it in the current directory; the request is not used. Returns the input of `read`."""
        for name, content in self.files.items():
            Path(name).write_bytes(content)
        path, *arguments = self.argv
        program = Path(_TOOLS) / Path(path).name
        program.parent.mkdir()
        program.symlink_to(path)
        with suppress(OSError):
            fix_addresses()
        with Path(OUTPUT).open("w+b") as stdout, Path(".stderr").open("w+b") as stderr:
            done = subprocess.run(
                [f"./{program}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env={"HOME": ".", "TMPDIR": "."},
                check=False,
            )
            streams = [_first_bytes(stream) for stream in (stdout, stderr)]
        files = {name: Path(name).read_bytes() for name in self.collect if Path(name).is_file()}
        answer = {
            "status": done.returncode,
            "streams": [_encode(stream) for stream in streams],
            "files": {name: _encode(content) for name, content in files.items()},
        }
        return json.dumps(answer).encode()

    def read(self, result: SandboxResult) -> CommandResult:
        """Decode the result of the sandbox that ran it."""
        if result.ending is not SandboxEnding.RETURNED:
            return CommandResult(result.ending, None, b"", b"", {}, result.detail, result.wall_s)
        answer: dict[str, Any] = json.loads(result.reply)
        stdout, stderr = (base64.b64decode(stream) for stream in answer["streams"])
        files = {name: base64.b64decode(content) for name, content in answer["files"].items()}
        return CommandResult(result.ending, answer["status"], stdout, stderr, files, "", result.wall_s)


def _first_bytes(stream: IO[bytes]) -> bytes:
    stream.seek(0)
    return stream.read(_STREAM_BYTES)


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()
