"""Systems with rates that their sources print: which rates are compared, and with which caveats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_runs import H100, MI300X, make_run
from stored_runs import text_of

from tprimat import cli
from tprimat.compare import Loaded, compare
from tprimat.log_import.load import load
from tprimat.report import Sources, page, verdict
from tprimat.report.rates import rate_unit

CASES = Path(__file__).parents[3] / "shared" / "cases" / "4"
STEP = (
    "[titan] 2026-05-04 11:{minute:02}:{second:06.3f} - root - INFO - step: {step:2}  loss: {loss:.4f}"
    "  memory: 61.20GiB(77.20%)  tps: {tps:,}\n"
)


def titan(tps, *, first=10.9, stamped=True):
    """Torchtitan's step lines alone, of 16,384 tokens per step and GPU."""
    lines = []
    for step in range(1, 21):
        time = 16_384 / tps * step
        line = STEP.format(
            minute=int(time // 60), second=time % 60, step=step, loss=first - step / 10, tps=tps
        )
        lines.append(line if stamped else line[line.index("step:") :])
    return "".join(lines)


@pytest.fixture
def paths(tmp_path):
    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.log").write_text(text)
        return [str(tmp_path / f"{name}.log") for name in texts]

    return write


def compared(paths, **options):
    (model,) = compare(load(paths).files, **options).models
    (group,) = model.groups
    return group


def test_two_logs_without_sizes_are_compared_by_their_printed_rates(paths):
    group = compared(paths(slow=titan(8205), fast=titan(9435)))
    (pair,) = group.pairs
    assert pair.ratio.value == pytest.approx(9435 / 8205, rel=1e-4)
    texts = {caveat.code: text_of(caveat) for caveat in group.caveats}
    assert texts["rate-printed"].startswith("tokens/s/GPU are printed by the source")
    assert texts["model-source"].endswith("equal first losses show that it is the same one")


def test_so_are_logs_without_times(paths):
    logs = paths(slow=titan(8205, stamped=False), fast=titan(9435, stamped=False))
    (pair,) = compared(logs).pairs
    assert pair.ratio.value == pytest.approx(9435 / 8205, rel=1e-4)
    assert pair.system.value("avg_step_time_seconds") is None


def test_other_losses_are_of_another_model(paths):
    group = compared(paths(slow=titan(8205), fast=titan(9435, first=10.8)))
    (pair,) = group.pairs
    assert (pair.ratio, text_of(pair)) == (None, "the results don't say which model was trained")


def test_a_gap_below_5_percent_is_one_system_on_an_unknown_machine(paths):
    (system,) = compared(paths(slow=titan(8205), fast=titan(8600))).systems
    assert len(system.runs) == 2


def test_screen_and_json_say_that_the_rates_are_printed(paths, capsys, tmp_path):
    logs = paths(slow=titan(8205), fast=titan(9435))
    assert cli.run("compare", [*logs, "--output", str(tmp_path)]) == 0
    assert "tokens/s/GPU are printed by the source" in capsys.readouterr().out
    assert cli.run("compare", [*logs, "--json"]) == 0
    (group,) = json.loads(capsys.readouterr().out)["models"][0]["groups"]
    assert "rate-printed" in json.dumps(group)


def test_the_page_does_not_compute_what_is_printed(paths):
    found = compare(load(paths(slow=titan(8205), fast=titan(9435))).files)
    text = page.render(verdict.report(found), Sources("1", ""), None).decode()
    assert "printed by the source; time-weighted mean of the steady-state steps" in text
    assert "None × None" not in text


def test_the_case_of_two_torchtitan_logs():
    logs = [str(CASES / f"a_02{letter}_titan_steps_only.log") for letter in "ab"]
    if not all(Path(log).is_file() for log in logs):
        pytest.skip("the directory of cases does not lie beside this clone")
    (pair,) = compared(logs).pairs
    assert pair.ratio.value == pytest.approx(1.15, abs=0.001)
    assert pair.system.value("tokens_per_second_per_gpu") == pytest.approx(9435, abs=1)


def group_of(*rates, **fields):
    """Systems without a batch whose sources print these rates in each of 60 steps."""
    files = []
    for number, (device, native) in enumerate(rates):
        series = {name: (value / 10, *(value,) * 59) for name, value in native.items()}
        run = make_run(
            device,
            length=None,
            step_time=3.2 + number,
            native_metrics=series,
            **{"batch": None, **fields},
        )
        files.append(Loaded(f"{number}.json", str(number), (run,)))
    (group,) = compare(files).models[0].groups
    return group


TFLOPS, MFU, SAMPLES = "tflops_per_gpu", "mfu_percent", "samples_per_second"


@pytest.mark.parametrize(
    ("one", "other", "unit", "ratio"),
    [
        ({TFLOPS: 400.0}, {TFLOPS: 500.0}, "tflops", 1.25),
        # Samples/s are better, and TFLOP/s than MFU.
        ({TFLOPS: 400.0, SAMPLES: 20.0}, {TFLOPS: 500.0, SAMPLES: 22.0}, "samples", 1.1),
        ({TFLOPS: 400.0, MFU: 40.0}, {TFLOPS: 500.0, MFU: 60.0}, "tflops", 1.25),
        ({MFU: 40.0}, {MFU: 50.0}, "tokens", None),
        # Not the same kind.
        ({TFLOPS: 400.0}, {MFU: 50.0}, "tokens", None),
        ({TFLOPS: 400.0}, {}, "tokens", None),
    ],
)
def test_other_printed_rates_are_compared_if_nothing_better_is_known(one, other, unit, ratio):
    group = group_of((H100, one), (MI300X, other))
    (pair,) = group.pairs
    assert {system.unit for system in group.systems} == {unit}
    assert (pair.ratio and max(pair.ratio.value, 1 / pair.ratio.value)) == (
        ratio and pytest.approx(ratio)
    )
    if ratio:
        caveat = next(caveat for caveat in group.caveats if caveat.code == "rate-printed")
        assert (caveat.severity, "that the sources print are compared" in text_of(caveat)) == (
            "warning",
            True,
        )


def test_mfu_is_compared_on_one_gpu():
    group = group_of((H100, {MFU: 40.0}), (H100, {MFU: 50.0}))
    (pair,) = group.pairs
    assert {system.unit for system in group.systems} == {"mfu"}
    assert max(pair.ratio.value, 1 / pair.ratio.value) == pytest.approx(1.25)
    group = group_of((H100, {MFU: 40.0}), (H100, {MFU: 50.0}), precision=None)
    assert {system.unit for system in group.systems} == {"tokens"}


def test_tokens_are_better():
    group = group_of((H100, {TFLOPS: 400.0}), (MI300X, {TFLOPS: 500.0}), batch=64)
    assert {system.unit for system in group.systems} == {"tflops"}
    group = group_of(
        (H100, {TFLOPS: 400.0, "tokens_per_second_per_gpu": 5000.0}), (MI300X, {TFLOPS: 500.0})
    )
    assert {system.unit for system in group.systems} == {"tokens"}


def test_the_screen_names_the_unit(capsys):
    group = group_of((H100, {TFLOPS: 400.0}), (MI300X, {TFLOPS: 500.0}))
    assert rate_unit(group.systems) == "TFLOP/s/GPU"
    assert rate_unit(group_of((H100, {SAMPLES: 20.0}), (MI300X, {SAMPLES: 22.0})).systems) == (
        "samples/s/GPU"
    )
