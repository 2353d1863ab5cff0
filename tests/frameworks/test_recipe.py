"""Real architectures from transformers: their sizes, their weights, their optimizer."""

from __future__ import annotations

import msgspec
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tprimat.catalog import models
from tprimat.frameworks import scales
from tprimat.frameworks.loops import recipe
from tprimat.results.run import ModelConfig

CPU, META = torch.device("cpu"), torch.device("meta")
EACH_MODEL = [pytest.param(model, id=model.name) for model in models.trained()]


def small(model):
    """A shape that is built in no time."""
    tiny = scales.shape(model, scales.by_name("tiny"))
    shape = msgspec.structs.replace(tiny, num_layers=1, vocab_size=64, ffn_hidden_size=32)
    return msgspec.structs.replace(shape, num_parameters=scales.parameters(model, shape))


@pytest.mark.parametrize("model", EACH_MODEL)
class TestArchitecture:
    @pytest.mark.parametrize("scale", scales.SCALES, ids=lambda scale: scale.name)
    def test_parameters_are_as_many_as_computed(self, model, scale):
        shape = scales.shape(model, scale)
        built = recipe.build(model, shape, 128, seed=1, device=META)
        assert sum(each.numel() for each in built.parameters()) == shape.num_parameters

    def test_tied_weights_are_counted_once(self, model):
        shape = msgspec.structs.replace(small(model), tie_word_embeddings=True)
        built = recipe.build(model, shape, 16, seed=1, device=CPU)
        assert sum(each.numel() for each in built.parameters()) == scales.parameters(model, shape)

    def test_its_own_class(self, model):
        built = recipe.build(model, small(model), 16, seed=1, device=META)
        assert type(built.config).__name__ == model.architecture

    def test_settings_arrive(self, model):
        shape = scales.shape(model, scales.by_name("tiny"))
        built = recipe.build(
            model, msgspec.structs.replace(shape, num_layers=1), 16, seed=1, device=CPU
        )
        half = shape.head_dim // 2
        theta = model.settings["rope_theta"]
        assert built.model.rotary_emb.inv_freq[1].item() == pytest.approx(
            theta ** (-1 / half), rel=1e-5
        )
        assert built.config.rms_norm_eps == model.settings["rms_norm_eps"]
        assert not getattr(built.config, "sliding_window", None)
        assert built.config._attn_implementation == "sdpa"
        assert built.config.attention_dropout == 0
        assert built.config.use_cache is False

    def test_the_same_seed_gives_the_same_weights(self, model):
        states = [
            recipe.build(model, small(model), 16, seed=seed, device=CPU).state_dict()
            for seed in (7, 7, 8)
        ]
        assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
        assert any(not torch.equal(states[0][name], states[2][name]) for name in states[0])

    def test_the_generator_of_others_is_left_alone(self, model):
        before = torch.random.get_rng_state()
        recipe.build(model, small(model), 16, seed=7, device=CPU)
        assert torch.equal(before, torch.random.get_rng_state())

    def test_starts_near_the_loss_of_a_guess(self, model):
        built = recipe.build(model, small(model), 16, seed=7, device=CPU)
        tokens = torch.arange(32).reshape(2, 16)
        assert built.training
        assert built(input_ids=tokens, labels=tokens).loss.item() == pytest.approx(
            4.16, abs=0.3
        )  # ln 64


class TestOptimizer:
    def test_decays_matrices_alone(self):
        model = models.by_name("qwen")  # the one with biases
        built = recipe.build(model, small(model), 16, seed=7, device=CPU)
        made = recipe.adamw(built, recipe.hyperparameters(small(model)), fused=None)
        decayed, kept = made.param_groups
        assert (decayed["weight_decay"], kept["weight_decay"]) == (0.1, 0.0)
        assert {each.dim() for each in decayed["params"]} == {2}
        assert {each.dim() for each in kept["params"]} == {1}
        assert len(decayed["params"]) + len(kept["params"]) == len(list(built.parameters()))

    def test_is_what_it_says(self):
        model = models.by_name("llama")
        settings = recipe.hyperparameters(small(model))
        made = recipe.adamw(
            recipe.build(model, small(model), 16, seed=7, device=CPU), settings, fused=True
        )
        assert type(made).__name__ == settings.name
        for group in made.param_groups:
            assert group["lr"] == settings.learning_rate
            assert group["betas"] == (settings.beta1, settings.beta2)
            assert group["eps"] == settings.epsilon

    @pytest.mark.parametrize(
        ("hidden", "rate"), [(224, 1e-3), (512, 1e-3), (1024, 5e-4), (4096, 1.25e-4)]
    )
    def test_wider_models_learn_more_slowly(self, hidden, rate):
        assert recipe.hyperparameters(ModelConfig(hidden_size=hidden)).learning_rate == rate
