"""Modules: candidates by themselves, of which nothing of the original candidate is left but its kernels."""

import ast
from collections.abc import Callable

import pytest
import torch

from service.certificates.document import Certificate
from service.errors import InvalidInput
from service.export.extraction import NotExtractable
from service.export.modules import ExportedModule, _sizes, names_of, write_module
from service.export.variants import exact_functions
from tests.service.export.pieces import OPERATOR, SOURCE, certificate, traced, verified
from workers.protocol import Operator


def operator(**changes: object) -> Operator:
    return Operator.model_validate({**OPERATOR.model_dump(), **changes})


def exact(told: Certificate | None = None) -> ExportedModule:
    told = told or certificate()
    return write_module(told, exact_functions(told.bundle.plans))


def test_a_module_holds_kernels_host_code_and_the_choice_between_them() -> None:
    module = verified().module
    functions = [node.name for node in ast.parse(module.text).body if isinstance(node, ast.FunctionDef)]
    assert functions == [
        *("_scale", "double_kernel", "double_kernel__any_n"),
        *("plan_0", "plan_0_gradients", "plan_1", "plan_1_gradients"),
        *("choose", "sizes_of", "double", "double_backward"),
    ]
    assert "@triton.jit(do_not_specialize=['n'])\ndef double_kernel__any_n(" in module.text
    assert "def double(x, by):\n    sizes = sizes_of(x, by)\n    return choose(*sizes)[0](x, *sizes)\n" in module.text
    assert "launch(" not in module.text and "SECRET" not in module.text


def test_sizes_of_products_and_sums_follow_from_their_parts() -> None:
    inputs = [{"name": "q", "shape": ["T", "G*R", "64*D"]}, {"name": "k", "shape": ["G", "2*B+1"]}]
    shape = {"dims": {"T": 1, "G": 1, "R": 1, "D": 1, "B": 1}}
    fields = {"inputs": [{**item, "dtype": "float32"} for item in inputs], "ranges": {}, "shapes": [shape]}
    of = operator(**fields, backward=False, scalars=())
    space: dict[str, Callable[..., object]] = {}
    exec(_sizes(of, names_of(of)), space)
    assert space["sizes_of"](torch.empty(9, 8, 128), torch.empty(4, 7)) == (9, 4, 2, 2, 3)
    for q, k in (((9, 7, 128), (4, 7)), ((9, 8, 100), (4, 7)), ((9, 8, 128), (4, 6)), ((9, 8), (4, 7))):
        assert space["sizes_of"](torch.empty(q), torch.empty(k)) is None


def test_guards_and_ranges_choose_the_function() -> None:
    for module, served in ((verified().module, {4: 1, 5: 1, 16: 0, 4096: 0}), (exact(), {4: 0, 1024: 1})):
        space: dict[str, Callable[..., object]] = {}
        tree = ast.parse(module.text)
        kept = [node for node in tree.body if getattr(node, "name", "") in ("choose", "sizes_of")]
        plans = "\n".join(f"plan_{at} = {at}; plan_{at}_gradients = -{at}" for at in range(2))
        exec(f"{plans}\n{ast.unparse(ast.Module(kept, []))}", space)
        for size in (0, 1, 4, 5, 16, 1024, 4096, 4097):
            found = space["choose"](size)
            at = module.function_for({"N": size}) if 1 <= size <= 4096 else None
            assert found == (None if at is None else (at, -at)), size
            assert served.get(size, at) == at
        shaped = type("Tensor", (), {"shape": (7,), "dim": lambda self: len(self.shape)})()
        assert space["sizes_of"](shaped, 2.0) == (7,)
        shaped.shape = (7, 1)
        assert space["sizes_of"](shaped, 2.0) is None


@pytest.mark.parametrize("name", ["plan_0", "b2", "x", "float", "choose"])
def test_a_kernel_may_not_take_a_name_of_host_code(name: str) -> None:
    source = SOURCE.replace("_scale", name)
    bundle = traced().model_dump()
    for plan in bundle["plans"]:
        for step in plan["steps"]:
            if step["op"] == "launch":
                step["constants"]["FUNCTION"] = f"function:{name}"
    with pytest.raises(NotExtractable, match=r"name of host code|shadows another name"):
        exact(certificate(source, type(traced()).model_validate(bundle)))


def test_tensors_make_room_for_host_code() -> None:
    inputs = [{**OPERATOR.model_dump()["inputs"][0], "name": name} for name in ("torch", "_x", "b3", "double", "__")]
    names = names_of(operator(inputs=inputs, outputs=[{"name": "class", "dtype": "float32", "shape": ["N"]}]))
    assert names.inputs == ("torch_", "x", "b3_", "double_", "tensor") and names.outputs == ("class_",)
    for entry in ("torch", "choose", "_f", "why_not", "reference", "elite_0"):
        with pytest.raises(InvalidInput, match="cannot be exported: host code needs that name"):
            names_of(operator(entry=entry))


def test_what_cannot_be_exported_is_said() -> None:
    with pytest.raises(NotExtractable, match="source is not available"):
        exact(certificate().model_copy(update={"source": None}))
    mutable = [{**OPERATOR.model_dump()["inputs"][0], "mutable": True}]
    changed = operator(inputs=mutable, backward=False)
    with pytest.raises(InvalidInput, match="changes its inputs"):
        exact(certificate().model_copy(update={"operator": changed}))


def test_ids_of_strangers_end_no_text() -> None:
    told = certificate()
    hostile = told.origin.model_copy(update={"candidate": '""" + print(1) + """'})
    text = exact(told.model_copy(update={"origin": hostile})).text
    assert text.startswith('"""Kernels of candidate print1, and')
