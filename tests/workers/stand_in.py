"""A bench for tests of the processes around it: it speaks the same lines, and a job's source, or its candidate without
one, says what becomes of it.

    python stand_in.py WORKER [--greeting LINE]

Needs the standard library only, so that it is there at once.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

READY = {"kind": "ready", "jail": "none", "versions": {"stand_in": "1"}}


def say(answer: object) -> None:
    sys.stdout.write((answer if isinstance(answer, str) else json.dumps(answer)) + "\n")
    sys.stdout.flush()


def answer(job: dict[str, str], worker: str) -> object:
    order, _, detail = (job.get("source") or job["candidate"] or "").partition(" ")
    if order == "die" or (order == "die-once" and not Path(detail).exists()):
        Path(detail or os.devnull).touch()
        os._exit(3)
    if order == "fail-once" and not Path(detail).exists():
        Path(detail).touch()
        return {"kind": "failure", "error": "no memory", "transient": True}
    if order == "waits":
        tries, _, count = detail.rpartition(" ")
        with Path(tries).open("a") as file:
            file.write("+")
        if Path(tries).stat().st_size < int(count):
            return {"kind": "failure", "error": "no memory", "transient": True, "waits": True}
    if order == "sleep":
        time.sleep(float(detail))
    if order in ("transient", "permanent"):
        return {"kind": "failure", "error": detail, "transient": order == "transient"}
    if order == "say":
        return detail
    report = {key: job[key] for key in ("search", "candidate")}
    return {
        "kind": "trace",
        "job": job["id"],
        "worker": worker,
        "outcome": "correct",
        "reason": str(os.getpid()),
        **report,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("worker")
    parser.add_argument("--greeting", default=READY)
    options, _ = parser.parse_known_args()
    say(options.greeting)
    for line in sys.stdin:
        job = json.loads(line)
        if job["kind"] == "which":
            say({"kind": "prepared", "jobs": [name for name in job["jobs"] if "slow" not in name]})
        elif job["kind"] != "foresight":
            say(answer(job, options.worker))


main()
