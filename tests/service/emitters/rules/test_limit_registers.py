import re

from tests.service.emitters.samples import applies, rewritten, seed


def test_a_ceiling_for_a_launch():
    assert re.search(r"num_warps=8, maxnreg=\d+\)", rewritten("limit_registers", seed("softmax")))


def test_each_launch_once():
    both = rewritten("limit_registers", rewritten("limit_registers", seed("cross_entropy")))
    assert both.count("maxnreg") == 2
    assert not applies("limit_registers", both)


def test_autotuned_kernels_choose_for_themselves():
    source = seed("softmax").replace("@triton.jit", "@triton.autotune(configs=[], key=[])\n@triton.jit")
    assert not applies("limit_registers", source)
