"""A search's template runs before its command is imported, and only where the command judges in its own process."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from service.cli.early_start import begin_early
from service.cli.early_template import start_early, template_of
from service.discovery import discoverable
from service.settings import Settings

WAIT_S = 60.0
SEARCH = ["search", "softmax", "--device", "model:sm_90"]


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    (tmp_path / "data").mkdir()
    settings = Settings(data_dir=tmp_path / "data", local_workers=1)
    yield settings
    template_of(settings.workers_log).close()


def runs(arguments: list[str], settings: Settings) -> bool:
    start_early(arguments, settings)
    return template_of(settings.workers_log).pid is not None


def test_it_is_the_template_of_the_search(settings: Settings) -> None:
    assert runs(SEARCH, settings)
    first = template_of(settings.workers_log).pid
    with begin_early(settings, ["model:sm_90"]) as template:
        assert template.pid == first
    assert template.pid is None


def test_a_resumed_search_takes_the_one_that_runs(settings: Settings) -> None:
    with begin_early(settings, []) as template:
        assert template.pid is None, "nothing says that it needs workers"
    assert runs(["search", "--resume", "0196"], settings)
    first = template_of(settings.workers_log).pid
    with begin_early(settings, []) as template:
        assert template.pid == first
    assert template.pid is None


@pytest.mark.parametrize(
    "arguments", [[], ["searches"], ["serve"], [*SEARCH, "--url", "http://x"], [*SEARCH, "--url=http://x"], ["--help"]]
)
def test_other_commands_start_none(arguments: list[str], settings: Settings) -> None:
    assert not runs(arguments, settings)


@pytest.mark.parametrize("changes", [{"url": "http://127.0.0.1:1"}, {"local_workers": 0}])
def test_it_runs_only_where_this_process_judges(changes: dict[str, object], settings: Settings) -> None:
    assert not runs(SEARCH, settings.model_copy(update=changes))


def test_a_search_at_a_service_that_is_found_starts_none(settings: Settings) -> None:
    with discoverable(settings.data_dir, "http://127.0.0.1:1"):
        assert not runs(SEARCH, settings)


def test_no_folder_is_made(settings: Settings) -> None:
    settings.data_dir.rmdir()
    assert not runs(SEARCH, settings) and not settings.data_dir.exists()


def test_it_ends_with_a_command_whose_arguments_are_wrong(settings: Settings, cold: None) -> None:
    command = (sys.executable, "-m", "kernelreef", "search", "softmax", "--unheard")
    with subprocess.Popen(command, env={**os.environ, "REEF_DATA_DIR": str(settings.data_dir)}) as process:
        assert process.wait(WAIT_S) == 2
    assert settings.workers_log.exists()
    until = time.monotonic() + WAIT_S
    while left := [
        each for each in psutil.process_iter(["cmdline"]) if str(process.pid) in (each.info["cmdline"] or ())
    ]:
        assert time.monotonic() < until, left
        time.sleep(0.05)
