"""Reader of TraceLens' reports of a trace: a workbook, or a directory of CSV files; of one rank or
more, or compared.

What is taken is where the time goes: computation, exposed communication, copies and idle time
(gpu_timeline), by category (ops_summary_by_category), by kernel (kernel_summary) and by collective
(coll_analysis). Sheets and columns vary by version; they are found by their headers.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tprimat.notes import Note
from tprimat.read.parsing.parsed_log import (
    Beside,
    FileFormat,
    InputFile,
    ParsedLog,
    columns_of,
    folder_of,
    without_rank,
)
from tprimat.read.parsing.records import LoggedTraining
from tprimat.read.parsing.run_builder import RunBuilder
from tprimat.read.parsing.values import number
from tprimat.results.account import Timing
from tprimat.results.fields import Figures
from tprimat.results.outcome import ending_of, outcome_of

TIMING = Timing(
    clock="the profiler's time stamps on the device",
    covers="the stretch that was traced; a profiler slows what it watches",
    over_ranks="the rank that was traced",
)

LARGEST_WORKBOOK, MOST_TAGS = 1 << 26, 1_000_000
"""Bytes of all parts of a workbook, unpacked, and XML tags, which openpyxl may keep. Reports have
10 MB and 200,000.
"""

MOST_PACKED = 200
"""Times that a part may grow when it is unpacked; what spreadsheets hold grows 5 to 20 times."""

MOST_ROWS, MOST_COLUMNS = 100_000, 200
LONGEST_NAME = 400
MOST_KERNELS = 20
"""Kernels that a result holds, by their time; the rest is one value."""

_PARTS = {
    "computation_time": "computation",
    "exposed_comm_time": "exposed_communication",
    "exposed_memcpy_time": "exposed_copies",
    "idle_time": "idle",
    "total_time": "total",
    "total_comm_time": "communication",
    "total_memcpy_time": "copies",
}
"""Rows of gpu_timeline. Computation, exposed parts and idle time add up to the total; the last two
overlap these.
"""

Table = dict[str, dict[str, dict[str, float]]]
"""Side -> kind (time, category, kernel, collective) -> name -> seconds."""


class Sheet(NamedTuple):
    """A kind of sheet, the column of names, those that times may have, and the unit of these in
    s.
    """

    kind: str
    names: str
    times: tuple[str, ...]
    unit: float


_SHEETS = (
    Sheet("time", "type", ("time ms",), 1e-3),
    Sheet("category", "op category", ("total_direct_kernel_time_ms",), 1e-3),
    Sheet("kernel", "Kernel name", ("Kernel duration (µs)_sum", "Kernel duration (us)_sum"), 1e-6),
    Sheet(
        "collective",
        "Collective name",
        ("dur_sum", "total_dur", "dur (µs)_sum", "dur_sum (µs)"),
        1e-6,
    ),
)
"""What is taken."""


def _sheet_of(header: Sequence[str]) -> Sheet | None:
    names = {name.rpartition("::")[2] for name in header}
    return next(
        (sheet for sheet in _SHEETS if sheet.names in names and not names.isdisjoint(sheet.times)),
        None,
    )


def _take(rows: Iterator[Sequence[Any]], table: Table) -> None:
    """Add what a sheet holds, if it is one that is needed."""
    header = [str(cell or "").strip() for cell in next(rows, ())]
    sheet = _sheet_of(header)
    if sheet is None:
        return
    # By system: a column without a name, or `h100::time ms` of several.
    parted = [name.rpartition("::") for name in header]
    names = next(index for index, (_, _, name) in enumerate(parted) if name == sheet.names)
    columns: dict[str, int] = {}
    for index, (side, _, name) in enumerate(parted):
        if name in sheet.times and columns.setdefault(side, index) == index:
            table.setdefault(side, {}).setdefault(sheet.kind, {})
    own = {
        side: [index for index, title in enumerate(header) if title.startswith(f"{side}::")]
        for side in columns
    }
    seen: set[tuple[Any, ...]] = set()
    for row in itertools.islice(rows, MOST_ROWS):
        if len(row) <= names or row[names] in (None, ""):
            continue
        name = str(row[names])[:LONGEST_NAME]
        for side, column in columns.items():
            value = number(row[column]) if column < len(row) else None
            if value is None or not 0 <= value < 1e15:
                continue
            # A comparison pairs each row of one side with each of the other that has its name.
            cells = (side, name, *(row[index] for index in own[side] if index < len(row)))
            if not side or cells not in seen:
                # One row for each stream, or each module that a category comes from.
                times = table[side][sheet.kind]
                times[name] = times.get(name, 0.0) + value * sheet.unit
            if side:
                seen.add(cells)


_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, KeyError, ValueError, SyntaxError, TypeError, IndexError,
    AttributeError, OSError, EOFError, RuntimeError,
)  # fmt: skip
"""What zipfile, zlib and openpyxl raise for a workbook whose bytes are wrong."""


class _RefusedError(ValueError):
    """A workbook that holds what no report does."""


def _read_workbook(part: InputFile) -> Table:
    """Return the sheets of a workbook. Formulas are never evaluated: their last values are read."""
    import openpyxl  # type: ignore[import-untyped]

    table: Table = {}
    what = "the workbook"
    try:
        _check_workbook(part)
        book = openpyxl.load_workbook(part.stream, read_only=True, data_only=True, keep_links=False)
        what = "a sheet of the workbook"
        with contextlib.closing(book):
            for sheet in book.worksheets:
                _take(
                    sheet.iter_rows(values_only=True, max_col=MOST_COLUMNS, max_row=MOST_ROWS),
                    table,
                )
    except _RefusedError:
        raise
    except _DAMAGE as error:
        raise ValueError(f"{what} is damaged: {error}") from error
    return table


def _check_workbook(part: InputFile) -> None:
    """Reject what no program writes into a workbook: decompression bombs and DTDs with entities."""
    with zipfile.ZipFile(part.stream) as archive:
        infos = archive.infolist()
        # A part is unpacked to its stated size at most, so that the stated size is what counts.
        if sum(info.file_size for info in infos) > LARGEST_WORKBOOK or len(infos) > 10_000:
            raise _RefusedError(f"its parts unpack to more than {LARGEST_WORKBOOK >> 20} MiB")
        tags = 0
        for info in infos:
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise _RefusedError("it is not packed with deflate")
            if info.file_size > MOST_PACKED * info.compress_size and info.file_size > 1 << 24:
                raise ValueError(
                    f"a part unpacks to {info.file_size >> 20} MiB from almost nothing"
                )
            if info.flag_bits & 1:
                raise _RefusedError("it is encrypted")
            content = archive.read(info)
            if info.filename.endswith((".xml", ".rels")) and _has_document_type(content):
                raise _RefusedError("it declares XML entities")
            if (tags := tags + content.count(b"<")) > MOST_TAGS:
                raise _RefusedError(f"it has more than {MOST_TAGS} tags")
    part.stream.seek(0)


def _has_document_type(content: bytes) -> bool:
    """Return whether a part of a workbook has a document type, in whatever encoding."""
    plain = content.replace(b"\0", b"") if b"\0" in content[:400] else content
    return b"<!DOCTYPE" in plain or b"<!ENTITY" in plain


def _read_tables(parts: Sequence[InputFile], _beside: Beside) -> list[ParsedLog]:
    by_folder: dict[str, Table] = {}
    for part in parts:
        try:
            _take((row for _, row in part.rows()), by_folder.setdefault(folder_of(part.name), {}))
        except ValueError as error:
            raise ValueError(f"{part.name} is not a table: {error.__cause__ or error}") from error
    return _parsed_logs(list(by_folder.values()), "CSV")


def _parsed_logs(tables: Sequence[Table], form: str) -> list[ParsedLog]:
    """Return one parsed log per system; several tables come from several ranks."""
    by_side: dict[str, list[dict[str, dict[str, float]]]] = {}
    for table in tables:
        for side, sheets in table.items():
            by_side.setdefault(side, []).append(sheets)
    sides = [side for table in tables for side in table if "time" in table[side]]
    if not sides:
        raise ValueError("no sheet gpu_timeline with times")
    form += ", comparison" if len({*sides}) > 1 else ""
    return [_parsed_log(side, by_side[side], form) for side in dict.fromkeys(sides)]


def _parsed_log(side: str, ranks: Sequence[dict[str, dict[str, float]]], form: str) -> ParsedLog:
    breakdown: Figures = {}
    figures: Figures = {}
    for row, part in _PARTS.items():
        values = [rank["time"][row] for rank in ranks if row in rank.get("time", {})]
        if values:
            breakdown[part] = statistics.fmean(values)
            if len(ranks) > 1:
                figures[f"{part}_lowest_of_ranks_seconds"] = min(values)
                figures[f"{part}_highest_of_ranks_seconds"] = max(values)
    names = ("computation", "exposed_communication", "exposed_copies", "idle")
    parts = [breakdown.get(name) for name in names]
    for kind in ("category", "kernel", "collective"):
        # A rank without such a table says nothing; one with it did not run what it lacks.
        tables = [rank[kind] for rank in ranks if rank.get(kind)]
        means = {}
        for name in dict.fromkeys(itertools.chain.from_iterable(tables)):
            means[name] = statistics.fmean(table.get(name, 0.0) for table in tables)
        ordered = sorted(means, key=lambda name: (-means[name], name))
        breakdown |= {f"{kind} {name}": means[name] for name in ordered[:MOST_KERNELS]}
        if len(ordered) > MOST_KERNELS:
            breakdown[f"{kind}, others"] = sum(means[name] for name in ordered[MOST_KERNELS:])
        if means:
            figures[f"{kind}_total_seconds"] = sum(means.values())
    warnings = [Note("trace-report")]
    if (total := breakdown.get("total")) and None not in parts:
        covered = sum(part for part in parts if part is not None) / total
        if abs(covered - 1) > 0.01:
            warnings.append(Note("parts-contradict-total", {"percent": 100 * covered}))
    return RunBuilder(
        "tracelens",
        f"tracelens ({form})",
        LoggedTraining(warnings=warnings),
        TIMING,
        lines=False,
        breakdown=breakdown,
        figures=figures,
        label=side or None,
        fixed=outcome_of(ending_of(ended=True)),
        notes=(f"means of {len(ranks)} ranks",) if len(ranks) > 1 else (),
    ).reading()


def _is_table(head: bytes) -> bool:
    names = columns_of(head)
    return len(names) > 1 and _sheet_of(names) is not None


def _is_workbook(head: bytes) -> bool:
    return head.startswith(b"PK\x03\x04") and (b"[Content_Types].xml" in head or b"xl/" in head)


FILE_FORMATS = (
    FileFormat(
        "tracelens",
        "a workbook of TraceLens (a sheet gpu_timeline)",
        _is_workbook,
        lambda parts, _beside: _parsed_logs([_read_workbook(part) for part in parts], "xlsx"),
        # A trace of another rank is called alike, but for its number.
        together=without_rank,
    ),
    FileFormat(
        "tracelens",
        "CSV files of TraceLens (gpu_timeline and others)",
        _is_table,
        _read_tables,
        together=lambda path: without_rank(folder_of(path)),
    ),
)
