"""Errors in options and arguments take one line and name what a person wrote."""

import pytest
from typer.main import get_command

from service.cli import COMMANDS, app
from service.cli.usage import CLICK_ERROR, OPTIONS, complain_of_usage, option_of


@pytest.mark.parametrize(
    ("field", "option"),
    [
        ("devices[0]", "--device"),
        ("llm.backends[1]", "--llm"),
        ("llm.usd", "--llm-usd"),
        ("stop.plateau", "--stop plateau"),
        ("operator.seeds", "SPEC"),
        ("inputs[0].dtype", "inputs[0].dtype"),
        ("REEF_PORT", "REEF_PORT"),
        (None, None),
    ],
)
def test_a_field_of_a_request_is_named_by_its_option(field: str | None, option: str | None) -> None:
    assert option_of(field) == (option or None)


def test_every_option_is_one_of_a_command() -> None:
    commands = [get_command(app).commands[name].load() for name in COMMANDS]
    leaves = [leaf for command in commands for leaf in getattr(command, "commands", {"": command}).values()]
    known = {option for leaf in leaves for parameter in leaf.params for option in parameter.opts}
    assert set(OPTIONS.values()) - {"SPEC"} <= known


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["serch"], "reef: no such command 'serch'; did you mean 'search'"),
        (
            ["search", "gelu", "--evaluations", "x"],
            "reef: --evaluations: must be a whole number, not 'x'; see reef search",
        ),
        (["search", "--evalutions", "3"], "reef: no such option: --evalutions; did you mean --evaluations"),
        (["worker", "--trace", "-1"], "reef: --trace: must be 0 or more, not '-1'; see reef worker --help"),
        (["prompts", "list", "--state", "odd"], "reef: --state: 'odd' is not one of 'asked', 'waiting', "),
        (["pause"], "reef: missing argument 'search'; see reef pause --help"),
    ],
)
def test_a_usage_error_is_one_line(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CLICK_ERROR) as caught:
        app(arguments, prog_name="reef", standalone_mode=False)
    complain_of_usage(caught.value)
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert said.err.startswith(line)


def test_a_group_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CLICK_ERROR) as caught:
        app(["prompts"], prog_name="reef", standalone_mode=False)
    complain_of_usage(caught.value)
    shown = capsys.readouterr()
    assert "reef prompts" in shown.out + shown.err
