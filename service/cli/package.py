"""What `reef export --out FOLDER` says of the package that it wrote."""

from pathlib import Path

from rich.table import Table
from rich.text import Text

from kernelreef.packages import Package
from service.cli.console import out


def package_document(package: Package) -> dict[str, object]:
    """A package as JSON: which candidate serves which shape, and what was left out."""
    return {
        "package": package.name,
        "serving": dict(package.serving),
        "training": dict(package.training),
        "refusals": list(package.refusals),
    }


def print_package(package: Package, path: Path) -> None:
    """Print the same for people."""
    table = Table("shape", "candidate", "with gradients", box=None, pad_edge=False)
    for shape in {**package.serving, **package.training}:
        pair = (package.serving.get(shape, "PyTorch"), package.training.get(shape, "PyTorch"))
        table.add_row(Text(shape), *(Text(who) for who in pair))
    out.print(table, highlight=False)
    for refusal in package.refusals:
        out.print(Text("left out: " + "".join(char if char.isprintable() else "?" for char in refusal), "yellow"))
    out.print(f"The package {package.name} is in {path}: pip install {path}", highlight=False, markup=False)
