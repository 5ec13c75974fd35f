from tests.service.emitters.samples import applies, rewritten, seed


def test_programs_do_neighbouring_pieces():
    code = rewritten("run_of_pieces", seed("swiglu"))
    assert "for turn in range(tl.minimum(RUN, programs - tl.program_id(0) * RUN)):" in code
    assert "program = tl.program_id(0) * RUN + turn" in code
    assert "programs = triton.cdiv(n_elements, BLOCK)" in code
    assert "swiglu_kernel[triton.cdiv(programs, RUN),](" in code


def test_once_is_enough():
    assert not applies("run_of_pieces", rewritten("run_of_pieces", seed("swiglu")))
