"""Curves of systems of several sizes in full, of rates that the test states: lines, kinds, names,
notes, crossovers.
"""

from __future__ import annotations

import dataclasses
import math

import pytest
from made_runs import H100, MI300X, make_run, shape
from made_systems import finding_of, result, system, value
from stored_runs import note

from tprimat.analysis import projection
from tprimat.catalog.prices import Price
from tprimat.compare import curves
from tprimat.compare.curves import Crossover, Curve, Remark, Scaling, Size, scaling_of
from tprimat.compare.result import SAMPLES_RATE, Comparison, Group, ModelComparison, Ratio
from tprimat.results.run import Environment, Node, Source


def sized(name, gpus, rate=100.0, *, device=H100, count=1, findings=(), samples=False, **fields):
    run = make_run(device, gpus=gpus, **fields)
    runs = [result(rate, run, unit="samples" if samples else "tokens") for _ in range(count)]
    values = {SAMPLES_RATE: value(rate)} if samples else None
    return system(name, *runs, values=values, gpu=device, count=gpus, findings=findings)


def model(*systems, title="M"):
    return ModelComparison("m", title, (Group(systems, systems[0], (), ()),), title)


def compared(*models, **fields):
    return Comparison(tuple(models), (), (), (), (), **fields)


def scaled(*systems, **fields):
    return scaling_of(compared(model(*systems), **fields))


def lines(*systems, **fields):
    """The names of the systems on each curve."""
    return [
        "".join(size.system.name for size in curve.sizes)
        for curve in scaled(*systems, **fields).curves
    ]


ONE_RUN = note("sizes-of-one-run", where="every point", sizes=(8, 16, 32))
A, B, C = sized("A", 8, 100.0), sized("B", 16, 90.0), sized("C", 32, 75.0)


def test_a_curve_in_full():
    nodes = (Node(), Node(), Node())
    several = sized("C", 32, 75.0, environment=Environment(nodes=nodes), source=Source(kind="live"))
    live = sized("B", 16, 90.0, source=Source(kind="live"))
    models = model(several, A, live)
    found = scaling_of(compared(models, prices={"B": Price(2.0, 2.5)}))
    settings = "settings change with the number of GPUs: number of machines (unknown, 1, 3)"
    expected = Curve(
        models,
        "H100 (BF16)",
        "strong",
        (
            Size(A, 8, None, 64, None, None, None),
            # 90 tokens/s for an hour at 2.25 USD on average.
            Size(
                live,
                16,
                1,
                64,
                Ratio(pytest.approx(0.9), None, None),
                pytest.approx(90 * 3600 / 2.25),
                None,
            ),
            Size(several, 32, 3, 64, Ratio(pytest.approx(0.75), None, None), None, None),
        ),
        found.curves[0].notes,
    )
    assert found == Scaling((expected,), (), ())
    assert found.curves[0].notes in (
        ((note("sizes-of-one-run", where="every point", sizes=(8, 16, 32)),),),
        ((note("sizes-of-one-run", where="every point", sizes=(8, 16, 32)),), settings),
    )
    assert [size.rate for size in expected.sizes] == pytest.approx([100.0, 90.0, 75.0])


@pytest.mark.parametrize(
    ("ratio", "breaks"),
    [
        (None, False),
        (Ratio(0.9, None, None), False),
        (Ratio(0.899, None, None), True),
        (Ratio(0.85, 0.8, 0.9), False),
        (Ratio(0.85, 0.8, 0.899), True),
        (Ratio(0.85, None, 0.95), False),
    ],
)
def test_where_scaling_breaks(ratio, breaks):
    size = Size(B, 16, None, None, ratio, None, None)
    assert size.breaks is breaks
    curve = Curve(model(A), "x", "weak", (Size(A, 8, None, None, None, None, None), size, size), ())
    assert curve.breaks_at is (size if breaks else None)


@pytest.mark.parametrize(
    ("fields", "work"),
    [({"length": 4096}, 4096.0), ({"length": None}, 1.0), ({"samples": True}, 1.0)],
)
def test_points(fields, work):
    first = sized("A", 8, 100.0, **fields)
    curve = Curve(
        model(A),
        "x",
        "weak",
        (Size(first, 8, None, 64, None, None, None), Size(B, 16, 2, None, None, None, None)),
        (),
    )
    assert curve.points == [
        projection.Size(8, 64, pytest.approx(100.0), work),
        projection.Size(16, None, pytest.approx(90.0), work),
    ]


def test_an_unknown_rate_is_no_number():
    assert math.isnan(Size(sized("A", 8, None), 8, None, None, None, None, None).rate)


BAD = (finding_of("error", "x", "impossible"),)


IMPOSSIBLE = (note("text", text="impossible"),)


class TestNotes:
    def test_what_is_not_used_or_shown(self):
        found = scaled(
            A,
            B,
            sized("D", 64, findings=BAD),
            sized("E", None, findings=BAD),
            sized("F", 64, None),
            sized("G", None),
            sized("H", 8, length=4096),
            sized("I", 16, 60.0, framework_config={"kernel": "slow"}),
            sized("J", 8, 60.0, framework_config={"kernel": "slow"}),
        )
        assert found.notes == (
            Remark(note("gpus-of-systems-unstated", systems=1, whose="1 system doesn't state its")),
            Remark(note("system-excluded", model="M", system="D"), IMPOSSIBLE),
            Remark(note("system-excluded", model="M", system="E"), IMPOSSIBLE),
            Remark(note("system-without-rate", model="M", system="F")),
            Remark(note("size-alone", model="M", system="H")),
            Remark(note("sizes-dropped", model="M", slower=2)),
        )
        assert [size.system.name for size in found.curves[0].sizes] == ["A", "B"]

    def test_of_several_models(self):
        other = model(sized("D", None), sized("E", 8), sized("F", 8, 50.0), title="N")
        found = scaling_of(compared(model(sized("G", None), A), other))
        assert found.notes == (
            Remark(
                note("gpus-of-systems-unstated", systems=2, whose="2 systems don't state their")
            ),
            Remark(note("size-alone", model="M", system="A")),
            Remark(note("size-alone", model="N", system="E")),
            Remark(note("sizes-dropped", model="N", slower=1)),
        )
        assert found.curves == ()

    def test_runs_of_which_there_is_one(self):
        two = {"count": 2}

        def notes(*systems):
            return scaled(*systems).curves[0].notes

        def single(where, *sizes):
            return ((note("sizes-of-one-run", where=where, sizes=sizes),),)

        assert notes(A, B, C) == single("every point", 8, 16, 32)
        assert notes(sized("A", 8, **two), sized("B", 16, **two), sized("C", 32, **two)) == ()
        assert notes(A, sized("B", 16, **two), C) == single("8 and 32 GPUs", 8, 32)
        cpu = {"device": None, "stack": "cpu"}
        found = notes(sized("A", 8, **cpu), sized("B", 16, **cpu, **two))
        assert found == single("8 processes", 8)

    def test_precision_and_batch(self):
        two = {"count": 2, "precision": None}
        systems = [
            sized(name, gpus, batch=batch, **two)
            for name, gpus, batch in (("A", 8, 1_024), ("B", 16, 2_048), ("C", 32, 512))
        ]
        assert scaled(*systems).curves[0].notes == (
            (note("precision-of-sizes-unknown"),),
            (note("batch-changes", least=512, most=2048),),
        )
        one = Size(A, 8, None, None, None, None, None)
        assert list(curves._notes((one, dataclasses.replace(one, batch=3)))) == [
            (note("sizes-of-one-run", where="every point", sizes=(8, 8)),)
        ]
        two = [dataclasses.replace(one, batch=batch) for batch in (3, 4)]
        assert list(curves._notes(two))[1] == (note("batch-changes", least=3, most=4),)

    def test_settings_that_change(self):
        def kernels(*names):
            return (
                scaled(
                    *(
                        sized(
                            name,
                            8 * 2**place,
                            count=2,
                            framework_config={"kernel": each, "z": each} if each else {},
                        )
                        for place, (name, each) in enumerate(zip("ABCDEFG", names, strict=False))
                    )
                )
                .curves[0]
                .notes
            )

        def told(*settings):
            return ((note("settings-change", settings=settings),),)

        assert kernels("x", "y") == told("kernel (x, y)", "z (x, y)")
        values = f"({'x' * 23}…, unknown, {'y' * 24})"
        assert kernels("x" * 25, None, "y" * 24) == told(f"kernel {values}", f"z {values}")
        assert kernels("x", "x") == ()
        assert kernels(*"abcdefg") == told("kernel", "z")
        values = "(a, b, c, d, e, f)"
        assert kernels(*"abcdef") == told(f"kernel {values}", f"z {values}")


@pytest.mark.parametrize(
    ("systems", "found"),
    [
        ((B, A, C), ["ABC"]),
        ((A,), []),
        # Each size once: the fastest of those without a better line.
        ((A, sized("D", 16, 95.0, framework_config={"k": 1}), sized("E", 16, 99.0, framework_config={"k": 2})), ["AE"]),
        ((A, sized("D", 16, 95.0), sized("E", 16, 95.0, framework_config={"k": 2})), ["AD"]),
        # What the sizes of a curve share.
        *(
            ((A, B, sized("D", 8, **other), sized("E", 32, **other)), ["AB", "DE"])
            for other in (
                {"length": 4096},
                {"precision": "fp8"},
                {"device": MI300X},
                {"stack": None},
                {"framework": "megatron"},
                {"framework_config": {"backend": "x"}},
                {"label": "x"},
                {"scale": "tiny"},
                {"model_config": shape(num_layers=3)},
                {"model_config": shape(hidden_size=64)},
            )
        ),
        # In samples the length may differ.
        ((sized("A", 8, samples=True, length=None), sized("B", 16, samples=True)), ["AB"]),
        # Several batches of a size: lines of one batch, or of one batch per GPU.
        (
            tuple(
                sized(name, gpus, rate, batch=batch)
                for name, gpus, rate, batch in (
                    ("A", 8, 9.0, 64), ("B", 8, 8.0, 96), ("C", 16, 7.0, 64), ("D", 16, 6.0, 96), ("E", 32, 5.0, 64),
                )
            ),
            ["ACE", "BD"],
        ),
        (
            tuple(
                sized(name, gpus, rate, batch=batch)
                for name, gpus, rate, batch in (
                    ("A", 8, 9.0, 16), ("B", 8, 8.0, 40), ("C", 16, 7.0, 32), ("D", 16, 6.0, 80), ("E", 32, 5.0, 64),
                )
            ),
            ["ACE", "BD"],
        ),
        # The more systems, and of equally many the fewer lines.
        (
            tuple(
                sized(name, gpus, rate, batch=batch)
                for name, gpus, rate, batch in (
                    ("A", 8, 9.0, 16), ("B", 16, 8.0, 32), ("C", 32, 7.0, 64), ("D", 64, 6.0, 64), ("E", 64, 5.0, 32),
                )
            ),
            ["BE", "CD"],
        ),
        (
            tuple(
                sized(name, gpus, rate, batch=batch)
                for name, gpus, rate, batch in (
                    ("A", 8, 9.0, 64), ("B", 16, 8.0, 128), ("C", 32, 7.0, 64), ("D", 64, 6.0, 128),
                    ("E", 64, 5.0, 512), ("F", 32, 4.0, 256),
                )
            ),
            ["ABFE", "CD"],
        ),
        (
            tuple(
                sized(name, gpus, rate, batch=batch)
                for name, gpus, rate, batch in (
                    ("A", 8, 9.0, 16), ("B", 16, 8.0, 32), ("C", 32, 7.0, 64), ("D", 64, 6.0, 128), ("E", 16, 5.0, 16),
                    ("F", 8, 4.0, 32),
                )
            ),
            ["ABCD"],
        ),
        # Without any such line all that there is.
        (
            (
                sized("A", 8, 9.0, batch=10), sized("B", 8, 8.0, batch=11), sized("C", 16, 7.0, batch=12),
                sized("D", 32, 6.0, batch=None, length=2048),
            ),
            ["ACD"],
        ),
    ],
)  # fmt: skip
def test_lines(systems, found):
    assert lines(*systems) == found


@pytest.mark.parametrize("other", [{"num_layers": 3}, {"hidden_size": 64}])
def test_another_shape_is_another_curve(other):
    shapes = [shape()] * 2 + [shape(**other)] * 2
    places = zip("ABDE", (8, 16, 8, 32), shapes, strict=True)
    assert lines(*(sized(name, gpus, model_config=each) for name, gpus, each in places)) == [
        "AB",
        "DE",
    ]


def test_settings_that_always_differ_have_their_own_column_or_affect_no_speed():
    assert {
        *("GPUs", "framework", "global batch", "precision", "scale", "sequence length"),
        *("data parallel", "optimizer", "data", "requested steps", "seed"),
    } == curves._EXPECTED


@pytest.mark.parametrize(
    ("batches", "kind"),
    [
        ((64, 64, 64), "strong"),
        ((16, 32, 64), "weak"),
        ((16, 32, 32), "mixed"),
        ((64, 64, 32), "mixed"),
        ((None, 64, 64), "unknown"),
        ((64, 64, None), "unknown"),
    ],
)
def test_kinds(batches, kind):
    systems = [
        sized("A", gpus, batch=batch) for gpus, batch in zip((8, 16, 32), batches, strict=True)
    ]
    sizes = [
        Size(each, 1, None, each.run.training_config.global_batch_size, None, None, None)
        for each in systems
    ]
    assert curves._kind(sizes) == kind


@pytest.mark.parametrize(
    ("batch", "gpus", "found"), [(20, 8, 2.5), (None, 8, None), (20, None, None)]
)
def test_the_batch_of_a_gpu(batch, gpus, found):
    assert curves._per_gpu(sized("A", gpus, batch=batch)) == found


@pytest.mark.parametrize(
    ("systems", "names"),
    [
        ([[A, B]], ["H100 (BF16)"]),
        ([[sized("A", 8, device=None, precision=None)]], ["unknown GPU"]),
        ([[sized("A", 8, label="x")], [A]], ["H100 (BF16), x", "H100 (BF16)"]),
        (
            [[sized("A", 8, framework="megatron", length=4096)], [sized("B", 8, scale="tiny")]],
            [
                "H100 (BF16), megatron, full, sequence length 4096",
                "H100 (BF16), nemo, tiny, sequence length 2048",
            ],
        ),
        ([[sized("A", 8, scale=None)], [A]], ["H100 (BF16)", "H100 (BF16), full"]),
        # What tells lines of one name apart is their batch.
        (
            [
                [A, B],
                [sized("C", 8, batch=16), sized("D", 16, batch=32)],
                [sized("E", 8, batch=16), sized("F", 16, batch=99)],
            ],
            ["H100 (BF16), batch 64", "H100 (BF16), 2 per GPU", "H100 (BF16)"],
        ),
        (
            [[sized("C", 8, batch=20), sized("D", 16, batch=40)], [A, B]],
            ["H100 (BF16), 2.5 per GPU", "H100 (BF16), batch 64"],
        ),
        (
            [[A, B], [sized("C", 8, precision="fp8"), sized("D", 16, precision="fp8")]],
            ["H100 (BF16)", "H100 (FP8)"],
        ),
    ],
)
def test_names(systems, names):
    assert curves._names(systems) == names


def curve(*points, of=None, **fields):
    """A curve of GPUs and rates."""
    sizes = (
        Size(sized("A", gpus, rate, **fields), gpus, None, None, None, None, None)
        for gpus, rate in points
    )
    return Curve(of or MODEL, str(points), "strong", tuple(sizes), ())


MODEL = model(A)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        # The first is the one that is ahead at the first common size.
        (((8, 9.0), (16, 8.0)), ((8, 7.0), (16, 6.0)), (0, (8, 16), ())),
        (((8, 7.0), (16, 6.0)), ((8, 9.0), (16, 8.0)), (1, (8, 16), ())),
        (((8, 9.0), (16, 8.0)), ((8, 9.0), (16, 7.0)), (0, (8, 16), ())),
        (((8, 9.0), (16, 5.0)), ((8, 7.0), (16, 6.0)), (0, (8, 16), ((8, 16),))),
        # Being equally fast is being ahead.
        (((8, 9.0), (16, 6.0)), ((8, 7.0), (16, 6.0)), (0, (8, 16), ())),
        (((8, 6.0), (16, 6.0)), ((8, 7.0), (16, 6.0)), (1, (8, 16), ((8, 16),))),
        # Between 8 and 32 the rate at 16 is the root of 9 · 4.
        (
            ((8, 9.0), (32, 4.0), (64, 3.0)),
            ((4, 1.0), (16, 5.99), (32, 4.5)),
            (0, (8, 32), ((16, 32),)),
        ),
        (
            ((8, 9.0), (32, 4.0), (64, 3.0)),
            ((4, 1.0), (16, 6.01), (32, 4.5)),
            (0, (8, 32), ((8, 16),)),
        ),
        (
            ((8, 9.0), (16, 5.0), (32, 4.0)),
            ((8, 7.0), (16, 6.0), (32, 3.0)),
            (0, (8, 32), ((8, 16), (16, 32))),
        ),
        # Fewer than two common sizes.
        (((8, 9.0), (16, 8.0)), ((16, 7.0), (32, 6.0)), None),
        (((8, 9.0), (16, 8.0)), ((32, 7.0), (64, 6.0)), None),
    ],
)
def test_crossovers(one, other, found):
    both = [curve(*one), curve(*other)]
    expected = []
    if found:
        first, span, turns = found
        expected = [Crossover(both[first], both[1 - first], span, turns)]
    assert curves._crossovers(both) == expected


def test_crossovers_are_of_one_model_and_length():
    points = ((8, 9.0), (16, 8.0))
    pairs = [
        (curve(*points), curve(*points, of=model(B))),
        (curve(*points), curve(*points, length=4096)),
    ]
    assert [curves._crossovers(each) for each in pairs] == [[], []]
    in_samples = [curve(*points, samples=True), curve(*points, samples=True, length=4096)]
    assert len(curves._crossovers(in_samples)) == 1
    assert len(curves._crossovers([curve(*points)] * 3)) == 3


def test_a_rate_beyond_a_curve_is_none():
    made = curve((8, 9.0), (32, 4.0), (64, 3.0))
    assert [math.exp(curves._rate_at(made, gpus)) for gpus in (8, 16, 32, 64)] == pytest.approx(
        [9.0, 6.0, 4.0, 3.0]
    )
    for gpus in (7, 65):
        with pytest.raises(ValueError, match=f"{gpus} GPUs are beyond the curve"):
            curves._rate_at(made, gpus)


@pytest.mark.parametrize(
    ("source", "nodes", "count"),
    [
        (None, 0, None),
        (Source(kind="log"), 0, None),
        (Source(kind="live"), 0, 1),
        (Source(kind="live"), 2, 2),
        (None, 3, 3),
    ],
)
def test_the_number_of_machines(source, nodes, count):
    made = sized("A", 8, source=source, environment=Environment(nodes=(Node(),) * nodes))
    assert curves._nodes(made) == count


def test_cost_and_energy():
    energy = {"energy_joules": 6.4e6, "measured_tokens": 1.6e6}
    made = sized("A", 8, 50.0, energy_metrics=energy)
    found = compared(model(made), prices={"A": Price(3.0, 5.0), "B": Price(1.0, 1.0)})
    assert curves._per_dollar(found, made) == pytest.approx(50 * 3600 / 4)
    assert curves._per_dollar(found, sized("B", 8, None)) is None
    assert curves._per_dollar(found, C) is None
    assert curves._per_joule(found, made) == pytest.approx(0.25)
    assert curves._per_joule(found, A) is None
    without = sized("A", 8, 50.0, energy_metrics={"energy_joules": 0.0, "measured_tokens": 1.6e6})
    assert curves._per_joule(compared(model(without)), without) is None
