"""What begins before the service is imported, and that it ends with the command."""

from pathlib import Path

import pytest

from service.cli.early_start import begin_early
from service.fleet.devices import LIST_CARDS, local_cards
from service.settings import Settings
from tests.service.listing import list_cards

MODEL = ["model:sm_90"]


def settings(folder: Path, workers: int = 1) -> Settings:
    return Settings(data_dir=folder / "data", local_workers=workers)


def test_the_template_runs_while_the_block_does(tmp_path: Path) -> None:
    with begin_early(settings(tmp_path), MODEL) as template:
        assert template.pid is not None
    assert template.pid is None
    assert (tmp_path / "data" / "workers.log").exists()


def test_nothing_runs_where_workers_run_elsewhere(tmp_path: Path) -> None:
    with begin_early(settings(tmp_path, 0), MODEL) as template:
        assert template.pid is None
    assert not (tmp_path / "data").exists()


def test_a_folder_that_cannot_be_made_is_left_to_the_service(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with begin_early(settings(tmp_path), MODEL) as template:
        assert template.pid is None


@pytest.mark.parametrize(("device", "asked"), [("h200", 1), ("auto", 1), ("model:sm_90", 0)])
def test_cards_are_listed_once_and_only_if_they_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, asked: int
) -> None:
    list_cards(tmp_path, monkeypatch, "NVIDIA H200")
    tool = tmp_path / LIST_CARDS[0]
    tool.write_text(tool.read_text().replace("\n", f"\necho asked >> {tmp_path}/asked; sleep 0.2\n", 1))
    with begin_early(settings(tmp_path), [device]):
        if asked:
            assert [card.name for card in local_cards()] == ["NVIDIA H200"]
    told = tmp_path / "asked"
    assert (told.read_text().split() if told.exists() else []) == ["asked"] * asked
