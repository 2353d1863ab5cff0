"""The workflows of GitHub: what they may do, and the steps of the reusable one, run here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from made_runs import make_run

from tprimat.notes import Note
from tprimat.results.ending import Ending
from tprimat.results.run import Run
from tprimat.store.store import read, save

yaml = pytest.importorskip("yaml")

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDER = REPOSITORY / ".github" / "workflows"
WORKFLOWS = {
    path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.yml")
}
# YAML 1.1 reads the key `on` as true.
INPUTS = WORKFLOWS["record.yml"][True]["workflow_call"]["inputs"]


def steps():
    for name, workflow in WORKFLOWS.items():
        for job, content in workflow["jobs"].items():
            for step in content.get("steps", ()):
                yield f"{name}: {job}", step


@pytest.mark.parametrize("name", WORKFLOWS)
def test_no_workflow_may_write(name):
    allowed = [
        WORKFLOWS[name]["permissions"],
        *(job.get("permissions", {}) for job in WORKFLOWS[name]["jobs"].values()),
    ]
    assert {value for each in allowed for value in each.values()} == {"read"}


def test_every_action_has_a_version():
    used = [(where, step["uses"]) for where, step in steps() if "uses" in step]
    assert used
    assert [each for each in used if not re.search(r"@v\d+$|@[0-9a-f]{40}$", each[1])] == []


def test_no_script_has_a_value_of_the_caller_in_it():
    """An expression is replaced before the shell reads the script: values come as variables."""
    assert [where for where, step in steps() if "${{" in step.get("run", "")] == []


def test_every_input_is_used_and_described():
    text = (FOLDER / "record.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(INPUTS)
    given = WORKFLOWS["ci.yml"]["jobs"]["record"]["with"]
    documented = (REPOSITORY / "docs" / "ci-gate.md").read_text(encoding="utf-8")
    documented = yaml.safe_load(documented.split("```yaml\nname: speed\n")[1].split("```")[0])[
        "jobs"
    ]["record"]["with"]
    assert {*given, *documented} <= set(INPUTS)


@pytest.fixture
def clone(tmp_path):
    """A directory like a clone, in which a step can write."""
    folder = tmp_path / "clone"
    folder.mkdir()
    for name in ("benchmark.py", "compare_results.py", "tprimat", "published"):
        (folder / name).symlink_to(REPOSITORY / name)
    return folder


def run_step(clone: Path, name: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a step of the reusable workflow as GitHub does."""
    (script,) = (
        step["run"] for where, step in steps() if "record.yml" in where and step.get("name") == name
    )
    # This environment stands for the one that the step would make.
    script = re.sub(
        r"^.*make_venv\.py.*\n",
        "",
        script.replace(".venv/bin/python", '"$PYTHON"'),
        flags=re.MULTILINE,
    )
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        **variables,
        "GITHUB_STEP_SUMMARY": str(clone / "summary.md"),
    }
    shell = [shutil.which("bash"), "-e", "-c", script]
    return subprocess.run(
        shell, cwd=clone, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def passed(clone: Path) -> list[str]:
    return sorted(path.name for path in (clone / "record" / "passed").iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="runs the scripts of a Linux runner")
class TestSteps:
    def test_a_slower_run_fails_and_is_no_baseline(self, clone):
        times = {"9-1": 1.0, "10-1": 1.0, "11-1": 1.2, "12-1": 1.01}
        for day, (number, seconds) in enumerate(times.items(), 1):
            for run in range(3):
                stamp = f"2026-03-{day:02d}T0{run}:00:00+00:00"
                step_time = seconds * (1 + run / 1000) * (1 + day / 1e6)
                save(
                    make_run(step_time=step_time, timestamp=stamp), clone / "record/other" / number
                )
            done = run_step(clone, "compare", RUN=number, MAX_SLOWDOWN="3%")
            assert done.returncode == (1 if number == "11-1" else 0), done.stdout + done.stderr
            assert done.stdout.startswith("::error" if number == "11-1" else "::notice")
        assert passed(clone) == ["10-1", "12-1", "9-1"]
        assert [path.name for path in (clone / "record" / "other").iterdir()] == ["11-1"]
        assert "Fail" in (clone / "summary.md").read_text(encoding="utf-8")
        done = run_step(clone, "make it")
        assert done.returncode == 0, done.stdout + done.stderr
        record = (clone / "site/data/record.csv").read_text(encoding="utf-8")
        assert [f"run {number}" in record for number in times] == [True] * 4

    @pytest.mark.parametrize("is_first", [True, False])
    @pytest.mark.parametrize(
        ("fields", "status"),
        [
            (
                {
                    "ending": Ending(kind="failed", cause="out of memory", line=812),
                    "status": "failed",
                },
                3,
            ),
            (
                {
                    "ending": Ending(kind="stopped", cause="DUE TO TIME LIMIT"),
                    "status": "incomplete",
                },
                0,
            ),
            ({"ending": Ending(kind="cut_off"), "status": "incomplete"}, 0),
            (
                {
                    "notes": (
                        Note("loss-not-finite", {"steps": "steps 3-9", "first": 3, "last": 9}),
                    )
                },
                0,
            ),
        ],
        ids=["failed", "stopped", "cut off", "NaN"],
    )
    def test_e1_only_what_passed_becomes_the_baseline(self, clone, fields, status, is_first):
        """In the reusable workflow, which fails for a failure and keeps the rest as a part of the
        record.
        """
        nights = ["2-1"] if is_first else ["1-1", "2-1"]
        for number in nights:
            how = fields if number == "2-1" else {}
            for run in range(3):
                stamp = f"2026-03-0{number[0]}T0{run}:00:00+00:00"
                made = make_run(
                    step_time=1 + run / 1000 + int(number[0]) / 1e6, timestamp=stamp, **how
                )
                save(made, clone / "record/other" / number)
            done = run_step(clone, "compare", RUN=number, MAX_SLOWDOWN="30%")
            assert done.returncode == (status if how else 0), done.stdout + done.stderr
        assert passed(clone) == nights[:-1]
        assert [path.name for path in (clone / "record" / "other").iterdir()] == ["2-1"]

    @pytest.mark.parametrize("is_first", [True, False])
    @pytest.mark.parametrize("is_finished", [True, False])
    def test_e1_the_nightly_workflow_of_the_docs_keeps_only_what_passed(
        self, clone, is_finished, is_first
    ):
        page = (REPOSITORY / "docs" / "ci-gate.md").read_text(encoding="utf-8")
        workflow = yaml.safe_load(page.split("```yaml\nname: nightly\n")[1].split("```")[0])
        (script,) = (
            step["run"]
            for step in workflow["jobs"]["speed"]["steps"]
            if "--baseline" in step.get("run", "")
        )
        broken = {} if is_finished else {"status": "incomplete", "ending": Ending(kind="cut_off")}
        for day, (folder, how) in enumerate({"main": {}, "branch": broken}.items(), 1):
            for run in range(3) if folder == "branch" or not is_first else ():
                stamp = f"2026-03-0{day}T0{run}:00:00+00:00"
                step_time = 1 + run / 1000 + day / 1e6
                save(
                    make_run(step_time=step_time, timestamp=stamp, **how),
                    clone / "results" / folder,
                )
        done = subprocess.run(
            [shutil.which("bash"), "-e", "-c", script.replace(".venv/bin/python", sys.executable)],
            cwd=clone, capture_output=True, text=True, check=False, timeout=300,
            env={**os.environ, "GITHUB_STEP_SUMMARY": str(clone / "summary.md")},
        )  # fmt: skip
        assert done.returncode == (0 if is_finished else 6), done.stdout + done.stderr
        kept = {path.name for path in (clone / "results").iterdir()}
        assert kept == ({"main"} if is_finished else {"branch"} if is_first else {"main", "branch"})

    def test_a_failed_measurement_is_not_compared(self, clone):
        done = run_step(clone, "measure", RUN="1-1", OPTIONS="--model none")
        assert done.returncode == 2

    @pytest.mark.slow
    def test_from_a_measurement_on_a_cpu_to_the_site(self, clone):
        """With step times of the test's own: those of a busy machine are inconclusive."""
        pytest.importorskip("torch")
        options = "--model llama --runs 2 --steps 12 --framework fsdp"
        done = run_step(clone, "measure", RUN="1-1", OPTIONS=options)
        assert done.returncode == 0, done.stdout + done.stderr
        (path,) = (clone / "record/other/1-1").glob("train_fsdp_llama*.json")
        measured = read(path)
        assert [len(run.steps) for run in measured] == [12, 12]
        shutil.rmtree(clone / "record/other/1-1")
        for day, number in enumerate(("1-1", "2-1"), 1):
            for index, run in enumerate(measured):
                save(timed(run, day, index), clone / "record/other" / number)
            done = run_step(clone, "compare", RUN=number, MAX_SLOWDOWN="80%")
            assert done.returncode == 0, done.stdout + done.stderr
        assert passed(clone) == ["1-1", "2-1"]
        done = run_step(clone, "make it")
        assert done.returncode == 0, done.stdout + done.stderr
        assert (clone / "site" / "index.html").is_file()
        record = (clone / "site/data/record.csv").read_text(encoding="utf-8")
        assert [f"run {number}" in record for number in ("1-1", "2-1")] == [True, True]


def timed(run: Run, day: int, index: int) -> Run:
    """Return what was measured, on another day and with steps of one second that hardly vary."""
    times = tuple(1 + step % 3 / 1000 + index / 1000 + day / 1e6 for step in run.steps)
    stamp = f"2026-03-0{day}T0{index}:00:00+00:00"
    return msgspec.structs.replace(
        run, step_times=times, timeline=(), timestamp=stamp, session=None
    )
