"""The scales: what each keeps of an architecture, and which one a memory holds."""

from __future__ import annotations

import msgspec
import pytest

from tprimat.catalog import models
from tprimat.frameworks import scales
from tprimat.results.run import ModelConfig

EVERY = [
    pytest.param(model, scale, id=f"{model.name}-{scale.name}")
    for model in models.trained()
    for scale in scales.SCALES
]
EACH_MODEL = [pytest.param(model, id=model.name) for model in models.trained()]


@pytest.mark.parametrize(("model", "scale"), EVERY)
class TestRatiosAreKept:
    def test_heads_per_group(self, model, scale):
        full, scaled = model.shape, scales.shape(model, scale)
        assert (
            scaled.num_attention_heads * full.num_query_groups
            == full.num_attention_heads * scaled.num_query_groups
        )

    def test_feed_forward_per_hidden(self, model, scale):
        full, scaled = model.shape, scales.shape(model, scale)
        assert (
            scaled.ffn_hidden_size * full.hidden_size == full.ffn_hidden_size * scaled.hidden_size
        )

    def test_vocabulary_per_hidden(self, model, scale):
        full, scaled = model.shape, scales.shape(model, scale)
        assert scaled.vocab_size * full.hidden_size == full.vocab_size * scaled.hidden_size

    def test_heads_are_as_wide_as_the_hidden_size(self, model, scale):
        scaled = scales.shape(model, scale)
        assert scaled.num_attention_heads * scaled.head_dim == scaled.hidden_size

    def test_what_it_loses_is_said_truly(self, model, scale):
        full, scaled = model.shape, scales.shape(model, scale)
        assert ("width" in scale.loses) == (scaled.hidden_size != full.hidden_size)
        assert ("layers" in scale.loses) == (scaled.num_layers != full.num_layers)
        assert ("head dimension" in scale.loses) == (scaled.head_dim != full.head_dim)

    def test_found_again_by_its_shape(self, model, scale):
        assert scales.of_shape(model, scales.shape(model, scale)) is scale

    def test_states_where_its_sizes_come_from(self, model, scale):
        source = scales.shape(model, scale).source
        assert source.startswith("https://")
        assert (scale.name in source) == (scale.name != scales.FULL)


class TestLadder:
    @pytest.mark.parametrize("model", EACH_MODEL)
    def test_each_scale_is_larger_than_the_one_before(self, model):
        sizes = [scales.shape(model, scale).num_parameters for scale in scales.SCALES]
        assert sizes == sorted(set(sizes))

    @pytest.mark.parametrize("model", EACH_MODEL)
    def test_the_largest_is_the_model_itself(self, model):
        assert scales.shape(model, scales.by_name("full")) == model.shape

    def test_tiny_is_what_was_measured_at_a_tenth_of_a_second(self):
        sizes = {
            model.name: scales.shape(model, scales.by_name("tiny")).num_parameters
            for model in models.trained()
        }
        assert {name: round(size / 1e6, 2) for name, size in sizes.items()} == {
            "llama": 7.51,
            "qwen": 7.90,
            "mistral": 4.46,
        }


def needed(shape):
    return scales.BYTES_PER_PARAMETER * shape.num_parameters


class TestWhatFits:
    @pytest.mark.parametrize(
        ("memory_gb", "scale"),
        [
            (288.0, "full"),  # MI355X
            (206.1, "full"),  # MI300X
            (150.8, "half"),  # H200
            (85.0, "quarter"),  # H100, A100
            (42.3, "large"),  # A100 40GB
            (25.3, "1b"),
            (24.0, "1b"),  # A10
            (17.0, "medium"),
            (2.0, "small"),
            (0.2, "tiny"),
            (0.0, "tiny"),
        ],
    )
    def test_llama(self, memory_gb, scale):
        assert (
            scales.largest_that_fits(models.by_name("llama"), memory_gb * 1e9, needed).name == scale
        )

    @pytest.mark.parametrize("model", EACH_MODEL)
    def test_a_fifth_is_left(self, model):
        full = 16 * model.shape.num_parameters
        assert scales.largest_that_fits(model, full / 0.8 + 1, needed).name == "full"
        assert scales.largest_that_fits(model, full / 0.8 - 1e6, needed).name != "full"


class TestOfShape:
    def test_another_number_of_layers_is_no_scale(self):
        llama = models.by_name("llama")
        assert scales.of_shape(llama, msgspec.structs.replace(llama.shape, num_layers=31)) is None

    def test_other_heads_are_no_scale(self):
        llama = models.by_name("llama")
        assert scales.of_shape(llama, msgspec.structs.replace(llama.shape, head_dim=64)) is None
        assert (
            scales.of_shape(llama, msgspec.structs.replace(llama.shape, head_dim=None)).name
            == "full"
        )

    def test_the_models_are_not_taken_for_each_other(self):
        mistral = models.by_name("mistral")
        assert all(
            scales.of_shape(models.by_name("llama"), scales.shape(mistral, each)) is None
            for each in scales.SCALES
        )

    def test_an_unknown_size_is_refused(self):
        with pytest.raises(ValueError, match="unknown"):
            scales.parameters(models.by_name("llama"), ModelConfig(hidden_size=8))
