"""What each module that a candidate may import could do to the tracer, tried.

The jail is the wall, and the plan is all that is judged. So an attack either ends in a refusal, or it changes nothing.
"""

import pytest

from tests.workers.tracer.jobs import ALLOCATE, LAUNCH, candidate, in_jail, job, traced
from workers import trace_job, tracer
from workers.protocol import Outcome, TraceReport
from workers.tracer.source import ALLOWED_IMPORTS

C = Outcome
HARMLESS = (Outcome.CORRECT, "")
ATTACKS = {
    # The module, lines of the entry before it launches, and how that ends.
    "abc": ("class Odd(abc.ABC):\n    def __eq__(self, other):\n        return True\nx.shape == Odd()", HARMLESS),
    "bisect": ("bisect.bisect([x], x)", (C.FORBIDDEN_OP, "(lt)")),
    "collections": ("collections._sys.modules['subprocess'].run(['true'])", (C.TRACE_CRASHED, "")),
    "collections.abc": ("collections.abc.Sized.register(torch.Tensor)", HARMLESS),
    "contextlib": ("import contextlib\nwith contextlib.suppress(BaseException):\n    x = x * w", HARMLESS),
    "copy": ("copy.deepcopy(x)", (C.HOST_READ, "")),
    "dataclasses": ("dataclasses.sys.modules['os'].fork()", (C.TRACE_CRASHED, "")),
    "einops": ("x = einops.reduce(x, 'm n -> m n', 'sum')\nx = einops.rearrange(x, 'm n -> n m') * w[0]", (C.FORBIDDEN_OP, "(mul)")),
    "enum": ("enum.sys.modules['os'].open('/etc/stolen', 65)", (C.TRACE_CRASHED, "")),
    "functools": ("x = functools.lru_cache(lambda x: x * w)(x)", (C.FORBIDDEN_OP, "(mul)")),
    "heapq": ("heapq.heapify([x[0], x[1]])", (C.FORBIDDEN_OP, "(lt)")),
    "importlib": ("importlib.import_module('subprocess').run(['true'])", (C.TRACE_CRASHED, "No module named 'subpro")),
    "importlib.metadata": ("importlib.metadata.distribution('torch').locate_file('x')", (C.FORBIDDEN_IMPORT, "distrib")),
    "importlib.util": (
        "importlib.util.spec_from_file_location('x', '/usr/lib/x.py').loader", (C.FORBIDDEN_IMPORT, "spec_from_f"),
    ),
    "itertools": ("list(itertools.accumulate(w))", (C.FORBIDDEN_OP, "")),
    "logging": ("logging.FileHandler('stolen').emit(logging.makeLogRecord({'msg': 'x'}))", (None, "")),
    "math": ("math.floor(x[0, 0])", (C.HOST_READ, "")),
    "numbers": ("numbers.Number.register(torch.Tensor)", HARMLESS),
    "operator": ("operator.index(x[0, 0])", (C.HOST_READ, "")),
    "os": ("os.system('true')", (C.FORBIDDEN_IMPORT, "'os.system'")),
    "packaging": ("packaging.version._structures = None\npackaging.version.parse(x)", (C.TRACE_CRASHED, "")),
    "packaging.version": ("list(packaging.version.itertools.accumulate(w))", (C.FORBIDDEN_OP, "")),
    "re": ("re.match('(a+)+$', 'a' * 64 + 'b')", (C.TRACE_TIMEOUT, "")),
    "string": ("string.Formatter().format('{0}', x)", (C.HOST_READ, "")),
    "textwrap": ("textwrap.fill(str(x))", (C.HOST_READ, "")),
    "types": (
        "types.FunctionType(compile('import subprocess', 'x', 'exec'), {'__builtins__': math.__loader__})()",
        (C.TRACE_CRASHED, ""),
    ),
    "typing_extensions": ("typing_extensions.sys.modules['os'].fork()", (C.TRACE_CRASHED, "")),
    "typing": ("typing.sys.modules.clear()", (C.TRACE_CRASHED, "")),
    "warnings": ("warnings.filterwarnings('error')\nwarnings.sys.exit(0)", (C.TRACE_CRASHED, "SystemExit")),
    "torch": ("torch.save(x, 'stolen')", (None, "")),
    "torch.amp": (
        "with torch.amp.autocast('cuda', dtype=torch.float16):\n    x = torch.matmul(x, x.T)", (C.FORBIDDEN_OP, ""),
    ),
    "torch.autograd": ("x = torch.autograd.Function.apply(x)", (C.TRACE_CRASHED, "")),
    "torch.cuda": ("torch.cuda.Stream()", (C.FORBIDDEN_OP, "one stream")),
    "torch.library": ("torch.library.Library('mine', 'DEF')\nx = torch.mul(x, w)", (C.FORBIDDEN_OP, "(mul)")),
    "torch.nn": ("x = torch.nn.functional.softmax(x, -1)", (C.FORBIDDEN_OP, "softmax")),
    "torch.types": ("torch.types.torch._C._cuda_init()", (None, "")),
    "torch.version": ("torch.version.cuda = '1.0'", HARMLESS),
    "triton": ("triton.compile(scale_kernel)", (C.TRACE_CRASHED, "")),
    "triton.language": ("tl.load(x)", (C.TRACE_CRASHED, "")),
    "triton.runtime": ("triton.runtime.driver.active.utils.load_binary('x', b'', 0, 0)", (C.TRACE_CRASHED, "")),
    "triton.testing": ("triton.testing.do_bench(lambda: None)", (C.FORBIDDEN_OP, "nothing runs while tracing")),
    "triton.tools.tensor_descriptor": (
        "triton.tools.tensor_descriptor.TensorDescriptor(x, [1 << 40, 64], [64, 1], [1, 64])", HARMLESS,
    ),
    "triton.experimental.gluon": ("triton.experimental.gluon.jit(print)(x)", (None, "")),
    "__future__": ("__future__.annotations = None", HARMLESS),
}  # fmt: skip
"""Attacks by the module that makes them possible; None for an outcome says: any but a verdict."""
NEVER = (
    *("ctypes", "gc", "inspect", "sys", "subprocess", "socket", "threading", "multiprocessing", "pickle"),
    *("builtins", "os.path", "pathlib", "shutil", "signal", "atexit", "mmap", "time", "numpy", "cuda", "linecache"),
    *("torch.utils.cpp_extension", "torch.utils.dlpack", "torch.distributed", "torch.multiprocessing", "torch._C"),
    *("torch._inductor", "torch.hub", "triton.compiler", "triton.backends", "triton._C", "cupy", "tilelang"),
)
"""Modules that load code, reach the process or its machine, or compute: refused when a needed function imports them."""


def test_every_allowed_module_was_attacked():
    assert set(ATTACKS) == set(ALLOWED_IMPORTS)


def attacked(module: str) -> TraceReport:
    lines, _ = ATTACKS[module]
    used = module if module == "__future__" else ", ".join(dict.fromkeys((module, "math", "torch")))
    body = f"import {used}\n{lines}\n{ALLOCATE}{LAUNCH}"
    late = {"deadline_s": 3.0} if module == "re" else {}
    return trace_job.trace(job(candidate(body), **late), "tester")


@pytest.mark.parametrize("module", ATTACKS)
def test_what_an_import_opens_ends_in_a_refusal_or_changes_nothing(module):
    outcome, said = ATTACKS[module][1]
    report, plain = attacked(module), trace_job.trace(job(candidate()), "tester")
    if outcome is not None:
        assert report.outcome is outcome and said in report.reason, (report.outcome, report.reason)
    if report.outcome is Outcome.CORRECT:
        ours, theirs = plain.variants[0].bundle, report.variants[0].bundle
        assert ours is not None and theirs is not None and ours.identity == theirs.identity


@pytest.mark.parametrize("module", NEVER)
def test_modules_that_reach_further_stay_out(module):
    reply = traced(candidate(f"import {module}\n{module}.anything()\n{ALLOCATE}{LAUNCH}"))
    assert reply.outcome is Outcome.FORBIDDEN_IMPORT and f"'{module}'" in reply.reason


REACHES = {
    "a loader": ("import ctypes", "ctypes.__loader__.load_module('ctypes')"),
    "a spec": ("import ctypes", "ctypes.__spec__.loader"),
    "an attribute": ("import ctypes", "getattr(ctypes, 'CDLL')(None)"),
    "a part": ("from subprocess import run", "run(['true'])"),
    "a kind": ("import subprocess", "type(subprocess)('subprocess').run(['true'])"),
    "its own globals": (
        "import subprocess",
        "type(subprocess).__getattr__.__globals__['builtins'].__import__('subprocess').run(['true'])",
    ),
    "a spec of its finder": ("import importlib.util", "importlib.util.find_spec('torch').loader.load_module('torch')"),
    "a name that is made up late": (
        "import importlib", "importlib.import_module('.'.join(('torch', 'utils', 'cpp_extension'))).load('x', [])",
    ),
    "the finder's own globals": (
        "import importlib", "importlib.import_module.__globals__['builtins'].__import__('subprocess').run(['true'])",
    ),
    "its twin": ("import subprocess", "subprocess.__dict__.update(torch.sys.modules['subprocess'].__dict__)"),
    "an update": ("import json", "json.__dict__.clear()\njson.loads('1')"),
}
"""Ways to take a stand-in for the module that it stands for: an import, and lines of the entry."""


@pytest.mark.parametrize("how", REACHES)
def test_a_stand_in_opens_nothing(how):
    imported, lines = REACHES[how]
    report = trace_job.trace(job(candidate(f"{imported}\n{lines}\n{ALLOCATE}{LAUNCH}")), "tester")
    assert report.outcome in (C.FORBIDDEN_IMPORT, C.TRACE_CRASHED, C.CORRECT), report.reason
    if report.outcome is C.CORRECT:
        ours, theirs = trace_job.trace(job(candidate()), "tester").variants[0].bundle, report.variants[0].bundle
        assert ours is not None and theirs is not None and ours.identity == theirs.identity


HONEST = {
    "a version": (
        "import importlib\nfrom importlib.metadata import PackageNotFoundError, version\n"
        "from importlib.util import find_spec\n"
        "assert importlib.import_module('triton').__version__ == version('triton')\n"
        "assert find_spec('torch') is not None and find_spec('xformers') is None\n"
        "try:\n    importlib.import_module('xformers')\nexcept ImportError:\n    pass\n"
        "try:\n    version('xformers')\nexcept PackageNotFoundError:\n    pass\n"
    ),
    # Modules that rogues of the host did nothing but import.
    "os": "import os\n",
    "numpy": "import numpy as np\n",
    "subprocess": "import subprocess\n",
    "a benchmark": "import time\n\n\ndef bench():\n    return time.time()\n\n\n",
}


@pytest.mark.parametrize("what", HONEST)
def test_rogues_that_did_nothing_but_import_are_honest(what):
    reply = traced(HONEST[what] + candidate())
    assert reply.outcome is Outcome.CORRECT, reply.reason


def test_the_tracer_is_not_the_wall():
    """The same attacks come to the same end where the list lets everything in."""
    request = job(candidate(f"import subprocess\nsubprocess.run(['true'])\n{ALLOCATE}{LAUNCH}")).model_dump_json().encode()
    told = in_jail(lambda asked: tracer.trace(asked, (*ALLOWED_IMPORTS, "subprocess")), request)
    assert b"BlockingIOError" in told or b"PermissionError" in told
