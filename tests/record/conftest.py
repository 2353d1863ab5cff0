"""Small real runs on the CPU."""

from __future__ import annotations

import importlib.util
import logging

import pytest

HAS_LIGHTNING = (
    importlib.util.find_spec("lightning") is not None
    and importlib.util.find_spec("torch") is not None
)


@pytest.fixture(autouse=True)
def quiet_lightning(monkeypatch):
    """Keep Lightning's messages out of what tests read, also after NeMo-Run has set up logging in
    this process.
    """
    monkeypatch.setattr(
        logging.root, "handlers", [each for each in logging.root.handlers if not _is_rich(each)]
    )
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def _is_rich(handler: logging.Handler) -> bool:
    return type(handler).__name__ == "RichHandler"


@pytest.fixture(scope="session")
def trainings():
    """Modules, data and trainers, for tests that train; skips where Lightning isn't installed."""
    if not HAS_LIGHTNING:
        pytest.skip("lightning and torch are not installed: this is the analysis tier")
    import lightning.pytorch as pl
    import torch

    class Linear(pl.LightningModule):
        """One layer; `fail_at` raises what it is given when that batch is reached."""

        def __init__(self, fail_at=None, failure=None, schedule=False):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)
            self.fail_at, self.failure, self.schedule = fail_at, failure, schedule
            self.losses = []

        def training_step(self, batch, batch_idx):
            if self.global_step == self.fail_at:
                raise self.failure
            loss = self.layer(batch).square().mean()
            self.losses.append(float(loss))
            return loss

        def validation_step(self, batch, batch_idx):
            return self.layer(batch).mean()

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
            if not self.schedule:
                return optimizer
            ramp = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / 10)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": ramp, "interval": "step"}}

    class Adversarial(pl.LightningModule):
        """Two optimizers, each stepped once a batch."""

        def __init__(self):
            super().__init__()
            self.automatic_optimization = False
            self.first, self.second = torch.nn.Linear(8, 1), torch.nn.Linear(8, 1)

        def training_step(self, batch, batch_idx):
            for layer, optimizer in zip((self.first, self.second), self.optimizers(), strict=True):
                loss = layer(batch).square().mean()
                optimizer.zero_grad()
                self.manual_backward(loss)
                optimizer.step()
            return loss

        def configure_optimizers(self):
            return [
                torch.optim.SGD(layer.parameters(), lr=0.01) for layer in (self.first, self.second)
            ]

    class Trainings:
        linear, adversarial = Linear, Adversarial

        @staticmethod
        def loader(batches, batch_size=2, seed=0):
            generator = torch.Generator().manual_seed(seed)
            return torch.utils.data.DataLoader(
                torch.randn(batches * batch_size, 8, generator=generator), batch_size=batch_size
            )

        @staticmethod
        def trainer(*callbacks, **settings):
            settings = {
                "accelerator": "cpu",
                "logger": False,
                "enable_checkpointing": False,
                "enable_progress_bar": False,
                "enable_model_summary": False,
                **settings,
            }
            return pl.Trainer(callbacks=list(callbacks), **settings)

        def fit(
            self,
            callback,
            module=None,
            batches=50,
            *,
            more=(),
            validation=None,
            checkpoint=None,
            **settings,
        ):
            """Trains; the seed is always the same."""
            torch.manual_seed(0)
            module = module or Linear()
            trainer = self.trainer(*([callback] if callback else []), *more, **settings)
            trainer.fit(module, self.loader(batches), validation, ckpt_path=checkpoint)
            return module

    return Trainings()


@pytest.fixture
def callback(trainings, tmp_path):
    """Makes a BenchmarkCallback that writes to the test's directory."""
    from benchmark_utils import BenchmarkCallback

    def make(**arguments):
        return BenchmarkCallback(**{"output_dir": tmp_path / "output", "quiet": True, **arguments})

    return make
