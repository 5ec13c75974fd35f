"""Answers the prompts of a search through REST alone, with the standard library alone.

It stands where a person, or a model behind an air gap, would: it waits for prompts, claims them, and answers each with
the kernel that the prompt shows, changed by one of a few fixed rules. The same prompts get the same answers.

    python answer.py --operator dora_compose --budget 6
    python answer.py --search ID
"""

import argparse
import ast
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

LOOK_S = 0.2
"""Seconds between two looks for a prompt that waits."""
LEASE_S = 60
"""Seconds that a claim holds: far more than a rule takes."""
ENDED = ("done", "stopped", "failed")
GONE = 409
"""Status of a claim or an answer that comes too late: another was quicker, or the search has ended."""
NAME = "rules"


class Service:
    """REST of one coordinator."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url = url.rstrip("/") + "/api/v1"
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})

    def call(self, method: str, path: str, body: object = None) -> dict:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, self._headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


def sizes_known_when_compiled(source: str) -> str | None:
    """Numbers that a kernel is handed become constants of its compilation, so that masks and strides fold."""
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(item) for item in node.decorator_list):
            for argument in reversed(node.args.args):
                if argument.annotation is None and not argument.arg.endswith("ptr"):
                    line, end = argument.lineno - 1, argument.end_col_offset
                    lines[line] = lines[line][:end] + ": tl.constexpr" + lines[line][end:]
    return "\n".join(lines)


def warps(times: float) -> Callable[[str], str | None]:
    """As many warps, times a factor."""

    def rule(source: str) -> str | None:
        found = re.search(r"num_warps=(\d+)", source)
        count = int(int(found[1]) * times) if found else 0
        return source.replace(found[0], f"num_warps={count}") if found and 1 <= count <= 32 else None

    return rule


def weights_stay_in_cache(source: str) -> str | None:
    """What every program reads again is kept in L2 longest."""
    plain = r"(tl\.load\(weight_ptr(?:(?!eviction)[^\n])*?)\)(\.to|\n)"
    return re.sub(plain, r'\1, eviction_policy="evict_last")\2', source)


RULES = (sizes_known_when_compiled, warps(0.5), weights_stay_in_cache, warps(2))


class Rules:
    """Changes a kernel by the next rule that makes something new of it."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._next = 0

    def answer(self, prompt: str) -> str:
        """The whole changed file in a fence, or what is wrong with the prompt."""
        source = kernel_of(prompt)
        if source is None:
            return "The prompt shows no kernel to start from."
        self._seen.add(source.strip())
        for changed in self._changed(source):
            if changed is not None and changed.strip() not in self._seen:
                self._seen.add(changed.strip())
                fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", changed)), default=0))
                return f"{fence}python\n{changed.rstrip()}\n{fence}\n"
        return "No rule makes anything new of this kernel."

    def _changed(self, source: str) -> Iterator[str | None]:
        for turn in range(len(RULES)):
            rule = RULES[(self._next + turn) % len(RULES)]
            changed = rule(source)
            if changed is not None and changed.strip() not in self._seen:
                self._next += turn + 1
            yield changed


def kernel_of(prompt: str) -> str | None:
    """The source of kernel 1: the first block marked python below that heading."""
    lines = iter(prompt[prompt.find("# Kernels") :].split("\n") if "# Kernels" in prompt else ())
    for line in lines:
        if opening := re.fullmatch(r"(`{3,})python", line):
            source = []
            for inside in lines:
                if inside == opening[1]:
                    return "\n".join(source)
                source.append(inside)
    return None


def claimed(service: Service, search: str) -> dict | None:
    """The oldest prompt that waits, now ours."""
    for prompt in service.call("GET", f"/prompts?state=waiting&search={search}")["items"]:
        try:
            return service.call("POST", f"/prompts/{prompt['id']}/claim", {"answerer": NAME, "lease_s": LEASE_S})
        except urllib.error.HTTPError as error:
            if error.code != GONE:
                raise
    return None


def drive(service: Service, search: str) -> dict:
    """Answer a search's prompts until it ends; the search as it is then."""
    rules = Rules()
    while True:
        found = service.call("GET", f"/searches/{search}")
        if found["state"] in ENDED:
            return found
        prompt = claimed(service, search)
        if prompt is None:
            time.sleep(LOOK_S)
            continue
        text = rules.answer(prompt["user"])
        print(f"prompt {prompt['ordinal']}.{prompt['step']} ({prompt['strategy']}): {len(text)} characters", flush=True)
        try:
            body = {"answerer": NAME, "text": text, "model": "answer.py"}
            service.call("POST", f"/prompts/{prompt['id']}/answer", body)
        except urllib.error.HTTPError as error:
            if error.code != GONE:
                raise


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--url", default=os.environ.get("REEF_URL", "http://127.0.0.1:8700"))
    options.add_argument(
        "--token", default=os.environ.get("REEF_TOKEN"), help="needs the scopes read, submit and steer"
    )
    options.add_argument("--search", help="id of a search that asks the backend 'manual'; else one is started")
    options.add_argument("--operator", default="dora_compose")
    options.add_argument("--device", default="model:sm_90")
    options.add_argument("--budget", type=int, default=6, help="candidates, the operator's seeds included")
    chosen = options.parse_args()
    service = Service(chosen.url, chosen.token)
    search = chosen.search
    if search is None:
        request = {
            "operator": chosen.operator,
            "devices": [chosen.device],
            "emitters": ["llm"],
            "evaluations": chosen.budget,
            "llm": {"backends": ["manual"], "strategies": ["improve"], "calls": 4 * chosen.budget},
        }
        search = service.call("POST", "/searches", request)["id"]
    print(f"search {search}", flush=True)
    ended = drive(service, search)
    print(f"{ended['state']} {ended['reason']}".strip())
    best = service.call("GET", f"/searches/{search}/elites?limit=1")["items"]
    if not best:
        return 1
    source = service.call("GET", f"/candidates/{best[0]['candidate']}")["source"]
    print(f"best: {best[0]['speedup']['low']:.4f} times the seed kernel on {chosen.device}\n\n{source}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
