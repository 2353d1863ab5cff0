import pytest
from megatron_writer import NEWER, SHAPES, Setup, Step, line, prefixed, tokens_rate

from tprimat.read.megatron import line as megatron_line
from tprimat.read.parsing.text import Line, clean

STEP = Step(7, 1234.5)

M4 = (
    "[2026-07-20 10:00:00.000001] iteration        5/      50 | consumed samples:          160 |"
    " elapsed time per iteration (ms): 7077.5/7080.1 | compute per GPU (TFLOP/s/GPU): 477.3 (avg"
    " 474.3)  | tokens/s/GPU inst/harmonic mean: 9260.4/9200.5 | learning rate: 1.000000E-05 |"
    " global batch size:    32 | lm loss: 1.184854E+01 | loss scale: 1.0 | grad norm: 3.070 |"
    " number of skipped iterations:   0 | number of nan iterations:   0 |"
)


def parse(text: str, *, whole: bool = True) -> list[megatron_line.Record]:
    return list(megatron_line.records(Line(1, clean(text), whole)))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_gives_the_figures_that_were_written(shape):
    setup = Setup(shape)
    (record,) = parse(line(STEP, setup, "2026-05-11 02:18:01.107542"))
    assert (record.iteration, record.planned, record.seconds) == (7, 10, 1.2345)
    assert (
        record.figures.get("loss"),
        record.figures.get("learning_rate"),
        record.figures.get("grad_norm"),
        record.figures.get("batch"),
    ) == (2.5, 1e-5, 1.25, 16)
    assert record.figures.get("tflops") == 400
    assert record.figures.get("tokens_rate") == (
        None if shape in ("upstream", "fork") else tokens_rate(STEP, setup)
    )
    assert record.figures.get("hip_gib") == (
        28.56 if shape.startswith("legacy") or shape == "core" else None
    )
    assert record.figures.get("memory_fraction") == (0.6146 if shape in ("fork", "M1") else None)
    assert record.kind.aware is False
    assert record.kind.resolution == 1e-6
    assert record.kind.garbled == ()


def test_shapes_are_told_apart():
    names = {shape: parse(line(STEP, Setup(shape)))[0].kind.shape for shape in SHAPES}
    assert names == {
        "upstream": "upstream",
        "fork": "rocm-fork",
        "M1": "primus-2025.03",
        "legacy": "primus-legacy",
        "legacy_gib": "primus-legacy",
        "core": "primus-core",
        "M4": "primus-26.5",
        "M5": "primus-26.5.1",
    }


@pytest.mark.parametrize("shape", NEWER)
def test_the_first_lines_of_newer_shapes_have_single_figures(shape):
    (record,) = parse(line(Step(1, 19013.9), Setup(shape)))
    assert not record.kind.paired
    assert record.figures.get("tokens_rate") is None
    assert record.seconds == 19.0139


def test_a_line_of_version_26_5():
    (record,) = parse(M4)
    assert (record.seconds, record.figures.get("tflops"), record.figures.get("tokens_rate")) == (
        7.0775,
        477.3,
        9260.4,
    )


def test_labels_have_one_row_each():
    names = [name for label in megatron_line.LABELS for name in label.names]
    assert len(names) == len(set(names))
    assert all(name == " ".join(name.lower().split()) for name in names)


def test_collapsed_blanks_and_any_order_of_segments():
    (record,) = parse(
        "iteration 126/ 5000 | lm loss: 3.1E+00 | global batch size: 8 | grad norm: 0.000 |"
        " learning rate: 0.0 | elapsed time per iteration (ms): 1,460.8/1450.4 |"
    )
    assert (
        record.iteration,
        record.seconds,
        record.figures.get("loss"),
        record.figures.get("grad_norm"),
    ) == (
        126,
        1.4608,
        3.1,
        0.0,
    )
    assert record.figures.get("learning_rate") == 0.0


def test_two_records_in_one_line_are_two():
    both = line(Step(1, 100.0), Setup("upstream")) + line(Step(2, 200.0), Setup("upstream"))
    assert [(record.iteration, record.seconds) for record in parse(both)] == [(1, 0.1), (2, 0.2)]


@pytest.mark.parametrize(
    "text",
    [
        "saving checkpoint at iteration      50 to /data in torch format",
        "validation loss at iteration 100 | lm loss value: 2.0E+00 |",
        "Training epoch 0, iteration 0/99 | lr: 0.0001 | train_step_timing in s: 1.2",
        "(after 1 iterations) memory (MB) | allocated: 7851.78 | max allocated: 17208.45",
        "elapsed time per iteration: 10250.497872340427",
        "attn_qkv_o = 672.901 TFLOP",
        "elapsed time per iteration (ms): 12.0 |",
    ],
)
def test_other_lines_are_no_records(text):
    assert parse(text) == []


def test_what_other_output_ran_into_is_no_figure():
    (record,) = parse(
        "iteration 3/ 9 | elapsed time per iteration (ms): 65[rank3]: warning | lm loss: 2.0E+00 |"
        " grad norm: 1.2.3 |"
    )
    assert record.seconds is None
    assert record.figures.get("grad_norm") is None
    assert record.figures.get("loss") == 2.0
    assert record.kind.garbled == ("elapsed time per iteration (ms)", "grad norm")


def test_values_that_are_not_finite_are_none_and_named():
    (record,) = parse(
        "iteration 3/ 9 | elapsed time per iteration (ms): 65.0 | lm loss: NAN | grad norm: inf |"
    )
    assert (record.figures.get("loss"), record.figures.get("grad_norm")) == (None, None)
    assert record.kind.not_finite == ("loss", "grad_norm")


@pytest.mark.parametrize("time", ["0.0", "-5.0", "1e300", "1e-9"])
def test_a_time_that_cannot_be_is_none(time):
    (record,) = parse(f"iteration 3/ 9 | elapsed time per iteration (ms): {time} | lm loss: 1.0 |")
    assert record.seconds is None


NEOX = (
    " samples/sec: 51.234 | iteration        5/      50 | elapsed time per iteration (ms): 9876.5 |"
    " learning rate: 1.234E-04 | approx flops per GPU: 150.3TFLOPS | lm_loss: 7.123456E+00 | number"
    " of skipped iterations:   0 |"
)


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        (NEOX, {"tflops": 150.3, "loss": 7.123456, "samples_rate": 51.234}),
        (
            (
                "iteration 3/ 9 | elapsed time per iteration (ms): 65.0 | Effective Tera Flops per"
                " GPU: 2.14 |"
            ),
            {"tflops": 2.14},
        ),
        (
            "iteration 3/ 9 | elapsed time per iteration (ms): 65.0 | Tok/s/GPU: 1,234.5 |",
            {"tokens_rate": 1234.5},
        ),
    ],
)
def test_labels_of_megatrons_descendants(text, figures):
    (record,) = parse(text)
    assert figures.items() <= record.figures.items()
    assert record.kind.unread == ()


def test_labels_with_numbers_that_are_not_read_are_named():
    (record,) = parse(
        "iteration 3/ 9 | elapsed time per iteration (ms): 65.0 | z_loss: 1.0 | loss scale: 1.0 |"
        " mtp_1 loss: 2.0 | [rank3]: 5 | stage: warm | number of nan iterations: 0 |"
    )
    assert record.kind.unread == ("z_loss", "mtp_1 loss")


@pytest.mark.parametrize("shape", SHAPES)
def test_what_ends_a_torn_line_is_no_figure(shape):
    text = line(STEP, Setup(shape))
    (whole,) = parse(text)
    for end in range(len(text)):
        for record in parse(text[:end]):
            assert record.figures.items() <= whole.figures.items()


def test_the_last_segment_of_a_cut_line_is_not_trusted():
    whole = line(STEP, Setup("upstream"))
    for end in range(len(whole)):
        for record in parse(whole[:end], whole=False):
            assert record.seconds in (None, 1.2345)
            assert record.figures.get("loss") in (None, 2.5)
            assert record.figures.get("batch") in (None, 16)


def test_the_rank_that_printed_is_read_from_the_prefix():
    (record,) = parse(prefixed(line(STEP, Setup()), "coloured", rank=31, world=32))
    assert (record.figures["rank"], record.figures["world"]) == (31, 32)
    (record,) = parse(prefixed(line(STEP, Setup()), "no_escape", rank=63, world=64))
    assert (record.figures["rank"], record.figures["world"]) == (63, 64)
