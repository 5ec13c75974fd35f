import ctypes
from base64 import b64encode
from pathlib import Path

from tests.workers.paper_driver import Result, on_paper
from tests.workers.runner.plans import COUNT, OPERATOR, bundle_of, kernel, machine_code
from workers.inputs import draw
from workers.protocol import Buffer, Bundle, Shape
from workers.sanitizer.messages import BufferAllocation, ReplayRequest, SanitizerMemoryShort
from workers.sanitizer.replay_program import LOST, main, name_of

BUNDLE = bundle_of(kernel(global_scratch_bytes=8))


def rehearsal(folder: Path, bundle: Bundle = BUNDLE, plans: tuple[int, ...] = (0,)) -> tuple[str, str]:
    code = {digest: b64encode(data).decode() for digest, data in machine_code(bundle).items()}
    asked = ReplayRequest(card=0, operator=OPERATOR, bundle=bundle, machine_code=code, plans=plans, seed="ab")
    (folder / "request").write_text(asked.model_dump_json())
    return str(folder / "request"), str(folder / "places")


def told(folder: Path) -> list[BufferAllocation]:
    return [BufferAllocation.model_validate_json(line) for line in (folder / "places").read_text().splitlines()]


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


HOG_BYTES = 2**20


def hogs() -> Bundle:
    """Two plans like the only one, each with scratch of which the card has room for one."""
    (plan,) = BUNDLE.plans
    plans = [
        plan.model_copy(
            update={
                "shape": Shape(dims={"N": COUNT, "M": rows}),
                "buffers": (*plan.buffers[:2], Buffer(id=2, bytes=HOG_BYTES)),
            }
        )
        for rows in (1, 2)
    ]
    return BUNDLE.model_copy(update={"plans": tuple(plans)})


def test_a_plan_without_room_beside_others_has_it_in_another_process(tmp_path: Path) -> None:
    bundle = hogs()
    for plans, shapes, ends in (((0, 1), 1, 1), ((1,), 1, None), ((0,), 1, None)):
        with on_paper() as paper:
            paper.total_bytes = HOG_BYTES * 3 // 2
            assert main(rehearsal(tmp_path, bundle, plans)) == 0
            assert len(paper.launched) == shapes
        lines = (tmp_path / "places").read_text().splitlines()
        if ends is None:
            assert {place.shape for place in told(tmp_path)} == {bundle.plans[plans[0]].shape.key}
        else:
            assert SanitizerMemoryShort.model_validate_json(lines[-1]) == SanitizerMemoryShort(
                plan=ends, shape=bundle.plans[ends].shape.key
            )


def test_a_kernel_without_room_is_told_like_a_buffer_without(tmp_path: Path) -> None:
    with on_paper() as paper:
        paper.failing["cuLaunchKernel"] = Result.CUDA_ERROR_OUT_OF_MEMORY
        assert main(rehearsal(tmp_path)) == 0
    last = (tmp_path / "places").read_text().splitlines()[-1]
    assert SanitizerMemoryShort.model_validate_json(last) == SanitizerMemoryShort(
        plan=0, shape=BUNDLE.plans[0].shape.key
    )


def test_buffers_that_are_neither_input_nor_output_have_a_number() -> None:
    assert name_of(OPERATOR, BUNDLE.plans[0], 2) == "buffer 2"
