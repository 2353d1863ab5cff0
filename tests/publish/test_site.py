"""The static site without a browser: links lead to files and anchors that exist, and hostile names
stay text.
"""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag

import made_record
import pytest

from tprimat.analysis import intervals
from tprimat.catalog import published
from tprimat.publish import data, points, site
from tprimat.publish.record import REJECTED, Change, Point, Record

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"' " + "very long " * 30


class Page(HTMLParser):
    """Links, anchors, titles, scripts and rows of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.tags, self.rows, self.title = [], set(), [], [], ""
        self._inside = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.append((tag, values))
        self._inside = tag
        if "id" in values:
            self.anchors.add(values["id"])
        if tag == "tr":
            self.rows.append([])
        for name in ("href", "src"):
            if name in values:
                self.links.append(values[name])
                if self.rows and "value" in (values.get("class") or "").split():
                    self.rows[-1].append(values[name])

    def handle_data(self, data):
        if self._inside == "title":
            self.title += data


def values(record):
    return data.values(record, "2026-11-26")


@pytest.fixture(scope="module")
def record():
    return made_record.record()


@pytest.fixture(scope="module")
def folder(record, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    made_record.write(record, folder)
    return folder


@pytest.fixture(scope="module")
def pages(folder):
    return {
        path.resolve(): Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")
    }


def test_there_is_a_page_for_each_gpu_model_and_source(record, folder, pages):
    tables = values(record)
    wanted = [
        each["page"] for group in ("gpus", "models", "sources") for each in tables[group].values()
    ]
    assert {(folder / page).resolve() for page in wanted} < set(pages)
    assert len(pages) == len(wanted) + 5


def test_pages_name_the_level_of_the_intervals(record, tmp_path, monkeypatch):
    monkeypatch.setattr(intervals, "CONFIDENCE", 0.9)
    made_record.write(record, tmp_path)
    texts = {
        path.relative_to(tmp_path).as_posix(): path.read_text(encoding="utf-8")
        for path in tmp_path.rglob("*.html")
    }
    texts["site.js"] = (tmp_path / "assets" / "site.js").read_text(encoding="utf-8")
    assert not [name for name, text in texts.items() if re.search(r"95% (CI|confidence)", text)]
    assert "a 90% confidence interval" in texts["how.html"]
    assert '"level":"90%"' in texts["index.html"]
    assert any("90% CI" in text for name, text in texts.items() if name != "index.html")


def test_names_sort_as_people_sort_them():
    assert sorted(["GPT 104B", "gpt 18B", "GPT-3", "Arctic", ""], key=site._natural) == [
        "", "Arctic", "gpt 18B", "GPT 104B", "GPT-3"
    ]  # fmt: skip


def test_each_page_has_its_own_title(pages):
    titles = [page.title for page in pages.values()]
    assert all(titles)
    assert len(set(titles)) == len(titles)


def test_every_link_leads_to_a_file_and_an_anchor(pages):
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            if link.startswith(("https://", "http://")):
                continue
            address, fragment = urldefrag(link)
            target = (path.parent / unquote(address)).resolve() if address else path
            # What follows # on the index is the state of its filters.
            is_anchor = fragment and target.suffix == ".html" and "=" not in fragment
            if not target.is_file() or (
                is_anchor and unquote(fragment) not in pages[target].anchors
            ):
                wrong.append((path.name, link))
    assert wrong == []


def test_no_page_needs_a_network_or_runs_a_script_of_its_own(pages):
    for path, page in pages.items():
        assert not [
            link
            for tag, values in page.tags
            for link in [values.get("src")]
            if link and "//" in link
        ], path
        assert not [
            values for _, values in page.tags if any(name.startswith("on") for name in values)
        ]
        assert not [values for tag, values in page.tags if tag == "style" or "style" in values]
        inline = [values for tag, values in page.tags if tag == "script" and "src" not in values]
        assert [each["type"] for each in inline] == ["application/json"] * len(inline)
        policy = next(values["content"] for _, values in page.tags if values.get("http-equiv"))
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


def test_each_value_leads_to_its_evidence(record, folder, pages):
    evidence = {point.url for point in record.points}
    for path, page in pages.items():
        links = [link for row in page.rows for link in row]
        assert set(links) <= evidence, path
    sources = [
        page
        for path, page in pages.items()
        if path.parent.name == "sources" and path.name != "index.html"
    ]
    assert {link for page in sources for row in page.rows for link in row} == evidence


def test_rows_without_a_speed_are_counted_among_what_is_missing(folder):
    used = {each.point.source for each in points.published_points()}
    missing = [row for row in published.rows() if row.source not in used]
    text = (folder / "how.html").read_text(encoding="utf-8")
    assert re.search(r"The speed of (\d+) published rows, most of them LitGPT's", text)[1] == str(
        len(missing)
    )
    assert not any(row.tokens_per_second_per_gpu or row.samples_per_second for row in missing)
    assert sum(row.framework == "litgpt" for row in missing) > len(missing) / 2


def test_what_contradicts_itself_is_shown_with_the_reason_and_in_no_ranking(record, folder):
    number, point = next(
        (i, each) for i, each in enumerate(record.points) if each.mark == "contradicts itself"
    )
    tables = values(record)
    page = (folder / tables["sources"][tables["points"]["source_key"][number]]["page"]).read_text(
        encoding="utf-8"
    )
    assert "Rejected results, each with the reason" in page
    assert point.reason in page
    for mark in REJECTED:
        fast = dataclasses.replace(point, tokens_per_second_per_gpu=1e9, mark=mark)
        rows = site._rows(Record(points=(fast,)), values(Record(points=(fast,))))
        assert site._best(rows, "model") == {}


def test_hostile_names_stay_text(tmp_path):
    fields = dict.fromkeys(
        ("publisher", "gpu", "model", "framework", "version", "date", "note", "reason"), HOSTILE
    )
    point = Point(
        **fields, task="pretrain", tokens_per_second_per_gpu=1.0, mark="as published", source="x/y/z.md@abc:1",
        url="javascript:alert(3)", precision=HOSTILE,
    )  # fmt: skip
    made_record.write(Record(points=(point, point)), tmp_path)
    for path in tmp_path.rglob("*.html"):
        page = Page(path.read_text(encoding="utf-8"))
        assert not [tag for tag, _ in page.tags if tag == "img"], path
        assert not [link for link in page.links if link.startswith("javascript")], path
        assert all(
            values.get("src") or values["type"] == "application/json"
            for tag, values in page.tags
            if tag == "script"
        )
    source = next(
        path for path in (tmp_path / "sources").glob("*.html") if path.name != "index.html"
    )
    assert "&lt;/script&gt;" in source.read_text(encoding="utf-8")


class TestChange:
    def text(self, **fields):
        return site._change(Change(before=0, after=1, **fields))

    def test_of_single_runs_has_no_interval(self):
        assert self.text(ratio=1.155) == "+15.5%, run-to-run variation unknown"
        assert self.text(ratio=0.953) == "−4.7%, run-to-run variation unknown"

    def test_that_holds_has_its_interval(self):
        assert (
            self.text(ratio=1.2, low=1.1, high=1.3, is_found=True)
            == "+20.0% (1.200×, 95% CI 1.100–1.300)"
        )

    def test_between_two_systems_says_so(self):
        text = self.text(ratio=1.2, low=1.1, high=1.3, is_found=None)
        assert text == "+20.0% (1.200×, 95% CI 1.100–1.300), between two systems"

    def test_that_may_be_chance_is_none(self):
        text = self.text(ratio=1.2, low=0.9, high=1.5)
        assert text == "no significant change (1.200×, 95% CI 0.900–1.500)"


WORK = {
    "publisher": "p",
    "gpu": "h100-sxm5",
    "model": "llama",
    "task": "pretrain",
    "source": "a/b/c@d:1",
}


class TestHistory:
    def series(self, *fields):
        points = tuple(Point(**WORK, mark="as published", **each) for each in fields)
        changes = [Change(before=i, after=i + 1, ratio=1.0) for i in range(len(points) - 1)]
        record = Record(points=points, changes=tuple(changes))
        rows = site._rows(record, values(record))
        return site._history(record, rows[0].gpu["page"], rows)

    def test_follows_the_changes(self):
        speeds = ((100.0, "2024-01"), (120.0, "2024-06-01"), (150.0, "2025-03"))
        (found,) = self.series(
            *({"tokens_per_second_per_gpu": speed, "date": date} for speed, date in speeds)
        )
        assert [row.value for row in found.rows] == ["100", "120", "150"]
        assert (found.gain, found.months, found.is_time) == (1.5, 14, False)
        assert len(found.changes) == 2

    def test_of_times_has_the_faster_one_as_a_speedup(self):
        dates = (
            {"time_to_target_seconds": 120.0, "date": "2024"},
            {"time_to_target_seconds": 60.0, "date": "2025"},
        )
        (found,) = self.series(*dates)
        assert (found.gain, found.months, found.is_time) == (2.0, 12, True)

    def test_without_a_change_is_none(self):
        assert self.series({"tokens_per_second_per_gpu": 1.0, "date": "2024"}) == []

    def test_is_named_by_its_kind_of_work(self, folder):
        text = (folder / "gpus" / "h100.html").read_text(encoding="utf-8")
        assert "32 GPUs, batch 512, NVIDIA, GRPO, On policy</h3>" in text
        assert "32 GPUs, batch 512, NVIDIA, GRPO, 1-step Off</h3>" in text

    def test_says_what_else_changed(self):
        base = {
            "tokens_per_second_per_gpu": 1.0,
            "configuration": "micro-batch 1, TP 2, VP 4",
            "system": "a",
        }
        same, other = (
            {**base, "date": "2025"},
            {**base, "configuration": "micro-batch 4, TP 2", "system": "b"},
        )
        (found,) = self.series({**base, "date": "2024"}, same)
        assert found.caveats == ["run-to-run variation unknown"]
        (found,) = self.series({**base, "date": "2024"}, {**other, "date": "2025"})
        assert found.caveats[:2] == ["micro-batch 1 → 4, VP stated for one only", "system a → b"]

    def test_of_times_has_a_table_of_its_own(self, folder):
        text = (folder / "gpus" / "h100.html").read_text(encoding="utf-8")
        history, _, rest = text.partition('<h2 id="times">')
        assert "modded GPT-2" not in history
        assert "model and optimizer change too" in rest
        assert "modded GPT-2" in rest

    def test_is_on_the_page_of_the_gpu(self, folder):
        text = (folder / "gpus" / "h100.html").read_text(encoding="utf-8")
        assert 'NeMo 24.07 <span class="whole">(2024-09-09)</span>' in text
        assert "run-to-run variation unknown" in text


def test_what_is_not_on_the_web_leads_to_the_page_of_its_source(tmp_path):
    fields = {**WORK, "source": "results/benchmark.json"}
    record = Record(
        points=(Point(**fields, tokens_per_second_per_gpu=1.0, mark="recomputed from the log"),)
    )
    tables = made_record.write(record, tmp_path)
    (anchor,) = tables["points"]["id"]
    (source,) = (entry["page"] for entry in tables["sources"].values())
    assert f'href="../{source}#{anchor}"' in (tmp_path / "models" / "llama-3.1-8b.html").read_text(
        encoding="utf-8"
    )
    page = (tmp_path / source).read_text(encoding="utf-8")
    assert f'id="{anchor}"' in page
    assert "results/benchmark.json" in page


@pytest.mark.parametrize(
    ("framework", "version", "text"),
    [
        ("megatron_bridge", "nvcr.io/nvidia/nemo:26.04", "Megatron-Bridge nemo:26.04"),
        ("nemo", "nvcr.io/nvidia/nemo:24.07", "NeMo 24.07"),
        ("nemo", "NeMo24.03.01.framework", "NeMo 24.03.01.framework"),
        ("torchtitan", "torchtitan 820504e", "torchtitan 820504e"),
        ("", "MLPerf Training v5.1", "MLPerf Training v5.1"),
        ("composer", "", "Composer"),
        ("nemo", "ROCm 7.0, PyTorch 2.8.0", "NeMo, ROCm 7.0, PyTorch 2.8.0"),
        ("nemo", "NeMo 25.09-alpha, PyTorch 25.09", "NeMo 25.09-alpha, PyTorch 25.09"),
        ("deepspeed", "torch 2.13.0, cu130", "DeepSpeed, torch 2.13.0, cu130"),
        ("pytorch", "PyTorch 24.04", "PyTorch 24.04"),
        ("litgpt", "commit 8641822", "LitGPT commit 8641822"),
        ("", "ROCm 7.0", "ROCm 7.0"),
        ("", "", ""),
    ],
)
def test_software_is_named_once(framework, version, text):
    assert site.software(framework, version) == text


def test_the_site_of_a_whole_record_is_small(folder):
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert size < 12e6


def test_a_time_to_a_target_is_ranked_by_the_shorter_one():
    points = [
        Point(publisher="p", gpu="h100-sxm5", model="llama", task="pretrain", mark="as published", source="a/b/c@d:1",
              time_to_target_seconds=seconds)
        for seconds in (120.0, 90.0)
    ]  # fmt: skip
    record = Record(points=tuple(points))
    ((_, (best,)),) = site._best(site._rows(record, values(record)), "gpu").items()
    assert (best.value, best.unit) == ("1.50", "min to target")


def test_a_ranking_has_one_unit():
    points = [
        Point(**WORK, mark="as published", tokens_per_second_per_gpu=1.0, tflops_per_gpu=10.0),
        Point(**{**WORK, "gpu": "b200-hgx"}, mark="as published", tflops_per_gpu=2000.0),
    ]
    rows = site._rows(Record(points=tuple(points)), values(Record(points=tuple(points))))
    assert [unit for _, unit in site._best(rows, "model")] == ["tokens/s/GPU", "TFLOP/s/GPU"]


def test_of_gpus_of_one_color_the_one_with_most_results_is_plain():
    points = [Point(**{**WORK, "gpu": gpu}, mark="as published") for gpu in ("A", "B", "B", "C")]
    record = Record(points=tuple(points))
    gpus = {key: {"color": "#000000", "dark": "#ffffff"} for key in "ABC"}
    repeats = site._repeats(site._rows(record, values(record)), gpus)
    assert sorted(repeats) == [0, 1, 2]
    assert repeats[1] == 0
    light = site._colors(gpus.values(), repeats).partition("@media")[0].splitlines()
    hatched = [line for line in light if "hatch" in line]
    assert [line.partition("{")[0] for line in hatched] == [".gpu-0", ".gpu-2"]
    assert len({line.partition("{")[2] for line in hatched}) == 2


def test_results_without_a_gpu_are_called_so(tmp_path):
    made_record.write(Record(points=(Point(**{**WORK, "gpu": ""}, mark="as published"),)), tmp_path)
    text = (tmp_path / "gpus" / "not-stated.html").read_text(encoding="utf-8")
    assert "Results without a stated GPU" in text
    assert "how fast it trains" not in text


def test_the_pages_name_the_newest_result_and_the_last_round_of_mlperf(record, folder):
    tables = values(record)
    for page in ("index.html", "how.html"):
        text = " ".join((folder / page).read_text(encoding="utf-8").split())
        assert f"built on {tables['made']}" in text
        assert tables["newest"] in text
        assert f"up to {tables['mlperf_rounds'][-1]}" in text
    assert "the logs of v6.0 were not available" in text


def test_every_table_of_results_has_the_note_and_the_system(record, folder):
    tables = values(record)
    point = next(one for one in record.points if one.note == "precision inferred")
    for page in (tables["gpus"][point.gpu]["page"], tables["models"][point.model]["page"]):
        assert '<span class="note">precision inferred</span>' in (folder / page).read_text(
            encoding="utf-8"
        )
    system = next(one.system for one in record.points if one.system)
    assert any(
        f'class="note">{system}</span>' in path.read_text()
        for path in (folder / "models").glob("*.html")
    )


def test_the_script_is_plain_text():
    text = "".join(
        (site._HERE / name).read_text(encoding="utf-8") for name in ("site.js", "chart.js")
    )
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(", text)
