"""The effective configuration of Primus: an experiment's YAML, read as Primus reads it.

    examples/megatron/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml
        modules.pre_trainer.config     primus/configs/modules/megatron/pre_trainer.yaml, and what that extends
        modules.pre_trainer.model      primus/configs/models/megatron/llama3.1_8B.yaml, and what that extends
        modules.pre_trainer.overrides  over both
    the command line                   over all

A name at the top of the file, where people look for it first, means nothing to Primus.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tprimat import files
from tprimat.catalog import models
from tprimat.errors import UnreadableError, missing_package
from tprimat.frameworks.primus import torchtitan
from tprimat.machine.host import Environ
from tprimat.read.megatron import setup as megatron_setup
from tprimat.read.parsing.run_builder import known_model, optimizer_of, sizes_of
from tprimat.read.parsing.values import LoggedValue, LoggedValues
from tprimat.results.run import Data, Run

Parameters = dict[str, Any]
"""Parameters of a configuration, by name."""

TRAINERS = ("pre_trainer", "post_trainer")
PRESETS = "primus/configs"
COMMAND_LINE = "command line"

_VARIABLE = re.compile(r"\${([^:{}]{1,200})(?::([^}]{0,2000}))?}")
_INHERITANCE = ("extends", "bases", "includes")
"""Words with which a preset names those that it extends: today's, and two of Primus before v26."""

_DEEPEST = 20
LARGEST, MOST_VALUES = 1 << 19, 20_000
"""Bytes of a file, and values when its aliases are followed: more than anybody writes."""


@dataclasses.dataclass(frozen=True)
class Configuration:
    """The training that Primus would run.

    Attributes:
        path: the experiment's file.
        framework: megatron, torchtitan, …
        model: name of the model's preset, such as llama3.1_8B.
        settings: every parameter in force, by the names of Primus' Megatron; each has as its text
            what put it there.
        notes: notes on doubtful values.
        names: parameters that the command line calls otherwise: those of another back end.
    """

    path: Path
    framework: str | None
    model: str | None
    settings: LoggedValues
    notes: tuple[str, ...]
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def option(self, name: str) -> str:
        """Return a parameter as the command line has it."""
        return f"--{self.names.get(name, name)}"

    def arguments_for(self, values: Parameters) -> list[str]:
        """Return a command line that sets those values which differ, and as many positions as a
        sequence takes.
        """
        changed = {}
        for name, value in values.items():
            if value not in (None, self.settings.value(name)):
                changed[name] = value
        length = values.get("seq_length")
        positions = self.settings.count("max_position_embeddings")
        if length is not None and positions is not None and positions < length:
            changed["max_position_embeddings"] = length
        return [word for name, value in changed.items() for word in (self.option(name), str(value))]

    def with_arguments(self, arguments: Sequence[str]) -> Configuration:
        """Return the configuration under a command line such as --train_iters 10."""
        given = overrides(arguments)
        items = torchtitan.renamed(given) if self.framework == torchtitan.NAME else given.items()
        changed = {name: LoggedValue(value, 1, COMMAND_LINE) for name, value in items}
        return dataclasses.replace(self, settings=LoggedValues(self.settings | changed))


def read(path: Path, primus: Path, environ: Environ) -> Configuration:
    """Read an experiment's file, and the presets in the directory of Primus that it names.

    Raises UnreadableError if it is no experiment of Primus, with the line if there is one;
    UsageError without PyYAML.
    """
    path = path.expanduser().absolute()
    content, root = _parsed(path, environ)
    module = _module(path, content)
    framework = module.get("framework")
    model = module.get("model")
    notes = []
    settings = LoggedValues()
    folder = str(framework).removeprefix("light-")
    names: dict[str, str] = {}

    def named(values: Parameters) -> Iterable[tuple[str, Any]]:
        if folder != torchtitan.NAME:
            return values.items()
        for dotted, _ in torchtitan.flat(values):
            names[torchtitan.PARAMETERS.get(dotted, dotted)] = dotted
        return torchtitan.renamed(values)

    for kind, preset in (("modules", module.get("config")), ("models", model)):
        if preset is None:
            continue
        name = str(preset) if str(preset).endswith((".yaml", ".yml")) else f"{preset}.yaml"
        file = primus / PRESETS / kind / folder / name
        if not file.is_file():
            notes.append(
                f"the preset {preset} isn't in {file.parent}: what it sets is unknown here"
            )
            continue
        values, _ = _parsed(file, environ)
        for name, value in named(values):
            settings[name] = LoggedValue(value, 1, f"{kind}/{file.name}")
    inner = module.get("overrides")
    lines = _lines(root)
    for name, value in named(inner) if isinstance(inner, dict) else ():
        line = lines.get(names.get(str(name), str(name)).partition(".")[0], 1)
        settings[str(name)] = LoggedValue(
            None if value == "null" else value, line, f"{path.name}:{line}"
        )
    notes += _ignored(path, content, module, settings)
    return Configuration(
        path=path,
        framework=str(framework) if framework else None,
        model=re.sub(r"\.ya?ml$", "", str(model)) if model else None,
        settings=settings,
        notes=tuple(notes),
        names=names,
    )


def _module(path: Path, content: Any) -> Parameters:
    """Return the settings of an experiment's training."""
    if not content:
        raise _broken(path, "is not a Primus experiment: it has no settings")
    modules = content.get("modules")
    if isinstance(modules, dict):
        module = next((modules[name] for name in TRAINERS if name in modules), None)
        if isinstance(module, dict):
            return module
    raise _broken(
        path,
        "is not a Primus experiment: it has no modules.pre_trainer: see examples/megatron/configs"
        " in Primus",
    )


def overrides(arguments: Sequence[str]) -> Parameters:
    """Return the parameters that a command line sets: --name value, --name=value, name=value,
    --flag.
    """
    parameters = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if "=" in word:
            name, _, value = word.partition("=")
            parameters[name.lstrip("-")] = _literal(value)
        elif word.startswith("--"):
            follows = bool(rest) and not rest[0].startswith("--")
            parameters[word.lstrip("-")] = _literal(rest.pop(0)) if follows else True
    return parameters


def setup(configuration: Configuration, num_gpus: int | None) -> Run:
    """Return the setup that a configuration describes, as the log of its training on these GPUs
    would state it.
    """
    # Primus computes world_size; of the presets only those for other trainers have it.
    names = megatron_setup.ARGUMENTS - {"world_size"}
    stated = LoggedValues(
        (name, setting) for name, setting in configuration.settings.items() if name in names
    )
    fields = megatron_setup.fields_of(stated)
    sizes, spread = sizes_of(fields, {"num_gpus": num_gpus})
    shape, _ = megatron_setup.model_config(stated)
    if (
        "Null" in str(configuration.settings.value("tokenizer_type"))
        and shape.vocab_size is not None
    ):
        # NullTokenizer adds one token, for the end of a document.
        shape = shape.but(vocab_size=shape.vocab_size + 1)
    meant = models.recognize(configuration.model or "")
    if meant is not None and shape.vocab_size is None:
        # The tokenizer determines the vocabulary: that of the model of this name, if the widths are
        # its own.
        completed = shape.but(vocab_size=meant.shape.vocab_size)
        shape = completed if models.with_shape(completed) is meant else shape
    switches = megatron_setup.switches(stated)
    if configuration.framework == torchtitan.NAME:
        # Its models have no sizes in the configuration, but a flavor.
        shape = meant.shape if meant is not None else shape
        switches["backend"] = torchtitan.NAME
        if isinstance(is_compiled := configuration.settings.value("compile.enable"), bool):
            switches["torch_compile"] = is_compiled
    model, scale, _ = known_model(shape, configuration.model)
    return Run(
        platform="amd",
        framework="primus",
        model=model,
        scale=scale,
        model_config=shape,
        training_config=sizes.but(num_gpus=num_gpus, seed=None),
        parallelism_config=spread,
        optimizer=optimizer_of(fields),
        framework_config=switches,
        data=Data(kind=fields.word("data")),
    )


def _parsed(path: Path, environ: Environ, depth: int = 0) -> tuple[Parameters, Any]:
    """Return a YAML file's settings, over those of the files that it extends; and its nodes, which
    know their lines.

    If it extends two files, the later one counts. Primus from v26.2 on lets an experiment extend
    another one, too.
    """
    try:
        yaml = importlib.import_module("yaml")
    except ModuleNotFoundError:
        raise missing_package("pyyaml", "pip install pyyaml", f"reading {path}") from None
    try:
        text = files.read_plain(path, LARGEST).decode()
        content = yaml.safe_load(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not a text file"
        raise UnreadableError(path, f"cannot be read: {why}", heading="unreadable-file") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        # ValueError: a day that no month has, or a number of 5000 digits.
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or "it cannot be parsed"
        raise _broken(path, f"is not YAML: {what}", mark.line + 1 if mark else None) from error
    if not isinstance(content, dict):
        return {}, root
    if depth > _DEEPEST:
        raise _broken(path, "circular preset reference")
    _check_size(content, path)
    content = _resolved(content, environ, path)
    merged: Parameters = {}
    for word in _INHERITANCE:
        named = content.pop(word, None) or ()
        for name in [named] if isinstance(named, str) else named if isinstance(named, list) else ():
            base = path.parent / str(name)
            if base.is_file():
                merged = _merged(merged, _parsed(base, environ, depth + 1)[0])
    return _merged(merged, content), root


def _check_size(content: Any, path: Path) -> None:
    """Refuse a text that is small in the file and endless if aliases are followed."""
    waiting = [content]
    count = 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            count += len(value)
            if count > MOST_VALUES:
                raise _broken(path, "has more values than any configuration")
            waiting += value.values() if isinstance(value, dict) else value


def _broken(path: Path, message: str, line: int | None = None) -> UnreadableError:
    return UnreadableError(path, message, line=line, heading="primus-config")


def _merged(under: Parameters, over: Parameters) -> Parameters:
    result = dict(under)
    for name, value in over.items():
        earlier = result.get(name)
        if isinstance(earlier, dict) and isinstance(value, dict):
            result[name] = _merged(earlier, value)
        else:
            result[name] = value
    return result


def _resolved(value: Any, environ: Environ, path: Path) -> Any:
    """Return a value with ${NAME:default} replaced; the replacement may be a number."""
    if isinstance(value, dict):
        resolved = {}
        for key, inner in value.items():
            resolved[_resolved(key, environ, path)] = _resolved(inner, environ, path)
        return resolved
    if isinstance(value, list):
        return [_resolved(inner, environ, path) for inner in value]
    if not isinstance(value, str) or "${" not in value:
        return value

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        default = match[2]
        if default is None and name not in environ:
            raise _broken(path, f"requires the environment variable {name}; set it")
        return environ.get(name, default or "")

    replaced = _VARIABLE.sub(replacement, value)
    if replaced != value:
        return _number(replaced)
    return value


def _number(text: str) -> Any:
    words = {"true": True, "false": False, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def _literal(text: str) -> Any:
    """Return a value of the command line; a text that is no literal of Python is a word."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _ignored(path: Path, content: Any, module: Any, settings: LoggedValues) -> Iterable[str]:
    """Yield notes on parameters that are where Primus doesn't look for them."""
    for where, names in (("at the top of the file", content), ("next to overrides", module)):
        for name in sorted(names.keys() & megatron_setup.ARGUMENTS - {"model", "exp_name"}):
            held = settings.get(name)
            instead = f"{held.value} applies ({held.text})" if held else "its default applies"
            yield (
                f"{path.name}: {name}: {names[name]} {where} is ignored by Primus ({instead}); "
                "put it under modules.pre_trainer.overrides"
            )


def _lines(node: Any) -> dict[str, int]:
    """Return the line of each override, from 1."""
    for names in (("modules",), TRAINERS, ("overrides",)):
        node = next((value for key, value in _pairs(node) if key.value in names), None)
    return {str(key.value): key.start_mark.line + 1 for key, _ in _pairs(node)}


def _pairs(node: Any) -> list[tuple[Any, Any]]:
    """Return keys and values of a mapping of YAML; none of anything else."""
    if getattr(node, "id", None) == "mapping":
        return list(node.value)
    return []
