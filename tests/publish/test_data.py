"""The data of a site: by its schema, with the same bytes each time, and each value as its source
has it.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import random
import re

import pytest
from made_runs import HOSTILE
from test_points import ROW
from test_series import POINT

from tprimat.catalog import published
from tprimat.compare import compare
from tprimat.log_import import load
from tprimat.publish import data, pairs, points, series
from tprimat.publish.record import Change, Point, PointPair, Record

MADE = "2026-11-26"
SEED = 20261126


def record_of(evidence):
    shown = tuple(each.point for each in evidence)
    return Record(points=shown, pairs=pairs.pairs(evidence), changes=series.changes(evidence))


@pytest.fixture(scope="module")
def evidence():
    return points.published_points()


@pytest.fixture(scope="module")
def record(evidence):
    return record_of(evidence)


@pytest.fixture(scope="module")
def folder(record, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    data.write(record, data.values(record, MADE), folder)
    return folder / "data"


@pytest.fixture(scope="module")
def loaded(folder):
    return json.loads((folder / "record.json").read_text(encoding="utf-8"))


class TestForm:
    def test_it_follows_its_schema(self, folder, loaded):
        jsonschema = pytest.importorskip("jsonschema")
        schema = json.loads((folder / "record.schema.json").read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(loaded)

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda values: values["points"]["gpu"].append(3),
            lambda values: values["points"].pop("mark"),
            lambda values: values["points"]["mark"].append("true"),
            lambda values: values["changes"].append([1, 2, 1.0, None, None]),
            lambda values: values["pairs"].append([1, 2, 1.0, 0.9, None]),
            lambda values: values["gpus"]["t4"].pop("color"),
            lambda values: values.update(schema_version=2),
        ],
    )
    def test_the_schema_refuses_what_is_wrong(self, loaded, spoil):
        jsonschema = pytest.importorskip("jsonschema")
        gpu = {
            "title": "T4",
            "page": "gpus/t4.html",
            "vendor": "NVIDIA",
            "color": "#123456",
            "dark": "#123456",
        }
        values = {**loaded, "gpus": {"t4": gpu}, "points": {name: [] for name in loaded["points"]}}
        values |= {"pairs": [], "changes": []}
        jsonschema.Draft202012Validator(data.schema_of()).validate(values)
        spoil(values)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(data.schema_of()).validate(values)

    def test_columns_are_of_one_length_and_every_key_has_a_page_of_its_own(self, loaded):
        columns = loaded["points"]
        assert {len(column) for column in columns.values()} == {len(columns["gpu"])}
        for group, name in (("gpus", "gpu"), ("models", "model"), ("sources", "source_key")):
            assert set(columns[name]) == set(loaded[group])
            pages = [entry["page"] for entry in loaded[group].values()]
            assert len(set(pages)) == len(pages)
            assert all(re.fullmatch(rf"{group}/[a-z0-9][a-z0-9.-]*\.html", page) for page in pages)

    def test_the_page_explains_every_field_and_mark(self, repository, loaded):
        text = (repository / "docs" / "publish.md").read_text(encoding="utf-8")
        assert [name for name in loaded["points"] if f"`{name}`" not in text] == []
        assert [mark for mark in set(loaded["points"]["mark"]) if f"| {mark} |" not in text] == []

    def test_titles_of_keys_of_the_catalog(self, loaded):
        assert loaded["gpus"]["mi355x"]["title"] == "MI355X"
        assert loaded["gpus"]["mi355x"]["vendor"] == "AMD"
        assert loaded["models"]["llama"]["title"] == "Llama 3.1 8B"
        assert loaded["sources"]["mlcommons/training_results_v5.1"]["page"].startswith(
            "sources/mlcommons-training"
        )

    def test_the_newest_date_and_the_rounds_of_mlperf(self, record, loaded):
        assert loaded["newest"] == max(point.date for point in record.points) < MADE
        assert loaded["mlperf_rounds"] == ["v4.1", "v5.0", "v5.1"]
        later = [
            dataclasses.replace(POINT, date=date, source=source, url=f"https://github.com/{source}")
            for date, source in (
                ("2026", "mlcommons/training_results_v10.0/a/b@0123456789ab"),
                ("2025-04", "mlcommons/training_results_v9.1/a/b@0123456789ab"),
            )
        ]
        found = data.values(Record(points=tuple(later)), MADE)
        assert (found["newest"], found["mlperf_rounds"]) == ("2026", ["v9.1", "v10.0"])
        nothing = data.values(Record(points=()), MADE)
        assert (nothing["newest"], nothing["mlperf_rounds"]) == ("", [])

    def test_ids_of_published_points_need_no_number(self, loaded):
        """One that depends on the order would change with the points before."""
        assert not [each for each in loaded["points"]["id"] if "-" in each]

    def test_ids_are_unique_and_stay_when_points_are_added(self, record, loaded):
        ids = loaded["points"]["id"]
        assert len(set(ids)) == len(ids)
        more = Record(points=(*record.points[:700], POINT, *record.points[700:]))
        assert set(ids) < set(data.values(more, MADE)["points"]["id"])

    def test_the_script_is_the_same_object(self, folder, loaded):
        text = (folder / "record.js").read_text(encoding="utf-8")
        assert json.loads(re.fullmatch(r"window\.RECORD = (.*);\n", text)[1]) == loaded

    def test_csv_has_the_same_points(self, folder, loaded):
        rows = list(
            csv.DictReader(io.StringIO((folder / "record.csv").read_text(encoding="utf-8")))
        )
        columns = loaded["points"]
        assert len(rows) == len(columns["gpu"])
        assert [row["model"] for row in rows] == columns["model"]
        for name in ("tokens_per_second_per_gpu", "num_gpus"):
            assert [float(row[name]) if row[name] else None for row in rows] == columns[name]

    def test_the_same_input_gives_the_same_bytes(self, folder, tmp_path):
        again = record_of(points.published_points())
        data.write(again, data.values(again, MADE), tmp_path)
        for path in folder.iterdir():
            assert (tmp_path / "data" / path.name).read_bytes() == path.read_bytes()

    def test_it_is_small(self, folder):
        import gzip

        assert len(gzip.compress((folder / "record.js").read_bytes())) < 300_000


class TestToTheEvidence:
    def test_twenty_values_are_those_of_their_rows(self, loaded):
        """From the data that a page shows to the line of published/ that it names, with a fixed
        seed.
        """
        columns = loaded["points"]
        rows = [
            row
            for path in sorted(published.FOLDER.glob("*/*.csv"))
            for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())
        ]
        for place in random.Random(SEED).sample(range(len(columns["gpu"])), 20):
            shown = {name: column[place] for name, column in columns.items()}
            same = [row for row in rows if row["source"] == shown["source"] and _is_of(row, shown)]
            assert same, shown
            path, _, rest = shown["source"].partition("@")
            commit, _, line = rest.partition(":")
            assert commit in shown["url"]
            assert not line or shown["url"].endswith(f"#L{line}")
            assert shown["url"].startswith(f"https://github.com/{'/'.join(path.split('/')[:2])}/")

    def test_rates_of_submissions_are_those_of_their_logs(self, samples, evidence):
        """Of each set of which there are logs, each log's speed by our own reading is one of the
        row's rates.
        """
        rows = {
            each.point.source.partition("@")[0]: each.point
            for each in evidence
            if each.point.clock == "blocks"
        }
        index = csv.DictReader(
            (samples / "mlperf" / "INDEX.tsv").read_text().splitlines(), delimiter="\t"
        )
        checked = 0
        for entry in index:
            point = rows.get(entry["source"].rpartition("/")[0])
            if point is None or not entry["file"].endswith(".txt"):
                continue
            loaded = load.load([str(samples / "mlperf" / entry["file"])]).files
            (own,) = points.result_points(loaded, [])
            per_token = point.sequence_length if own.point.samples_per_second else 1
            (rate,) = (rate * per_token for rate in own.point.rates)
            assert min(abs(each / rate - 1) for each in point.rates) < 2e-3, entry["file"]
            assert point.gpu == own.point.gpu
            assert (point.num_gpus, point.global_batch_size) == (
                own.point.num_gpus,
                own.point.global_batch_size,
            )
            checked += 1
        assert checked >= 20

    def test_a_pair_of_submissions_is_what_compare_says_of_their_logs(self, samples, evidence):
        logs = [
            sorted(map(str, (samples / "mlperf").glob(f"v5.1_llama31_8b_{name}_r*.txt")))
            for name in ("Nebius_8xB200", "AMD_8xMI355X")
        ]
        (model,) = compare(load.load([*logs[0], *logs[1]]).files).models
        (theirs,) = (pair.ratio for pair in model.pairs)
        publishers = ("Nebius in MLPerf", "AMD in MLPerf")
        shown = [
            each
            for each in evidence
            if each.point.model == "llama" and each.point.publisher in publishers
        ]
        places = {
            each.point.gpu: each for each in shown if each.point.num_gpus == 8 and each.point.rates
        }
        ratio, difference = pairs.compared(places["b200-hgx"], places["mi355x"])
        assert ratio == pytest.approx(theirs.value, rel=1e-4)
        assert [math.exp(bound) for bound in difference.interval()] == pytest.approx(
            [theirs.low, theirs.high], rel=1e-4
        )


FIGURES = (
    "tokens_per_second_per_gpu",
    "samples_per_second",
    "time_to_target_seconds",
    "printed_tflops_per_gpu",
)


def _is_of(row, shown):
    stated = {name: float(row[name]) for name in FIGURES if row.get(name)}
    if "computed from" in shown["note"]:
        stated.pop("tokens_per_second_per_gpu", None)
        work = shown["sequence_length"] / shown["num_gpus"]
        samples = row.get("samples_per_second") or float(row["global_batch_size"]) / float(
            row["step_time_seconds"]
        )
        assert shown["tokens_per_second_per_gpu"] == pytest.approx(float(samples) * work, rel=5e-4)
    return (
        all(shown[name] == value for name, value in stated.items())
        and shown["model"] == row["model"]
    )


class TestBadInput:
    def test_values_that_are_no_numbers_are_null(self):
        point = dataclasses.replace(
            POINT, tokens_per_second_per_gpu=math.nan, tflops_per_gpu=math.inf
        )
        columns = data.values(Record(points=(point,)), MADE)["points"]
        assert (columns["tokens_per_second_per_gpu"], columns["tflops_per_gpu"]) == ([None], [None])
        assert ",nan" not in data.csv_of(Record(points=(point,))).decode().lower()

    def test_names_cant_end_a_script_or_start_a_formula(self, tmp_path):
        names = {
            "publisher": "</script><script>alert(1)</script>",
            "model": "=HYPERLINK(1)",
            "gpu": HOSTILE,
        }
        record = Record(points=(dataclasses.replace(POINT, **names), POINT))
        data.write(record, data.values(record, MADE), tmp_path)
        assert "<" not in (tmp_path / "data" / "record.js").read_text(encoding="utf-8")
        (row, _) = csv.DictReader(
            io.StringIO((tmp_path / "data" / "record.csv").read_text(encoding="utf-8"))
        )
        assert row["model"] == "'=HYPERLINK(1)"

    @pytest.mark.parametrize(
        "name", ["../../etc/passwd", "a/b", "", ".", "<>", "ÄÖ", "x" * 500, "con"]
    )
    def test_names_of_pages_are_plain(self, name):
        record = Record(
            points=(dataclasses.replace(POINT, gpu=name, model=name, url="", publisher=name),)
        )
        values = data.values(record, MADE)
        for group in ("gpus", "models", "sources"):
            (entry,) = values[group].values()
            assert re.fullmatch(rf"{group}/[a-z0-9][a-z0-9.-]{{0,90}}\.html", entry["page"])
            assert ".." not in entry["page"]

    def test_names_that_look_alike_have_pages_of_their_own(self):
        record = Record(
            points=tuple(
                dataclasses.replace(POINT, model=name) for name in ("A b", "a-b", "a_b", "A B")
            )
        )
        pages = [entry["page"] for entry in data.values(record, MADE)["models"].values()]
        assert sorted(pages) == [
            "models/a-b-2.html",
            "models/a-b-3.html",
            "models/a-b-4.html",
            "models/a-b.html",
        ]

    def test_no_page_is_called_like_a_list_of_pages(self):
        record = Record(
            points=tuple(
                dataclasses.replace(POINT, gpu=name, model=name) for name in ("index", "Index.")
            )
        )
        values = data.values(record, MADE)
        for group in ("gpus", "models"):
            pages = {entry["page"] for entry in values[group].values()}
            assert pages == {f"{group}/index-2.html", f"{group}/index-3.html"}

    def test_gpus_stand_as_a_script_lists_them(self):
        names = ("H100", "910", "90", "1000 W", "007", "0", "-1")
        record = Record(points=tuple(dataclasses.replace(POINT, gpu=name) for name in names))
        assert [*data.values(record, MADE)["gpus"]] == [
            "0",
            "90",
            "910",
            "-1",
            "007",
            "1000 W",
            "H100",
        ]

    @pytest.mark.parametrize("sign", "=+-@＝＋－＠")
    def test_no_cell_of_csv_is_a_formula(self, sign):
        record = Record(points=(dataclasses.replace(POINT, note=f"{sign}1+1"),))
        (row,) = csv.DictReader(io.StringIO(data.csv_of(record).decode(), newline=""))
        assert row["note"] == f"'{sign}1+1"

    def test_rates_have_spaces_between_in_csv(self):
        record = Record(points=(dataclasses.replace(POINT, rates=(1.5, 2.0)),))
        assert ",1.5 2.0," in data.csv_of(record).decode()

    def test_nothing_but_a_date(self):
        record = Record(
            points=(Point(publisher="", gpu="", model="", task="", mark="as published", source=""),)
        )
        values = data.values(record, MADE)
        assert values["gpus"][""]["title"] == values["models"][""]["title"] == "not stated"

    def test_ten_thousand_points(self, monkeypatch):
        rows = [
            dataclasses.replace(
                ROW,
                date=f"{2000 + at % 20}",
                global_batch_size=1 + at // 20,
                run_rates=f"{100 + at % 7} {100.5 + at % 7} {101 + at % 5}",
                model=f"<script>model {at % 500}</script>",
            )
            for at in range(10_000)
        ]
        monkeypatch.setattr(published, "rows", lambda: tuple(rows))
        record = record_of(points.published_points())
        assert len(record.points) == 10_000
        assert len(record.pairs) == pairs.MOST_PAIRS
        assert len(data.values(record, MADE)["points"]["id"]) == 10_000


def test_ratios_are_rounded_and_what_is_unknown_is_null():
    record = Record(
        points=(POINT, POINT),
        pairs=(PointPair(first=0, second=1, ratio=1.23456789, low=1.1, high=1.3),),
        changes=(Change(before=0, after=1, ratio=2 / 3),),
    )
    values = data.values(record, MADE)
    assert values["pairs"] == [[0, 1, 1.23457, 1.1, 1.3]]
    assert values["changes"] == [[0, 1, 0.666667, None, None, False]]
