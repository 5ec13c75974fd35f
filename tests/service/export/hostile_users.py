"""Scripts of users who do to a package what nobody expects, with stand-ins for the card; each has its own process."""

MISUSED = """
import copy
import importlib
import pickle
import sys
import threading
import warnings

import torch
import torch.autograd.forward_ad as forward_ad
import double_kernels
from double_kernels import double, operation

x = torch.randn(64)
with warnings.catch_warnings(record=True) as said:  # once per kind of reason, and at the line of the user
    warnings.simplefilter("always")
    for size in (3, 4, 5):
        double(torch.zeros(size)), double(torch.zeros(size, dtype=torch.float64))
    assert [str(each.message).split(":")[0] for each in said] == ["double_kernels"], said
    assert "double_kernels" not in said[0].filename, "the line of the user"
warnings.simplefilter("ignore")

odd = [torch.eye(3).to_sparse(), torch.eye(3).to_mkldnn(), torch.nested.nested_tensor([x[:3], x[:2]])]
odd.append(torch.nested.nested_tensor([x[:3], x[:2]], layout=torch.jagged))
for tensor in odd:
    assert type(double(tensor)) is type(tensor) and double(tensor).layout == tensor.layout
assert double(torch.empty(4, device="meta")).device.type == "meta" and double(torch.zeros(0)).shape == (0,)
assert torch.equal(double(torch.ones(1).expand(8)), 2 * torch.ones(8)) and double(torch.zeros(64)[::2]).is_contiguous()
assert torch.equal(torch.vmap(double)(torch.ones(3, 4)), 2 * torch.ones(3, 4))
assert copy.deepcopy(double) is double and pickle.loads(pickle.dumps(double)) is double

sound = operation._definition, operation._functions, operation._run
operation._definition = lambda x, by: (x[:2], x, (both := x + 1)[:2], both, both.view(8, 8))
given = operation._compute((x,), (2.0,))
assert len({each.data_ptr() for each in (x, *given)}) == 6, "no result shares memory with another or an input"
operation._definition = lambda x, by: x @ x.T  # autocast would change the dtype of this
square = torch.randn(8, 8)
with torch.autocast("cpu", torch.bfloat16):
    assert double(square).dtype is torch.float32
    assert torch.compile(double, backend="aot_eager", fullgraph=True)(square).dtype is torch.float32
    with torch._subclasses.FakeTensorMode() as fake:
        assert torch.ops.double_kernels.double(fake.from_tensor(square), 2.0).dtype is torch.float32
operation._definition = sound[0]

operation._functions = lambda tensors, scalars, select: (None, None, ())  # a stand-in for the card: kernels run there
operation._run = lambda function, tensors, sizes: (2 * tensors[0]).detach()
with forward_ad.dual_level():
    tangent = forward_ad.unpack_dual(double(forward_ad.make_dual(x, torch.ones(64)))).tangent
assert torch.equal(tangent, torch.full((64,), 2.0))
assert torch.equal(torch.func.jvp(double, (x,), (torch.ones(64),))[1], torch.full((64,), 2.0))
assert torch.equal(torch.func.grad(lambda a: double(a).sum())(x), torch.full((64,), 2.0))
assert torch.equal(torch.func.jacrev(double)(x[:3]), 2 * torch.eye(3))
assert torch.equal(torch.func.jacfwd(double)(x[:3]), 2 * torch.eye(3))


def refused(wanted, function):
    try:
        function()
    except RuntimeError as error:
        assert wanted in str(error), error
    else:
        raise AssertionError(f"{wanted!r} was not said")


leaf = x.clone().requires_grad_()
refused("call double_kernels.double", lambda: torch.ops.double_kernels.double(leaf, 2.0).sum().backward())
(slope,) = torch.autograd.grad(double(leaf).sum(), leaf, create_graph=True)
refused("no second derivatives", lambda: (slope**2).sum().backward())
with torch.no_grad():
    assert not double(leaf).requires_grad
with torch.inference_mode():
    assert double(x).is_inference() and torch.equal(double(leaf), 2 * leaf)
_, operation._functions, operation._run = sound

module = type("M", (torch.nn.Module,), {"forward": lambda self, x: double(x)})()
exported = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=4096)},)).module()
assert torch.equal(exported(x[:9]), 2 * x[:9]) and torch.equal(exported(x), 2 * x)
compiled = torch.compile(double, backend="aot_eager", fullgraph=True, dynamic=True)
assert all(torch.equal(compiled(torch.ones(size)), 2 * torch.ones(size)) for size in (2, 3, 17, 5000))

operation.REMEMBERED, failed = 16, []


def call_often():
    try:
        for size in range(1, 200):
            assert torch.equal(double(torch.ones(size)), torch.full((size,), 2.0))
    except BaseException as error:
        failed.append(error)


threads = [threading.Thread(target=call_often) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert not failed and len(operation._found) <= 24

importlib.reload(operation)
assert torch.equal(operation.double(x), 2 * x) and torch.equal(double(x), 2 * x)
for text, by in (("x * by", 2), ("x * by * 3", 6)):  # removed and installed again, then in another version
    with open("double_kernels/reference.py", "w") as file:
        file.write(f"def double(x, by):\\n    return {text}\\n")
    for name in [name for name in sys.modules if name.startswith("double_kernels")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    import double_kernels as again
    assert torch.equal(again.double(x), by * x) and again.operation is not operation
    assert torch.equal(torch.ops.double_kernels.double(x, 2.0), by * x), "the operator is that of the newest import"
    assert set(torch.library.opcheck(torch.ops.double_kernels.double.default, (x, 2.0)).values()) == {"SUCCESS"}
"""

TAKEN_BACK = """
import importlib
import shutil
import sys
import threading
import warnings

import torch
import double_kernels
from double_kernels import operation, override, register_with_vllm

shutil.copytree("double_kernels", "second_kernels")
importlib.invalidate_caches()
import second_kernels

warnings.simplefilter("ignore")
x = torch.randn(9)
assert torch.equal(second_kernels.double(x), double_kernels.double(x)) and second_kernels.operation is not operation
for factor, module in ((100, operation), (1000, second_kernels.operation)):  # stand-ins for the card
    module._functions = lambda tensors, scalars, select: (None, None, ())
    module._run = lambda function, tensors, sizes, factor=factor: tensors[0] * factor
one = torch.ones(3)
dumped = torch._C._dispatch_dump("aten::relu")


def relu():
    return round(torch.relu(one)[0].item())


def first(arguments=lambda tensor: (tensor,), *results):
    return override("relu", arguments, *results, key="CPU")


def second(arguments=lambda tensor: (tensor,)):
    return second_kernels.override("relu", arguments, key="CPU")


with first(), first(lambda tensor: (tensor,), lambda outputs, tensor: outputs + 1), torch.inference_mode():
    assert relu() == 101
with first():
    with second():
        with second(lambda tensor: None):
            assert relu() == 1000, "it is asked first, and leaves it to the one before"
        leaf = one.clone().requires_grad_()
        assert torch.equal(torch.autograd.grad(torch.relu(leaf).sum(), leaf)[0], one), "gradients are PyTorch's"
        seen = []
        thread = threading.Thread(target=lambda: seen.append(relu()))
        thread.start(), thread.join()
        assert seen == [1000]
    assert relu() == 100
assert relu() == 1 and torch._C._dispatch_dump("aten::relu") == dumped, "it is as it was"
outer, inner, other = first(), second(), first(lambda tensor: None)
for each in (outer, inner, other):
    each.__enter__()
outer.__exit__()
assert relu() == 1000
inner.__exit__()
assert relu() == 1 and torch._C._dispatch_dump("aten::relu") != dumped
other.__exit__()
assert relu() == 1 and torch._C._dispatch_dump("aten::relu") == dumped, "in any order"


def failing(*given):
    raise KeyError("a fault of the user")


for attempt in (lambda: first(failing), lambda: first(lambda tensor: (tensor,), failing), first):
    try:
        with attempt():
            relu()
            raise KeyError("in the model")
    except KeyError:
        assert relu() == 1 and torch._C._dispatch_dump("aten::relu") == dumped
again = first()
for _ in range(2):
    with again:
        assert relu() == 100
        try:
            again.__enter__()
        except RuntimeError as error:
            assert "overridden by this object already" in str(error)
    assert torch._C._dispatch_dump("aten::relu") == dumped
for operator in ("softmax.int", "no_such_operator"):
    for _ in range(2):
        try:
            override(operator, lambda *given: None, key="CPU").__enter__()
        except (ValueError, RuntimeError) as error:
            assert operator in str(error)
        else:
            raise AssertionError(operator)

library = torch.library.Library("vllm", "FRAGMENT")


def direct_register_custom_op(op_name, op_func, mutates_args, fake_impl):  # as vLLM does
    library.define(op_name + torch.library.infer_schema(op_func, mutates_args=mutates_args))
    library.impl(op_name, op_func, "CPU")
    library._register_fake(op_name, fake_impl)


try:
    register_with_vllm(failing)
except (KeyError, TypeError):
    pass
operator = register_with_vllm(direct_register_custom_op)
assert register_with_vllm(direct_register_custom_op) is operator and torch.equal(operator(x, 2.0), 100 * x)
try:
    second_kernels.register_with_vllm(direct_register_custom_op)
except RuntimeError as error:
    assert "double_kernels has registered" in str(error)
named = second_kernels.register_with_vllm(direct_register_custom_op, name="thousand")
assert named is torch.ops.vllm.thousand and torch.equal(named(x, 2.0), 1000 * x)
for name in [name for name in sys.modules if name.startswith("double_kernels")]:
    del sys.modules[name]
import double_kernels as reinstalled
newest = reinstalled.register_with_vllm(direct_register_custom_op)
assert torch.equal(newest(x, 2.0), 2 * x), "the newest import computes"
"""
