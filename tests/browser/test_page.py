"""The HTML report in a browser: draws without complaint or network; sliders, prices, switches,
downloads, print.
"""

from __future__ import annotations

import base64
import csv
import dataclasses
import io
import json
import re
import time

import pytest
from made_runs import HOSTILE, MI300X, comparison, failed_run, make_run
from stored_runs import notes_of

from tprimat.catalog.prices import Price
from tprimat.cli import run as run_command
from tprimat.compare.cost import cost
from tprimat.report import Sources, page
from tprimat.report.page import windows
from tprimat.report.verdict import cost_sentence, report
from tprimat.results.run import Data

pytestmark = pytest.mark.browser

AMD = {"device": MI300X, "stack": "rocm"}


def several(number=3, **fields):
    return tuple(
        make_run(
            **{**fields, "step_time": fields.get("step_time", 3.2) * (1 + 0.01 * k)},
            timestamp=f"2026-02-0{k + 1}T00:00:00+00:00",
            data=Data(kind="markov", entropy=1.9),
        )
        for k in range(number)
    )


CASES = {
    "one": lambda: comparison(make_run()),
    "pair": lambda: comparison(make_run(), make_run(**AMD, step_time=2.4)),
    "several": lambda: comparison(several(), several(**AMD, step_time=2.4)),
    "preliminary": lambda: comparison(several(2), several(2, **AMD, step_time=2.4)),
    "excluded": lambda: comparison(make_run(**AMD), make_run(step_time=0.01)),
    "six": lambda: comparison(
        *(several(label=f"setting {k}", step_time=3 + 0.1 * k) for k in range(6))
    ),
    "failed": lambda: comparison(make_run(), failed_run(), make_run(label="two")),
    "all_failed": lambda: comparison(failed_run()),
    "models": lambda: comparison(
        make_run(),
        make_run(**AMD),
        make_run(model="qwen"),
        make_run(**AMD, model="qwen", step_time=3.25),
    ),
    "hostile": lambda: comparison(
        make_run(
            HOSTILE,
            label="<script>alert(1)</script>",
            model="</script><img src='http://example.org/x.png' onerror=alert(2)>",
            notes=notes_of(HOSTILE, "</script><script>alert(3)</script>\u2028"),
        ),
        make_run(
            **AMD,
            label="<a href='http://example.org/'>y</a> %{x} <b>z</b>",
            model="</script><img src='http://example.org/x.png' onerror=alert(2)>",
        ),
    ),
    "lora": lambda: comparison(
        *(
            make_run(
                **fields,
                label=f"a rather long name of a configuration {time}",
                framework="mlperf",
                length=None,
            )
            for time, fields in ((3.2, {}), (2.4, AMD))
        )
    ),
    "long": lambda: comparison(make_run(steps=20_000), make_run(**AMD, steps=500)),
}


@pytest.fixture
def opened(browser, tmp_path):
    """Opens the page of a comparison; gives the browser."""

    def open_(result):
        path = tmp_path / "comparison_report.html"
        path.write_bytes(page.render(report(result), Sources("1.2.3", "x"), None))
        browser.open(path)
        return browser

    return open_


@pytest.mark.parametrize("name", CASES)
def test_draws_without_complaint_or_network(name, opened, tmp_path):
    browser = opened(CASES[name]())
    browser.unfold("charts")
    assert browser.complaints() == []
    assert browser.requests() == [(tmp_path / "comparison_report.html").as_uri()]
    wanted = json.loads(browser.text("data"))["charts"]
    drawn = browser.run(
        "return [...document.querySelectorAll('.chart')].filter(e => e.data).map(e => e.id)"
    )
    assert sorted(drawn) == sorted(chart["id"] for chart in wanted)
    assert bool(drawn) == (name != "all_failed")


def test_hostile_names_show_as_text(opened):
    browser = opened(CASES["hostile"]())
    browser.unfold("charts")
    assert (
        browser.run("return document.querySelectorAll('img, b, main a[href^=http], svg a').length")
        == 0
    )
    assert browser.run("return document.scripts.length") == 4
    legend = browser.run(
        "return [...document.querySelectorAll('#steps-0 .legendtext')].map(e => e.textContent)"
    )
    assert "<script>alert(1)</script>" in legend[0]
    assert "<a href='http://example.org/'>y</a> %\u200b{x} <b>z</b>" in legend[1]


def test_the_policy_would_stop_what_is_not_of_the_page(opened):
    browser = opened(CASES["one"]())
    browser.run(
        "const s = document.createElement('script'); s.textContent = 'window.evil = 1';"
        " document.body.append(s);const i = new Image(); i.src = 'http://example.org/x.png';"
        " document.body.append(i);"
    )
    assert browser.run("return window.evil === undefined")
    said = " ".join(browser.complaints())
    assert "script-src" in said
    assert "img-src" in said


class TestWindow:
    def test_the_sliders_look_up_what_was_computed_and_the_answer_stays(self, opened):
        result = CASES["several"]()
        browser = opened(result)
        grid = windows.grid(result.models[0].groups[0])
        texts = windows.values(grid)
        card = browser.text("card")
        for begin, end in ((0, len(grid.stops) - 1), (3, 12), (6, 9)):
            browser.set("window-0-end", end)
            browser.set("window-0-begin", begin)
            assert browser.text("window-0-begin-text") == str(grid.stops[begin])
            assert browser.text("window-0-end-text") == str(grid.stops[end])
            assert browser.text("window-0-ratio-0") == texts["ratios"][0][begin][end]
            assert [browser.text(f"window-0-rate-{system}") for system in (0, 1)] == [
                table[begin][end] for table in texts["rates"]
            ]
        seen = {browser.text("window-0-ratio-0")}
        browser.set("window-0-begin", 0)
        assert browser.text("window-0-ratio-0") not in seen
        assert browser.text("card") == card

    def test_a_window_of_too_few_steps_says_so_and_the_ends_never_cross(self, opened):
        browser = opened(CASES["pair"]())
        browser.set("window-0-begin", 5)
        browser.set("window-0-end", 4)
        assert browser.run("return document.getElementById('window-0-begin').value") == "3"
        assert browser.text("window-0-ratio-0") == "too few steps"

    def test_as_it_opens_it_shows_what_the_sliders_stand_for(self, opened):
        browser = opened(CASES["pair"]())
        before = browser.text("window-0-ratio-0")
        begin = browser.run("return document.getElementById('window-0-begin').value")
        browser.set("window-0-begin", begin)
        assert browser.text("window-0-ratio-0") == before

    def test_the_keyboard_moves_them(self, opened):
        from selenium.webdriver.common.by import By
        from selenium.webdriver.common.keys import Keys

        browser = opened(CASES["pair"]())
        browser.unfold("method")
        before = browser.text("window-0-begin-text")
        browser.driver.find_element(By.ID, "window-0-begin").send_keys(Keys.ARROW_RIGHT)
        assert int(browser.text("window-0-begin-text")) > int(before)


class TestPrices:
    NAMES = ("8×H100 (BF16)", "8×MI300X (BF16)")

    @pytest.mark.parametrize(
        "prices",
        [
            (Price(2.95, 2.95), Price(1.5, 2.25)),
            (Price(1, 1), Price(4.125, 4.125)),
            (Price(3, 3), Price(3, 5)),
            (Price(3, 3), None),
            (None, Price(2, 3)),
            (Price(0.0001, 0.0001), Price(1000, 1000)),
            (Price(3, 3), Price(3.97, 3.97)),
        ],
    )
    def test_the_sentence_is_that_of_the_commands(self, opened, prices):
        result = CASES["several"]()
        browser = opened(result)
        for number, price in enumerate(prices):
            if price is not None:
                browser.set(f"price-{number}", f"{price.low}:{price.high}")
        known = {
            name: price for name, price in zip(self.NAMES, prices, strict=True) if price is not None
        }
        priced = dataclasses.replace(result, prices=known)
        assert browser.text("cost-0") == cost_sentence(
            cost(priced, priced.models[0].groups[0].leaders), known
        )

    def test_a_price_becomes_a_cost_per_token(self, opened):
        result = CASES["several"]()
        browser = opened(result)
        browser.set("price-1", "1.5:2.25")
        (fast,) = (system for system in result.systems if system.name == self.NAMES[1])
        at_one = 1e9 / 3600 / fast.value("tokens_per_second_per_gpu")
        (index,) = (index for index, system in enumerate(result.systems) if system is fast)
        assert browser.text(f"per-token-{index}") == f"{1.5 * at_one:.1f}–{2.25 * at_one:.1f}"

    def test_another_price_changes_the_cheaper_one(self, opened):
        browser = opened(CASES["pair"]())
        browser.set("price-0", "3")
        browser.set("price-1", "3")
        assert browser.text("cost-0").startswith(
            "8×MI300X (BF16) at $3.00 is 25% cheaper per token"
        )
        browser.set("price-1", "4.2")
        assert browser.text("cost-0").startswith("8×H100 (BF16) at $3.00 is 5% cheaper per token")

    def test_prices_of_two_models_are_asked_for_once(self, opened):
        browser = opened(CASES["models"]())
        browser.set("price-0", "3")
        browser.set("price-1", "3")
        assert [browser.text(f"per-token-{system}") for system in range(4)].count("–") == 0
        assert "cheaper per token" in browser.text("cost-1")

    @pytest.mark.parametrize("wrong", ["free", "-1", "0", "3:2", "1:2:3", "1e999", "<b>", "2,95"])
    def test_what_is_no_price_is_marked_and_computes_nothing(self, opened, wrong):
        browser = opened(CASES["pair"]())
        browser.set("price-0", wrong)
        assert (
            browser.run("return document.getElementById('price-0').getAttribute('aria-invalid')")
            == "true"
        )
        assert browser.text("per-token-1") == "–"
        browser.set("price-0", "")
        assert (
            browser.run("return document.getElementById('price-0').getAttribute('aria-invalid')")
            == "false"
        )


class TestSeriesOnAndOff:
    def test_a_box_takes_a_system_out_of_every_chart(self, opened):
        browser = opened(CASES["pair"]())
        browser.unfold("charts")
        browser.run("document.querySelector('[data-system=\"1\"]').click()")
        shown = browser.run(
            "return [...document.querySelectorAll('.chart')].filter(e => e.data)"
            ".flatMap(e => e.data.filter(t => t.meta).map(t => [t.meta.system, t.visible]))"
        )
        assert {(system, visible) for system, visible in shown} == {(0, True), (1, False)}
        browser.run("document.querySelector('[data-system=\"1\"]').click()")
        assert browser.run("return document.getElementById('steps-0').data.every(t => t.visible)")


class TestRawData:
    def downloaded(self, browser, name):
        path = browser.downloads / name
        end = time.monotonic() + 120
        while not path.exists() or path.with_name(name + ".crdownload").exists():
            assert time.monotonic() < end, f"{name} never came"
            time.sleep(0.05)
        content = path.read_text(encoding="utf-8")
        path.unlink()
        return content

    def test_json_is_what_the_comparison_rests_on(self, opened):
        browser = opened(CASES["pair"]())
        browser.run("document.getElementById('download-json').click()")
        found = json.loads(self.downloaded(browser, "tprimat-results.json"))
        assert [each["file"] for each in found] == ["results/file_2.json", "results/file_1.json"]
        assert found[1]["run"]["step_times"] == list(make_run().step_times)

    def test_csv_has_a_row_a_record_and_no_formula(self, opened):
        run = make_run("=cmd|' /C calc'!A0", label='+1,"2"')
        browser = opened(comparison(run, make_run(**AMD, label="-b")))
        browser.run("document.getElementById('download-csv').click()")
        rows = list(csv.DictReader(io.StringIO(self.downloaded(browser, "tprimat-steps.csv"))))
        assert len(rows) == 120
        assert [float(row["step_times"]) for row in rows[:60]] == list(run.step_times)
        assert all(
            not row[name].startswith(("=", "+", "-", "@"))
            for row in rows
            for name in ("system", "file", "model")
        )

    def test_all_records_of_a_run_unfold(self, opened):
        browser = opened(CASES["pair"]())
        browser.run("document.querySelector('details.steps').open = true")
        browser.wait("document.querySelectorAll('details.steps tbody tr').length === 60")
        first = browser.run(
            "return [...document.getElementById('r0-step-1').cells].map(e => e.textContent)"
        )
        # A made run's first step differs from that of others, lest they be copies.
        assert first == ["1", first[1], first[2], "1", "–", "warm-up"]
        assert float(first[1]) == pytest.approx(30, abs=1e-6)
        assert (
            browser.run("return document.getElementById('r0-step-60').cells[5].textContent")
            == "steady state"
        )

    def test_a_link_to_folded_evidence_unfolds_it(self, opened):
        browser = opened(comparison(*(make_run(label=f"setting {k}") for k in range(6))))
        assert not browser.run("return document.getElementById('s5').open")
        browser.run("document.querySelector('a[href=\"#s5-avg_step_time_seconds\"]').click()")
        browser.wait("document.getElementById('s5').open")


class TestPoints:
    def test_a_click_on_a_step_says_where_it_comes_from(self, opened):
        run = make_run(lines=tuple(range(101, 161)))
        browser = opened(comparison(run, make_run(**AMD, step_time=2.4)))
        browser.unfold("charts")
        browser.run(
            "const chart = document.getElementById('steps-0');const data = chart.data.find(t =>"
            " t.meta && t.meta.run === 1 && t.customdata && t.customdata.length >"
            " 10);chart.emit('plotly_click', {points: [{data, customdata: 9}]})"
        )
        said = browser.text("point")
        assert said.startswith("8×H100 (BF16): step 10, ")
        assert "s, results/file_1.json, line 110 of the log; Show calculation" in said
        assert (
            browser.run("return document.querySelector('#point a').getAttribute('href')") == "#r1"
        )


SCREENS = ((1280, 800), (390, 844))


class TestOneScreen:
    @pytest.mark.parametrize(("width", "height"), SCREENS)
    @pytest.mark.parametrize(
        "name", ["one", "pair", "several", "preliminary", "excluded", "failed", "six"]
    )
    def test_the_page_fits_the_screen_as_it_opens(self, name, width, height, opened):
        browser = opened(CASES[name]())
        with browser.screen(width, height):
            assert browser.run("return document.documentElement.scrollWidth") <= width
            assert browser.run("return document.documentElement.scrollHeight") <= height

    def test_several_models_fit_a_desktop(self, opened):
        browser = opened(CASES["models"]())
        with browser.screen(1280, 800):
            assert browser.run("return document.documentElement.scrollHeight") <= 800

    @pytest.mark.parametrize(
        ("name", "color"), [("preliminary", "191, 135, 0"), ("excluded", "207, 34, 46")]
    )
    def test_the_border_says_preliminary_and_excluded(self, name, color, opened):
        browser = opened(CASES[name]())
        assert (
            browser.run("return getComputedStyle(document.getElementById('card')).borderColor")
            == f"rgb({color})"
        )

    @pytest.mark.parametrize("name", ["pair", "six", "models"])
    def test_no_table_is_wider_than_a_phone(self, name, opened):
        browser = opened(CASES[name]())
        with browser.screen(390, 844):
            browser.unfold_all()
            wide = (
                "return [...document.querySelectorAll('.wide')].filter(e => e.scrollWidth >"
                " e.clientWidth + 1).length"
            )
            assert browser.run(wide) == 0

    @pytest.mark.parametrize(("width", "height"), SCREENS)
    @pytest.mark.parametrize(
        "name", ["pair", "models", "excluded", "failed", "hostile", "lora", "primus"]
    )
    def test_all_can_be_read_folded_and_unfolded_in_light_and_dark(
        self, name, width, height, browser, opened, request, tmp_path
    ):
        if name == "primus":
            # Logs of 16 models, of which two systems compare.
            run_command(
                "compare",
                [str(request.getfixturevalue("samples") / name), "--results-dir", str(tmp_path)],
            )
            browser.open(tmp_path / "comparison_report.html")
        else:
            opened(CASES[name]())
        for scheme in ("light", "dark"):
            with browser.screen(width, height, scheme):
                folded = browser.audit()
                browser.unfold_all()
                unfolded = browser.audit()
                assert unfolded.pop("texts") > folded.pop("texts") > 10
                assert [folded, unfolded] == [{"faint": [], "wide": [], "page": 0}] * 2

    def test_the_audit_sees_what_cannot_be_read(self, opened):
        browser = opened(CASES["one"]())
        assert browser.audit()["faint"] == []
        browser.run(
            "const text = document.querySelector('.certainty, .headline'); text.style.opacity ="
            " '.3';text.style.whiteSpace = 'nowrap'; text.append('wide '.repeat(300))"
        )
        found = browser.audit()
        assert len(found["faint"]) > 0
        assert len(found["wide"]) > 0

    def test_a_chart_is_drawn_when_its_part_is_opened(self, opened):
        browser = opened(CASES["models"]())
        drawn = "return [...document.querySelectorAll('.chart')].filter(e => e.data).length"
        browser.run("document.getElementById('charts').open = true")
        assert browser.run("return typeof Plotly") == "undefined"
        browser.run("document.querySelector('#charts > details').open = true")
        browser.wait("document.getElementById('steps-0').data")
        assert 0 < browser.run(drawn) < int(browser.charts())

    def test_records_scroll_in_a_box_of_their_own(self, opened):
        browser = opened(CASES["long"]())
        browser.unfold_all()
        assert browser.run("return document.documentElement.scrollHeight") < 12_000

    def test_a_chip_opens_its_paragraph(self, opened):
        browser = opened(CASES["pair"]())
        shown = "return document.querySelector('.chip p').checkVisibility()"
        assert not browser.run(shown)
        browser.run("document.querySelector('.chip summary').click()")
        assert browser.run(shown)


class TestPrint:
    @pytest.mark.parametrize("name", ["pair", "several", "excluded", "six", "models"])
    def test_it_is_two_pages(self, name, opened):
        browser = opened(CASES[name]())
        paper = {"printBackground": True, "paperWidth": 8.27, "paperHeight": 11.69}
        found = browser.driver.execute_cdp_cmd("Page.printToPDF", paper)
        assert len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(found["data"]))) == 2
        assert browser.complaints() == []
        # What printing unfolds is folded again afterwards.
        browser.wait("!document.getElementById('tables').open")

    @pytest.mark.parametrize("name", ["pair", "six", "models", "hostile", "lora"])
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_all_that_is_printed_can_be_read(self, name, scheme, opened):
        browser = opened(CASES[name]())
        # A sheet of A4 without its margins.
        with browser.screen(703, 1032, scheme, "print"):
            browser.run("dispatchEvent(new Event('beforeprint'))")
            found = browser.audit()
            assert found.pop("texts") > 100
            assert found == {"faint": [], "wide": [], "page": 0}


class TestForEverybody:
    @pytest.mark.parametrize(("width", "height"), SCREENS)
    def test_dark_and_light_differ_and_are_readable(self, width, height, opened):
        browser = opened(CASES["preliminary"]())
        seen = []
        for scheme in ("light", "dark"):
            with browser.screen(width, height, scheme):
                browser.unfold("charts")
                colors = browser.run(
                    "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
                )
                assert contrast(*colors) >= 7
                style = (
                    "const style = getComputedStyle(document.querySelector(arguments[0]));"
                    "return [style.color, style.backgroundColor]"
                )
                for selector in ("a", "figcaption", "caption", ".certainty", "h2"):
                    assert contrast(browser.run(style, selector)[0], colors[1]) >= 4.5
                for selector in (".chip.warn > summary", ".chip.ok > summary"):
                    assert contrast(*browser.run(style, selector)) >= 7
                lines = browser.run(
                    "return document.getElementById('steps-0').data.map(t => t.line &&"
                    " t.line.color)"
                )
                assert all(contrast(color, colors[1]) >= 3 for color in lines if color)
                seen.append(colors)
        assert seen[0] != seen[1]

    def test_every_control_has_a_name_and_takes_the_focus(self, opened):
        browser = opened(CASES["several"]())
        nameless = browser.run(
            "return [...document.querySelectorAll('input, button, summary,"
            ' [tabindex="0"]\')].filter(e =>  !(e.labels && e.labels.length) &&'
            " !e.getAttribute('aria-label') && !e.textContent.trim()).map(e => e.outerHTML.slice(0,"
            " 80))"
        )
        assert nameless == []
        unnamed = browser.run(
            "return [...document.querySelectorAll('.chart')].filter(e =>"
            " !e.getAttribute('aria-label')).length"
        )
        assert unnamed == 0
        assert (
            browser.run(
                "return"
                " document.querySelectorAll('table:not(:has(caption)):not(:has(thead))').length"
            )
            == 0
        )

    def test_headings_go_down_one_level_at_a_time(self, opened):
        browser = opened(CASES["models"]())
        levels = browser.run(
            "return [...document.querySelectorAll('h1,h2,h3,h4')].map(e => Number(e.tagName[1]))"
        )
        assert levels[0] == 1
        assert levels.count(1) == 1


def contrast(one: str, other: str) -> float:
    """The contrast of two colors by WCAG 2: from 1 to 21."""
    lights = sorted((luminance(each) for each in (one, other)), reverse=True)
    return (lights[0] + 0.05) / (lights[1] + 0.05)


def luminance(color: str) -> float:
    if color.startswith("#"):
        parts = [int(color[index : index + 2], 16) for index in (1, 3, 5)]
    else:
        parts = [float(part) for part in re.findall(r"[\d.]+", color)[:3]]
    scaled = [part / 255 for part in parts]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in scaled
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
