import ctypes
from base64 import b64encode
from pathlib import Path

from tests.workers.paper_driver import Result, on_paper
from tests.workers.runner.plans import COUNT, OPERATOR, bundle_of, kernel, machine_code
from workers.inputs import draw
from workers.sanitizer.messages import Place, Rehearsal
from workers.sanitizer.replaying import LOST, main, name_of

BUNDLE = bundle_of(kernel(global_scratch_bytes=8))


def rehearsal(folder: Path) -> tuple[str, str]:
    code = {digest: b64encode(data).decode() for digest, data in machine_code(BUNDLE).items()}
    asked = Rehearsal(card=0, operator=OPERATOR, bundle=BUNDLE, machine_code=code, plans=(0,), seed="ab")
    (folder / "request").write_text(asked.model_dump_json())
    return str(folder / "request"), str(folder / "places")


def told(folder: Path) -> list[Place]:
    return [Place.model_validate_json(line) for line in (folder / "places").read_text().splitlines()]


def test_a_plan_runs_on_drawn_inputs_in_memory_of_its_own(tmp_path: Path) -> None:
    seen: list[bytes] = []
    with on_paper() as paper:
        paper.deeds["work"] = lambda launched: seen.append(ctypes.string_at(launched.parameters[0], 4 * COUNT))
        assert main(rehearsal(tmp_path)) == 0
    (values,) = draw(OPERATOR, BUNDLE.plans[0].shape, "normal", b"\xab")
    assert seen == [values.numpy().tobytes()]
    x, y, *_, scratch = told(tmp_path)
    assert (x.name, x.bytes, y.name, y.functions) == ("input 'x'", 4 * COUNT, "output 'y'", ("f",))
    assert (scratch.name, scratch.bytes, scratch.functions) == ("a kernel's scratch", 24, ("f",))


def test_a_lost_card_leaves_the_places_told(tmp_path: Path, capsys) -> None:
    with on_paper() as paper:
        paper.failing["work"] = Result.CUDA_ERROR_ILLEGAL_ADDRESS
        assert main(rehearsal(tmp_path)) == LOST
    assert capsys.readouterr().err == "CUDA_ERROR_ILLEGAL_ADDRESS\n"
    assert [place.name for place in told(tmp_path)][:2] == ["input 'x'", "output 'y'"]


def test_buffers_that_are_neither_input_nor_output_have_a_number() -> None:
    assert name_of(OPERATOR, BUNDLE.plans[0], 2) == "buffer 2"
