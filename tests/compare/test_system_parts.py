"""What a system is, the parts of its name, and when two runs are of one system or one measurement,
in full.
"""

from __future__ import annotations

import msgspec
import pytest
from made_runs import H100, MI300X, comparison, make_run
from stored_runs import text_of

from tprimat.compare import systems as module
from tprimat.compare.systems import (
    System,
    device,
    device_name,
    measurement,
    name_systems,
    occasion,
    parted,
    same_system,
    short_device,
)
from tprimat.results.account import Entry
from tprimat.results.run import Environment, GpuInfo

AMD = {"device": MI300X, "stack": "rocm"}
CPU = {"device": None, "stack": "cpu", "gpus": 1}
EPYC = Environment(cpu="AMD EPYC 9454 48-Core Processor")


def called(*runs):
    return [each.name for each in name_systems({"llama": list(runs)})["llama"]]


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (
            make_run(scale="tiny", label="x"),
            System(
                H100,
                8,
                "nemo",
                "8×H100 (BF16)",
                ("8×H100", "x", "nemo", "cuda", "scale tiny", "BF16"),
            ),
        ),
        (
            make_run(scale=None, stack=None, precision=None),
            System(H100, 8, "lightning", "8×H100", ("8×H100", "lightning")),
        ),
        (
            make_run(None, gpus=None, framework=None),
            System(
                None,
                None,
                None,
                "unknown GPU (BF16)",
                ("unknown GPU", "cuda", "scale full", "BF16"),
            ),
        ),
        (
            make_run(**CPU, environment=EPYC),
            System(
                EPYC.cpu,
                1,
                "lightning",
                "EPYC 9454 48-Core",
                ("EPYC 9454 48-Core", "lightning", "cpu", "scale full", "bf16"),
            ),
        ),
    ],
)
def test_a_system_in_full(run, found):
    assert name_systems({"llama": [run]}) == {"llama": [found]}


@pytest.mark.parametrize(
    ("system", "name"),
    [
        (
            System(H100, 8, "nemo", "x", ("8×H100", "nemo", "cuda")),
            "8×H100 80GB HBM3 · nemo · cuda",
        ),
        (System(H100, None, "nemo", "x", ("H100",)), "H100 80GB HBM3"),
        (System(None, 8, "nemo", "x", ("8× unknown GPU", "nemo")), "8× unknown GPU · nemo"),
    ],
)
def test_its_full_name(system, name):
    assert system.full_name == name


@pytest.mark.parametrize(
    ("run", "name"),
    [
        (make_run(), H100),
        (make_run(" x\n y "), "x y"),
        (make_run("x" * 121), "x" * 119 + "…"),
        (make_run("\x1b[31m"), None),
        (make_run(None), None),
        (make_run(None, environment=EPYC), None),
        (make_run(**CPU, environment=EPYC), EPYC.cpu),
        (make_run("NVIDIA A100", stack="cpu", environment=EPYC), "NVIDIA A100"),
    ],
)
def test_what_trained(run, name):
    assert device(run) == name


@pytest.mark.parametrize(
    ("run", "short", "long"),
    [
        (make_run(), "8×H100", "8×H100 80GB HBM3"),
        (make_run(gpus=1), "1×H100", "1×H100 80GB HBM3"),
        (make_run(gpus=None), "H100", "H100 80GB HBM3"),
        (make_run("Unheard-of 9 Processor"), "8×Unheard-of 9", "8×Unheard-of 9"),
        (make_run(None), "8× unknown GPU", "8× unknown GPU"),
        (make_run(None, gpus=None), "unknown GPU", "unknown GPU"),
        (make_run(**CPU), "1× unknown CPU", "1× unknown CPU"),
        (make_run(None, stack="cpu", gpus=None), "unknown CPU", "unknown CPU"),
        (make_run(**CPU, environment=EPYC), "EPYC 9454 48-Core", "EPYC 9454 48-Core"),
        (
            make_run(None, stack="cpu", gpus=2, environment=EPYC),
            "2×EPYC 9454 48-Core",
            "2×EPYC 9454 48-Core",
        ),
    ],
)
def test_devices_in_words(run, short, long):
    assert (module._device_text(run), module._device_text(run, short_device)) == (short, long)


@pytest.mark.parametrize(
    ("name", "short"),
    [(H100, "H100"), (MI300X, "MI300X"), ("NVIDIA GeForce 99", "GeForce 99"), ("AMD", "AMD")],
)
def test_the_name_of_a_device(name, short):
    assert device_name(name) == short


TIMES = tuple(3.0 + step / 100 for step in range(30))
DATED = "2026-02-02T21:44:16+00:00"


def of(times=TIMES, **fields):
    run = make_run(steps=len(times), warmup=())
    return msgspec.structs.replace(
        run, **{"step_times": times, "session": "s", "round": 3, **fields}
    )


def test_what_a_measurement_is():
    losses = hash(of().loss_values)
    assert (
        measurement(of())
        == measurement(of(session="t", round=4, loss_values=(None,) * 30))
        == (hash(TIMES[:20]), None)
    )
    # The first twenty different ones are enough: a log may have grown.
    assert measurement(of(TIMES[:20])) == measurement(of())
    assert measurement(of((None, *TIMES)))[0] == hash((None, *TIMES[:20]))
    # Of fewer than twenty different ones losses and session count, too.
    coarse = (*TIMES[:19], *[TIMES[0]] * 11)
    assert measurement(of(coarse)) == (hash(coarse), losses, "s", 3, None)
    assert measurement(of((*coarse[:29], TIMES[20]))) == (hash((*coarse[:29], TIMES[20])), None)
    # Of fewer than twenty the date does; unknown ones are none.
    assert measurement(of((*TIMES[:19], TIMES[0])))[-1] is None
    assert measurement(of(TIMES[:19]))[-1] == DATED
    assert measurement(of((*TIMES[:19], None)))[-1] == DATED
    block = (Entry(kind="training", start=0, duration=9.0),)
    assert measurement(of((None,) * 30, timeline=block)) == (block, losses, "s", 3, DATED)
    assert measurement(of(timeline=block)) == measurement(of())


def test_what_an_occasion_is():
    block = (Entry(kind="training", start=0, duration=9.0),)
    assert occasion(of(timeline=block)) == (DATED, block, hash(of().loss_values), "s", 3)
    assert occasion(of(timeline=block, session=None, round=None)) is not None
    assert occasion(of()) is None
    assert occasion(of(timeline=block, timestamp=None)) is None


def test_one_system_has_one_device_and_one_setup():
    cpu = [make_run(**CPU, environment=Environment(cpu=each)) for each in ("a", "b", "a")]
    assert same_system(cpu[0]) == same_system(cpu[2]) != same_system(cpu[1])
    assert same_system(make_run()) != same_system(make_run("NVIDIA H200"))


@pytest.mark.parametrize(
    ("stated", "texts"),
    [
        # The name and the version of a part, by its place, as far as each of three lengths.
        (
            "PyTorch 2.6.0a0+git1, ROCm 6.4.1",
            [
                ("PyTorch 2.6", "PyTorch 2.6.0a0", "PyTorch 2.6.0a0+git1"),
                ("ROCm 6.4", "ROCm 6.4.1", "ROCm 6.4.1"),
            ],
        ),
        (
            "NVIDIA NeMo Framework Release 24.09",
            [("NeMo 24.09", "NeMo 24.09", "NeMo 24.09"), (None,) * 3],
        ),
        ("Framework", [("Framework",) * 3, (None,) * 3]),
        ("ROCm", [("ROCm",) * 3, (None,) * 3]),
        (", x 1", [(None,) * 3, ("x 1",) * 3]),
        ("", [(None,) * 3] * 2),
        (None, [(None,) * 3] * 2),
    ],
)
def test_the_software_that_a_log_names(stated, texts):
    run = make_run(
        environment=Environment(versions={} if stated is None else {"framework": stated})
    )
    for index, each in enumerate(texts):
        assert tuple(module._software(run, index, version) for version in module._VERSIONS) == each


def config(**fields):
    return msgspec.structs.replace(make_run().training_config, **fields)


@pytest.mark.parametrize(
    ("label", "micro_batch", "text"),
    [
        ("micro2", 2, "micro-batch 2"),
        ("micro2", 1, None),
        ("micro", 2, None),
        (None, None, None),
        ("2", 2, None),
        ("bf16", 1, None),
    ],
)
def test_a_label_that_states_what_a_sweep_varied(label, micro_batch, text):
    run = make_run(label=label, training_config=config(micro_batch_size=micro_batch))
    assert module._swept(run) == text


@pytest.mark.parametrize(
    ("batch", "length", "text"),
    [
        (64, 2048, "batch 64×2048"),
        (None, 2048, "batch unknown×2048"),
        (64, None, "batch 64×unknown"),
        (None, None, None),
    ],
)
def test_batch_and_length(batch, length, text):
    assert module._work(make_run(batch=batch, length=length)) == text


@pytest.mark.parametrize(
    ("detail", "text"),
    [("bf16_mixed", "bf16_mixed"), ("system description: BF16", None), (None, None)],
)
def test_details_of_the_precision(detail, text):
    assert (
        module._precision_detail(make_run(training_config=config(precision_detail=detail))) == text
    )


def variables(**fields):
    return make_run(environment=Environment(settings=fields))


def versions(**fields):
    return make_run(environment=Environment(versions=fields))


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        # The GPU is in all names if it differs, and so is a label; a precision belongs to the GPU.
        ([make_run(), make_run(**AMD, precision=None)], ["8×H100 (BF16)", "8×MI300X"]),
        ([make_run(framework="nemo"), make_run(framework="x")], ["nemo", "x"]),
        ([make_run(label="a"), make_run(label="b", precision="fp8")], ["a", "b"]),
        (
            [make_run(label="a"), make_run(label="a", precision="fp8")],
            ["8×H100 (BF16)", "8×H100 (FP8)"],
        ),
        (
            [make_run(precision=None), make_run(precision="fp8")],
            ["8×H100 (precision unknown)", "8×H100 (FP8)"],
        ),
        (
            [
                make_run(precision=None, framework="x"),
                make_run(precision="fp8", framework="x"),
                make_run(framework="y"),
            ],
            ["8×H100 (precision unknown)", "8×H100 (FP8)", "y"],
        ),
        # A label that is the GPU's name isn't repeated: short, without its maker, or whole.
        *(
            ([make_run(label=label), make_run(**AMD)], ["8×H100 (BF16)", "8×MI300X (BF16)"])
            for label in (H100, "H100 80GB HBM3", "H100")
        ),
        ([make_run(label="H200"), make_run(**AMD)], ["8×H100, H200 (BF16)", "8×MI300X (BF16)"]),
        ([make_run(label="H100"), make_run(label="x")], ["H100", "x"]),
        ([make_run(None, label="y"), make_run()], ["8× unknown GPU, y (BF16)", "8×H100 (BF16)"]),
        # On a CPU the precision is a part like any other.
        ([make_run(**CPU, precision="fp32"), make_run(**CPU)], ["fp32", "bf16"]),
        (
            [make_run(**CPU, precision="fp32"), make_run(**CPU, precision=None)],
            ["fp32", "precision unknown"],
        ),
        ([make_run(**CPU, environment=EPYC)], ["EPYC 9454 48-Core"]),
        # Packages, then variables, in the order of their names; then keys of a framework, then the
        # date.
        ([versions(b="1", a="1"), versions(b="2", a="2")], ["a 1", "a 2"]),
        ([variables(b="1", a="1"), variables(b="2", a="2")], ["a=1", "a=2"]),
        (
            [
                make_run(
                    environment=Environment(versions={"z": each}, settings={"a": each}),
                    framework_config={"k": each},
                )
                for each in ("1", "2")
            ],
            ["z 1", "z 2"],
        ),
        (
            [
                make_run(
                    environment=Environment(settings={"a": each}), framework_config={"k": each}
                )
                for each in ("1", "2")
            ],
            ["a=1", "a=2"],
        ),
        ([make_run(framework_config={"k": each}) for each in ("1", "2")], ["k 1", "k 2"]),
        (
            [
                make_run(timing=make_run().timing, timestamp=f"2026-02-0{day}T00:00:00+00:00")
                for day in (1, 2)
            ],
            ["2026-02-01", "2026-02-02"],
        ),
        (
            [make_run(timestamp="2026-02-01T00:00:00+00:00"), make_run(timestamp=None)],
            ["2026-02-01", "date unknown"],
        ),
        # What every system states comes before what one leaves open.
        ([make_run(batch=None), make_run(batch=8, framework="x")], ["nemo", "x"]),
        # Each has as few parts as tell it from the others.
        (
            [
                make_run(framework="x", batch=8),
                make_run(framework="x", batch=16),
                make_run(framework="y", batch=8),
                make_run(framework="z", batch=8),
            ],
            ["x, batch 8", "batch 16", "y", "z"],
        ),
        (
            [make_run(framework=name, batch=batch) for name in "xy" for batch in (8, 16)],
            ["x, batch 8", "x, batch 16", "y, batch 8", "y, batch 16"],
        ),
        # Of batches and lengths the shortest form that tells them apart.
        ([make_run(batch=8), make_run(batch=8, length=1024)], ["batch 8×2048", "batch 8×1024"]),
        # A longer name of the GPU replaces its short one.
        (
            [make_run("NVIDIA H200"), make_run("NVIDIA H200 NVL"), make_run(**AMD)],
            ["8×H200 (BF16)", "8×H200 NVL (BF16)", "8×MI300X (BF16)"],
        ),
        (
            [
                make_run("NVIDIA H200", label="a"),
                make_run("NVIDIA H200-SXM5-141GB", label="a"),
                make_run(**AMD, label="b"),
            ],
            ["8×H200, a (BF16)", "8×H200-SXM5-141GB, a (BF16)", "8×MI300X, b (BF16)"],
        ),
        # A precision that is needed beside something else stands in brackets, too.
        (
            [make_run(framework=name, precision=each) for name in "xy" for each in ("bf16", "fp8")],
            ["x (BF16)", "x (FP8)", "y (BF16)", "y (FP8)"],
        ),
        # What differs in nothing with a title is numbered.
        (
            [make_run(timing=make_run(step_time=each).timing) for each in (1, 2, 3)],
            ["8×H100 (BF16)", "8×H100 (BF16), configuration 2", "8×H100 (BF16), configuration 3"],
        ),
    ],
)
def test_names(runs, names):
    assert called(*runs) == names


def test_a_setting_that_can_explain_a_result_is_named_with_all_others_that_differ():
    def run(micro, compiled, detail, batch=64):
        more = {
            "framework_config": {"torch_compile": compiled},
            "environment": Environment(versions={"p": detail}),
        }
        return make_run(
            training_config=config(micro_batch_size=micro, global_batch_size=batch), **more
        )

    # Of a package nobody needs to know beside them.
    assert called(run(1, True, "1"), run(2, False, "2")) == [
        "micro-batch 1, torch.compile",
        "micro-batch 2, eager",
    ]
    assert called(run(1, True, "1"), run(1, True, "2")) == ["p 1", "p 2"]
    assert called(run(1, True, "1"), run(2, True, "2")) == ["micro-batch 1", "micro-batch 2"]
    # Beside what else is needed.
    assert called(run(1, True, "1", 8), run(1, True, "1", 16), run(2, False, "1", 16)) == [
        "batch 8, micro-batch 1, torch.compile",
        "batch 16, micro-batch 1, torch.compile",
        "micro-batch 2, eager",
    ]


def test_all_models_say_whether_the_gpu_differs():
    runs = {"a": [make_run(), make_run(batch=8)], "b": [make_run(**AMD, label="x")]}
    assert {
        model: [each.name for each in systems] for model, systems in name_systems(runs).items()
    } == {
        "a": ["8×H100, batch 64 (BF16)", "8×H100, batch 8 (BF16)"],
        "b": ["8×MI300X, x (BF16)"],
    }


def test_the_parts_of_a_name_are_in_the_order_of_how_well_they_are_known():
    assert [each.title for each in module._IDENTITY] == [
        "GPU",
        "label",
        "framework",
        "stack",
        "scale",
    ]
    titles = [each.title for each in module._TELLING]
    assert titles[:5] == ["framework", "stack", "precision", "MLPerf", "submitter"]
    assert titles[5:11] == ["software"] * 6
    assert titles[11:15] == ["batch", "batch", "GPU", "platform"]
    assert titles[-9:-2] == [
        *("software stack", "compute units"),
        *("power cap", "GPU partition", "host CPU", "CPU threads", "NUMA balancing"),
    ]
    assert titles[-2:] == ["precision detail", "scale"]
    # Then the settings, each with the parts that it has.
    assert titles[15:20] == [
        "torch",
        "micro-batch",
        "gradient accumulation",
        "tensor parallel",
        "pipeline parallel",
    ]
    assert titles[titles.index("optimizer") :][:5] == [
        "optimizer",
        "learning rate",
        "schedule",
        "weight decay",
        "clipping",
    ]
    assert titles[titles.index("data") :][:5] == [
        "data",
        "sha256",
        "seed",
        "requested steps",
        "seed",
    ]
    assert titles.count("precision") == 1
    assert all(titles)


def test_which_parts_need_no_title_and_which_can_explain_a_result():
    assert {
        *("GPU", "label", "framework", "stack", "precision", "date"),
        *("software", "batch", "platform", "precision detail"),
    } == module._CLEAR
    assert {
        *(
            "Primus Turbo",
            "activation recomputation",
            "attention",
            "compiler",
            "micro-batch",
            "multi-token prediction",
        ),
        *("context parallel", "pipeline parallel", "tensor parallel", "packing", "tied embeddings"),
        "trainable parameters",
    } == module._DECISIVE


@pytest.mark.parametrize(
    ("part", "run", "text"),
    [
        (module._GPU, make_run(), "8×H100"),
        (module._LABEL, make_run(label="x"), "x"),
        (module._LABEL, make_run(), None),
        (module._SCALE, make_run(scale="tiny"), "scale tiny"),
        (module._SCALE, make_run(scale=None), None),
        (module._PRECISION, make_run(), "BF16"),
        (module._PRECISION, make_run(precision=None), "precision unknown"),
        (
            module._PRECISION,
            make_run(training_config=config(precision=None, precision_detail="x")),
            "X",
        ),
        (module._PRECISION, make_run(**CPU), "bf16"),
        (module._DATE, make_run(), "2026-02-02"),
        (module._DATE, make_run(timestamp=None), "date unknown"),
        (module._LABEL, make_run(label="x" * 121), "x" * 119 + "…"),
        (module.Part("software", lambda _: None), make_run(), None),
        (module.Part("x", lambda _: None), make_run(), "x unknown"),
        (module.Part("x", lambda _: "y"), make_run(), "x y"),
        (module.Part("x", lambda _: "y", lambda value: f"<{value}>"), make_run(), "<y>"),
        (module.Part("platform", lambda _: "y"), make_run(), "y"),
    ],
)
def test_a_part_in_words(part, run, text):
    assert module._part_text(part, run) == text


def test_a_node_s_gpu_is_none_of_its_processor():
    run = make_run(None, gpu_info=GpuInfo(device_count=4), environment=EPYC, gpus=None)
    assert called(run) == ["4× unknown GPU (BF16)"]


def entries(*runs):
    return [(run, f"{number}.json") for number, run in enumerate(runs)]


def capped(watts):
    return make_run(energy_metrics={} if watts is None else {"power_cap_watts": watts})


@pytest.mark.parametrize(
    ("runs", "parts"),
    [
        ([], []),
        ([capped(700.0)], [[0]]),
        ([capped(700.0), capped(400.0), capped(700.0)], [[0, 2], [1]]),
        # A run without a known cap fits a single cap, but neither of two.
        ([capped(700.0), capped(None), capped(700.0)], [[0, 1, 2]]),
        ([capped(700.0), capped(None), capped(400.0)], [[0], [1], [2]]),
        # A cap of 99% of the GPU's default or more doesn't count.
        ([capped(700.0), capped(693.0)], [[0, 1]]),
        ([capped(700.0), capped(692.0)], [[0], [1]]),
        (
            [
                make_run(environment=Environment(numa_balancing=each))
                for each in (True, False, None)
            ],
            [[0], [1], [2]],
        ),
        (
            [make_run(environment=Environment(cpu=each)) for each in ("EPYC", "Xeon", "EPYC")],
            [[0, 2], [1]],
        ),
        ([make_run(environment=Environment(cpu=each)) for each in ("EPYC", None)], [[0, 1]]),
        (
            [
                make_run(environment=Environment(gpu_partition=each))
                for each in ("SPX/NPS1", "CPX/NPS4")
            ],
            [[0], [1]],
        ),
        (
            [make_run(**CPU, environment=Environment(cpu_threads=each)) for each in (8, 8, 16)],
            [[0, 1], [2]],
        ),
        (
            [
                make_run(environment=Environment(settings={"NCCL_ALGO": each}))
                for each in ("Ring", "Tree")
            ],
            [[0, 1]],
        ),
        ([make_run(environment=Environment(hostname=each)) for each in "ab"], [[0, 1]]),
    ],
)
def test_runs_are_split_by_machine_settings_that_can_explain_a_result(runs, parts):
    given = entries(*runs)
    assert parted(given) == [[given[number] for number in part] for part in parts]


def test_two_differences_make_three_parts():
    given = entries(*(
        make_run(environment=Environment(numa_balancing=numa), energy_metrics={"power_cap_watts": watts})
        for numa, watts in ((True, 700.0), (True, 400.0), (False, 700.0), (True, 700.0))
    ))  # fmt: skip
    assert parted(given) == [[given[0], given[3]], [given[1]], [given[2]]]


def test_each_power_cap_is_a_system_named_after_it():
    times = {3.0: 700.0, 3.01: 700.0, 3.5: 400.0, 3.51: 400.0}
    runs = [
        make_run(step_time=time, energy_metrics={"power_cap_watts": watts})
        for time, watts in times.items()
    ]
    found = comparison(*runs)
    (model,) = found.models
    counts = {system.name: len(system.runs) for system in model.systems}
    assert counts == {"power cap 700 W": 2, "power cap 400 W": 2}
    (group,) = model.groups
    assert ("settings-differ", "power cap: 700 W vs 400 W") in [
        (each.code, text_of(each)) for each in group.caveats
    ]


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_the_run_that_states_most_of_its_machine_stands_for_a_system(order):
    """What one run leaves open is known of the others: a difference that it would hide could
    explain the result.
    """
    unknown = make_run(step_time=3.3)
    known = make_run(environment=Environment(cpu="Xeon"))
    other = make_run(step_time=3.1, environment=Environment(cpu="EPYC"), label="b")
    ((group,),) = (model.groups for model in comparison((unknown, known)[order], other).models)
    (one,) = (system for system in group.systems if len(system.runs) == 2)
    assert one.run is known
    assert [text_of(each) for each in group.caveats if each.code == "settings-differ"] == [
        "host CPU: EPYC vs Xeon"
    ]
