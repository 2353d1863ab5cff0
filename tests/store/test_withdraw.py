"""Runs that are to be repeated leave their file; history/ keeps it."""

from __future__ import annotations

from made_runs import make_run

from tprimat.store import store


def test_the_other_runs_stay_and_history_has_all(tmp_path):
    runs = [
        make_run(step_time=time, timestamp=f"2026-02-0{day}T00:00:00+00:00")
        for day, time in ((1, 3.2), (2, 3.3))
    ]
    for run in runs:
        path = store.save(run, tmp_path).path
    store.withdraw(path, {store.fingerprint(runs[0])})
    assert store.read(path) == (runs[1],)
    (kept,) = (tmp_path / "history").glob("*.json")
    assert store.read(kept) == tuple(runs)


def test_a_file_without_other_runs_is_gone(tmp_path):
    run = make_run()
    path = store.save(run, tmp_path).path
    store.withdraw(path, {"another"})
    assert path.exists()
    assert not (tmp_path / "history").exists()
    store.withdraw(path, {store.fingerprint(run)})
    assert not path.exists()
    assert len(list((tmp_path / "history").glob("*.json"))) == 1
    store.withdraw(path, {store.fingerprint(run)})
