"""Progress of a running search on the terminal: evaluations, coverage, best result and failures."""

import sys
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kernelreef import Event
from kernelreef.models import DeviceProgress, Progress, Search
from kernelreef.short_ids import brief
from kernelreef.states import ENDED
from service.cli.console import err

RECENT = 6
"""Number of events shown."""
PLAIN_EVERY_S = 5.0
"""Seconds between lines if standard error is not a terminal."""
PATIENCE_S = 30.0
"""Seconds until missing workers are reported; local ones need some seconds to start."""


class ProgressView:
    """Context that shows progress: a live view on a terminal, otherwise a line every few seconds."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self.recent: deque[Text] = deque(maxlen=RECENT)
        self._last_line = 0.0
        self._said: Sequence[str] = ()
        self._alone_since: float | None = None
        self._refused = ""
        self._live = Live(console=err, refresh_per_second=4, transient=True) if err.is_terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def note(self, event: Event) -> None:
        """Add one event to the recent ones; a finalist that fails is told for good."""
        said = event.data
        if event.kind == "elite.promoted":
            self.recent.append(
                Text(f"{said['placement']:>9}  cell {said['cell']:<4} {said['objective']:.3f}x", "green")
            )
        elif event.kind == "elite.withdrawn":
            self.recent.append(Text(f"{'lost':>9}  cell {said['cell']:<4} {str(said['reason'])[:90]}", "yellow"))
        elif event.kind == "elite.examined" and said["standing"] == "failed":
            told = f"Finalist {brief(str(said['candidate']))} fails its examination and is no elite: {said['reason']}"
            err.print(told, highlight=False, markup=False, soft_wrap=True)
        elif event.kind == "candidate.judged" and said["outcome"] != "correct":
            reason = str(said["reason"] or "").partition("\n")[0][:90]
            self.recent.append(Text(f"{said['emitter']:>9}  {said['outcome']}: {reason}", "yellow"))

    def show(self, progress: Progress) -> None:
        """Show the progress, with the figures of the search's first device."""
        waiting = self._waiting(progress.missing_workers)
        if self._live:
            self._live.update(self._picture(progress, waiting))
        elif time.monotonic() - self._last_line > PLAIN_EVERY_S:
            self._last_line = time.monotonic()
            refused = progress.refused_seeds if progress.refused_seeds != self._refused else ""
            self._refused = progress.refused_seeds
            said = [self._line(progress, progress.devices[0]), refused, progress.reason, waiting]
            if said != self._said:  # The time of a search that has ended stands still.
                sys.stderr.write("".join(f"{line}\n" for line in said if line))
            self._said = said

    def _waiting(self, missing: Sequence[str]) -> str:
        """Describe missing workers; empty until they have been missing for some time."""
        now = time.monotonic()
        self._alone_since = (self._alone_since or now) if missing else None
        if self._alone_since is None or now - self._alone_since < PATIENCE_S:
            return ""
        return (
            f"the search waits for {' and '.join(missing)}, and none is connected: start one with `reef worker`; "
            "if local workers failed, see workers.log in the data folder"
        )

    def _line(self, whole: Progress, progress: DeviceProgress) -> str:
        best = "none yet" if progress.best is None else f"{progress.best:.3f}x"
        emitters = ", ".join(f"{name} {counts.get('judged', 0)}" for name, counts in progress.emitters.items())
        failed = ", ".join(f"{reason} {count}" for reason, count in progress.outcomes.items() if reason != "correct")
        return (
            f"[{whole.elapsed_s:5.0f} s{_left(whole)}] {_doing(whole)}: "
            f"{progress.evaluated}/{whole.evaluations} evaluations{equal_plans_in_words(whole)}, "
            f"{progress.correct} correct, "
            f"{held_in_words(progress)}, best {best}; {emitters or 'no emitter yet'}"
            f"{'; failed: ' + failed if failed else ''}"
        )

    def _picture(self, progress: Progress, waiting: str) -> Group:
        bar = ProgressBar(total=progress.evaluations, completed=progress.evaluated, width=48)
        head = Table.grid(padding=(0, 2))
        head.add_row(Text(f"{self._search.operator} on {', '.join(self._search.devices)}", "bold"), bar)
        warning = [Text(said, "bold yellow") for said in (progress.refused_seeds, progress.reason, waiting) if said]
        return Group(head, Text(self._line(progress, progress.devices[0])), *warning, *self.recent)


def equal_plans_in_words(progress: Progress) -> str:
    """Describe how many candidates had equal plans, beside the evaluations; empty if none had."""
    return f" and {progress.equal_plans} of equal plans" if progress.equal_plans else ""


def held_in_words(progress: DeviceProgress) -> str:
    """Describe how many cells have elites, and how many are held provisionally."""
    held = f"{progress.elites} of {progress.cells} cells"
    return f"{held}, {progress.provisional} held provisionally" if progress.provisional else held


def _doing(progress: Progress) -> str:
    """Describe what a search does; one that has ended says so first."""
    state = progress.state.value
    return f"{state}, {progress.activity}" if progress.finishing else progress.activity or state


def _left(progress: Progress) -> str:
    """Return the running time that the stop rule `seconds` leaves, as text; empty without it and after the end."""
    if progress.left_s is None or progress.state in ENDED:
        return ""
    start = "" if progress.evaluated else " from the first verdict"
    return f", {progress.left_s:.0f} s left{start}"
