"""Exported packages of kernels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kernelreef.errors import InvalidInput


@dataclass(frozen=True)
class Package:
    """An exported package, not yet written.

    Attributes:
        name: Name to import.
        files: Its files by path.
        serving: The candidate that serves each shape.
        training: The candidate that serves each shape if gradients are needed.
        refusals: Reasons why other elites were left out.
        note: Sentence about what judged the functions, if that was not the elites' own device.
        stages_s: Seconds of each stage of the export, by module.
    """

    name: str
    files: Mapping[str, str]
    serving: Mapping[str, str]
    training: Mapping[str, str]
    refusals: tuple[str, ...]
    note: str = ""
    stages_s: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Write it into a folder, which must be empty.

        Raises:
            InvalidInput: If it is not empty, or cannot be written.
        """
        try:
            if folder.exists() and any(folder.iterdir()):
                raise InvalidInput(f"{folder} is not empty", "--out")
            for path, text in self.files.items():
                file = folder / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise InvalidInput(f"{folder}: {error.strerror}", "--out") from error
        return folder.resolve()
