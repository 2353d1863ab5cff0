"""The page as a file: self-contained, in order, and harmless whatever a result says."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_runs import HOSTILE, MI300X, comparison, failed_run, make_run
from stored_runs import notes_of

from tprimat.catalog.prices import Price
from tprimat.compare.cost import cost
from tprimat.report import Plot, Sources, page
from tprimat.report.blocks import Image
from tprimat.report.items import items_of
from tprimat.report.page import view
from tprimat.report.page.markup import Writer
from tprimat.report.verdict import cost_sentence, report
from tprimat.results.run import Data, Source, SourceFile

AMD = {"device": MI300X, "stack": "rocm"}
PICTURE = Plot("pictures/plot.png", "png", b"\x89PNG picture")
VOID = {"meta", "img", "input", "br"}
FOLDS = ("next", "tables", "config_diff", "method", "charts", "evidence", "warnings", "reproduce")
ALWAYS = {"tables", "method", "charts", "evidence", "reproduce"}
LARGEST = 1_000_000
"""Bytes of a page of four runs of 500 steps."""
PLOTLY = "mXhOOr+wexQqFeUhpDnm2a3c6ts/eVU/0kxyd08GSbo="
"""The sha256 of plotly-basic.min.js in npm's plotly.js-basic-dist-min 4.1.1."""


class Page(HTMLParser):
    """Tags with their attributes, text by tag, and whether every tag is closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]


def text_of(result):
    sources = Sources("1.2.3", "python3 compare_results.py 'a b.json'")
    return page.render(report(result), sources, PICTURE).decode()


def parsed(result):
    return Page(text_of(result))


def embedded(text, name):
    ((kind, content),) = re.findall(
        rf'<script type="application/(\w+)" id="{name}">(.*?)</script>', text, re.DOTALL
    )
    return json.loads(gzip.decompress(base64.b64decode(content)) if kind == "gzip" else content)


def repeated(number, **fields):
    step_time = fields.pop("step_time", 3.2)
    return tuple(
        make_run(
            **fields, step_time=step_time + 0.01 * k, timestamp=f"2026-02-0{k + 1}T00:00:00+00:00"
        )
        for k in range(number)
    )


CHANGED = (
    *(3.0 + 0.001 * (k % 5) for k in range(100)),
    *(2.0 + 0.001 * (k % 5) for k in range(100)),
)
CASES = {
    "one_system": lambda: comparison(make_run()),
    "pair": lambda: comparison(make_run(precision=None), make_run(**AMD, step_time=2.4, batch=128)),
    "two_runs": lambda: comparison(repeated(2), repeated(2, **AMD, step_time=2.4)),
    "several_runs": lambda: comparison(repeated(3), repeated(3, **AMD, step_time=2.4)),
    "speed_changed": lambda: comparison(
        make_run(steps=200), make_run(**AMD, steps=200, step_times=CHANGED)
    ),
    "failed": lambda: comparison(make_run(), failed_run()),
    "all_failed": lambda: comparison(failed_run()),
    "excluded": lambda: comparison(make_run(**AMD), make_run(step_time=0.01)),
    "six_systems": lambda: comparison(
        *(make_run(label=f"setting {index}", step_time=3 + 0.1 * index) for index in range(6))
    ),
    "twenty_systems": lambda: comparison(
        *(make_run(label=f"setting {index}", step_time=3 + 0.1 * index) for index in range(20))
    ),
    "two_models": lambda: comparison(
        repeated(2),
        repeated(2, **AMD),
        repeated(2, model="qwen"),
        repeated(2, **AMD, model="qwen", step_time=2.25),
    ),
    "nothing_known": lambda: comparison(
        make_run(None, gpus=None, batch=None, length=None, precision=None, losses=False)
    ),
    "gaps": lambda: comparison(
        make_run(step_times=(None, *make_run().step_times[1:30], None, *make_run().step_times[31:]))
    ),
}


@pytest.mark.parametrize("name", CASES)
class TestWhole:
    def test_every_tag_is_closed_and_all_but_the_card_is_folded(self, name):
        found = parsed(CASES[name]())
        assert found.open == []
        folds = [
            attributes["id"]
            for tag, attributes in found.tags
            if tag == "details" and attributes.get("id") in FOLDS
        ]
        assert folds == [anchor for anchor in FOLDS if anchor in folds]
        assert set(folds) >= ALWAYS
        assert not any(
            "open" in attributes for _, attributes in found.tags if attributes.get("id") in FOLDS
        )
        assert found.ids().index("card") < found.ids().index("tables")

    def test_every_link_leads_somewhere(self, name):
        found = parsed(CASES[name]())
        ids = found.ids()
        assert len(set(ids)) == len(ids)
        targets = {attributes["href"] for tag, attributes in found.tags if tag == "a"}
        assert {target[1:] for target in targets} <= set(ids)
        assert all(target.startswith("#") for target in targets)

    def test_its_data_is_json_for_any_reader(self, name):
        text = text_of(CASES[name]())
        assert set(embedded(text, "data")) == {
            "palettes",
            "systems",
            "runs",
            "charts",
            "windows",
            "costs",
        }
        results = embedded(text, "results")
        assert len(results) == len(embedded(text, "data")["runs"])

    def test_every_label_and_every_output_has_its_control(self, name):
        found = parsed(CASES[name]())
        for tag, attributes in found.tags:
            if tag == "label" and "for" in attributes:
                assert attributes["for"] in found.ids()


def card_of(text):
    return text[text.index('<section id="card"') : text.index("</section>")]


def chips(text):
    return re.findall(r'<details class="chip (\w+)"><summary>(.*?)</summary>', text)


class TestCard:
    def test_the_headline_is_that_of_the_verdict(self):
        result = CASES["several_runs"]()
        answer = report(result).answers[0].verdict
        card = card_of(text_of(result))
        assert (
            '<p class="headline">8×MI300X (BF16) is <strong>33% faster</strong> per GPU than 8×H100'
            in card
        )
        assert f'<p class="certainty">{answer.certainty}</p>' in card
        assert "95% CI" in answer.certainty

    @pytest.mark.parametrize(
        ("name", "standing"),
        [
            ("pair", "unknown"),
            ("two_runs", "preliminary"),
            ("several_runs", "significant"),
            ("excluded", "excluded"),
            ("one_system", "single"),
        ],
    )
    def test_its_border_says_how_certain_it_is(self, name, standing):
        assert f'class="card {standing}"' in text_of(CASES[name]())

    def test_the_interval_bar_holds_the_interval_and_no_difference(self):
        (found,) = re.findall(r'<div class="interval".*?</div>', text_of(CASES["several_runs"]()))
        left, width = map(
            float, re.search(r'class="range" style="left:([\d.]+)%;width:([\d.]+)%', found).groups()
        )
        one, dot = (
            float(re.search(rf'class="{name}" style="left:([\d.]+)%', found)[1])
            for name in ("one", "dot")
        )
        assert 0 < one < left < dot < left + width < 100
        assert "no difference is 1.00" in found

    def test_a_single_run_has_a_point_and_an_excluded_one_nothing(self):
        assert 'class="interval unknown"' in text_of(CASES["pair"]())
        assert 'class="interval' not in text_of(CASES["excluded"]())

    def test_a_single_run_that_changed_speed_has_the_range_of_its_segments(self):
        card = card_of(text_of(CASES["speed_changed"]()))
        assert re.search(
            r"<strong>7–60% faster</strong> .*; 8×MI300X \(BF16\) sped up at step 101", card
        )
        assert 'class="range"' in card

    def test_bars_are_as_long_as_the_throughput_and_carry_its_interval(self):
        card = card_of(text_of(CASES["several_runs"]()))
        fast, slow = (
            float(width) for width in re.findall(r'class="fill" style="width:([\d.]+)%"', card)
        )
        assert slow / fast == pytest.approx(2.41 / 3.21, abs=0.002)
        assert card.count("95% CI of the mean of 3 runs") == 2

    def test_what_is_excluded_has_no_bar_and_its_explanations(self):
        card = card_of(text_of(CASES["excluded"]()))
        assert '(excluded)</span><span class="track"></span>' in card
        assert "Possible explanations for 8×H100 (BF16), most likely first:</p><ol>\n<li>" in card
        assert ("bad", "8×H100 (BF16) excluded") in chips(card)

    def test_chips_say_what_could_change_the_decision_first(self):
        found = chips(text_of(CASES["pair"]()))
        styles = [style for style, _ in found]
        assert styles == sorted(styles, key=["bad", "warn", "ok", "info"].index)
        assert ("warn", "Global batch differs: 128 vs 64 sequences") in found
        assert ("info", "18 settings not reported by every system") in found

    def test_a_chip_opens_its_paragraph(self):
        card = card_of(text_of(CASES["pair"]()))
        assert (
            '<details class="chip warn"><summary>Global batch differs: 128 vs 64'
            " sequences</summary><p>global batch differs: 128 vs 64 sequences; compare tokens/s,"
            " not step time</p></details>" in card
        )

    def test_checks_that_passed_are_green(self):
        found = chips(text_of(CASES["six_systems"]()))
        assert ("ok", "No reported settings differ") in found
        assert any(
            style == "ok" and label.startswith("Within hardware peak (") for style, label in found
        )

    def test_several_models_are_a_row_each_below_one_headline(self):
        text = text_of(CASES["two_models"]())
        card = card_of(text)
        assert card.count('<p class="headline">') == 1
        assert '<p class="headline">Preliminary: 8×MI300X (BF16) is 42% faster per GPU than' in card
        assert " in 1 of 2 models; no significant difference in 1</p>" in card
        rows = re.findall(r'<div class="answer row (\w+)"><p><strong>(.*?):</strong>', card)
        assert rows == [("none", "Llama 3.1 8B"), ("preliminary", "Qwen 2.5 7B")]
        assert len(re.findall("data-price=", card)) == 2

    @pytest.mark.parametrize(("alone", "shown"), [(3, 4), (4, 1)])
    def test_answers_come_before_what_is_not_compared(self, alone, shown):
        runs = [make_run(model=f"alone {number}") for number in range(alone)]
        text = text_of(
            comparison(*runs, make_run(model="qwen"), make_run(**AMD, model="qwen", step_time=2.4))
        )
        card = card_of(text)
        assert card.index("33% faster") < card.index("Only one system") < card.index("Throughput")
        before, fold, _ = card.partition(f"<details><summary>Not compared ({alone})</summary>")
        assert before.count('<div class="answer') == shown
        assert bool(fold) == (shown == 1)
        assert "<title>Qwen 2.5 7B · " in text

    def test_answers_in_tokens_and_in_samples_have_bars_of_their_own(self):
        samples = {"model": "qwen", "framework": "mlperf", "length": None}
        runs = [
            make_run(**more, **each)
            for more in ({}, samples)
            for each in ({}, {**AMD, "step_time": 2.4})
        ]
        card = card_of(text_of(comparison(*runs)))
        assert re.findall("<h3>(.*?)</h3>", card) == [
            "Llama 3.1 8B, tokens/s/GPU",
            "Qwen 2.5 7B, samples/s/GPU",
        ]
        assert re.findall(r'class="fill" style="width:([\d.]+)%', card)[::2] == ["100.0", "100.0"]

    def test_a_page_has_no_more_systems_than_it_lists(self, monkeypatch):
        monkeypatch.setattr(page.document, "MOST_SYSTEMS", 2)
        made = report(
            comparison(
                *(make_run(label=f"s{index}", step_time=1 + index / 10) for index in range(4))
            )
        )
        text = page.render(made, Sources("1", ""), None).decode()
        assert "2 more systems are not listed" in text
        assert not re.search(r"\bs[23]\b", text)

    def test_answers_of_one_model_have_titles_of_their_own(self):
        pairs = ({}, {"batch": 8, "length": 8192})
        runs = [
            make_run(**work, **each) for work in pairs for each in ({}, {**AMD, "step_time": 2.4})
        ]
        found = comparison(*runs)
        titles = [f"Llama 3.1 8B, sequence length {length}" for length in (2048, 8192)]
        assert sorted(re.findall("<h3>(.*?)</h3>", card_of(text_of(found)))) == [
            f"{each}, tokens/s/GPU" for each in titles
        ]
        assert sorted({item.title for item in items_of(found)}) == titles

    def test_c9_each_verdict_of_one_model_has_a_title_of_its_own(self):
        pairs = ({}, {"batch": 8, "length": 8192})
        found = comparison(
            *(
                make_run(**work, **each)
                for work in pairs
                for each in ({}, {**AMD, "step_time": 2.4})
            )
        )
        text = text_of(found)
        rows = re.findall(r'<div class="answer row \w+"><p><strong>(.*?):</strong>', card_of(text))
        assert sorted(rows) == [
            f"Llama 3.1 8B, sequence length {length}" for length in (2048, 8192)
        ]

    def test_c9_a_title_tells_the_systems(self):
        devices = "NVIDIA B200", "NVIDIA H200", "NVIDIA A100-SXM4-80GB", MI300X
        for count, names in (
            (2, "8×H200 (BF16) vs 8×B200 (BF16)"),
            (3, "8×A100 80GB (BF16), 8×H200 (BF16) and 8×B200 (BF16)"),
            (4, "8×MI300X (BF16), 8×A100 80GB (BF16) and 2 more"),
        ):
            runs = [
                make_run(device, step_time=12 - place)
                for place, device in enumerate(devices[:count])
            ]
            made = report(comparison(*runs))
            shown = page.render(made, Sources("1", ""), None).decode()
            assert f"<title>Llama 3.1 8B · {names}</title>" in shown
            first = page.document.in_full(made, Sources("1", ""), plot=False).screen[0]
            assert first.text == f"Comparison: Llama 3.1 8B · {names}"

    def test_c5_a_bar_of_which_nobody_knows_the_interval_says_so(self):
        def days(count, step_time, **fields):
            """Runs a day apart, each slower than the one before by one in a thousand."""
            stamps = [f"2026-03-{day:02d}T08:00:00+00:00" for day in range(1, count + 1)]
            return tuple(
                make_run(step_time=step_time * (1 + i / 1000), timestamp=at, **fields)
                for i, at in enumerate(stamps)
            )

        card = card_of(text_of(comparison(days(3, 3.2), days(1, 2.4, **AMD))))
        single, several = re.findall(r'<p class="bar".*?</p>', card, re.DOTALL)
        assert '<span class="open">' in single
        assert "(1 run)" in single
        assert 'title="1 run: run-to-run variation is unknown"' in single
        assert 'class="ci"' not in single
        assert 'class="ci"' in several
        assert '<span class="open">' not in several
        apart = (*days(1, 2.4, **AMD), *days(2, 2.05, **AMD)[1:])
        bars = re.findall(
            r'<p class="bar".*?</p>', card_of(text_of(comparison(days(3, 3.2), apart))), re.DOTALL
        )
        (wide,) = (bar for bar in bars if "MI300X" in bar)
        assert re.search(r"± (>|&gt;)100% [(]2 runs[)]", wide)
        assert '<span class="open">' in wide

    def test_many_systems_are_folded_beyond_the_first(self):
        card = card_of(text_of(CASES["twenty_systems"]()))
        assert card.count("<summary>13 more systems</summary>") == 2
        assert card.count('<p class="bar"') == 20

    def test_one_system_more_is_one(self):
        card = card_of(text_of(comparison(*(make_run(gpus=8 * count) for count in range(1, 9)))))
        assert card.count("<summary>1 more system</summary>") == 2


class TestSafety:
    def test_nothing_is_fetched_and_only_the_two_known_scripts_run(self):
        text = text_of(CASES["pair"]())
        found = Page(text)
        policy = next(
            a["content"] for _, a in found.tags if a.get("http-equiv") == "Content-Security-Policy"
        )
        (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
        own = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert (
            policy
            == f"default-src 'none'; script-src 'sha256-{own}' 'sha256-{PLOTLY}'; img-src data:"
            " blob:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
        )
        kinds = [attributes.get("type") for tag, attributes in found.tags if tag == "script"]
        assert kinds == ["application/json", "application/gzip", "application/gzip", None]
        assert not {"link", "iframe", "object", "form", "base", "embed"} & {
            tag for tag, _ in found.tags
        }
        for _, attributes in found.tags:
            assert not any(name.startswith("on") for name in attributes)
            for name in ("href", "src"):
                assert (attributes.get(name) or "#").startswith(("#", "data:image/"))

    def test_the_library_is_the_published_one(self):
        (found,) = re.findall(r'id="library">([^<]*)<', text_of(CASES["pair"]()))
        unpacked = gzip.decompress(base64.b64decode(found))
        assert base64.b64encode(hashlib.sha256(unpacked).digest()).decode() == PLOTLY
        assert b"plotly.js (basic - minified) v4.1.1" in unpacked[:200]

    def test_hostile_text_is_text(self):
        run = make_run(
            HOSTILE,
            label='"><img src=x onerror=alert(1)>',
            framework=HOSTILE,
            model="</title></script><script>alert(1)</script>",
            notes=notes_of(
                HOSTILE,
                "<b>bold</b>",
                "&lt;script&gt;",
                "</script><script>alert(2)</script>\u2028\u2029<!--",
            ),
            source=Source(
                kind="log",
                command=("<script>", HOSTILE),
                files=(SourceFile(path="</script><i>", sha256="0" * 64),),
            ),
            data=Data(kind="</script><b>", entropy=1.5),
        )
        text = text_of(
            comparison(run, make_run(**AMD, model=run.model), notes=notes_of("<i>note</i>"))
        )
        found = Page(text)
        assert found.open == []
        assert not {"b", "i", "img"} & {tag for tag, _ in found.tags}
        assert [tag for tag, _ in found.tags].count("script") == 4
        assert found.texts["title"][0].startswith("</title></script><script>alert(1)</script> · ")
        said = "".join(
            text for tag, texts in found.texts.items() if tag != "script" for text in texts
        )
        assert "&lt;script&gt;" in said
        for character in "\x1b\u202e\u2028\u2029":
            assert character not in text
        # What is downloaded is what was read.
        assert embedded(text, "results")[0]["run"]["warnings"][-1] == run.warnings[-1]

    def test_charts_read_no_markup_in_names(self):
        run = make_run(label="<b>x</b> <a href='http://x.org'>y</a> %{x} &lt;")
        data = embedded(text_of(comparison(run, make_run(**AMD))), "data")
        for chart in data["charts"]:
            said = json.dumps(chart, ensure_ascii=False)
            assert not re.search(r"<(?!br>)", said)
            assert "%{x}" not in said

    def test_only_templates_write_markup(self):
        folder = Path(page.__file__).parent
        # A label of a chart has line breaks, which the charts' library reads.
        written = {
            text
            for path in folder.rglob("*.py")
            for text in re.findall(r"</?[a-z][^>]*>|&[a-z]+;", path.read_text(encoding="utf-8"))
        }
        assert written == {"<br>"}
        unescaped = [
            line.strip()
            for path in sorted(folder.rglob("*.html"))
            for line in path.read_text(encoding="utf-8").splitlines()
            if re.search(r"\|\s*safe\b|autoescape", line)
        ]
        assert unescaped == ["<style>{{ style | safe }}", "<script>{{ script | safe }}</script>"]


class TestPicture:
    """What a scaling report shows above the card."""

    def image(self, picture):
        return Page(Writer(picture).text([Image("Scaling")]))

    def test_it_is_in_the_page(self):
        (found,) = (attributes for tag, attributes in self.image(PICTURE).tags if tag == "img")
        kind, _, data = found["src"].partition(";base64,")
        assert (kind, base64.b64decode(data), found["alt"]) == (
            "data:image/png",
            PICTURE.content,
            "Scaling",
        )

    def test_without_a_picture_there_is_no_image(self):
        assert self.image(None).tags == []

    def test_a_pdf_is_named_since_no_browser_shows_it_as_an_image(self):
        found = self.image(Plot("plot.pdf", "pdf", b"%PDF"))
        assert not [tag for tag, _ in found.tags if tag == "img"]
        assert "plot.pdf" in found.texts["code"]


def test_four_runs_of_500_steps_fit_a_mailbox():
    runs = [
        make_run(
            step_time=3.2 + 0.01 * k, steps=500, label=f"run {k}", grad_norms=(1.2345678,) * 500
        )
        for k in range(4)
    ]
    assert len(text_of(comparison(*runs))) < LARGEST


def test_many_results_are_compressed_and_whole():
    runs = [make_run(label=f"run {k}", steps=2000, step_time=3.2 + 0.01 * k) for k in range(6)]
    found = embedded(text_of(comparison(*runs)), "results")
    assert [each["run"]["step_times"] for each in found] == [list(run.step_times) for run in runs]


def test_every_footnote_is_linked_both_ways():
    found = parsed(
        comparison(
            make_run(notes=notes_of("one", "two")), make_run(**AMD, steps=9, notes=notes_of("two"))
        )
    )
    notes = {name for name in found.ids() if name.startswith(("note-", "mark-"))}
    assert notes == {f"{kind}-{number}" for kind in ("note", "mark") for number in (1, 2, 3)}


def test_columns_of_figures_are_aligned_to_the_right():
    assert re.search(
        r'<th scope="row">Step time, mean</th><td class="right"><a class="figure"'
        r' href="#s0-avg_step_time_seconds">'
        r"3\.200 s</a></td>",
        text_of(CASES["one_system"]()),
    )


class TestEvidence:
    def test_a_figure_leads_to_its_formula_steps_and_file(self):
        text = text_of(CASES["one_system"]())
        row = re.search(r'<tr id="s0-tokens_per_second_per_gpu">(.*?)</tr>', text)[1]
        assert re.search(r"= 64 × 2048 / 3\.\d+ s / 8<", row)
        assert "steps 4–60 of results/file_1.json" in row

    def test_a_log_is_named_with_its_lines(self):
        source = Source(kind="log", files=(SourceFile(path="logs/train.log", sha256="a" * 64),))
        run = make_run(source=source, lines=tuple(range(101, 161)))
        row = re.search(r'<tr id="s0-avg_step_time_seconds">(.*?)</tr>', text_of(comparison(run)))[
            1
        ]
        assert "steps 4–60 of results/file_1.json; lines 104–160 of logs/train.log" in row

    def test_a_ratio_names_the_two_rates(self):
        text = text_of(comparison(make_run(), make_run(**AMD, step_time=1.6)))
        row = re.search(r'<tr id="p0">(.*?)</tr>', text)[1]
        assert "10,240 / 5,120 tokens/s/GPU" in row
        assert 'href="#s0-tokens_per_second_per_gpu"' in row

    def test_a_page_holds_so_many_runs_and_the_values_of_all(self, monkeypatch):
        monkeypatch.setattr(view, "MOST_RUNS", 4)
        text = text_of(comparison(repeated(4), repeated(4, **AMD, step_time=2.4)))
        assert len(embedded(text, "results")) == 4
        assert "Shown: 4 of 8 runs." in text
        assert "4 runs each" in card_of(text)


class TestCost:
    def fields(self, result):
        return [attributes for _, attributes in parsed(result).tags if "data-price" in attributes]

    def test_prices_of_the_command_line_are_in_the_fields(self):
        prices = {"8×H100 (BF16)": Price(2.95, 2.95), "8×MI300X (BF16)": Price(1.5, 2)}
        result = dataclasses.replace(CASES["several_runs"](), prices=prices)
        assert {field["data-price"]: field["value"] for field in self.fields(result)} == {
            "0": "2.95",
            "1": "1.5:2",
        }
        found = cost(result, result.models[0].groups[0].leaders)
        assert cost_sentence(found, prices) in text_of(result)

    def test_there_is_no_price_of_ours(self):
        assert [field["value"] for field in self.fields(CASES["pair"]())] == ["", ""]
        assert "Enter your price per GPU-hour" in text_of(CASES["pair"]())

    def test_what_is_excluded_has_no_cost(self):
        assert len(self.fields(CASES["excluded"]())) == 0
        values = embedded(text_of(CASES["excluded"]()), "data")
        assert [system["cost"] is None for system in values["systems"]] == [False, True]
        assert values["costs"] == []

    @pytest.mark.parametrize(
        ("length", "unit", "amount"), [(2048, "10⁹ tokens", 1e9), (None, "10⁶ samples", 1e6)]
    )
    def test_a_cost_is_that_of_the_work_in_which_its_group_is_compared(self, length, unit, amount):
        runs = [
            make_run(framework="mlperf", length=length),
            make_run(**AMD, framework="mlperf", step_time=2.4),
        ]
        text = text_of(comparison(*runs))
        assert f'<th scope="col">USD per {unit}</th>' in text
        costs = [system["cost"] for system in embedded(text, "data")["systems"]]
        # 64 sequences a step on 8 GPUs, at $1 per GPU-hour.
        work = 64 / 8 * (length or 1)
        times = [
            run.summary.performance.avg_step_time_seconds
            for system in comparison(*runs).systems
            for run in system.runs
        ]
        assert costs == pytest.approx([amount / 3600 * time / work for time in times], rel=1e-3)

    def test_a_price_becomes_a_cost_per_token(self):
        values = embedded(text_of(CASES["one_system"]()), "data")
        rate = CASES["one_system"]().systems[0].value("tokens_per_second_per_gpu")
        assert values["systems"][0]["cost"] == pytest.approx(1e9 / rate / 3600)
