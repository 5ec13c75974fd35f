"""A client that a generator of another maker writes from the OpenAPI document submits, follows and exports.

The generator and the client run in the venv of `make peers`, where nothing of Kernelreef is installed.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.service.serving import Served

pytestmark = pytest.mark.slow  # The venv of the generator is only there for the long suites.

PEERS = Path(__file__).parents[2] / ".venv" / "peers" / "bin"
FILE_TYPES = {"application/zip": "application/octet-stream", "application/x-ndjson": "text/plain"}
"""Media types that the generator knows under another name only."""
PROGRAM = """
import io, json, sys, zipfile
from generated import AuthenticatedClient, Client
from generated.api.access import access_create
from generated.api.archives import archives_download, archives_elites
from generated.api.candidates import candidates_find
from generated.api.searches import searches_delete, searches_events, searches_find, searches_search, searches_submit
from generated.models import CandidatesFindSort, Problem, Scope, SearchesFindSort, SearchRequest, TokenRequest

url = sys.argv[1]
scopes = [Scope.READ, Scope.SUBMIT, Scope.ADMIN]
token = access_create.sync(client=Client(base_url=url), body=TokenRequest(name="generated", scopes=scopes)).token
client = AuthenticatedClient(base_url=url, token=token, timeout=60)
wrong = searches_submit.sync(client=client, body=SearchRequest(operator="nothing"))
assert isinstance(wrong, Problem) and wrong.errors[0].field == "body.operator", wrong
asked = SearchRequest(
    operator="rmsnorm", devices=["model:sm_90"], emitters=["tune"], evaluations=4, name="by a generated client"
)
search = searches_submit.sync(client=client, body=asked)
judged = 0
with client.get_httpx_client().stream(**searches_events._get_kwargs(id=search.id)) as stream:
    for line in stream.iter_lines():
        judged += line == "event: candidate.judged"
        if line.startswith("data: ") and json.loads(line.removeprefix("data: ")).get("state") == "done":
            break
ended = searches_search.sync(client=client, id=search.id)
found = searches_find.sync(client=client, text="GENERATED", sort=SearchesFindSort("-best"))
candidates = candidates_find.sync(client=client, id=search.id, sort=CandidatesFindSort("-objective"))
elites = archives_elites.sync(client=client, id=search.id)
names = zipfile.ZipFile(archives_download.sync(client=client, id=search.id).payload).namelist()
deleted = searches_delete.sync_detailed(client=client, id=search.id)
gone = searches_search.sync(client=client, id=search.id)
print(json.dumps({
    "state": ended.state, "found": [each.id for each in found.items], "search": search.id,
    "judged": judged, "best": elites.items[0].objective,
    "candidates": [each.objective for each in candidates.items], "names": names,
    "deleted": deleted.status_code, "gone": gone.status,
}))
"""


@pytest.mark.timeout(300)
def test_a_generated_client_submits_follows_and_exports(tmp_path: Path) -> None:
    if not (PEERS / "openapi-python-client").exists():
        reason = "no openapi-python-client here; make peers installs it"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    (tmp_path / "generator.json").write_text(json.dumps({"content_type_overrides": FILE_TYPES}))
    # It formats what it writes with the ruff that stands beside it.
    environment = {**os.environ, "PATH": f"{PEERS}:{os.environ['PATH']}", "PYTHONPATH": str(tmp_path)}
    with Served(tmp_path / "data", workers=1) as service:
        where = ["--url", f"{service.url}/openapi.json", "--output-path", str(tmp_path / "generated")]
        options = ["--meta", "none", "--config", str(tmp_path / "generator.json"), "--fail-on-warning"]
        command = [PEERS / "openapi-python-client", "generate", *where, *options]
        made = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert made.returncode == 0, made.stdout + made.stderr
        command = [PEERS / "python", "-c", PROGRAM, service.url]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["state"], told["found"], told["deleted"], told["gone"]) == ("done", [told["search"]], 204, 404)
    assert told["judged"] >= 4
    assert told["candidates"][0] == told["best"] and told["candidates"] == sorted(told["candidates"], reverse=True)
    assert "manifest.json" in told["names"] and any(name.endswith("/kernel.py") for name in told["names"])
