"""Other pairs of torch and Triton: they lie in environments of their own, kept in the user's cache folder."""

import asyncio
import json
import random
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from archive.records import SearchState
from benchmarks.toolchains import BESIDE, NEWEST, OLDEST, NotInstallable, environment, examine, install, passes, sources
from kernelreef.states import ENDED
from service.coordinator import Coordinator
from service.emitters.rules import RULES, rules_for
from service.evaluation.executor_client import LocalExecutor
from service.operators.catalogue import load_catalogue
from service.requests import SearchRequest
from service.settings import Settings
from tests.journeys.small import small_request
from workers.options import cache_home
from workers.protocol import Bundle, Outcome, Shape, TraceJob, TraceReport, release_of

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "toolchains.json"
LAYERS = cache_home() / "toolchains"


@pytest.mark.slow(reason="pairs of packages, tens of seconds each; everything else runs the pinned pair")
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("pair", [OLDEST, *BESIDE, NEWEST], ids=lambda pair: pair.name)
def test_a_pair_traces_judges_and_assembles_alike(pair):
    installed(pair)
    chosen = [source for source in sources() if source[0] in ("softmax", "matmul", "softmax_gluon")]
    row = asyncio.run(examine(pair, LAYERS, chosen))
    assert passes(row), json.dumps(row, indent=1)
    assert row["versions"]["triton"] == pair.triton
    assert {found["toolchain"]["triton"] for found in row["sources"]} == {pair.triton}


@pytest.mark.slow(reason="an environment of its own and dozens of traces; tests of rules use the pinned compiler")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("pair", BESIDE, ids=lambda pair: pair.name)
async def test_a_compiler_knows_what_rules_offer_for_it(pair, tmp_path):
    async with bench(pair, tmp_path) as executor:
        rules = rules_for([release_of(pair.triton)])
        assert set(RULES) - set(rules) == {"block_pointers"}
        for name, rule in rules.items():
            found = next(((each, seed) for each, seed in plain_seeds() if rule.applies(seed)), None)
            if found is not None:
                text = rule.rewrite(found[1], random.Random(1))
                report = await traced_once(executor, found[0], text)
                assert report.outcome is Outcome.CORRECT, (name, report.reason)


@pytest.mark.slow(reason="an environment of its own; the queue's tests show where a job goes")
@pytest.mark.timeout(900)
async def test_a_search_that_asks_for_a_compiler_gets_it_beside_workers_that_have_another(cold, tmp_path, redis_url):
    pair = BESIDE[-1]
    layer = installed(pair)
    python = environment(layer, tmp_path / "environment")
    there = (str(python), "-P", "-m", "workers", "run", "--trace", "--device", "model:sm_90", "--redis", redis_url)
    coordinator = await Coordinator.open(Settings(data_dir=tmp_path / "data", redis_url=redis_url, local_workers=1))
    worker = subprocess.Popen(there, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        request = {"operator": small_request(), "evaluations": 3, "emitters": ["tune"], "compiler": "3.9"}
        search = await coordinator.submit(SearchRequest.model_validate(request))
        while (search := await coordinator.store.searches.get(search.id)).state not in ENDED or search.finishing:
            await asyncio.sleep(0.5)
        assert search.state is SearchState.DONE, search.reason
        elites = await coordinator.store.elites.list(search.id, "model:sm_90", search.axes_version)
        assert elites and {elite.compiler.split(",")[0] for elite in elites} == {f"Triton {pair.triton}"}
        for elite in elites:
            bundle = Bundle.model_validate_json((await coordinator.store.bundles.get(elite.bundle)).document)
            assert bundle.toolchain.triton == pair.triton
    finally:
        worker.terminate()
        await coordinator.close()
        worker.wait()


def installed(pair):
    try:
        return install(pair, LAYERS)
    except (NotInstallable, subprocess.TimeoutExpired) as error:
        pytest.skip(f"{pair.name} cannot be had: {error}")


@asynccontextmanager
async def bench(pair, folder):
    """An executor in the environment of a pair."""
    command = (str(environment(installed(pair), folder / "environment")), "-P", "-m", "workers", "bench")
    async with LocalExecutor("trace", command=command) as executor:
        yield executor


def plain_seeds():
    for operator in load_catalogue().values():
        yield from ((operator, seed) for seed in operator.seeds if "gluon" not in seed)


async def traced_once(executor, operator, text):
    shapes = (Shape(dims=operator.shapes[0].dims),)
    job = TraceJob(id="j", search="s", operator=operator, source=text, shapes=shapes, target="sm_90")
    return await executor.run(job, TraceReport)


def test_an_environment_has_a_pair_over_the_packages_of_this_one(tmp_path):
    layer = tmp_path / "layer"
    (layer / "numpy").mkdir(parents=True)
    (layer / "numpy" / "__init__.py").write_text("__version__ = 'ours'")
    python = environment(layer, tmp_path / "environment")
    text = "import numpy, pydantic, workers; print(numpy.__version__)"
    done = subprocess.run([python, "-P", "-c", text], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "ours\n" and str(python) != sys.executable


def test_what_passed_is_what_the_committed_figures_say():
    rows = {row["pair"]: row for row in json.loads(RESULTS.read_text())["rows"]}
    for pair in ("pinned", *(each.name for each in (OLDEST, *BESIDE, NEWEST))):
        assert rows[pair]["passes"] and passes(rows[pair])
    plans = [{found["source"]: found["identity"] for found in row["sources"]} for row in rows.values() if row["passes"]]
    for source in plans[0]:
        assert len({each[source] for each in plans}) >= 3, "plans of another compiler are other plans"
