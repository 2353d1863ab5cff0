"""The encoder-decoder: its sizes, its FLOPs, and that it trains what it should."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tprimat.analysis import flops
from tprimat.frameworks.encdec import model as encdec_model
from tprimat.frameworks.encdec.launch import resolve_config
from tprimat.frameworks.encdec.request import RequestedEncDec
from tprimat.frameworks.request import Device

DEFAULT, _ = resolve_config(RequestedEncDec(num_samples=64), Device("cpu", 1, None), Path("/out"))
SMALL = dataclasses.replace(
    DEFAULT,
    d_model=32,
    nhead=4,
    num_encoder_layers=2,
    num_decoder_layers=3,
    dim_feedforward=48,
    vocab_size=101,
    sequence_length=16,
)


def sized(d_model, nhead, encoders, decoders, feed_forward):
    return dataclasses.replace(
        DEFAULT,
        d_model=d_model,
        nhead=nhead,
        num_encoder_layers=encoders,
        num_decoder_layers=decoders,
        dim_feedforward=feed_forward,
    )


@pytest.mark.parametrize(
    ("settings", "millions"),
    [
        (DEFAULT, "3.50"),
        (sized(512, 8, 6, 6, 2048), "52.6"),
        (sized(768, 12, 12, 12, 3072), "211.1"),
        (sized(2048, 32, 24, 24, 8192), "2853.8"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.sizes,
)
def test_parameters(settings, millions):
    built = encdec_model.build(settings, torch.device("meta"))
    assert sum(each.numel() for each in built.parameters()) == settings.parameters
    assert f"{settings.parameters / 1e6:.{len(millions.partition('.')[2])}f}" == millions


class TestFlops:
    def counted(self, settings, batch):
        """FLOPs of forward and backward by torch's own counter, where attention isn't one
        kernel.
        """
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.utils.flop_counter import FlopCounterMode

        model = encdec_model.build(settings, torch.device("cpu"))
        source = torch.zeros(batch, settings.sequence_length, dtype=torch.int32)
        target = torch.zeros(batch, settings.sequence_length + 1, dtype=torch.int32)
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
            model(source, target).backward()
        return counter.get_total_flops() / batch / settings.sequence_length

    @pytest.mark.parametrize(
        "settings", [SMALL, dataclasses.replace(SMALL, num_encoder_layers=1, nhead=2)]
    )
    def test_full_attention_is_what_torch_counts(self, settings):
        exact = flops.flops_per_token(settings.model_config, settings.sequence_length, causal=False)
        assert self.counted(settings, 2) == exact

    def test_only_the_decoder_sees_half(self):
        shape, length = SMALL.model_config, SMALL.sequence_length
        full, causal = (flops.flops_per_token(shape, length, causal=each) for each in (False, True))
        assert full - causal == 6 * SMALL.num_decoder_layers * SMALL.d_model * SMALL.sequence_length


class TestModel:
    def test_starts_near_the_entropy_of_its_data(self):
        model = encdec_model.build(DEFAULT, torch.device("cpu")).eval()
        tokens = torch.randint(
            DEFAULT.vocab_size, (2, 2 * DEFAULT.sequence_length + 1), dtype=torch.int32
        )
        loss = model(tokens[:, : DEFAULT.sequence_length], tokens[:, DEFAULT.sequence_length :])
        assert abs(float(loss.detach()) - math.log(DEFAULT.vocab_size)) < 0.5

    def test_no_token_sees_what_it_is_to_predict(self):
        model = encdec_model.build(SMALL, torch.device("cpu")).eval()
        source = torch.randint(SMALL.vocab_size, (1, SMALL.sequence_length))
        target = torch.randint(SMALL.vocab_size, (1, SMALL.sequence_length))
        other = target.clone()
        other[:, 9:] = (other[:, 9:] + 1) % SMALL.vocab_size

        def decoded(tokens):
            embedded = (
                model.embedded(model.source_embedding, source),
                model.embedded(model.target_embedding, tokens),
            )
            return model.transformer(*embedded, tgt_mask=model.causal, tgt_is_causal=True)

        first, second = decoded(target), decoded(other)
        assert torch.allclose(first[:, :9], second[:, :9], atol=1e-6)
        assert not torch.allclose(first[:, 9:], second[:, 9:], atol=1e-3)

    def test_the_source_reaches_the_loss(self):
        model = encdec_model.build(SMALL, torch.device("cpu"))
        model(
            torch.zeros(1, 16, dtype=torch.int32), torch.ones(1, 17, dtype=torch.int32)
        ).backward()
        assert float(model.source_embedding.weight.grad.abs().sum()) > 0
        assert all(each.grad is not None for each in model.parameters())

    def test_the_same_seed_gives_the_same_weights_and_leaves_the_generator_alone(self):
        before = torch.random.get_rng_state()
        first, second = (encdec_model.build(SMALL, torch.device("cpu")) for _ in range(2))
        other = encdec_model.build(dataclasses.replace(SMALL, seed=5), torch.device("cpu"))
        assert torch.equal(torch.random.get_rng_state(), before)
        assert torch.equal(first.head.weight, second.head.weight)
        assert not torch.equal(first.head.weight, other.head.weight)

    def test_an_odd_width_has_positions_too(self):
        assert encdec_model.sinusoids(4, 5).shape == (4, 5)
        assert float(encdec_model.sinusoids(4, 5)[0, 1]) == 1.0
