"""Files of trajectories: one JSON object per line, or Parquet with one column per field."""

import importlib
import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from service.analysis.trajectories import Trajectory
from service.errors import InvalidInput

GROUP = 1000
"""Number of records in a row group: some megabytes, as Parquet readers prefer."""
KINDS = {"integer": "int64", "number": "float64", "string": "string"}
"""Arrow type of each plain JSON schema type; a nested value becomes a JSON string."""


class JsonLinesFile:
    """Writer of a JSON lines file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, line: str) -> None:
        """Write one record, given as JSON."""
        self._file.write(line + "\n")


class ParquetFile:
    """Writer of a Parquet file; it writes the last row group if the block ends without an error."""

    def __init__(self, path: Path) -> None:
        """Begin a file.

        Raises:
            InvalidInput: If pyarrow is not installed.
        """
        try:
            self._arrow = importlib.import_module("pyarrow")
            files = importlib.import_module("pyarrow.parquet")
        except ImportError as error:
            hint = "Parquet needs pyarrow: pip install 'kernelreef[parquet]', or write a .jsonl file"
            raise InvalidInput(hint, "--out") from error
        self._names = [name for name, _ in kinds()]
        self._schema = self._arrow.schema([(name, getattr(self._arrow, kind)()) for name, kind in kinds()])
        self._writer = files.ParquetWriter(path, self._schema)
        self._waiting: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._flush()
        self._writer.close()

    def write(self, line: str) -> None:
        """Write one record, given as JSON."""
        record = json.loads(line)
        self._waiting.append({name: _cell(record[name]) for name in self._names})
        if len(self._waiting) >= GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(self._arrow.Table.from_pylist(self._waiting, schema=self._schema))
            self._waiting = []


def begin(path: Path, name: str) -> JsonLinesFile | ParquetFile:
    """Begin to write `path` in the format of `name`'s suffix.

    Raises:
        InvalidInput: If the suffix is unknown, or pyarrow is needed and not installed.
    """
    forms: dict[str, type[JsonLinesFile] | type[ParquetFile]] = {".jsonl": JsonLinesFile, ".parquet": ParquetFile}
    form = forms.get(Path(name).suffix)
    if form is None:
        raise InvalidInput(f"'{name}' must end in {' or '.join(forms)}", "--out")
    return form(path)


def kinds() -> list[tuple[str, str]]:
    """List the fields of a trajectory with their Arrow types."""
    found = []
    for name, field in Trajectory.model_json_schema()["properties"].items():
        choices = [field, *field.get("anyOf", ())]
        plain = [choice["type"] for choice in choices if choice.get("type") not in (None, "null")]
        found.append((name, KINDS.get(plain[0], "string") if plain else "string"))
    return found


def _cell(value: object) -> object:
    return json.dumps(value) if isinstance(value, dict | list) else value
