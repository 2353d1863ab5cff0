"""Lets NeMo's recipes train on a processor, for tests only: on PYTHONPATH, it is run as every
Python starts.

What is named cuda is done on the CPU, and what NeMo gives a kernel of Transformer Engine to do is
done by torch. Times of such a training mean nothing, which is why it works only together with
TPRIMAT_EMULATED=1, which marks the results. Nor is there a network here, as in many a container:
whoever asks for it is refused, and noted in the file that TPRIMAT_TEST_ASKED names.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import os
import sys
import types
from pathlib import Path

FACTORIES = (
    "arange",
    "empty",
    "eye",
    "full",
    "linspace",
    "ones",
    "rand",
    "randint",
    "randn",
    "tensor",
    "zeros",
)


def emulate_torch(torch) -> None:
    """Streams, events and devices of CUDA, as far as Megatron asks for them."""

    class Stream:
        def __init__(self, *args, **kwargs):
            self.cuda_stream = 0

        def wait_stream(self, other):
            pass

        def wait_event(self, event):
            pass

        def synchronize(self):
            pass

        def record_event(self, event=None):
            return event or Event()

    class Event:
        def __init__(self, *args, **kwargs):
            pass

        def record(self, stream=None):
            pass

        def wait(self, stream=None):
            pass

        def query(self):
            return True

        def synchronize(self):
            pass

    the_stream = Stream()
    cuda = torch.cuda
    cuda.Stream, cuda.Event = Stream, Event
    cuda.current_device = lambda: "cpu"
    cuda.current_stream = cuda.default_stream = lambda *args: the_stream
    cuda.stream = lambda stream: contextlib.nullcontext()
    cuda.synchronize = lambda *args: None
    cuda.set_device = lambda *args: None

    def on_cpu(device):
        return torch.device("cpu") if str(device).startswith("cuda") else device

    for name in FACTORIES:
        made = getattr(torch, name)

        def factory(*args, _made=made, **kwargs):
            if kwargs.get("device") is not None:
                kwargs["device"] = on_cpu(kwargs["device"])
            kwargs.pop("pin_memory", None)
            return _made(*args, **kwargs)

        setattr(torch, name, factory)
    torch.Tensor.cuda = torch.nn.Module.cuda = lambda self, *args, **kwargs: self
    tensor_to, tensor_type = torch.Tensor.to, torch.Tensor.type

    def moved(self, *args, **kwargs):
        args = tuple(
            on_cpu(each) if isinstance(each, (str, torch.device)) else each for each in args
        )
        if kwargs.get("device") is not None:
            kwargs["device"] = on_cpu(kwargs["device"])
        return tensor_to(self, *args, **kwargs)

    def typed(self, *args, **kwargs):
        found = tensor_type(self, *args, **kwargs)
        return found.replace("torch.", "torch.cuda.") if isinstance(found, str) else found

    torch.Tensor.to, torch.Tensor.type = moved, typed


def emulate_generators(module) -> None:
    """One generator instead of one for each way in which a model is divided."""
    module.CudaRNGStatesTracker.fork = lambda self, *args, **kwargs: contextlib.nullcontext()
    module.CudaRNGStatesTracker.add = lambda self, *args, **kwargs: None


def emulate_mock_data(module) -> None:
    """Gives the data the mask that torch's attention needs: MockDataModule passes the wish for it
    as the seed.
    """
    plain = module._MockGPTDataset.__init__

    def with_mask(
        self, tokenizer, name, num_samples, seq_length, seed=42, create_attention_mask=True
    ):
        plain(self, tokenizer, name, num_samples, seq_length, 42, True)

    module._MockGPTDataset.__init__ = with_mask
    least = os.environ.get("TPRIMAT_TEST_MEMORY_UNTIL")
    if least is not None:
        emulate_lack_of_memory(module._MockGPTDataset, int(least))


def emulate_lack_of_memory(data, until: int) -> None:
    """Has the sample of a number fail as a GPU's allocator does."""
    import torch

    plain = data.__getitem__

    def sample(self, index):
        if index >= until:
            raise torch.OutOfMemoryError(
                "CUDA out of memory. Tried to allocate 2.00 GiB.\nmore of it"
            )
        return plain(self, index)

    data.__getitem__ = sample


def without_network() -> None:
    """Refuses connections to other machines."""
    import socket

    here = {"localhost", "::1", socket.gethostname(), socket.getfqdn()}
    plain = socket.socket.connect

    def connect(self, address):
        other = isinstance(address, tuple) and not (
            str(address[0]) in here or str(address[0]).startswith("127.")
        )
        if other and self.type == socket.SOCK_STREAM:
            asked = os.environ.get("TPRIMAT_TEST_ASKED")
            if asked:
                with Path(asked).open("a") as file:
                    file.write(f"{address[0]}\n")
            raise OSError(f"there is no network to reach {address[0]} through")
        return plain(self, address)

    socket.socket.connect = connect


EMULATIONS = {
    "torch": emulate_torch,
    "megatron.core.tensor_parallel.random": emulate_generators,
    "nemo.collections.llm.gpt.data.mock": emulate_mock_data,
}


class Emulating(importlib.abc.MetaPathFinder):
    """Changes a module right after it was imported."""

    def find_spec(self, name: str, path=None, target=None):
        if name not in EMULATIONS:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            run(module)
            EMULATIONS[name](module)

        spec.loader.exec_module = exec_module
        return spec


if os.environ.get("TPRIMAT_EMULATED") == "1":
    without_network()
    sys.meta_path.insert(0, Emulating())
