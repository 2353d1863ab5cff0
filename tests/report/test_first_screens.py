"""The first screen: which is faster, by how much, how sure, what could overturn it, what next, in
24 lines of 80.
"""

from __future__ import annotations

import re

import golden
import msgspec
import pytest
from made_runs import H100, MI300X, comparison, failed_run, make_run, shape

import tprimat
from tprimat.compare.cost import with_prices
from tprimat.report import Sources, document, markdown, page, tables, terminal
from tprimat.report.blocks import Document, Table, notes
from tprimat.report.verdict import report
from tprimat.results.run import Data, Environment
from tprimat.results.telemetry import Telemetry, TelemetryIssue

LINES, COLUMNS = 24, 80
AMD = {"device": MI300X, "stack": "rocm"}
B200 = "NVIDIA B200"


def runs(step_time, count=3, **fields):
    """Runs a day apart whose speeds differ by some tenths of a percent."""
    return tuple(
        make_run(
            step_time=step_time * (1 + day / 500),
            timestamp=f"2026-03-{day:02d}T08:00:00+00:00",
            **fields,
        )
        for day in range(1, count + 1)
    )


def two():
    return comparison(runs(3.2), runs(2.5, **AMD))


def three_with_cost():
    systems = runs(1.6, device=B200, precision="fp8"), runs(2.5, **AMD, batch=128), runs(3.2)
    return with_prices(comparison(*systems), ["B200=5.50", "MI300X=2.10", "H100=2.95"]).comparison


def mixed():
    tiny = {"model": "my-model", "model_config": shape(num_layers=4)}
    return comparison(
        *(
            runs(1.6, device=B200, precision="fp8"),
            runs(2.5, **AMD, batch=128),
            runs(3.2),
            runs(4.1, batch=8, gpus=4),
        ),
        *(
            runs(step_time, batch=16, length=8192, device=device)
            for step_time, device in ((4.9, H100), (3.8, B200))
        ),
        *(
            runs(step_time, 1, model="qwen", **fields)
            for step_time, fields in ((4.0, {}), (3.1, AMD))
        ),
        msgspec.structs.replace(make_run(**AMD), **tiny),
        failed_run("NVIDIA A100"),
        *(make_run(device, model=None) for device in (H100, B200)),
    )


def lines(made):
    return terminal.write(document.on_screen(report(made)), width=COLUMNS).splitlines()


@pytest.mark.parametrize("made", [two, three_with_cost, mixed])
def test_golden(made):
    screen = lines(made())
    golden.check(f"screen_{made.__name__}.txt", "\n".join([*screen, ""]))
    assert max(map(len, screen)) <= COLUMNS
    # An empty line and the names of the reports follow.
    assert made is mixed or len(screen) <= LINES - 2
    assert made is two or any(line.startswith("Next: ") for line in screen[:LINES])


def test_the_first_screen_says_what_else_there_is():
    screen = lines(mixed())
    # One number, of what is not here.
    assert screen[0].endswith(" (other results below)")
    assert "Other results (1 more with --verbose)" in screen
    start = screen.index("Other results (1 more with --verbose)")
    assert [line.split(":")[0] for line in screen[start:] if line[:2] in ("- ", "! ")] == [
        *("- Llama 3.1 8B, sequence length 8192", "! Qwen 2.5 7B", "- my-model")
    ]


def test_what_all_systems_share_stands_above_their_table():
    eight, other = runs(2.5, **AMD), runs(3.2, gpus=4)
    assert [line.split(" / ")[0].split() for line in lines(comparison(runs(3.2), eight))[5:6]] == [
        ["MI300X", "(BF16)", "H100", "(BF16)", "MI300X"]
    ]
    assert lines(comparison(runs(3.2), eight))[0] == "Llama 3.1 8B, 8 GPUs each"
    apart = lines(comparison(other, eight))
    assert apart[0] == "Llama 3.1 8B"
    assert any("8×MI300X (BF16)   H100 / MI300X" in line for line in apart)


def test_every_answer_is_among_the_details():
    text = terminal.write(document.on_screen(report(mixed())), verbosity=terminal.Verbosity.VERBOSE)
    assert text.count("Next steps") == 3


def others(*more):
    """The lines on other results, below an answer that rests on more runs."""
    screen = lines(comparison(runs(3.2, 5), runs(2.5, 5, **AMD), runs(1.6, 5, device=B200), *more))
    start = next(number for number, line in enumerate(screen) if line.startswith("Other results"))
    return " ".join(screen[start + 1 :])


def test_a_doubtful_result_among_others_is_marked():
    qwen = {"model": "qwen"}
    assert others(runs(4.0, **qwen), runs(3.1, **qwen, **AMD)).startswith(
        "- Qwen 2.5 7B: MI300X vs H100 1.29"
    )
    single = others(make_run(step_time=4.0, **qwen), make_run(step_time=3.1, **qwen, **AMD))
    assert single == "! Qwen 2.5 7B: MI300X vs H100 1.29×, 1 run each"
    known = others(runs(4.0, precision=None, **qwen), runs(3.1, **qwen, **AMD))
    assert known.startswith("! Qwen 2.5 7B: MI300X vs H100 1.29")


@pytest.mark.parametrize(("steps", "text"), [(29, "1 run each (29 steps)"), (30, "1 run each")])
def test_few_steps_are_named(steps, text):
    qwen = {"model": "qwen", "steps": steps, "warmup": ()}
    line = others(make_run(step_time=4.0, **qwen), make_run(step_time=3.1, **qwen, **AMD))
    assert line == f"! Qwen 2.5 7B: MI300X vs H100 1.29×, {text}"


@pytest.mark.parametrize(("kind", "text"), [("mock", "; probably mock data"), ("markov", "")])
def test_mock_data_is_named(kind, text):
    mock = {"model": "qwen", "data": Data(kind=kind)}
    line = others(make_run(step_time=4.0, **mock), make_run(step_time=3.1, **mock, **AMD))
    assert line == f"! Qwen 2.5 7B: MI300X vs H100 1.29×, 1 run each{text}"


NOTE = "  † one run: prediction interval, which assumes equal run-to-run variation"


def test_the_interval_of_one_run_against_several_is_marked():
    systems = runs(1.6, device=B200), runs(2.5, **AMD), runs(3.2, 1)
    screen = lines(comparison(*systems))
    marked = [line.split()[0] for line in screen if "]†" in line]
    assert marked == ["H100"]
    assert screen.count(NOTE) == 1
    text = markdown.write(
        document.in_full(report(comparison(*systems)), Sources("", ""), plot=False)
    )
    assert text.count("]†") == text.count(NOTE.strip()) == 2
    shown = page.render(report(comparison(*systems)), Sources("", ""), None).decode()
    assert NOTE.strip() in shown
    assert "]†" in shown


@pytest.mark.parametrize("count", [1, 3])
def test_intervals_of_equal_numbers_of_runs_are_not(count):
    systems = runs(1.6, count, device=B200), runs(2.5, count, **AMD), runs(3.2, count)
    assert "†" not in "".join(lines(comparison(*systems)))


def test_a_label_with_the_mark_is_no_interval():
    text = "\n".join(
        lines(
            comparison(*(make_run(step_time=time, label=f"{time} †") for time in (3.0, 3.1, 3.2)))
        )
    )
    assert "3.0 †" in text
    assert NOTE not in text


def test_the_mark_is_explained_where_clocks_differ():
    table = Table(["", "ratio"], [["H100", "1.29× [1.21–1.38]† (monotonic vs stamps)"]])
    assert len(tables.explained(table)) == 2


def test_a_reason_has_the_precision_of_the_system_that_it_names():
    fast = {"model": "qwen", "step_time": 0.001}
    line = others(make_run(**fast), make_run(**fast, **AMD))
    assert line.startswith("- Qwen 2.5 7B: 2 systems: 8×H100 (BF16): ")
    assert line.endswith(" peak of H100 SXM")


def of_round(number, step_time, **fields):
    return make_run(
        step_time=step_time, framework="mlperf", framework_config={"mlperf_round": number}, **fields
    )


def test_the_round_stands_above_the_table_or_in_it():
    same = lines(comparison(of_round("v5.1", 3.2), of_round("v5.1", 2.5, **AMD)))
    assert same[0].startswith("Llama 3.1 8B, MLPerf v5.1")
    assert not any(line.startswith("MLPerf round") for line in same)
    apart = lines(comparison(of_round("v5.0", 3.2), of_round("v5.1", 2.5, **AMD)))
    assert apart[0].startswith("Llama 3.1 8B, MLPerf, 8 GPUs each")
    assert [line.split() for line in apart if line.startswith("MLPerf round")] == [
        ["MLPerf", "round", "v5.1", "v5.0"]
    ]
    three = lines(
        comparison(
            of_round("v5.0", 3.2), of_round("v5.1", 2.5, **AMD), of_round("v4.1", 1.6, device=B200)
        )
    )
    ends = [line.split()[-1] for line in three if line.startswith(("B200 ", "MI300X ", "H100 "))]
    assert ends == ["v4.1", "v5.1", "v5.0"]
    assert max(map(len, three)) <= COLUMNS


def test_the_round_of_a_group_is_told_beside_other_sources():
    screen = lines(
        comparison(of_round("v5.1", 3.2), of_round("v5.1", 2.5, **AMD), make_run(model="qwen"))
    )
    assert screen[0].startswith("Llama 3.1 8B, MLPerf v5.1")


def test_a_title_is_that_of_the_catalog_and_the_task():
    tuned = {"model": "llama2_70b_lora"}
    assert (
        lines(comparison(make_run(**tuned), make_run(**tuned, **AMD)))[0]
        == "Llama 2 70B, LoRA, 8 GPUs each"
    )
    unknown = {"model": "mine_lora"}
    assert (
        lines(comparison(make_run(**unknown), make_run(**unknown, **AMD)))[0]
        == "mine_lora, 8 GPUs each"
    )


FOLDERS = ["mlperf", "primus", "results", "mlperf_scaling", "megatron", "nemo", "traces"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_real_folder_is_answered_on_the_first_screen(samples, folder):
    screen = str(tprimat.compare(samples / folder)).splitlines()
    if folder in FOLDERS[:3]:
        assert re.search(
            r" faster per GPU than |No significant difference between ", " ".join(screen[:8])
        )
    assert max(map(len, screen)) <= COLUMNS
    # The names of other results may follow.
    assert any(line.startswith("Next: ") for line in screen[: LINES - 1])
    assert len(screen) <= LINES + 2
    assert not any(line.endswith("…") for line in screen if line != "…")


CPU = {"device": "AMD EPYC 7B13", "stack": "cpu", "precision": "fp32"}


def said(screen):
    return " ".join(" ".join(screen).split())


@pytest.mark.parametrize(
    ("others", "step_time", "text"),
    [
        (1, 4.5, "a is 41% faster than b 1.4"),
        (2, 2.25, "EPYC 7B13, a is 41% faster per process than 2×EPYC 7B13, b 1.4"),
        (2, 8.0, "EPYC 7B13, a is 5.0× as fast per process as 2×EPYC 7B13, b 5.0"),
    ],
)
def test_c2_what_is_faster_per_process_is_called_so(others, step_time, text):
    made = comparison(
        runs(3.2, label="a", gpus=1, **CPU), runs(step_time, label="b", gpus=others, **CPU)
    )
    assert text in said(lines(made))
    shown = page.render(report(made), Sources("", ""), None).decode()
    assert text.rpartition(" ")[0] in re.sub("</?strong>", "", shown)


def test_c2_no_count_of_processes_is_called_gpus():
    devices = "AMD EPYC 7B13", "Intel Xeon 8480"
    screen = lines(
        comparison(*(runs(3.2 + len(each), gpus=2, **{**CPU, "device": each}) for each in devices))
    )
    assert screen[0].endswith("2 processes each")
    assert "per process" not in said(screen[:4])
    apart = said(lines(comparison(runs(3.2, gpus=1, **CPU), runs(8.0, gpus=2, **CPU))))
    assert "! processes: 1 vs 2" in apart
    assert "GPUs" not in apart
    # A CPU beside a GPU is no GPU.
    assert "as fast per device as 8×H100" in said(
        lines(comparison(runs(9.2, gpus=1, **CPU), runs(3.2)))
    )


def test_c2_in_several_models():
    systems = [
        runs(t, gpus=g, model=m, **CPU) for m in ("llama", "qwen") for t, g in ((3.2, 1), (8.0, 2))
    ]
    assert "5.0× as fast per process as 2×EPYC 7B13 in both models" in said(
        lines(comparison(*systems))
    )


def throttled(step_time, code, **fields):
    telemetry = Telemetry(issues=(TelemetryIssue(code=code, text=f"it is {code}"),))
    return runs(step_time, telemetry=telemetry, **fields)


@pytest.mark.parametrize("fastest", [0, 1, 2])
def test_c6_the_caveats_are_the_same_whichever_system_is_the_baseline(fastest):
    """One system was throttled, one shared its GPU: each is told whether or not the headline names
    the system.
    """
    times = [2.9, 2.9, 2.9]
    times[fastest] = 1.6
    systems = (
        throttled(times[0], "thermal", device=B200, batch=128),
        throttled(times[1], "gpu-shared", **AMD),
        throttled(times[2], "thermal", precision="fp8"),
    )
    found = [
        comparison(*systems, reference=name).models[0].groups[0]
        for name in ("B200", "MI300X", "H100")
    ]
    assert len({group.baseline.name for group in found}) == 3
    assert len({repr(group.caveats) for group in found}) == 1
    text = said(lines(comparison(*systems, reference="MI300X")))
    for code in (
        "B200 (BF16): it is thermal",
        "H100 (FP8): it is thermal",
        "MI300X (BF16): it is gpu-shared",
    ):
        assert code in text
    severities = [each.severity for each in found[0].caveats]
    assert severities == sorted(severities, key=["warning", "info"].index)


def test_c6_a_slow_block_is_told_against_each_baseline(samples):
    logs = sorted((samples / "mlperf").glob("v5.*_llama2_70b_lora_*"))
    for reference in ("8×MI355X", "8×B200", "MI350X", "submitter Oracle"):
        screen = str(tprimat.compare(*logs, reference=reference)).splitlines()
        assert any(line.startswith("! 8×GB200: block 5 takes 2.30× as long") for line in screen), (
            reference
        )


def test_c6_each_system_with_a_caveat_is_named():
    variables = [
        tuple(
            msgspec.structs.replace(
                run, environment=Environment(settings={"NCCL_ALGO": str(number)})
            )
            for number, run in enumerate(runs(time, **fields))
        )
        for time, fields in (
            (3.2, {}),
            (2.5, AMD),
            (1.9, {"device": B200}),
            (2.2, {"device": "NVIDIA H200"}),
        )
    ]
    text = said(lines(comparison(*variables[:2])))
    assert "the runs of 8×MI300X (BF16) differ in NCCL_ALGO; also 8×H100 (BF16)" in text
    assert "differ in NCCL_ALGO; also 8×H200 (BF16) and 2 more" in said(
        lines(comparison(*variables))
    )


def four():
    """Systems whose headline takes two lines, and whose caveats are five."""
    return (
        throttled(1.6, "thermal", device=B200, precision="fp8"),
        runs(1.4, device="NVIDIA GB200", batch=128),
        throttled(1.8, "gpu-shared", device="AMD Instinct MI355X", stack="rocm"),
        runs(2.6, **AMD),
    )


PRICES = ["8×GB200=7", "8×B200=5.50", "8×MI355X=3.95", "8×MI300X=2.10"]


def test_c14_four_systems_fit_a_terminal():
    screen = lines(with_prices(comparison(*four()), PRICES).comparison)
    # An empty line and the names of the reports follow.
    assert len(screen) == LINES - 2
    assert max(map(len, screen)) <= COLUMNS
    assert sum(line[:2] in ("! ", "i ") for line in screen) == 3
    # Without prices there is room for more.
    assert sum(line[:2] in ("! ", "i ") for line in lines(comparison(*four()))) == 4
    assert sum(line[:2] in ("! ", "i ") for line in lines(comparison(*four()[:2]))) == 4


@pytest.mark.parametrize(("over", "kept"), [(0, 4), (1, 3), (2, 2), (3, 2)])
def test_c14_caveats_give_way_to_the_height_of_a_terminal(over, kept):
    rows = [[str(number), "1"] for number in range(terminal.SCREEN - 8 + over)]
    parts = [Table(["", "x"], rows), *notes(list("abcde"), "Caveats", "!", 4, least=2)]
    text = terminal.write(Document(parts))
    assert text.count("\n! ") == kept
    assert (f"({5 - kept} more with --verbose)") in text
    assert text.count("\n") == max(terminal.SCREEN, terminal.SCREEN + over - 2)
    whole = terminal.write(Document(parts), verbosity=terminal.Verbosity.VERBOSE)
    assert whole.count("\n! ") == 5


@pytest.mark.parametrize(("words", "is_whole"), [(28, True), (29, False)])
def test_c12_a_caveat_is_cut_between_words_beyond_two_lines(words, is_whole):
    """Each word and the space after it take five characters: 28 take 140, without the last
    space.
    """
    (line, *more) = terminal.write(
        Document(notes(["word " * words], "Caveats", "!", 4, least=2))
    ).splitlines()[1:]
    assert len(more) == 1
    assert set(" ".join([line, *more]).split()) == (
        {"!", "word"} if is_whole else {"!", "word", "…"}
    )


def of_two(*times):
    """Two runs of each system; those of the first one are so far apart."""
    days = enumerate(times, start=1)
    return tuple(
        make_run(step_time=time, timestamp=f"2026-03-{day:02d}T08:00:00+00:00", session="s", **AMD)
        for day, time in days
    )


def test_c5_what_says_nothing_of_other_runs_has_no_narrow_interval():
    screen = said(lines(comparison(of_two(2.5, 2.0), runs(3.2, 2))))
    assert "6,000 ± >100%" not in screen
    assert " ± >100%" in screen
    # Half to twice the value is the widest that says something: t of one degree of freedom is 12.7.
    for factor, is_shown in ((1.11, True), (1.12, False)):
        text = said(lines(comparison(of_two(2.5, 2.5 * factor), runs(3.2, 2))))
        assert ("± >100%" not in text) == is_shown
