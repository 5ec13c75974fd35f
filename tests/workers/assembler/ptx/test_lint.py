import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.modules import HEAD, kernel_of, module
from workers.assembler.ptx.lint import lint
from workers.assembler.refusal import Refused

HONEST = (
    "rmsnorm",
    "root",
    "wave",
    "matmul",
    "small_matmul",
    "accumulate",
    "doubled",
    "striding",
    "calling",
    "scalars",
)
STATE = ".global .align 4 .b32 state"
ATTACKS = {
    # State between launches.
    "uninitialised global": (f"{STATE};", "st.global.b32 [state], %r1;", "without a value"),
    "unused uninitialised global": (f"{STATE}[1024];", "", "without a value"),
    "initialised global, written": (f"{STATE}[1] = {{1}};", "st.global.b32 [state], %r1;", "only be read"),
    "initialised global, atomic": (f"{STATE} = 1;", "atom.global.inc.u32 %r1, [state], 9;", "only be read"),
    "initialised global, reduced": (f"{STATE} = 1;", "red.global.add.u32 [state], 1;", "only be read"),
    "written through a register": (
        f"{STATE}[1] = {{1}};",
        "mov.u64 %rd2, state; add.s64 %rd3, %rd2, 0; st.global.b32 [%rd3], %r1;",
        "only be read",
    ),
    "written through a generic address": (
        f"{STATE}[1] = {{1}};",
        "mov.u64 %rd2, state; cvta.global.u64 %rd2, %rd2; st.b32 [%rd2], %r1;",
        "only be read",
    ),
    "its address stored away": (f"{STATE} = 1;", "mov.u64 %rd2, state; st.global.b64 [%rd1], %rd2;", "only be read"),
    "its address packed": (f"{STATE} = 1;", "mov.u64 %rd2, state; mov.b64 {%r1, %r2}, %rd2;", "only be read"),
    "managed memory": (".global .attribute(.managed) .b32 state;", "", "managed"),
    "weak memory": (".weak .global .b32 state[1] = {0};", "", "weak"),
    "common memory": (".common .global .b32 state;", "", "common"),
    "visible memory": (".visible .global .b32 state[1] = {0};", "", "visible"),
    "external memory": (".extern .global .b32 state;", "", "extern"),
    "external constants": (".extern .const .b32 state;", "", "extern"),
    "constants without a value": (".const .b32 state[4];", "", "without a value"),
    "global memory in a function": ("", ".global .b32 state; st.global.b32 [state], %r1;", "inside a function"),
    "global memory in an inner block": ("", "{ .global .b32 state[1] = {1}; }", "inside a function"),
    "static shared memory": (".shared .b32 state[4];", "", "module-scope .shared"),
    "sized external shared memory": (".extern .shared .b32 state[4];", "", "module-scope .shared"),
    "shared memory in a function": ("", ".shared .b32 state[4];", "inside a function"),
    "a texture": (".tex .u64 state;", "", "module-scope .tex"),
    # Clocks, timers and other ways to tell one launch from another.
    "clock": ("", "mov.u32 %r1, %clock;", "clock"),
    "clock in high half": ("", "mov.u32 %r1, %clock_hi;", "clock"),
    "clock in 64 bits": ("", "mov.u64 %rd2, %clock64;", "clock"),
    "clock behind comments": ("", "mov/* */.u32 %r1, %clock;", "does not parse"),
    "clock in an operand of arithmetic": ("", "add.u32 %r1, %r2, %clock;", "clock"),
    "clock as an address": ("", "ld.global.b32 %r1, [%clock64];", "clock"),
    "clock as a guard": ("", "@%clock ret;", "clock"),
    "clock disguised as a register": ("", ".reg .u64 %clock<65>; mov.u64 %rd2, %clock64;", "taken"),
    "global timer": ("", "mov.u64 %rd2, %globaltimer;", "timer"),
    "low half of the global timer": ("", "mov.u32 %r1, %globaltimer_lo;", "timer"),
    "number of the launch": ("", "mov.u64 %rd2, %gridid;", "one launch from another"),
    "graph of the launch": ("", "mov.u64 %rd2, %current_graph_exec;", "timed"),
    "multiprocessor": ("", "mov.u32 %r1, %smid;", "multiprocessor"),
    "performance counter": ("", "mov.u32 %r1, %pm0;", "counters"),
    "environment register": ("", "mov.b32 %r1, %envreg3;", "driver"),
    "sleep": ("", "nanosleep.u32 1000;", "sleep"),
    # The host, other kernels, other devices.
    "printf": (".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);", "", "device_print"),
    "assert": (".extern .func __assertfail () .noreturn;", "", "device_assert"),
    "malloc": (".extern .func (.param .b64 r) malloc (.param .b64 a);", "", "allocate on the host"),
    "free": (".extern .func free (.param .b64 a);", "", "allocate on the host"),
    "device-side launch": (
        ".extern .func (.param .b32 r) cudaLaunchDeviceV2 (.param .b64 a, .param .b64 b);",
        "",
        "does not define",
    ),
    "a function never defined": (".func secret ();", "call secret;", "does not define"),
    "a weak function": (".weak .func f () { ret; }", "", "weak"),
    "a function that never returns": (".func f () .noreturn { ret; }", "", "noreturn"),
    "indirect call": ("", "proto: .callprototype _ (); call %rd1, (), proto;", "does not parse"),
    "indirect call through a table": (".func f () { ret; }", "call (%r1), %rd1, (%r2), f;", "indirect"),
    "address of a function": (".func f () { ret; }", "mov.u64 %rd2, f;", "neither declares"),
    "programmatic dependent launch, waiting": ("", "griddepcontrol.wait;", "dependent launch"),
    "programmatic dependent launch, starting": ("", "griddepcontrol.launch_dependents;", "dependent launch"),
    "discarded cache lines": ("", "discard.global.L2 [%rd1], 128;", "discard"),
    "system scope": ("", "atom.global.sys.add.u32 %r1, [%rd1], 1;", "system scope"),
    "system fence": ("", "fence.acq_rel.sys;", "system scope"),
    "system membar": ("", "membar.sys;", "system scope"),
    "memory-mapped I/O": ("", "ld.mmio.relaxed.gpu.global.u32 %r1, [%rd1];", "memory-mapped"),
    "multicast": ("", "multimem.red.relaxed.gpu.global.add.u32 [%rd1], 1;", "multimem"),
    "breakpoint": ("", "brkpt;", "breakpoint"),
    "performance event": ("", "pmevent 1;", "performance events"),
    "texture read": ("", "tex.1d.v4.s32.s32 {%r1,%r2,%r3,%r4}, [%rd1, {%r1}];", "textures"),
    "growing stack": ("", "alloca.u64 %rd1, 16;", "stack"),
    # Ways to say one thing to us and another to ptxas.
    "instruction that is not listed": ("", "frobnicate.b32 %r1;", "list of instructions"),
    "undeclared register": ("", "mov.b32 %r1, %r99;", "neither declares"),
    "unknown special register": ("", "mov.u32 %r1, %reserved_smem_offset_begin;", "neither declares"),
    "state behind a local name": (f"{STATE}[1] = {{1}};", ".reg .b64 state;", "taken"),
    "state behind a counted name": (f"{STATE}3[1] = {{1}};", ".reg .b64 state<5>;", "a register of"),
    "two variables of one name": (f"{STATE} = 1; .const .b32 state = 1;", "", "twice"),
    "a function of the name of a variable": (f"{STATE} = 1; .func state ();", "", "twice"),
    "knobs of the assembler": ("", '.pragma "global knobs SomeKnob=1";', "pragma"),
    "a jump table to nowhere": ("", "table: .branchtargets $missing;", "jumps to"),
    "a symbol that is canonical": ("", ".reg .b64 const_0;", "taken"),
    "a null byte": ("", "ret;\0", "U+0000"),
}


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", HONEST)
def test_honest_kernels_keep_the_rules(name: str, target: str) -> None:
    kernel = compiled(name, target)
    linted = lint(kernel, target if target == "sm_80" else f"{target}a")
    assert linted.entry.name == "kernel"
    assert ".global" not in {f".{item.space}" for item in linted.module.variables}
    again = kernel.model_copy(update={"assembly": linted.canonical.text})
    assert lint(again, linted.module.target).canonical.text == linted.canonical.text


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_refused_with_a_reason(name: str) -> None:
    top, body, reason = ATTACKS[name]
    with pytest.raises(Refused, match=reason.replace("+", r"\+")):
        lint(kernel_of(module(body, top)), "sm_90a")


@pytest.mark.parametrize(
    ("name", "reason"),
    [("printing", "device_print"), ("asserting", "device_assert"), ("timing", "clock"), ("crossing", "scope='gpu'")],
)
def test_kernels_that_triton_compiles_but_no_plan_may_hold(name: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason) as caught:
        lint(compiled(name), "sm_90a")
    assert caught.value.line is not None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (module(head=HEAD.replace("sm_90a", "sm_90")), "not for sm_90a"),
        (module(head=HEAD.replace("sm_90a", "sm_100a")), "not for sm_90a"),
        (module(head=HEAD.replace("64", "32")), "32-bit"),
        (module(limits=".reqntid 64"), "64 threads"),
        (module(limits=".reqntid 128, 2"), "256 threads"),
        (module(limits=""), "0 threads"),
        (module(limits=".maxntid 128"), "maxntid"),
        (module(limits=".reqntid 128 .explicitcluster .reqnctapercluster 2"), "clusters of 2"),
        (module().replace("kernel(", "rmsnorm("), "not 'kernel'"),
        (module().replace(".visible .entry", ".entry"), "not visible"),
        (module().replace(".visible .entry", ".weak .entry"), "weak"),
        (module(after=module(head="").replace("kernel(", "second(")), "exactly one entry"),
        (HEAD + ".func kernel () { ret; }", "exactly one entry"),
        (HEAD, "exactly one entry"),
    ],
)
def test_an_entry_must_be_what_the_plan_says(text: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        lint(kernel_of(text), "sm_90a")


@pytest.mark.parametrize(
    "body",
    [
        "trap;",
        "exit;",
        "ld.volatile.global.b32 %r1, [%rd1];",
        "prefetch.global.L2 [%rd1];",
        "createpolicy.fractional.L2::evict_last.b64 %rd2, 1.0;",
        "{ .reg .b32 t; mov.b32 t, WARP_SZ; shfl.sync.bfly.b32 t|%p1, t, 1, 31, -1; }",
        "elect.sync _|%p1, -1; @%p1 bra $L; $L: bar.sync 0;",
        "mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %laneid;",
        "table: .branchtargets $L; brx.idx %r1, table; $L:",
    ],
)
def test_what_honest_inline_assembly_needs_is_allowed(body: str) -> None:
    assert lint(kernel_of(module(body)), "sm_90a").entry.instructions


def test_tables_that_nobody_reads_are_dropped() -> None:
    linted = lint(kernel_of(module(top=".global .b8 __reflect[3] = {1, 2, 3};")), "sm_90a")
    assert linted.module.variables == ()


@given(st.data())
def test_text_cut_or_spliced_anywhere_never_breaks_the_lint(data: st.DataObject) -> None:
    text = compiled("calling").assembly
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    splice = data.draw(st.sampled_from(["", "{", "}", ";", '"', "/*", "//", ".entry", "@", "[", "%clock", "\0"]))
    kernel = kernel_of(text[:start] + splice + text[end:])
    try:
        linted = lint(kernel, "sm_90a")
    except Refused as refused:
        assert refused.reason
    else:
        assert linted.canonical.text.count(".entry kernel") == 1
