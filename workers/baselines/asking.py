"""The bench's side: baselines out of the cache, or from a process that measures them. No CUDA here, and no torch."""

import os
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from pydantic import ValidationError

from workers.assembler import assemble_kernel
from workers.baselines.cache import Cache, Key
from workers.baselines.messages import Baseline, Reply, Request
from workers.errors import Transient
from workers.protocol import Bundle, Device, Graph, Operator, Plan

COMMAND = (sys.executable, "-m", "workers.baselines")
"""The process; it takes `--card`, a request on standard input, and says a reply on standard output."""
START_S = 120.0
"""Seconds for it to start: importing torch and opening the card takes 6 s on an H200 host that is warm."""
SHAPE_S = 180.0
"""Seconds for one shape: no more than two contenders use up the 60 s that each is given to get ready."""
LAST_WORDS_CHARS = 600
"""Of what a process that failed wrote last: the end of a traceback."""


class BaselinesFailed(Transient):
    """The process that measures baselines died, or its figures could not be kept."""


def measure_baselines(
    operator: Operator,
    graphs: Sequence[Graph],
    pacer: Bundle,
    device: Device,
    card: int,
    folder: Path | None,
    versions: Mapping[str, str],
) -> dict[str, Baseline]:
    """Relate a pacer to what a user would run instead, at every benchmark shape.

    Args:
        operator: The contract.
        graphs: The reference; at least at the pacer's benchmark shapes.
        pacer: An assembled bundle; plans of other shapes are left out.
        device: The hardware class that figures are kept for.
        card: Index of the card to measure on; nobody else should use it meanwhile.
        folder: Where figures are remembered, in a folder of their own; None measures every time.
        versions: What figures depend on besides: of torch, triton, driver and cuda, and the card's name.

    Returns:
        Baselines by shape key.

    Raises:
        BaselinesFailed: If they could not be measured.
    """
    keys = _keys(operator, pacer, device, versions)
    cache = None if folder is None else Cache(folder / "baselines")
    found = {shape: kept for shape, key in keys.items() if cache and (kept := cache.find(key))}
    missing = [plan for plan in pacer.benchmarks if plan.shape.key not in found]
    if missing:
        for baseline in ask(request_for(operator, graphs, pacer, missing), card).baselines:
            found[baseline.shape] = baseline
            if cache:
                _keep(cache, keys[baseline.shape], baseline)
    return found


def request_for(operator: Operator, graphs: Sequence[Graph], pacer: Bundle, plans: Sequence[Plan]) -> Request:
    """The request about some of a pacer's plans, with their kernels assembled anew."""
    reduced = pacer.restricted(plans)
    by_shape = {graph.shape.key: graph for graph in graphs}
    return Request(
        operator=operator,
        graphs=tuple(by_shape[plan.shape.key] for plan in plans),
        pacer=reduced,
        machine_code={
            digest: b64encode(assemble_kernel(kernel).code).decode() for digest, kernel in reduced.kernels.items()
        },
    )


def ask(request: Request, card: int) -> Reply:
    """Start the process, wait for its reply.

    Raises:
        BaselinesFailed: If it dies, takes too long, or says what is no reply.
    """
    timeout_s = START_S + SHAPE_S * len(request.graphs)
    with TemporaryFile() as asked, TemporaryFile() as said, TemporaryFile() as complaints:
        asked.write(request.model_dump_json().encode())
        asked.seek(0)
        process = subprocess.Popen(
            (*COMMAND, "--card", str(card)), stdin=asked, stdout=said, stderr=complaints, start_new_session=True
        )
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise BaselinesFailed(f"baselines take more than {timeout_s:g} s: {_last_words(complaints)}") from None
        finally:
            _end(process)
        if status != 0:
            raise BaselinesFailed(f"baselines ended with status {status}: {_last_words(complaints)}")
        said.seek(0)
        return _read(said.read(), request)


def liger_version() -> str:
    """The version of liger-kernel, or `absent`."""
    try:
        return version("liger-kernel")
    except PackageNotFoundError:
        return "absent"


def _keys(operator: Operator, pacer: Bundle, device: Device, versions: Mapping[str, str]) -> dict[str, Key]:
    """What every figure that is wanted depends on, by shape key."""
    return {
        plan.shape.key: Key(
            operator=operator.digest,
            shape=plan.shape.key,
            device=device,
            pacer=pacer.restricted([plan]).identity,
            versions={**versions, "liger": liger_version()},
        )
        for plan in pacer.benchmarks
    }


def _keep(cache: Cache, key: Key, baseline: Baseline) -> None:
    try:
        cache.keep(key, baseline)
    except OSError as error:
        raise BaselinesFailed(f"a figure cannot be kept: {error}") from error


def _read(answer: bytes, request: Request) -> Reply:
    try:
        reply = Reply.model_validate_json(answer)
    except ValidationError as error:
        raise BaselinesFailed(f"baselines said what is no reply: {error}") from error
    if [baseline.shape for baseline in reply.baselines] != [graph.shape.key for graph in request.graphs]:
        raise BaselinesFailed("baselines answered for other shapes than they were asked for")
    return reply


def _last_words(complaints: IO[bytes]) -> str:
    complaints.seek(0)
    return complaints.read().decode(errors="replace").strip()[-LAST_WORDS_CHARS:]


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill it, with what it started, if it still runs."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
