"""Modules: candidates by themselves, of which nothing of the original candidate is left but its kernels."""

import ast

import pytest

from service.errors import InvalidInput
from service.export.extraction import NotExtractable
from service.export.modules import key_of, names_of, write_module
from tests.service.export.pieces import KEYS, OPERATOR, SOURCE, certificate, traced
from workers.protocol import Operator


def operator(**changes: object) -> Operator:
    return Operator.model_validate({**OPERATOR.model_dump(), **changes})


def test_a_module_holds_kernels_host_code_and_tables() -> None:
    module = write_module(certificate(), KEYS)
    tree = ast.parse(module.text)
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert functions == [
        *("_scale", "double_kernel"),
        *("plan_0", "plan_0_gradients", "plan_1", "plan_1_gradients"),
        *("double", "double_backward"),
    ]
    assert "    ((1024,),): plan_1,\n" in module.text and "    ((4,),): plan_0_gradients,\n" in module.text
    assert "def double(x, by):\n    return PLANS[tuple(x.shape),](x)\n" in module.text
    assert "launch(" not in module.text and "SECRET" not in module.text
    assert module.shapes == KEYS and write_module(certificate(), KEYS[:1]).shapes == KEYS[:1]


def test_a_plan_is_found_by_the_shapes_of_the_inputs() -> None:
    assert [key_of(OPERATOR, plan) for plan in traced().plans] == [((4,),), ((1024,),)]


@pytest.mark.parametrize("name", ["plan_0", "b2", "PLANS", "x", "float"])
def test_a_kernel_may_not_take_a_name_of_host_code(name: str) -> None:
    source = SOURCE.replace("_scale", name)
    bundle = traced().model_dump()
    for plan in bundle["plans"]:
        for step in plan["steps"]:
            if step["op"] == "launch":
                step["constants"]["FUNCTION"] = f"function:{name}"
    with pytest.raises(NotExtractable, match=r"name of host code|shadows another name"):
        write_module(certificate(source, type(traced()).model_validate(bundle)), KEYS)


def test_tensors_make_room_for_host_code() -> None:
    inputs = [{**OPERATOR.model_dump()["inputs"][0], "name": name} for name in ("torch", "_x", "b3", "double", "__")]
    names = names_of(operator(inputs=inputs, outputs=[{"name": "class", "dtype": "float32", "shape": ["N"]}]))
    assert names.inputs == ("torch_", "x", "b3_", "double_", "tensor") and names.outputs == ("class_",)
    for entry in ("torch", "PLANS", "_f", "why_not", "reference", "elite_0"):
        with pytest.raises(InvalidInput, match="cannot be exported: host code needs that name"):
            names_of(operator(entry=entry))


def test_what_cannot_be_exported_is_said() -> None:
    with pytest.raises(NotExtractable, match="source is not available"):
        write_module(certificate().model_copy(update={"source": None}), KEYS)
    mutable = [{**OPERATOR.model_dump()["inputs"][0], "mutable": True}]
    changed = operator(inputs=mutable, backward=False)
    with pytest.raises(InvalidInput, match="changes its inputs"):
        write_module(certificate().model_copy(update={"operator": changed}), KEYS)


def test_ids_of_strangers_end_no_text() -> None:
    told = certificate()
    hostile = told.origin.model_copy(update={"candidate": '""" + print(1) + """'})
    text = write_module(told.model_copy(update={"origin": hostile}), KEYS).text
    assert text.startswith('"""Kernels of candidate print1, and')
