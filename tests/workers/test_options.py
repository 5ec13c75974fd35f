"""The command line of workers: what it means, what follows from it, and advice where it makes no sense."""

import argparse
from pathlib import Path

import pytest

from workers.options import cache_home, card_arguments, parse, read_seat
from workers.protocol import CardShare, Device

QUEUE = "--redis redis://x"


def options(text: str) -> argparse.Namespace:
    return parse(text.split(), "A test.")


def test_a_worker_on_a_card_gets_the_first_one_and_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said = options(f"run {QUEUE} --device h200")
    assert (said.device, said.target, said.trace) == (Device.parse("h200"), "sm_90", False)
    assert card_arguments(said) == ("--card", "cuda:0", "--data", str(tmp_path / "kernelreef"))
    chosen = options(f"run {QUEUE} --device h200 --card cuda:3 --data {tmp_path}")
    assert card_arguments(chosen) == ("--card", "cuda:3", "--data", str(tmp_path))


def test_what_measures_on_no_card_is_told_of_none() -> None:
    for text in (f"run {QUEUE} --device model:sm_90", f"run {QUEUE} --trace --target sm_80", "bench trace"):
        assert card_arguments(options(text)) == ()


def test_a_bench_reads_back_what_it_is_told() -> None:
    said = options("bench measure --device h200 --card cuda:1 --data /var/lib/reef")
    again = options(" ".join(("bench measure --device h200", *card_arguments(said))))
    assert (again.card, again.data) == (CardShare(1), Path("/var/lib/reef"))


def test_a_recording_traces_for_itself_and_has_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said = options(f"run {QUEUE} --trace --target sm_90 --device recorded:h200")
    assert (said.target, said.card) == ("recorded:h200", None)
    assert card_arguments(said) == ("--data", str(tmp_path / "kernelreef"))


@pytest.mark.parametrize("command", ["survey", "kernelbench"])
def test_a_question_takes_no_options(command: str) -> None:
    assert options(command).command == command and options(command).with_parent is None


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (f"run {QUEUE} --device model:sm_90 --card cuda:0", "--card needs a --device that measures"),
        (f"run {QUEUE} --device h200 --card 0", "the first one is cuda:0"),
        ("bench trace --card cuda:0", "--card needs a --device that measures"),
        ("bench measure", "measure needs --device"),
        ("bench both", "both needs --device"),
        ("bench both --device h200", "use trace and measure with a card"),
        (f"run {QUEUE} --join https://reef --token t --trace --target sm_90", "exclude each other"),
        ("run --join reef.example --token t --trace --target sm_90", "an address such as https://"),
    ],
)
def test_wrong_usage_is_answered_with_advice(text: str, advice: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        options(text)
    assert advice in capsys.readouterr().err


def test_other_names_of_cards_are_refused() -> None:
    assert read_seat("cuda:12/2") == CardShare(12, 2)
    with pytest.raises(argparse.ArgumentTypeError, match="the first one is cuda:0"):
        read_seat("hip:0")


def test_the_cache_is_where_the_desktop_specification_puts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_home() == Path("/home/somebody/.cache/kernelreef")


def test_who_joins_needs_a_token_and_no_queue(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REEF_REDIS_URL", "redis://ours")
    monkeypatch.delenv("REEF_TOKEN", raising=False)
    with pytest.raises(SystemExit, match="2"):
        options("run --join https://reef --trace --target sm_90")
    assert "--join needs a token" in capsys.readouterr().err
    monkeypatch.setenv("REEF_TOKEN", "reef_token")
    said = options("run --join https://reef --trace --target sm_90")
    assert (said.join, said.token, said.redis) == ("https://reef", "reef_token", None)
