"""Other pairs of torch and Triton: they lie in environments of their own, kept in the user's cache folder."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.toolchains import BESIDE, NEWEST, OLDEST, NotInstallable, environment, examine, install, passes, sources
from workers.options import cache_home

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "toolchains.json"
LAYERS = cache_home() / "toolchains"


@pytest.mark.slow(reason="pairs of packages, tens of seconds each; everything else runs the pinned pair")
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("pair", [OLDEST, *BESIDE, NEWEST], ids=lambda pair: pair.name)
def test_a_pair_traces_judges_and_assembles_alike(pair):
    try:
        install(pair, LAYERS)
    except (NotInstallable, subprocess.TimeoutExpired) as error:
        pytest.skip(f"{pair.name} cannot be had: {error}")
    chosen = [source for source in sources() if source[0] in ("softmax", "matmul", "softmax_gluon")]
    row = asyncio.run(examine(pair, LAYERS, chosen))
    assert passes(row), json.dumps(row, indent=1)
    assert row["versions"]["triton"] == pair.triton
    assert {found["toolchain"]["triton"] for found in row["sources"]} == {pair.triton}


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
