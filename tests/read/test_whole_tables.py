"""Tables of --columns and logs of --pattern, with all that is read from them (as in
test_whole_logs.py).
"""

from __future__ import annotations

import io

import pytest
import whole

from tprimat.errors import UsageError
from tprimat.read import mapped
from tprimat.read.parsing.parsed_log import InputFile

CSV = """iteration;wall;passed;nll;rate;own;norm;per device
2;0,75;10,5;3,5;400,5;0,001;1,5;100,5
4;0,5;12,5;3,25;;0,002;1,25;101,5
4;0,5;12,5;3,25;;0,002;1,25;101,5
x;0,5;12,5;3,25;;0,002;1,25;101,5
5;;14,75;3;402,5;;nan;
1;0,625;2,5;3,125;;0,002;1,25;
"""
LINES = """{"iteration": 0, "perf": {"ms": 750.5, "seconds": 10}, "loss": 3.5}
{"settings": {"iteration": 7}}
not JSON
{"iteration": 3, "perf": {"ms": 500.25, "seconds": 11}, "loss": 3.25}
{"iteration": 4, "perf": {"seconds": 13}, "loss": 3.0}
"""

TABLES = {
    "all": (CSV, "step=iteration,time=wall,loss=nll,lr=own,grad_norm=norm,tokens_per_second=rate,"
            "tokens_per_second_per_gpu=per device"),
    "elapsed": (CSV, "step=iteration,elapsed=passed"),
    "both": (CSV, "step=iteration, elapsed=passed, time=wall"),
    "lines": (LINES, "step=iteration,time_ms=perf.ms,loss=loss"),
    "lines_elapsed": (LINES, "step=iteration,elapsed=perf.seconds"),
    "lines_with_a_mark": ("\ufeff \n" + LINES, "step=iteration,loss=loss"),
    "no_step": ("iteration,loss\nx,3\n1.5,2\n", "step=iteration,loss=loss"),
    "no_column": (CSV, "step=iteration,loss=nlls"),
    "no_column_of_lines": (LINES, "step=iteration,time=wall"),
    "no_column_of_many": (
        ",".join(f"column{number}" for number in range(25)) + "\n" + 2 * (",".join("1" * 25) + "\n"),
        "step=column1,time=wall",
    ),
    "empty": ("iteration,loss\n", "step=iteration,loss=loss"),
}  # fmt: skip

LOG = """2026-01-01T10:00:10Z step 1 | took 900.5 ms, loss 3.5
2026-01-01T10:00:12Z step 2 | took 901.5 ms, loss 3.25 and more
2026-01-01T10:00:14Z step 3 | took 902.5 ms
2026-01-01T10:00:17Z step 4 | took 903.5 ms, loss 3.0
2026-01-01T10:00:17Z step 2 | took 904.5 ms, loss 3.125"""

PATTERNS = {
    "log": (LOG + "\n", "step {step} .* {time} ms, loss {loss}"),
    "log_cut": (LOG, "step {step} .* {time} ms, loss {loss}"),
    "log_of_else": (LOG, "step {step} .* lr {lr}"),
}


@pytest.mark.parametrize("name", [*TABLES, *PATTERNS])
def test_all_that_a_table_tells(name):
    content, option = {**TABLES, **PATTERNS}[name]
    named = mapped.given(option, None) if name in TABLES else mapped.given(None, option)
    file_format = mapped.file_format(named)
    try:
        found = whole.written(file_format.read([InputFile("a", io.BytesIO(content.encode()))], {}))
    except ValueError as error:
        found = f"ValueError: {error}\n"
    whole.check(
        f"table_{name}.txt", f"format: {file_format.name}, {file_format.looks_for}\n{found}"
    )


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("step=a,time=b", {"step": "a", "time": "b"}),
        (" step = a b , loss=c=d ", {"step": "a b", "loss": "c=d"}),
        ("step=a", "--columns needs step=COLUMN and another value"),
        ("time=a,loss=b", {"time": "a", "loss": "b"}),
        (
            "micro_step=a,loss=b",
            "--columns: micro_step needs step, of which it counts the micro-batches",
        ),
        ("step=a,loss=b,loss=c", "--columns: loss occurs twice"),
        ("step=a,speed=b", "--columns: unknown value 'speed'"),
        ("step=a, time ", "--columns: 'time' is not VALUE=COLUMN"),
        ("step=a,time=", "--columns: 'time=' is not VALUE=COLUMN"),
    ],
)
def test_what_the_option_maps(option, named):
    if isinstance(named, dict):
        assert mapped.columns(option) == named
        return
    with pytest.raises(UsageError) as refused:
        mapped.columns(option)
    assert (refused.value.problem, refused.value.heading) == (named, "wrong-usage")
    assert (
        refused.value.hint
        == "values: step, micro_step, time, time_ms, interval, elapsed, loss, lr, grad_norm,"
        " steps_per_second, samples_per_second, tokens_per_second, tokens_per_second_per_gpu,"
        " tflops_per_gpu, mfu, batch, tokens"
    )


@pytest.mark.parametrize(("blanks", "found"), [(1_995, 1), (1_996, 0)])
def test_the_longest_line_of_a_pattern(blanks, found):
    """`1 2` ends within the first 2,000 characters, or at their end, where a number may go on."""
    line = "s" + " " * blanks + "1 2" + " x\n"
    assert mapped.LinePattern("s {step} {loss}").values_in(line)[1] is bool(found)
