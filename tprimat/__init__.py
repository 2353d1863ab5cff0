"""TensorPrimat: measures and compares the training of language models on NVIDIA and AMD GPUs."""

# `python3 -m tprimat` imports this first, while modules are still looked for in the current
# directory: only a part of the interpreter is imported here. An old Python, to which __main__ says
# that it is one, must be able to read it.
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from tprimat.api import Comparison, Results, Run, account, compare, load, read_log
else:
    ModuleType = type(sys)

__version__ = "0.4.0"

__all__ = ["Comparison", "Results", "Run", "account", "compare", "load", "read_log"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tprimat import api

    return getattr(api, name)


def __dir__() -> "list[str]":  # in quotes, since an old Python can't evaluate it
    return [*globals(), *__all__]


class _Package(ModuleType):
    """The package, in which `compare` stays the function: importing the directory of that name
    doesn't replace it.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name != "compare" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
