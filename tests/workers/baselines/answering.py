"""Stands in for `python -m workers.baselines`: answers each line after the word in BASELINES_ORDER, which a file holds.

It needs the standard library. The file named by BASELINES_LOG gets a line when it starts and for every request.
"""

import json
import os
import sys
import time
from pathlib import Path


def main() -> int:
    note(" ".join(sys.argv[1:]))
    for line in sys.stdin:
        note("asked")
        order = Path(os.environ["BASELINES_ORDER"]).read_text()
        if order == "die":
            sys.stderr.write("warming up\nCUDA error: no kernel image\n")
            return 3
        if order == "sleep":
            sys.stderr.write("tuning\n")
            sys.stderr.flush()
            time.sleep(600)
        if order == "leave":
            note(f"{os.getpid()} leaves")
        sys.stdout.write(("hello" if order == "babble" else json.dumps(reply(json.loads(line), order))) + "\n")
        sys.stdout.flush()
        if order == "leave":
            return 0
    return 0


def note(text: str) -> None:
    with Path(os.environ["BASELINES_LOG"]).open("a") as file:
        file.write(text + "\n")


def reply(request: dict, order: str) -> dict:
    shapes = [",".join(f"{k}={v}" for k, v in sorted(graph["shape"]["dims"].items())) for graph in request["graphs"]]
    if order == "elsewhere":
        shapes = ["M=1,N=1"]
    figures = {"eager": {"time_us": 40.0, "time_half_width": 0.01, "over_pacer": 2.0, "half_width": 0.01}}
    baselines = [
        {"shape": shape, "pacer_us": 20.0, "pacer_half_width": 0.01, "figures": figures, "pairs": 40}
        for shape in shapes
    ]
    copies = [
        {"size": size, "time_us": (size["read_bytes"] + size["written_bytes"]) / 16}
        for size in request["copies"]
        if order != "full"
    ]
    if order == "astray":
        copies = [{"size": {"read_bytes": 1, "written_bytes": 1}, "time_us": 1.0}]
    return {"baselines": baselines, "copies": copies, "versions": {"torch": "2.11"}}


if __name__ == "__main__":
    sys.exit(main())
