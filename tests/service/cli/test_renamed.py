"""Former names of commands work for one release, with a note."""

import pytest
from typer.testing import CliRunner

from service.cli import app
from service.cli.renamed import RENAMED, current_arguments, current_rule


@pytest.mark.parametrize(("former", "now"), RENAMED.items())
def test_a_former_name_runs_the_current_command_and_says_so_once(former: tuple[str, ...], now: tuple[str, ...]) -> None:
    runner = CliRunner()
    one, other = (runner.invoke(app, [*name, "--help"]) for name in (former, now))
    assert (one.exit_code, other.exit_code, one.stdout) == (0, 0, other.stdout)
    assert one.stderr == f"reef {' '.join(former)} is deprecated: use reef {' '.join(now)}\n"
    assert other.stderr == ""


def test_arguments_that_only_look_like_a_former_name_stay() -> None:
    assert current_arguments(["search", "change"]) == ["search", "change"]
    assert current_arguments([]) == []


def test_former_names_are_not_listed() -> None:
    listed = CliRunner().invoke(app, ["--help"]).stdout.split()
    assert "update" in listed and "change" not in listed


def test_a_former_stop_rule_is_read_with_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    assert [current_rule("judging_s"), current_rule("seconds")] == ["device_seconds", "seconds"]
    assert capsys.readouterr().err == "--stop judging_s is deprecated: use --stop device_seconds\n"
