"""Names are unique and descriptive."""

import ast

from workers.inductor_seeds.naming import UniqueNames, name_locals, rename


def test_names_are_given_once_and_are_no_words_of_python():
    names = UniqueNames(["x"])
    assert [names.give("x"), names.give("y"), names.give("y"), names.give("lambda")] == ["x_2", "y", "y_2", "lambda_"]


def test_locals_are_named_by_how_they_are_made():
    text = "def k(in_ptr0, r0_numel):\n    tmp0 = tl.load(in_ptr0 + 1).to(tl.float32)\n    tmp1 = tl.sum(tmp0, 0)\n"
    text += "    for r0_offset in tl.range(0, r0_numel):\n        tmp2 = tmp0 < tmp1\n"
    function = ast.parse(text).body[0]
    found = name_locals(function, {"in_ptr0": "weight_ptr", "r0_numel": "extent"})
    assert [found[name] for name in ("tmp0", "tmp1", "tmp2", "r0_offset")] == ["weight", "total", "inside", "start"]
    rename(function, {**found, "k": "kernel"})
    assert "tmp" not in ast.unparse(function)
    assert ast.unparse(function).startswith("def kernel(weight_ptr, extent)")
