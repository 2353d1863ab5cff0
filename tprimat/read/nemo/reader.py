"""Reader of NeMo's console: the lines of NeMo 2, the progress bar of NeMo 1.

    Training epoch 0, iteration 1/19 | lr: 2.999e-07 | global_batch_size: 512 | global_step: 1 |
    reduced_train_loss: 11.03 | train_step_timing in s: 7.549 | consumed_samples: 1024 | val_loss:
    0.7

    Epoch 0: :   5%|▌ | 5/100 [00:12<03:59, reduced_train_loss=10.90, global_step=4.000,
    consumed_samples=80.00, train_step_timing in s=1.230]

The iteration counts again in every epoch, global_step doesn't; both count from 0. All values but
global_step are means over the steps since the line before, of four digits. A new epoch or a restart
changes the order of the fields.

native_metrics: `tflops_per_gpu`, `tokens_per_second_per_gpu`, `memory_allocated_gb`,
`memory_reserved_gb`, `consumed_samples`, each if it is printed.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Mapping, Sequence

from tprimat.catalog.exact_names import names_of
from tprimat.read.nemo import setup
from tprimat.read.parsing.records import Record
from tprimat.read.parsing.run_builder import RunBuilder, timer
from tprimat.read.parsing.step_lines import StepReader
from tprimat.read.parsing.text import Line, last_stamp
from tprimat.read.parsing.values import count, number, state, whole

_LINE = re.compile(r"Training epoch (\d{1,9}), iteration (\d{1,12})(?:/(\d{1,12}))?\s*\|")
_BAR = re.compile(r"\bEpoch (\d{1,9}): .{0,300}?(\d{1,12})/(\d{1,12}|\?) \[")
_PAIR = re.compile(r"(?<=[\[,])\s*([A-Za-z][\w ()/]{1,60}?)=([^,\]]{1,40})(?=[,\]])")

NAMES = {name.lower(): kind for kind, names in names_of("NeMo").items() for name in names}
NAMES |= dict.fromkeys(("global_batch_size", "global_step", "v_num"), "")
"""Quantities, lower case, and their names here, with the unit; the first of a kind counts."""

REGULAR = 0.8
"""Share of the lines that must stand if an interval has them."""

TIMING = timer(
    clock=(
        "host clock in NeMo's TimingCallback, from a batch's start to its end, without waiting for"
        " the device"
    ),
    covers=(
        "data loading, forward and backward of all micro-batches and the optimizer; not what lies"
        " between batches, such as checkpoints and validation"
    ),
    over_ranks="rank 0 prints",
)


class Reader(StepReader):
    """A parsed_log.Reader of NeMo logs."""

    name = "nemo"
    timing = TIMING
    signs = ("Training epoch ",)
    other_signs = ("reduced_train_loss=", "stopped:", *setup.SIGNS)
    names = NAMES
    peaks: Mapping[str, str] = {
        f"memory_{kind}_gb": f"peak_memory_{kind}_gb" for kind in ("allocated", "reserved")
    }

    def __init__(self) -> None:
        super().__init__()
        self._batches: dict[int, float] = {}

    def other(self, line: Line) -> None:
        """Read a progress bar, or a line of the setup."""
        text = line.text
        if "reduced_train_loss=" in text and self._bar(line):
            return
        setup.feed(line.number, text, self.sorter.pending)
        if "NeMo" in text or "rror" in text:
            self.sorter.pending.feed(line.number, text)
        else:
            self.hear(line)

    def take(self, line: Line) -> bool:
        """Read a line of steps."""
        anchors = list(_LINE.finditer(line.text))
        start = 0
        for anchor, following in zip(anchors, [*anchors[1:], None], strict=False):
            end = following.start() if following else None
            pairs: dict[str, str] = {}
            for segment in line.text[anchor.end() : end].split("|"):
                name, colon, value = segment.partition(":")
                if colon:
                    pairs.setdefault(" ".join(name.lower().split()), value)
            planned = int(anchor[3]) + 1 if anchor[3] else None
            self._take(pairs, int(anchor[2]), planned, line, line.text[start : anchor.start()])
            start = anchor.end()
        return bool(anchors)

    def _bar(self, line: Line) -> bool:
        bar = _BAR.search(line.text)
        printed = _PAIR.findall(line.text, bar.end() - 1) if bar else ()
        pairs = {" ".join(name.lower().split()): value for name, value in printed}
        if bar is None or "reduced_train_loss" not in pairs:
            return False
        counted = max(0, int(bar[2]) - 1)
        # A bar is drawn again and again; the first drawing with a step's figures counts.
        step = _whole(pairs.get("global_step"))
        last = self.sorter.last
        if last is None or last.step != (counted if step is None else step):
            planned = int(bar[3]) if bar[3] != "?" and int(bar[1]) == 0 else None
            self._take(pairs, counted, planned, line, "")
        return True

    def _take(
        self, pairs: dict[str, str], iteration: int, planned: int | None, line: Line, before: str
    ) -> None:
        step = _whole(pairs.get("global_step"))
        batch = number(pairs.get("global_batch_size"))
        if step is None:
            step = iteration
            samples = number(pairs.get("consumed_samples"))
            if samples and batch and samples >= batch and not samples % batch:
                step = round(samples / batch) - 1
        if not pairs and self.cut_off(step, line):
            return
        record = self.new_record(step, line.number, pairs, last_stamp(before))
        if batch is not None:
            self._batches[step] = batch
        stated = self.sorter.pending.stated
        if planned:
            text = f"iteration {iteration}/{planned - 1}"
            state(stated, "max_steps", planned, text, line.number, setup.LISTED)
        state(stated, "global_batch_size", count(batch), "", line.number, 4)
        self.sorter.take(record)

    def done(self, run: RunBuilder) -> None:
        """Set windows, and state what follows from the steps and the ranks."""
        records = run.training.ordered()
        stated = run.stated
        set_windows(records)
        run.shift = 1
        sizes = {self._batches[record.step] for record in records if record.step in self._batches}
        if len(sizes) > 1:
            text = f"{min(sizes):g} to {max(sizes):g}"
            state(stated, "global_batch_size", text, "", records[0].line, 5)
        ranks = [name for name in stated if name.startswith("parameters of rank")]
        is_whole = stated.count("tensor_model_parallel_size") == stated.count("num_gpus") == 1
        if len(ranks) == 1 and is_whole:
            # One rank holds them all.
            stated.setdefault("num_parameters", stated[ranks[0]])
        if version := stated.word("nemo_version"):
            run.versions["nemo"] = version


def set_windows(records: Sequence[Record]) -> None:
    """Set how many steps each record averages, from the numbers of the records, which count from
    0.
    """
    steps = [record.step for record in records]
    apart = [later - earlier for earlier, later in itertools.pairwise(steps)]
    interval = statistics.mode(apart) if apart else 1
    # Lines come at the end of each interval (9, 19, 29) or at its start (0, 10, 20). Eight of ten
    # lines are enough, since a restart or a lost line may break the pattern.
    fitting = max(sum((step + early) % interval == 0 for step in steps) for early in (0, 1))
    if fitting < REGULAR * len(steps):
        interval = math.gcd(*apart)
    for record, before in zip(records, [-1, *steps], strict=False):
        record.window = max(1, min(interval, record.step - before))


def _whole(text: str | None) -> int | None:
    """Return a step; None if an exponent shows that it is rounded."""
    if text is None or "e" in text.lower():
        return None
    return whole(text)
