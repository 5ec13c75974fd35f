"""Small PTX modules written by hand, to break one rule at a time."""

from workers.protocol import Kernel

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"
PARAMETERS = (
    ".param .u64 .ptr .global .align 1 kernel_param_0, .param .u32 kernel_param_1, "
    ".param .u64 .ptr .global .align 1 kernel_param_2, .param .u64 .ptr .global .align 1 kernel_param_3"
)
REGISTERS = ".reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;\nld.param.b64 %rd1, [kernel_param_0];\n"


def module(body: str = "", top: str = "", head: str = HEAD, limits: str = ".reqntid 128", after: str = "") -> str:
    """A module whose entry does `body`, with `top` before it and `after` behind it."""
    entry = f".visible .entry kernel({PARAMETERS}) {limits}\n{{\n{REGISTERS}{body}\nret;\n}}\n"
    return f"{head}{top}\n{entry}{after}"


def kernel_of(text: str, num_warps: int = 4, num_ctas: int = 1) -> Kernel:
    """A traced kernel with this text."""
    return Kernel(language="ptx", assembly=text, target="sm_90", num_warps=num_warps, num_ctas=num_ctas)
