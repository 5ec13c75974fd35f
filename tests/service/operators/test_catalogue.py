import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.errors import InvalidInput
from service.operators.catalogue import load_catalogue, load_operator, parse_operator

ROOT = Path(__file__).parents[3]
SIGNATURES = {
    "argmax": ("logits",),
    "attention": ("q", "k", "v", "causal"),
    "cross_entropy": ("logits", "target"),
    "decode_attention": ("q", "k", "v"),
    "depthwise_conv_large": ("x", "weight"),
    "dora_compose": ("weight", "down", "up", "magnitude", "scale"),
    "entmax15": ("x",),
    "gate_up_swiglu": ("x", "w_gate", "w_up"),
    "gated_linear_attention": ("q", "k", "v", "gate"),
    "gelu": ("x",),
    "layernorm": ("x", "weight", "bias"),
    "lightning_attention": ("q", "k", "v", "slope"),
    "linear_cross_entropy": ("x", "weight", "target"),
    "lm_head_sparse": ("x", "weight", "bias", "mask"),
    "matmul": ("a", "b"),
    "moe_swiglu": ("gate_weight", "up_weight", "down_weight", "x", "expert", "share"),
    "monarch_matmul": ("x", "first", "second"),
    "paged_decode": ("q", "k_pages", "v_pages", "page_table", "full_pages", "last_page_len"),
    "qk_norm_rope": ("q", "k", "q_weight", "k_weight", "cos", "sin"),
    "quantize_fp8": ("x",),
    "rational_activation": ("x", "numerator", "denominator"),
    "rmsnorm": ("x", "weight"),
    "rope": ("q", "cos", "sin"),
    "rope_half": ("q", "cos", "sin"),
    "sigmoid_attention": ("q", "k", "v", "causal"),
    "simplicial_attention": ("q", "k1", "v1", "k2", "v2", "window1", "window2"),
    "sliding_window_attention": ("q", "k", "v", "window"),
    "softmax": ("x",),
    "ssd_chunk_scan": ("x", "step", "rate", "written", "read"),
    "swiglu": ("gate", "up"),
    "ternary_matmul": ("x", "x_scale", "w", "w_scale"),
    "w4a16_matmul": ("x", "qweight", "scales"),
}
TOML = """
name = "double"
entry = "double"
reference = "reference.py"
seeds = ["seeds/first.py"]
[[inputs]]
name = "x"
shape = ["N"]
dtype = "float32"
[[outputs]]
name = "y"
dtype = "float32"
[[shapes]]
N = 1024
"""
REFERENCE = "def double(x):\n    return x + x\n"


@pytest.fixture
def folder(tmp_path):
    """A folder with a spec of its own."""
    home = tmp_path / "double"
    (home / "seeds").mkdir(parents=True)
    (home / "operator.toml").write_text(TOML)
    (home / "reference.py").write_text(REFERENCE)
    (home / "seeds" / "first.py").write_text("def double(x):\n    return 2 * x\n")
    return home


def refusal(spec):
    with pytest.raises(InvalidInput) as caught:
        load_operator(spec)
    return caught.value


def test_the_catalogue_has_the_signatures_of_the_contract():
    catalogue = load_catalogue()
    arguments = {
        name: tuple(item.name for item in (*operator.inputs, *operator.scalars)) for name, operator in catalogue.items()
    }
    backward = {
        name.removesuffix("_backward"): arguments.pop(name) for name in [*arguments] if catalogue[name].backward
    }
    assert arguments == SIGNATURES
    differentiated = ("gelu", "layernorm", "rational_activation", "rmsnorm", "softmax", "swiglu")
    assert backward == {name: SIGNATURES[name] for name in differentiated}
    assert list(catalogue) == sorted(catalogue)


@pytest.mark.parametrize("name", SIGNATURES)
def test_an_entry_of_the_catalogue_is_complete(name):
    operator = load_operator(name)
    assert operator.name == operator.entry == name
    assert operator.seeds
    assert operator.ranges
    dtypes = {"bool", "bfloat16", "float32", "int8", "uint8", "int32", "int64"}
    assert all(item.dtype in dtypes for item in operator.inputs)
    assert 2 <= len(operator.shapes) <= 3
    assert operator.precision.accumulate == "float32"


def test_the_first_benchmark_shape_of_rmsnorm():
    assert load_operator("rmsnorm").shapes[0].dims == {"M": 4096, "N": 4096}


@pytest.mark.parametrize("name", SIGNATURES)
def test_benchmark_shapes_lie_in_the_ranges(name):
    operator = load_operator(name)
    for shape in operator.shapes:
        for dimension, (low, high) in operator.ranges.items():
            assert low <= shape.dims[dimension] <= high


def test_reads_a_folder_and_its_file_alike(folder):
    operator = load_operator(folder)
    assert operator == load_operator(folder / "operator.toml") == load_operator(str(folder))
    assert operator.reference == REFERENCE
    assert len(operator.seeds) == 1


def test_reads_the_example():
    operator = load_operator(ROOT / "examples" / "my_op")
    assert [output.name for output in operator.outputs] == ["normed", "total"]
    assert operator.scalars[0].value == 0.5


def test_reads_json_with_sources_inline(folder, tmp_path):
    operator = load_operator(folder)
    path = tmp_path / "double.json"
    path.write_text(operator.model_dump_json())
    assert load_operator(path) == operator == parse_operator(json.loads(path.read_text()))


def test_a_name_of_the_catalogue_wins_over_a_folder(folder, monkeypatch):
    folder.rename(folder.with_name("rmsnorm"))
    monkeypatch.chdir(folder.parent)
    assert load_operator("rmsnorm").name == "rmsnorm"
    assert load_operator("./rmsnorm").name == "double"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("rmsnrm", "'rmsnrm' is neither a file nor in the catalogue (argmax, attention, cross_entropy, "),
        ("rmsnrm", "; did you mean 'rmsnorm'?"),
        ("nowhere/operator.toml", "'nowhere/operator.toml' is neither a file nor in the catalogue"),
        ("", "operator.toml' is not a file"),
        ("x" * 5000, "is neither a file nor in the catalogue"),
    ],
)
def test_an_unknown_operator(spec, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    error = refusal(spec)
    assert message in error.detail
    assert error.field == "spec"


@pytest.mark.parametrize(
    ("old", "new", "field", "message"),
    [
        ("dtype =", "dtype", "spec", "operator.toml' is not valid TOML: "),
        ('"reference.py"', '"refrence.py"', "reference", "reference: 'refrence.py' in "),
        ('"reference.py"', '"../reference.py"', "reference", "is outside the spec's folder; move the file into it"),
        ('"reference.py"', '"/etc/hostname"', "reference", "'/etc/hostname' is outside the spec's folder"),
        ('"reference.py"', '"seeds"', "reference", "is not a file"),
        ('"reference.py"', '"a\\u0000b"', "reference", "is not a path: embedded null byte"),
        ('"reference.py"', "7", "reference", "write PyTorch code that defines the entry"),
        ('["seeds/first.py"]', '["seeds/second.py"]', "seeds[0]", "seeds[0]: 'seeds/second.py' in "),
        ('["seeds/first.py"]', "[7]", "seeds[0]", "write a list of kernels to start from"),
        ('["seeds/first.py"]', '"seeds/first.py"', "seeds", "write a list of kernels to start from"),
        ("N = 1024", "N = 2026-01-01", "spec", "a value that JSON cannot express"),
        ("[[shapes]]", "[[shape]]", "shape", "shape: unknown name; did you mean 'shapes'?"),
    ],
)
def test_a_spec_that_cannot_be_right(folder, old, new, field, message):
    (folder / "operator.toml").write_text(TOML.replace(old, new))
    error = refusal(folder)
    assert message in error.detail
    assert error.field == field


def test_a_syntax_error_has_its_line(folder):
    (folder / "operator.toml").write_text(TOML.replace('entry = "double"', "entry = double"))
    assert "at line 3" in refusal(folder).detail


def test_a_link_out_of_the_folder_is_no_way_out(folder, tmp_path):
    (tmp_path / "secret.py").write_text(REFERENCE)
    (folder / "reference.py").unlink()
    (folder / "reference.py").symlink_to(tmp_path / "secret.py")
    assert "is outside the spec's folder" in refusal(folder).detail


def test_a_link_to_itself_is_refused(folder):
    (folder / "reference.py").unlink()
    (folder / "reference.py").symlink_to("reference.py")
    assert refusal(folder).field == "reference"


def test_files_that_are_no_text_are_refused(folder):
    (folder / "reference.py").write_bytes(b"\xff\xfe")
    assert "is not UTF-8 text" in refusal(folder).detail
    (folder / "reference.py").write_bytes(b"#" * (3 * 2**20))
    assert "is longer than" in refusal(folder).detail
    (folder / "reference.py").unlink()
    os.mkfifo(folder / "reference.py")
    assert "is not a file" in refusal(folder).detail


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("spec.json", "{", "spec.json' is not valid JSON: "),
        ("spec.json", "[1]", "a spec is one JSON object"),
        ("spec.json", "[" * 100_000, "spec.json' is not valid JSON: "),
        ("spec.json", "{}", "name is missing"),
        ("spec.py", "class Model: pass", "spec.py' is not a spec; give operator.toml, its folder, or a .json file"),
    ],
)
def test_files_that_are_no_specs(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    assert message in refusal(tmp_path / name).detail


def test_the_catalogue_needs_no_torch_and_no_checkout(tmp_path):
    """As in the coordinator's environment: away from the checkout, with torch and triton impossible to import."""
    script = (
        "import sys; sys.modules.update(torch=None, triton=None)\n"
        "from service.operators.catalogue import load_catalogue\n"
        "from service.operators.shapes import all_shapes\n"
        "assert all(all_shapes(operator, 0) for operator in load_catalogue().values())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
