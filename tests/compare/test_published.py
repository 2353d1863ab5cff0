"""A published table of three frameworks, one of which is faster than its card can be."""

from __future__ import annotations

import pytest
from made_runs import MI300X, comparison, make_run
from stored_runs import reason_of, text_of, texts_of

from tprimat.analysis.efficiency import Options
from tprimat.errors import ExitStatus
from tprimat.notes.catalogue import words
from tprimat.report.verdict import report
from tprimat.store import store


@pytest.fixture
def published(repository):
    folder = repository / "tests" / "data" / "published"
    # DeepSpeed comes first, so it would be the reference.
    return [store.read(path)[0] for path in sorted(folder.glob("*.json"))]


def judged(published, precision):
    (answer,) = report(comparison(*published, options=Options(precision=precision))).answers
    return answer.model, answer.verdict


class TestInBf16:
    def test_the_impossible_one_is_left_out_and_the_other_two_are_ranked(self, published):
        model, answer = judged(published, "bf16")
        refused, ranked = [
            [pair for pair in model.pairs if bool(pair.ratio) is has] for has in (False, True)
        ]
        assert [pair.system.framework for pair in refused] == ["deepspeed"]
        assert [(pair.slower.framework, pair.faster.framework) for pair in ranked] == [
            ("megatron", "transformers")
        ]
        assert ranked[0].speedup.value == pytest.approx(3.082 / 2.655, rel=1e-3)
        assert answer.headline == "transformers is 16% faster per GPU than megatron"
        assert answer.certainty == "1.16×, 1 run each: run-to-run variation unknown"
        (excluded,) = answer.excluded
        assert excluded.startswith("Not compared: deepspeed: ")

    def test_the_report_says_by_how_much_it_is_too_fast(self, published):
        _, answer = judged(published, "bf16")
        why = " ".join(answer.excluded)
        assert "103% of the dense BF16 peak" in why

    def test_status_is_well_since_the_verdict_rests_on_the_others(self, published):
        assert comparison(*published, options=Options(precision="bf16")).status == ExitStatus.OK

    def test_with_the_impossible_one_alone_it_is_not(self, published):
        assert (
            comparison(*published[:2], options=Options(precision="bf16")).status
            == ExitStatus.IMPLAUSIBLE
        )

    def test_the_precision_is_recorded_and_the_runs_stay_as_they_are(self, published):
        found = comparison(*published, options=Options(precision="bf16"))
        (note,) = (note for note in texts_of(found.notes) if "from the command line" in note)
        assert "precision bf16" in note
        assert note.count(".json") == 3
        assert all(
            run.training_config.precision is None for file in found.files for run in file.runs
        )


def test_without_a_precision_it_cant_be_judged(published):
    model, answer = judged(published, None)
    finding = next(system for system in model.systems if system.framework == "deepspeed").exclusion
    assert finding.severity == "unverified"
    assert "only possible in FP8, but the precision is unknown" in words(finding.note)
    assert any("deepspeed" in text for text in answer.excluded)
    assert answer.next_steps[0] == "set the precision if you know it: --precision NAME=PRECISION"


def test_in_fp8_it_can_be(published):
    model, _ = judged(published, "fp8")
    assert all(pair.ratio for pair in model.pairs)


def test_a_precision_that_is_stated_stays():
    found = comparison(
        make_run(precision="fp8"), make_run(MI300X, stack="rocm"), options=Options(precision="fp16")
    )
    assert [system.run.training_config.precision for system in found.models[0].systems] == [
        "fp8",
        "bf16",
    ]
    assert not any("command line" in note for note in texts_of(found.notes))


def test_all_three_losses_are_those_of_random_tokens(published):
    model, answer = judged(published, "bf16")
    for system in model.systems:
        (finding,) = (finding for finding in system.findings if finding.rule == "synthetic-data")
        assert "ln(vocabulary) = 11.76" in words(finding.note)
        assert "speed is unaffected" in words(finding.note)
    assert sum("ln(vocabulary) = 11.76" in text_of(caveat) for caveat in answer.caveats) == 1


class TestSameMode:
    def test_a_difference_is_not_comparable(self):
        found = comparison(make_run(), make_run(MI300X, stack="rocm", batch=128), mode="same")
        assert found.status == ExitStatus.NOT_COMPARABLE
        assert "differ in global batch" in reason_of(found.models[0].pairs[0])

    def test_one_such_pair_among_others_too(self):
        runs = [make_run(), make_run(MI300X, stack="rocm"), make_run("NVIDIA H200", batch=128)]
        assert comparison(*runs, mode="same", reference="H100").status == ExitStatus.NOT_COMPARABLE
        assert comparison(*runs, reference="H100").status == ExitStatus.OK

    def test_the_same_is_compared_and_called_so(self):
        found = comparison(make_run(), make_run(MI300X, stack="rocm", step_time=2.0), mode="same")
        assert found.status == ExitStatus.OK
        assert found.models[0].pairs[0].config_diff.verdict == "same configuration"

    def test_what_one_system_doesnt_state_isnt_called_the_same(self):
        found = comparison(make_run(precision=None), make_run(MI300X, stack="rocm"), mode="same")
        assert found.models[0].pairs[0].config_diff.verdict == "best configuration"
