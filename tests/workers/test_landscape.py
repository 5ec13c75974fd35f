import pytest

from tests.workers.devices.kernels import SOFTMAX
from workers.errors import ToolMissing
from workers.landscape import (
    Landscape,
    RecordedBundle,
    RecordedSource,
    RecordedTemplate,
    RecordedTime,
    RecordedVariant,
    RecordingSession,
    contract_digest,
    pack,
    read,
    text_digest,
    write_line,
)
from workers.protocol import Device, Outcome, Readings, Shape

SESSION = RecordingSession(
    operator="softmax",
    contract=contract_digest(SOFTMAX),
    device=Device.parse("h200"),
    shapes=(Shape(dims={"M": 4, "N": 4}),),
    protocol_version=1,
    versions={"triton": "3.6"},
)
READINGS = Readings(launches=1, programs=4, programs_per_sm=0.1, num_warps=4)


def bundle(identity, ratio, pacer_us=20.0):
    timed = RecordedTime(pacer_us=pacer_us, low=ratio * 0.99, mid=ratio, high=ratio * 1.01, pairs=4)
    return RecordedBundle(
        identity=identity, readings={"M=4,N=4": READINGS}, outcome=Outcome.CORRECT, times={"M=4,N=4": timed}
    )


LINES = (
    SESSION,
    RecordedTemplate(id="t", path="seed", source="x = 1\n"),
    RecordedSource(
        digest="d",
        template="t",
        parameters={"BLOCK": 64},
        outcome=Outcome.CORRECT,
        variants=(RecordedVariant(index=0, configuration={"BLOCK": 64}, bundle="b"),),
    ),
    bundle("b", 0.5),
)


def test_a_file_says_what_was_written(tmp_path):
    path = tmp_path / "softmax.jsonl"
    path.write_text("".join(map(write_line, LINES)))
    for found in (read(path), read(pack(path))):
        assert found.sessions == [SESSION]
        assert (found.templates, found.sources, found.bundles) == ({"t": LINES[1]}, {"d": LINES[2]}, {"b": LINES[3]})


def test_packing_twice_gives_the_same_bytes(tmp_path):
    path = tmp_path / "softmax.jsonl"
    path.write_text("".join(map(write_line, LINES)))
    first = pack(path).read_bytes()
    assert pack(path).read_bytes() == first


def test_a_line_that_was_cut_short_is_left_out_only_at_the_end(tmp_path):
    path = tmp_path / "softmax.jsonl"
    path.write_text("".join(map(write_line, LINES[:3])) + write_line(LINES[3])[:-9])
    assert read(path).bundles == {}
    path.write_text(write_line(SESSION) + write_line(LINES[3])[:-9] + "\n" + write_line(LINES[1]))
    with pytest.raises(ToolMissing, match="line 2"):
        read(path)


def test_a_file_begins_with_a_session(tmp_path):
    path = tmp_path / "softmax.jsonl"
    path.write_text(write_line(LINES[1]))
    with pytest.raises(ToolMissing, match="no session"):
        read(path)


def test_the_pacer_has_one_time_whenever_it_ran():
    found = Landscape()
    for index, pacer_us in enumerate((19.0, 20.0, 40.0)):
        found.add(bundle(f"b{index}", 0.5, pacer_us))
    assert found.pacer_us == {"M=4,N=4": 20.0}


def test_formatting_and_comments_make_no_other_text():
    assert text_digest("x = 1  # one\n") == text_digest("x=1")
    assert text_digest("x = 1") != text_digest("x = 2")
    with pytest.raises(SyntaxError):
        text_digest("x = = 1")
    with pytest.raises(SyntaxError):
        text_digest("x = '\0'")


def test_seeds_and_shapes_are_no_part_of_what_is_computed():
    assert contract_digest(SOFTMAX.model_copy(update={"seeds": ("x = 1",), "ranges": {}})) == contract_digest(SOFTMAX)
    assert contract_digest(SOFTMAX.model_copy(update={"entry": "other"})) != contract_digest(SOFTMAX)
