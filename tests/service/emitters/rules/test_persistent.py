from tests.service.emitters.samples import applies, rewritten, seed


def test_programs_stride_over_the_pieces():
    code = rewritten("persistent", seed("rmsnorm"))
    assert "for turn in range(tl.cdiv(programs - tl.program_id(0), tl.num_programs(0))):" in code
    assert "program = tl.program_id(0) + turn * tl.num_programs(0)" in code
    assert "programs = n_rows\n" in code
    assert "torch.cuda.get_device_properties(x.device).multi_processor_count)" in code


def test_what_counted_programs_counts_pieces():
    code = rewritten("persistent", rewritten("backward", seed("gelu")))
    assert "program = programs - 1 - (tl.program_id(0) + turn * tl.num_programs(0))" in code


def test_constants_stay_out_of_the_loop():
    source = seed("gelu").replace("    inner = ", "    SCALE: tl.constexpr = 2.0\n    inner = SCALE * ")
    code = rewritten("persistent", source)
    assert code.index("SCALE: tl.constexpr") < code.index("for turn")


def test_once_is_enough():
    assert not applies("persistent", rewritten("persistent", seed("rmsnorm")))
    assert not applies("persistent", seed("matmul"))
    assert applies("persistent", rewritten("flat_grid", seed("matmul")))
