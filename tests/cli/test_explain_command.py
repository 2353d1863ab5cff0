"""explain, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_traces import MadeTrace

from tprimat import cli
from tprimat.compare.step_difference import explain, traced
from tprimat.results.result_file import decode
from tprimat.results.run import Run
from tprimat.results.trace import Trace, TracedStep

SHARED = Path(__file__).resolve().parents[3] / "shared"


def write(path, seconds: float):
    trace = MadeTrace()
    trace.step(1, 0, 10 + seconds)
    trace.operator("aten::gelu", 1, 4)
    trace.kernel("gelu_kernel", 2, 10, 10 + seconds)
    path.write_bytes(trace.text())
    return str(path)


def test_two_traces(tmp_path, capsys):
    paths = [write(tmp_path / "old.json", 100), write(tmp_path / "new.json", 150)]
    assert cli.run("explain", paths) == 0
    assert capsys.readouterr().out.startswith(
        "old is 45% faster per step than new, if both do the same work: "
    )


def test_names(tmp_path, capsys):
    paths = [
        f"yesterday={write(tmp_path / 'a.json', 100)}",
        f"today={write(tmp_path / 'b.json', 150)}",
    ]
    assert cli.run("explain", ["--quiet", *paths]) == 0
    assert capsys.readouterr().out.startswith("yesterday is 45% faster per step than today")


def test_different_work_is_not_compared(tmp_path, capsys):
    paths = []
    for name, rows in (("small", 64), ("large", 512)):
        trace = MadeTrace()
        trace.step(1, 0, 110)
        trace.operator(
            "aten::mm",
            1,
            4,
            **{"Input Dims": [[rows, 64], [64, 64]], "Input type": ["float", "float"]},
        )
        trace.kernel("nvjet_tst", 2, 10, 110)
        (tmp_path / f"{name}.json").write_bytes(trace.text())
        paths.append(str(tmp_path / f"{name}.json"))
    assert cli.run("explain", paths) == 3
    assert capsys.readouterr().out.startswith(
        "Not compared: different work, a step of large has 8.00× the matrix-product FLOPs"
    )


def test_a_file_with_itself_is_not_compared(tmp_path, capsys):
    path = write(tmp_path / "a.json", 100)
    assert cli.run("explain", ["--quiet", path, path]) == 3
    assert capsys.readouterr().out.startswith("Not compared: A and B are the same trace")


def test_json_adds_up(tmp_path, capsys):
    assert (
        cli.run(
            "explain", ["--json", write(tmp_path / "a.json", 100), write(tmp_path / "b.json", 150)]
        )
        == 0
    )
    values = json.loads(capsys.readouterr().out)
    assert sum(part["difference"] for part in values["parts"]) == pytest.approx(
        values["difference"]
    )
    assert values["difference"] == pytest.approx(50e-6)


@pytest.mark.parametrize(
    "content", [b"", b"\x00\xff" * 400, b'{"traceEvents": []}', b"step 1 loss 2.0\n"]
)
def test_no_trace_is_an_error(tmp_path, capsys, content):
    bad = tmp_path / "bad.json"
    bad.write_bytes(content)
    assert cli.run("explain", [write(tmp_path / "a.json", 100), str(bad)]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_missing_file_is_an_error(tmp_path, capsys):
    assert cli.run("explain", [write(tmp_path / "a.json", 100), str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err


def test_a_comparison_explains_two_traces(tmp_path, capsys):
    paths = [f"old={write(tmp_path / 'a.json', 100)}", f"new={write(tmp_path / 'b.json', 150)}"]
    assert cli.run("compare", [*paths, "--results-dir", str(tmp_path / "out")]) == 3
    printed = capsys.readouterr().out
    assert "per step than" in printed
    assert "tokens/s" not in printed  # Traces state no tokens: a table of them would be empty.
    assert "Start with: " in (tmp_path / "out/comparison_report.md").read_text()
    assert '"waterfall"' in (tmp_path / "out/comparison_report.html").read_text()


@pytest.mark.parametrize(("second", "is_said"), [("world8", True), ("world2", False)])
def test_i4_numbers_of_ranks_that_differ_are_said(capsys, tmp_path, second, is_said):
    paths = [SHARED / "cases" / "4" / f"b_54_{name}.pt.trace.json" for name in ("world2", second)]
    if not paths[0].is_file():
        pytest.skip("the small cases do not lie beside this clone")
    other = tmp_path / "b_54_other.pt.trace.json"
    other.write_text(paths[1].read_text().replace('"dur": 50000.0', '"dur": 50001.0'))
    cli.run("explain", [str(paths[0]), str(other)])
    assert (
        "b_54_world2 has 2 ranks, b_54_other has 8: work may differ" in capsys.readouterr().out
    ) is is_said


@pytest.mark.parametrize("order", [("good", "zero"), ("zero", "good"), ("zero", "zero")])
@pytest.mark.parametrize("more", [[], ["--json"], ["--quiet"]])
def test_x8_a_damaged_trace_is_one_error(capsys, order, more):
    folder = SHARED / "cases" / "4"
    if not folder.is_dir():
        pytest.skip("the small cases do not lie beside this clone")
    paths = [str(folder / f"d_explain_{name}.pt.trace.json") for name in order]
    assert cli.run("explain", [*paths, *more]) == 2
    (said, _) = capsys.readouterr().err.splitlines()
    assert said.endswith(
        "d_explain_zero.pt.trace.json: the steps in its trace take no time: it is damaged"
    )


@pytest.mark.parametrize(
    ("seconds", "is_one"), [((), False), ((0.0, 1.9e-9), False), ((0.0, 2.1e-9), True)]
)
def test_x8_steps_that_take_no_time_are_not_explained(seconds, is_one):
    steps = tuple(TracedStep(seconds=each, parts={"idle_data": each}) for each in seconds)
    run = Run(trace=Trace(steps=steps))
    assert (traced(run, "x") is not None) is is_one
    if is_one:
        assert explain(traced(run, "x"), traced(run, "y")).delta == 0


@pytest.mark.parametrize(
    ("part", "value", "is_read"),
    [
        *(("seconds", value, value in (0, 9e15)) for value in (0, 9e15, -1e-9, 1e16)),
        *(("parts", {"idle_data": value}, value in (0, 9e15)) for value in (0, 9e15, -1e-9, 1e16)),
        *(("gpu_seconds", value, value in (0, 9e15)) for value in (0, 9e15, -1e-9, 1e16)),
        *(("overlapped_communication", value, value == -1e300) for value in (-1e300, 1.1e300)),
    ],
)
def test_x8_times_of_a_trace_that_are_none_are_no_result(part, value, is_read):
    step = {"seconds": 1, "parts": {}, part: value}
    content = json.dumps({"schema_version": 1, "trace": {"steps": [step]}}).encode()
    if is_read:
        assert decode(content)[0].trace is not None
    else:
        with pytest.raises(ValueError, match="Expected `float`"):
            decode(content)
