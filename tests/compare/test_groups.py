"""Groups of systems: which did the same work, the baseline, the order, the pairs, and the settings
that are shown.
"""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from made_runs import H100, MI300X, make_run, shape
from made_systems import finding_of, pair_of, result, system, value
from stored_runs import note

from tprimat.compare import groups, pairs
from tprimat.compare.groups import by_work, evidence, group_of
from tprimat.compare.result import RATE, SAMPLES_RATE, Caveat, Group, Ratio
from tprimat.notes import Note
from tprimat.results.run import Environment
from tprimat.results.telemetry import Telemetry, TelemetryIssue

FROM_NAMES = (Note("from-names", {"facts": "GPUs 8"}),)

EXCLUDING = (finding_of("error", "x", "impossible"),)
TIMED = {"avg_step_time_seconds": value(4.0)}


def made(name, rate=100.0, run=None, *, device=H100, summary=None, **fields):
    run = run or make_run(device, stack="rocm" if device == MI300X else "cuda")
    if "batch" in fields:
        run = make_run(device, batch=fields.pop("batch"))
    return system(name, result(rate, run, **(summary or {})), values=TIMED, **fields)


def names(systems):
    return "".join(each.name for each in systems)


def of(**fields):
    return lambda name: made(name, run=make_run(**fields))


LONG, SHORT = of(length=4096), of(length=2048)
DEEP, FLAT, OPEN = of(model_config=shape()), of(model_config=shape(num_layers=16)), of()


def in_samples(name):
    return system(
        name,
        result(100.0, make_run(length=None), unit="samples"),
        values={SAMPLES_RATE: value(2.0)},
    )


@pytest.mark.parametrize(
    ("kinds", "works"),
    [
        ([], []),
        ([SHORT], []),
        ([SHORT, SHORT], ["AB"]),
        ([SHORT, LONG], []),
        # The most first; of equally many, in the order of the systems.
        ([SHORT, LONG, SHORT, LONG, LONG], ["BDE", "AC"]),
        ([SHORT, LONG, LONG, SHORT], ["AD", "BC"]),
        # One that leaves its shape open may have done each work.
        ([OPEN, DEEP, FLAT, FLAT], ["ACD", "AB"]),
        ([OPEN, DEEP, OPEN], ["ABC"]),
        # Rates in samples are of any length.
        ([in_samples, SHORT, in_samples, SHORT, SHORT], ["BDE", "AC"]),
        ([of(scale="tiny"), SHORT, of(scale="tiny")], ["AC"]),
        # Without a rate, or excluded, a system is in none.
        (
            [
                SHORT,
                lambda name: made(name, None),
                lambda name: made(name, findings=EXCLUDING),
                SHORT,
            ],
            ["AD"],
        ),
    ],
)
def test_systems_of_the_same_work(kinds, works):
    systems = [kind(name) for kind, name in zip(kinds, "ABCDEF", strict=False)]
    assert [names(work) for work in by_work(systems)] == works


def grouped(work, others=(), chosen=None, mode="best"):
    return group_of(work, others, chosen, mode, "title")


UNSETTLED = {"unsettled": True}
A, B, C = made("A", 300.0), made("B", 200.0), made("C", 100.0)
D = made("D", 150.0, device=MI300X)
E = made("E", 400.0, device=MI300X, summary=UNSETTLED)
G = made("G", 400.0, summary=UNSETTLED)
LOST = made("L", None)
IMPOSSIBLE = made("X", 900.0, findings=EXCLUDING)
ELSE = made("S", 500.0, make_run(length=4096))


@pytest.mark.parametrize(
    ("work", "others", "chosen", "order", "baseline", "leader", "second"),
    [
        # Of one vendor the second fastest is the baseline.
        ((C, A, B), (), None, "ABC", "B", "A", None),
        ((A,), (), None, "A", "A", None, None),
        # The fastest of another vendor, and the second fastest beside the fastest.
        ((C, A, D, B), (), None, "ABDC", "D", "A", "B"),
        ((C, D, made("F", 160.0, device=MI300X), A), (), None, "AFDC", "F", "A", None),
        ((B, D, made("F", 160.0, device=MI300X), A), (), None, "ABFD", "F", "A", "B"),
        # A chosen one; if that is the fastest, the fastest of another vendor is the leader.
        ((A, B, C), (), C, "ABC", "C", "A", "B"),
        ((A, B, C), (), B, "ABC", "B", "A", None),
        ((A, B, C), (), A, "ABC", "A", "B", None),
        ((A, B, D, C), (), A, "ABDC", "A", "D", None),
        # One that is still starting up is the last; beside such a baseline speed alone decides.
        ((G, C, A), (), None, "ACG", "C", "A", None),
        ((E, C, A), (), None, "EAC", "E", "A", None),
        ((E, C, A), (), E, "EAC", "E", "A", None),
        ((E, C, A), (), C, "ACE", "C", "A", None),
        # Those that can't be compared come last, in their order.
        ((C, A), (LOST, IMPOSSIBLE, ELSE), None, "ACLXS", "C", "A", None),
        ((), (LOST, ELSE, A), None, "LSA", "S", None, None),
        ((), (LOST, IMPOSSIBLE), None, "LX", "L", None, None),
        ((), (LOST, A), A, "LA", "A", None, None),
        # Others that are compared with the chosen one have their place by their speed.
        ((), (C, A, LOST), C, "ACL", "C", "A", None),
    ],
)
def test_a_group(work, others, chosen, order, baseline, leader, second):
    found = grouped(work, others, chosen)
    assert (names(found.systems), found.baseline.name, found.title) == (order, baseline, "title")
    assert names(each.system for each in found.pairs) == order.replace(baseline, "")
    assert {each.baseline.name for each in found.pairs} == ({baseline} if found.pairs else set())
    assert (found.leaders and found.leaders.system.name) == leader
    assert found.leaders is None or found.leaders in found.pairs
    rates = {each.name: each.value(RATE) for each in (*work, *others)}
    for each in found.pairs:
        comparable = not {each.system.name, baseline} & set("LXS")
        assert (each.ratio is not None, each.reasons == ()) == (comparable, comparable)
        if each.ratio:
            assert each.ratio.value == pytest.approx(rates[each.system.name] / rates[baseline])
    if second is None:
        assert found.runner_up is None
    else:
        assert (found.runner_up.system.name, found.runner_up.baseline.name) == (order[0], second)
        assert found.runner_up.ratio.value == pytest.approx(rates[order[0]] / rates[second])


def test_in_the_same_mode_a_difference_of_configuration_gives_no_ratio():
    work = (A, made("B", 200.0, batch=128), made("C", 100.0, batch=32))
    assert [each.reasons for each in grouped(work, mode="same").pairs] == [
        (note("configurations-not-equal", settings=("global batch",)),)
    ] * 2
    found = grouped(
        (made("A", 300.0), made("B", 200.0), made("C", 100.0, batch=32)), chosen=None, mode="same"
    )
    assert (found.leaders.system.name, found.runner_up, found.pairs[1].ratio) == ("A", None, None)
    # What one leaves open differs from neither, and the other two differ from each other.
    config = make_run().training_config
    first, second, chosen = (
        made(
            name,
            rate,
            make_run(training_config=msgspec.structs.replace(config, micro_batch_size=size)),
        )
        for name, rate, size in (("A", 300.0, 1), ("B", 200.0, 2), ("C", 100.0, None))
    )
    found = grouped((first, second, chosen), (), chosen, "same")
    assert found.runner_up.reasons == (note("configurations-not-equal", settings=("micro-batch",)),)


@pytest.fixture
def on_common_steps(monkeypatch):
    """On the steps that two systems share, the rates of some are others than on all of theirs."""

    def stub(rates):
        def aligned(systems, _=None):
            return [
                made(each.name, rates.get(each.name, each.value(RATE)), each.run)
                if each.name in rates
                else each
                for each in systems
            ]

        monkeypatch.setattr(groups, "aligned", aligned)

    return stub


def test_on_common_steps_another_system_may_be_the_fastest(on_common_steps):
    # A is the fastest by all steps, so that B is the baseline; on common steps C is faster than A,
    # and A the second.
    on_common_steps({"C": 330.0})
    found = grouped((A, B, C))
    assert (names(found.systems), found.baseline.name) == ("CAB", "A")
    assert [each.ratio.value for each in found.pairs] == pytest.approx([1.1, 2 / 3])
    # The values that are shown are those beside which the ratio stands.
    assert [each.value(RATE) for each in found.systems] == pytest.approx([330.0, 300.0, 200.0])
    assert (found.leaders.system.name, found.runner_up) == ("C", None)
    # A baseline that is chosen stays.
    found = grouped((A, B, C), (), B)
    assert (names(found.systems), found.baseline.name) == ("CAB", "B")


def test_a_system_without_a_ratio_is_shown_with_its_own_values(on_common_steps):
    on_common_steps({"S": 77.0, "A": 310.0, "C": 90.0})
    found = grouped((A, C), (ELSE,))
    assert [each.value(RATE) for each in found.systems] == pytest.approx([310.0, 90.0, 500.0])
    assert found.baseline.value(RATE) == pytest.approx(90.0)
    assert found.pairs[1].system is ELSE


def test_the_baseline_is_tried_three_times_at_most(monkeypatch):
    tried = []

    def turning(systems, _=None):
        # Each is the slower one as the baseline, so that no choice lasts.
        tried.append(names(systems))
        return [
            made(each.name, rate, each.run)
            for each, rate in zip(systems, (100.0, 200.0), strict=True)
        ]

    monkeypatch.setattr(groups, "aligned", turning)
    found = grouped((made("A", 300.0), made("B", 200.0)))
    assert tried == ["BA"]
    tried.clear()
    found = grouped((made("A", 300.0), made("D", 200.0, device=MI300X), made("B", 100.0)))
    assert len(found.pairs) == 2


def test_the_rates_of_all_steps_choose_the_first_baseline(monkeypatch):
    tried = []

    def recorded(baseline, other, *, mode):
        tried.append(baseline.name + other.name)
        return pairs.pair(baseline, other, mode=mode)

    monkeypatch.setattr(groups, "pair", recorded)
    grouped((C, A, B))
    assert tried == ["BC", "BA"]
    tried.clear()
    grouped((G, C, A))
    assert tried == ["CG", "CA"]


@pytest.mark.parametrize(("runs", "is_kept"), [(1, True), (2, True), (3, False), (4, False)])
def test_summaries_of_a_baseline_with_many_runs_are_not_kept(monkeypatch, runs, is_kept):
    kept = []
    monkeypatch.setattr(
        groups, "aligned", lambda systems, known=None: kept.append(known) or list(systems)
    )
    grouped((A, C), (LOST,), system("B", *[result(200.0)] * runs, values=TIMED))
    # Of three systems, and of the fastest two beside each other.
    assert kept[:3] == [{} if is_kept else None] * 3
    assert all(each is kept[0] for each in kept[:3])


def test_the_values_of_the_baseline_are_those_beside_the_leader(monkeypatch):
    beside = {"A": 210.0, "C": 190.0}

    def aligned(systems, _=None):
        first, other = systems
        summary = {"clock": "blocks"} if other.name == "A" else None
        return [
            made(first.name, beside.get(other.name, 1.0)),
            made(other.name, other.value(RATE), summary=summary),
        ]

    monkeypatch.setattr(groups, "aligned", aligned)
    found = grouped((A, B, C))
    assert [each.value(RATE) for each in found.systems] == pytest.approx([300.0, 210.0, 100.0])
    assert [each.baseline for each in found.pairs] == [found.baseline] * 2 == [found.systems[1]] * 2
    assert [each.ratio.value for each in found.pairs] == pytest.approx([300 / 210, 100 / 190])
    clocks = [each for each in found.caveats if each.code == "clock-differs"]
    assert [each.notes for each in clocks] == [
        (note("rates-on-common-clock", rates=("A as on its own",)),)
    ]


def throttled(name, rate, code="thermal"):
    telemetry = Telemetry(issues=(TelemetryIssue(code=code, text=f"it is {code}"),))
    return made(name, rate, make_run(telemetry=telemetry))


def test_the_caveats_are_those_of_all_that_are_compared():
    first = (throttled("A", 300.0), made("B", 200.0))
    third = (
        made(
            "C",
            100.0,
            make_run(notes=FROM_NAMES, telemetry=throttled("x", 1.0).run.telemetry),
        ),
    )
    found = [(each.code, each.notes) for each in grouped((*first, *third)).caveats]
    source = (note("gpu-guessed", systems=("C",)),)
    assert [each for each in found if each[0] != "not-reported"] == [
        (
            "throttled",
            (
                note("telemetry-event", kind="thermal", event="it is thermal", system="A"),
                note("telemetry-event", kind="thermal", event="it is thermal", system="C"),
            ),
        ),
        ("gpu-source", source),
    ]
    assert [code for code, _ in found] == ["throttled", "gpu-source", "not-reported"]
    # What is not compared brings nothing in.
    apart = made("S", 500.0, make_run(length=4096, notes=FROM_NAMES))
    assert "gpu-source" not in {each.code for each in grouped(first, (apart,)).caveats}
    tuned = made("T", 500.0, make_run(length=4096, framework_config={"kernel": "fast"}))
    kernels = [
        made(name, rate, make_run(framework_config={"kernel": "slow"}))
        for name, rate in (("D", 9.0), ("E", 8.0), ("F", 7.0))
    ]
    assert "settings-differ" not in {each.code for each in grouped(kernels, (tuned,)).caveats}


def test_a_system_alone_has_the_caveats_of_its_own():
    (caveat,) = grouped((throttled("A", 300.0),)).caveats
    assert caveat == Caveat(
        "throttled",
        "warning",
        (note("telemetry-event", kind="thermal", event="it is thermal", system="A"),),
    )
    untimed = system("A", dataclasses.replace(throttled("A", 1.0).runs[0], is_valid=False))
    assert grouped((untimed,)).caveats == ()
    # Two that aren't compared have none.
    assert grouped((), (throttled("A", 300.0), LOST)).caveats == ()


def clocked(name, rate, clock="timer", *more):
    runs = [result(rate, clock=clock)] + [result(rate, clock=each) for each in more]
    return system(name, *runs)


@pytest.mark.parametrize(
    ("pairs", "rates"),
    [
        ([(clocked("A", 100.0), clocked("A", 100.0))], None),
        # Another clock, whatever the rate.
        (
            [(clocked("A", 100.0), clocked("A", 103.4, "blocks"))],
            ("A 3.4% higher than on its own",),
        ),
        ([(clocked("A", 100.0, "blocks"), clocked("A", 96.6))], ("A 3.4% lower than on its own",)),
        # Just below and just above what is shown as a difference.
        ([(clocked("A", 100.0), clocked("A", 100.049, "blocks"))], ("A as on its own",)),
        (
            [(clocked("A", 100.0), clocked("A", 99.949, "blocks"))],
            ("A 0.1% lower than on its own",),
        ),
        ([(clocked("A", 100.0), clocked("A", 110.0))], None),
        # Clocks are compared as sets, and rates as geometric means over runs.
        (
            [
                (
                    clocked("A", 100.0, "timer", "blocks"),
                    clocked("A", 110.0, "blocks", "timer", "timer"),
                )
            ],
            None,
        ),
        (
            [
                (
                    system("A", result(50.0), result(100.0), result(200.0)),
                    system("A", *(result(rate, clock="blocks") for rate in (80.0, 100.0, 160.0))),
                ),
                (clocked("B", 100.0), clocked("B", 100.0)),
                (clocked("C", 100.0), clocked("C", 90.0, "stamps")),
            ],
            ("A 8.6% higher than on its own", "C 10.0% lower than on its own"),
        ),
        ([(clocked("A", None), clocked("A", 100.0, "blocks"))], None),
        ([(clocked("A", 100.0), clocked("A", None, "blocks"))], None),
    ],
)
def test_rates_on_another_clock_than_their_own(pairs, rates):
    own, shown = zip(*pairs, strict=True)
    expected = []
    if rates is not None:
        told = note("rates-on-common-clock", rates=rates)
        expected.append(Caveat("clock-differs", "info", (told,)))
    assert list(groups._on_other_clocks(own, shown)) == expected


@pytest.mark.parametrize(
    ("ratios", "leader", "is_short", "found"),
    [
        ((), None, False, (False, 1, 2)),
        ((Ratio(1.5, None, None), None), 0, False, (True, 2, 5)),
        ((Ratio(1.5, None, None), None), 0, True, (False, 2, 5)),
        ((Ratio(1.5, None, None), Ratio(1.5, None, None)), 1, False, (True, 3, 9)),
        ((None, None), None, False, (False, 1, 2)),
    ],
)
def test_how_much_an_answer_rests_on(ratios, leader, is_short, found):
    baseline = system("A", *[result()] * 2, result(is_valid=False))
    others = [system("B", *[result()] * 3), system("C", *[result()] * 4)]
    pairs = [
        pair_of(baseline, other, ratio=ratio, is_short=is_short)
        for other, ratio in zip(others, ratios, strict=False)
    ]
    leaders = None if leader is None else pairs[leader]
    assert evidence(Group((), baseline, tuple(pairs), (), leaders)) == found


def versioned(**versions):
    return made("A", run=make_run(environment=Environment(versions=versions)))


@pytest.mark.parametrize(
    ("versions", "values"),
    [
        ([{"a": "1"}, {"a": "1"}], (None, None)),
        # In the order of their names; torch has a row of its own.
        (
            [
                {"b": "1", "torch": "2", "a": "3"},
                {"a": "4", "torch": "5", "b": "6"},
                {"b": "1", "a": "3"},
            ],
            ("a 3, b 1", "a 4, b 6", "a 3, b 1"),
        ),
        ([{"a": "1", "c": "7"}, {"c": "7"}], ("a 1", None)),
        ([{"a": "1" * 239}, {"b": "2"}], (f"a {'1' * 237}…", "b 2")),
        ([{"a": "1" * 238}, {"b": "2"}], (f"a {'1' * 238}", "b 2")),
    ],
)
def test_versions_that_differ(versions, values):
    row = groups._versions([versioned(**each) for each in versions])
    assert (row.title, row.values, row.essential) == ("other versions", values, False)


def test_settings_that_are_shown():
    work = (
        made("A", 300.0, make_run(environment=Environment(versions={"x": "1"}))),
        made("B", 200.0, make_run(batch=128, framework_config={"kernel": "fast"})),
    )
    found = grouped(work)
    rows = {row.title: (row.values, row.essential) for row in found.settings}
    assert rows["global batch"] == (("64 sequences", "128 sequences"), True)
    assert rows["kernel"] == ((None, "fast"), False)
    assert rows["other versions"] == (("x 1", None), False)
    # What nobody states is shown only if it is essential.
    assert all(row.essential for row in found.settings if row.unknown)
    assert any(row.unknown for row in found.settings)
    assert "other versions" not in {row.title for row in grouped((A, B)).settings}


def test_two_of_which_one_is_of_another_vendor_are_a_pair():
    assert groups._default_baseline([A, B, D]) is D
    assert groups._default_baseline([A, B, C]) is B
    assert groups._default_baseline([A]) is A
    nameless = made("N", 90.0, make_run(None, stack=None))
    assert groups._default_baseline([A, B, nameless]) is B
    unknown = made("U", 80.0, make_run(None, stack=None))
    assert groups._default_baseline([nameless, unknown, D]) is unknown
