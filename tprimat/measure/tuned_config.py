"""The file of a configuration that --tune chose: written by the search, read by --config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tprimat import files
from tprimat.errors import UsageError
from tprimat.frameworks import scales
from tprimat.frameworks.request import Request
from tprimat.frameworks.search_space import OPTIONS, Setting
from tprimat.results.fields import Fixed
from tprimat.results.run import Tuning
from tprimat.settings.rows import IDENTITY
from tprimat.store.history import UNFINISHED, keep_in_history

VERSION = 1
FLAGS = ("--eager",)
_WORKLOAD = tuple(row for row in IDENTITY if row.flag and row.key not in ("label", "num_gpus"))
ALLOWED = {"--model", *(row.option for row in _WORKLOAD), *OPTIONS.values()}
"""Options that such a file may have: those on what is trained and how, never on where results go.
"""


class Trial(Fixed, frozen=True, kw_only=True):
    """A setting that was tried. Unit: s.

    Attributes:
        status: complete, pruned, out of memory, failed, or excluded: by the estimate of its memory.
        step_time_seconds: median of its steps, without the first ones.
        result: its result file, relative to the file of the configuration.
    """

    name: str
    setting: dict[str, str | int | bool]
    status: str
    reason: str | None = None
    steps: int = 0
    step_time_seconds: float | None = None
    seconds: float = 0.0
    result: str | None = None


class Confirmed(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate that was measured in a full run, interleaved with the others."""

    name: str
    runs: int
    tokens_per_second_per_gpu: float | None


class TunedConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration, and the search that chose it.

    Attributes:
        tuned_config: version of this format.
        options: options of `benchmark`, by name.
        default: name of the untuned setting.
    """

    tuned_config: int
    chosen: str
    default: str
    platform: str
    options: dict[str, str | bool]
    tuning: Tuning
    confirmed: tuple[Confirmed, ...] = ()
    trials: tuple[Trial, ...] = ()


def options_of(request: Request, setting: Setting) -> dict[str, str | bool]:
    """Return the options by which another command trains the same with a setting."""
    work = {row.option: str(getattr(request, row.request)) for row in _WORKLOAD}
    options: dict[str, str | bool] = {"--model": request.model, **work}
    if request.scale == scales.OTHER:
        del options["--scale"]
    for knob, value in setting.items():
        if value is not False:
            options[OPTIONS[knob]] = True if value is True else str(value)
    return options


def write(config: TunedConfig, path: Path, *, keeps_earlier: bool) -> None:
    """Write a configuration; an earlier one of its name may be kept in history/. Raises
    UsageError.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = msgspec.json.format(msgspec.json.encode(config), indent=2) + b"\n"
        with files.write_temp_beside(path, content, UNFINISHED) as whole:
            if keeps_earlier and path.exists():
                keep_in_history(path)
            Path(whole).replace(path)
    except OSError as error:
        raise files.unwritable(path.parent, error) from error


def read(path: Path) -> TunedConfig:
    """Return the configuration of a file. Raises UnreadableError, and UsageError for anything else
    in it.
    """
    try:
        config = msgspec.json.decode(files.read_plain(path), type=TunedConfig)
    except (OSError, ValueError, RecursionError) as error:
        # msgspec's errors are ValueErrors, as is a name with a zero byte.
        if isinstance(error, msgspec.MsgspecError | UnicodeDecodeError | RecursionError):
            raise _not_a_config(path, str(error).replace("`", "'")) from error
        raise files.unreadable(path, error) from error
    if config.tuned_config > VERSION:
        raise UsageError(
            f"{path}: written by a newer TensorPrimat",
            hint="update TensorPrimat",
            heading="newer-result",
        )
    unknown = sorted(set(config.options) - ALLOWED)
    if unknown:
        raise _not_a_config(path, f"it sets {', '.join(unknown)}")
    return config


def _not_a_config(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path}: not a configuration of --tune: {why}",
        hint="pass a tuned_….json; for a result, use --match",
        heading="tuning",
    )


def words(options: Mapping[str, str | bool]) -> Iterator[str]:
    """Yield options as the words of a command line."""
    for name, value in options.items():
        if name not in FLAGS:
            yield f"{name}={value}"
        elif value is True:
            yield name
