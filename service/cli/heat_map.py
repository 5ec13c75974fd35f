"""Tables of an archive for the terminal: a heat map over two axes, and the best elites."""

from rich.box import SIMPLE_HEAD
from rich.text import Text

from kernelreef.models import Archive, Axis, Elite
from kernelreef.short_ids import brief
from service.cli.console import FoldedTable
from service.evaluation.figure_labels import in_words

SHADES = ("#2c115f", "#721f81", "#b73779", "#f1605d", "#feb078", "#fcfdbf")
"""Six steps of the magma colour map, dark to light; text on the last three is black."""

OLDER = "*"
"""Mark after figures from reports of an older protocol."""
LISTED = 12
"""Maximum number of elites in a table."""


def heat_map(archive: Archive) -> FoldedTable:
    """Draw the first two axes; a cell shows the best objective over all other axes, or a dot if it is empty."""
    rows, columns = archive.axes[0], archive.axes[1 if len(archive.axes) > 1 else 0]
    best: dict[tuple[int, int], float] = {}
    for elite in archive.elites:
        place = (elite.bins[0], elite.bins[1 if len(elite.bins) > 1 else 0])
        best[place] = max(best.get(place, 0.0), elite.objective)
    top = max(best.values(), default=1.0)
    bottom = min(best.values(), default=1.0)
    table = FoldedTable(
        title=f"{rows.descriptor} (down) by {columns.descriptor} (across)", title_style="bold", padding=(0, 1)
    )
    table.add_column("", justify="right")
    for label in columns.labels:
        table.add_column(label, justify="center")
    for row, label in enumerate(rows.labels):
        cells = [_shade(best.get((row, column)), bottom, top) for column in range(columns.bins)]
        table.add_row(Text(label), *cells)
    return table


def elite_table(archive: Archive) -> FoldedTable:
    """List the best elites, one per row, with their bins on the search's axes.

    On a narrow terminal, headings and bins wrap; figures, emitters and ids never do.
    """
    elites = sorted(archive.elites, key=lambda item: -item.objective)[:LISTED]
    table = FoldedTable(
        title=f"Elites, best {len(elites)} of {len(archive.elites)}",
        title_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    speedups = [f"{elite.objective:.3f}x{OLDER if elite.outdated else ''}" for elite in elites]
    whole = {"speedup": speedups, "emitter": [elite.emitter for elite in elites]}
    for heading, texts in whole.items():
        least = max(map(len, [heading, *texts]))
        table.add_column(heading, justify="right" if heading == "speedup" else "left", no_wrap=True, min_width=least)
    table.add_column("candidate", no_wrap=True)
    for axis in archive.axes:
        table.add_column(Text(axis.descriptor.replace("_", " ")), overflow="fold")
    for elite, speedup in zip(elites, speedups, strict=True):
        table.add_row(speedup, elite.emitter, brief(elite.candidate), *(_words(elite, axis) for axis in archive.axes))
    table.caption = in_words(archive.device, archive.relative_to)
    if compilers := sorted({elite.compiler for elite in elites} - {""}):
        table.caption += f"\ncompiled by {'; '.join(compilers)}"
    if any(elite.outdated for elite in elites):
        table.caption += f"\n{OLDER} judged by an older protocol with different checks"
    return table


def _words(elite: Elite, axis: Axis) -> str:
    where = elite.coordinates.get(axis.descriptor)
    return "?" if where is None else axis.labels[where.bin]


def _shade(value: float | None, bottom: float, top: float) -> Text:
    if value is None:
        return Text("·", style="dim")
    share = (value - bottom) / (top - bottom) if top > bottom else 1.0
    step = min(int(share * len(SHADES)), len(SHADES) - 1)
    ink = "black" if step >= len(SHADES) // 2 else "white"
    return Text(f" {value:.2f} ", style=f"{ink} on {SHADES[step]}")
