import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.assembler.kernels import compiled
from tests.workers.assembler.modules import HEAD, kernel_of, module
from workers.assembler.ptx.lint import MOST_FUNCTIONS, MOST_VARIABLES, lint
from workers.assembler.refusal import AssemblyRefused

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
CONSTANT = ".const .align 4 .b32 state = 0;"
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
    "what lies before the parameters": ("", "ld.param.b64 %rd2, [kernel_param_0+-128];", "must name"),
    "what lies before them, subtracted": ("", "ld.param.b64 %rd2, [kernel_param_0-128];", "beyond"),
    "what lies behind a parameter": ("", "ld.param.b32 %r1, [kernel_param_1+4];", "beyond"),
    "half of what is behind a parameter": ("", "ld.param.b64 %rd2, [kernel_param_1];", "beyond"),
    "a vector across parameters": ("", "ld.param.v2.b64 {%rd2, %rd3}, [kernel_param_2];", "beyond"),
    "a parameter at an offset in octal": ("", "ld.param.b8 %r1, [kernel_param_0+01];", "beyond"),
    "parameters through a register": ("", "ld.param.b64 %rd2, [%rd1];", "must name"),
    "parameters through a number": ("", "ld.param.b64 %rd2, [0];", "must name"),
    "parameters of the entry, said so": ("", "ld.param::entry.b64 %rd2, [kernel_param_0+-128];", "address"),
    "a parameter that is volatile": ("", "ld.volatile.param.b64 %rd2, [kernel_param_0];", "must name"),
    "the address of a parameter": ("", "mov.b64 %rd2, kernel_param_0; ld.param.b64 %rd3, [%rd2];", "address"),
    "a parameter without its space": ("", "ld.b64 %rd2, [kernel_param_0];", "address"),
    "a component of a parameter": ("", "mov.b64 %rd2, kernel_param_0.x;", "address"),
    "a parameter as a guard": ("", "@kernel_param_1 bra $L; $L:", "address"),
    "parameters as generic memory": ("", "cvta.param.u64 %rd2, %rd1;", "address"),
    "generic memory as parameters": ("", "cvta.to.param.u64 %rd2, %rd1;", "address"),
    "a parameter that is written": ("", "st.param.b32 [kernel_param_1], %r1;", "writes the parameter"),
    "a parameter that is passed on": (
        ".func f (.param .b64 a) { ret; }",
        "call f, (kernel_param_0);",
        "address of 'kernel_param_0'",
    ),
    "beyond the parameters of a function": (
        ".func f (.param .b64 a) { .reg .b64 b; ld.param.b64 b, [a+8]; ret; }",
        "call f, (%rd1);",
        "beyond",
    ),
    "beyond what a function returns": (
        ".func (.param .b32 r) f () { st.param.b32 [r], 1; ret; }",
        "{ .param .b32 v; call (v), f; ld.param.b32 %r1, [v+4]; }",
        "beyond",
    ),
    "a larger parameter that is gone": (
        "",
        "{ .param .b8 v[64]; } { .param .b32 v; ld.param.b32 %r1, [v+32]; }",
        "beyond",
    ),
    "parameters that are registers": (".func f (.reg .b64 a) { ret; }", "call f, (%rd1);", "outside of .param memory"),
    "a wait of a given length": (
        "",
        "mbarrier.try_wait.shared::cta.b64 %p1, [%r1], %rd2, 1000000;",
        "a clock",
    ),
    "a wait for a phase, of a given length": (
        "",
        "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2, %r3;",
        "a clock",
    ),
    # Constants that can be written.
    "constants, written": (CONSTANT, "st.const.b32 [state], %r1;", "only be read"),
    "constants as generic memory": (CONSTANT, "mov.b64 %rd2, state; cvta.const.u64 %rd3, %rd2;", "only be read"),
    "their address stored away": (CONSTANT, "mov.b64 %rd2, state; st.global.b64 [%rd1], %rd2;", "only be read"),
    "constants in a vector register": (
        CONSTANT,
        ".reg .v2 .b64 v; mov.b64 v.x, state; mov.b64 %rd4, v.r; cvta.global.u64 %rd3, %rd4; st.b32 [%rd3], 7;",
        "only be read",
    ),
    "a table in a vector register": (
        f"{STATE}[1] = {{1}};",
        ".reg .v2 .b64 v; mov.b64 v.x, state; mov.b64 %rd4, v.r; st.global.b32 [%rd4], 7;",
        "only be read",
    ),
    "numbers as addresses of constants": ("", "cvta.const.u64 %rd3, %rd2; st.b32 [%rd3], 7;", "outside of its tables"),
    "generic memory as constants": ("", "cvta.to.const.u64 %rd3, %rd1;", "outside of its tables"),
    "constants anywhere": (CONSTANT, "ld.const.b32 %r1, [%rd1];", "outside of its tables"),
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
    "a function that calls itself": (".func f () { call f; ret; }", "call f;", "calls itself"),
    "functions that call each other": (
        ".func g (); .func f () { call.uni g; ret; } .func g () { call f; ret; }",
        "call f;",
        "calls itself",
    ),
    "an entry that calls itself": ("", "call kernel, (%rd1, %r1, %rd1, %rd1);", "calls itself"),
    # Ways to say one thing to us and another to ptxas.
    "instruction that is not listed": ("", "frobnicate.b32 %r1;", "list of instructions"),
    "undeclared register": ("", "mov.b32 %r1, %r99;", "neither declares"),
    "unknown special register": ("", "mov.u32 %r1, %reserved_smem_offset_begin;", "neither declares"),
    "state behind a local name": (f"{STATE}[1] = {{1}};", ".reg .b64 state;", "taken"),
    "state behind a counted name": (f"{STATE}3[1] = {{1}};", ".reg .b64 state<5>;", "also a register of"),
    "two variables of one name": (f"{STATE} = 1; .const .b32 state = 1;", "", "twice"),
    "a function of the name of a variable": (f"{STATE} = 1; .func state ();", "", "twice"),
    "knobs of the assembler": ("", '.pragma "global knobs SomeKnob=1";', "pragma"),
    "a jump table to nowhere": ("", "table: .branchtargets $missing;", "jumps to"),
    "knobs behind a hint": ("", '.pragma "nounroll global knobs SomeKnob=1";', "pragma"),
    "knobs behind a mask": ("", '.pragma "used_bytes_mask 0xf SomeKnob=1";', "pragma"),
    "a symbol that is canonical": ("", ".reg .b64 const_0;", "taken"),
    "counted symbols that are canonical": (CONSTANT, ".reg .b64 const_<1>; mov.b64 %rd2, state;", "taken"),
    "canonical parameters, counted": ("", ".reg .b64 parameter_<2>; mov.b64 parameter_1, 9;", "taken"),
    "canonical functions from ten on": ("", ".reg .b64 function_1<2>;", "taken"),
    "a register for a parameter": ("", "{ .reg .b64 kernel_param_0; }", "taken"),
    "counted registers for parameters": ("", "{ .reg .b64 kernel_param_<4>; }", "also a register of"),
    "a register behind its block": ("", "{ .reg .b64 t; } mov.b64 t, 1;", "neither declares"),
    "counted registers behind their block": ("", "{ .reg .b64 t<4>; } mov.b64 t1, 1;", "neither declares"),
    "a register before it is declared": ("", "mov.b64 t, 1; .reg .b64 t;", "neither declares"),
    "memory called like a component": (
        f"{STATE}.x[1] = {{1}};",
        ".reg .v2 .b64 state; mov.b64 %rd2, state.x;",
        "no dots",
    ),
    # More than the rules can be held against in time.
    "many functions": ("".join(f".func f{index} () {{ ret; }}\n" for index in range(MOST_FUNCTIONS)), "", "noinline"),
    "many constants": (
        "".join(f".const .b8 c{index} = 1;\n" for index in range(MOST_VARIABLES + 1)),
        "",
        "pass tables",
    ),
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
    with pytest.raises(AssemblyRefused, match=reason.replace("+", r"\+")):
        lint(kernel_of(module(body, top)), "sm_90a")


@pytest.mark.parametrize(
    ("name", "reason"),
    [("printing", "device_print"), ("asserting", "device_assert"), ("timing", "clock"), ("crossing", "scope='gpu'")],
)
def test_kernels_that_triton_compiles_but_no_plan_may_hold(name: str, reason: str) -> None:
    with pytest.raises(AssemblyRefused, match=reason) as caught:
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
    with pytest.raises(AssemblyRefused, match=reason):
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
        "{ .reg .b32 v; table: .branchtargets $L, $L; { mov.b32 v, 1; @!%p1 brx.idx v, table; } } $L:",
        "ld.param.b32 %r1, [kernel_param_0+4];",
        "{ .reg .pred done; $W: mbarrier.try_wait.parity.shared::cta.b64 done, [%r1], %r2; @!done bra.uni $W; }",
        "{ .reg .b32 t<2>; mov.b32 t1, 1; { mov.b32 t0, t1; } } { .reg .b64 t<2>; mov.b64 t1, 1; }",
        '.pragma "nounroll"; .pragma "used_bytes_mask 0xfff"; ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];',
    ],
)
def test_what_honest_inline_assembly_needs_is_allowed(body: str) -> None:
    assert lint(kernel_of(module(body)), "sm_90a").entry.instructions


def test_tables_that_nobody_reads_are_dropped() -> None:
    linted = lint(kernel_of(module(top=".global .b8 __reflect[3] = {1, 2, 3};")), "sm_90a")
    assert linted.module.variables == ()


def test_as_many_functions_and_variables_as_are_allowed_pass() -> None:
    functions = "".join(f".func f{index} () {{ ret; }}\n" for index in range(MOST_FUNCTIONS - 1))
    constants = "".join(f".const .b8 c{index} = 1;\n" for index in range(MOST_VARIABLES))
    assert len(lint(kernel_of(module(top=constants + functions)), "sm_90a").module.functions) == MOST_FUNCTIONS


def test_functions_of_ones_own_take_and_return_parameters() -> None:
    function = ".func (.param .b32 r) f (.param .align 8 .b8 a[16]) { .reg .b64 b<3>; ld.param.v2.b64 {b1, b2}, [a]; "
    body = (
        "{ .param .align 8 .b8 param0[16]; .param .b32 retval0; st.param.v2.b64 [param0], {%rd1, %rd1}; "
        "call.uni (retval0), f, (param0); ld.param.b32 %r1, [retval0]; }"
        "{ .param .b64 param0; st.param.b64 [param0], %rd1; }"
    )
    top = f"{function} st.param.b32 [r], 1; ret; }}"
    assert len(lint(kernel_of(module(body, top)), "sm_90a").module.functions) == 2


@given(st.data())
def test_text_cut_or_spliced_anywhere_never_breaks_the_lint(data: st.DataObject) -> None:
    text = compiled("calling").assembly
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    splice = data.draw(st.sampled_from(["", "{", "}", ";", '"', "/*", "//", ".entry", "@", "[", "%clock", "\0"]))
    kernel = kernel_of(text[:start] + splice + text[end:])
    try:
        linted = lint(kernel, "sm_90a")
    except AssemblyRefused as refused:
        assert refused.reason
    else:
        assert linted.canonical.text.count(".entry kernel") == 1
