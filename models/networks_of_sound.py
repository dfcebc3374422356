"""Networks from transformers, torchaudio and demucs for sound and for time series."""

from __future__ import annotations

from typing import Any

import torch
from networks import Network, build, first, floats, load, network, tokens, transformer
from networks_of_images import VISION
from networks_of_text import IDS, TEXT
from torch import nn

SOUND = floats(1, 800)
SPEECH = TEXT | {
    "conv_dim": (8, 8),
    "conv_stride": (5, 4),
    "conv_kernel": (5, 4),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
}


def whisper(module: nn.Module, sound: torch.Tensor, ids: torch.Tensor) -> Any:
    """Call Whisper without a cache."""
    mask = torch.ones_like(ids)
    return module(input_features=sound, decoder_input_ids=ids, decoder_attention_mask=mask, use_cache=False)[0]


def vits(module: nn.Module, ids: torch.Tensor) -> Any:
    """Call VITS with fixed noise."""
    return module(ids).waveform


def hifigan() -> nn.Module:
    """Return the vocoder of SpeechT5."""
    return load("transformers.SpeechT5HifiGan")(
        load("transformers.SpeechT5HifiGanConfig")(
            model_in_dim=8,
            upsample_initial_channel=16,
            upsample_rates=[4, 4],
            upsample_kernel_sizes=[8, 8],
            resblock_kernel_sizes=[3, 5],
            resblock_dilation_sizes=[[1, 3], [1, 3]],
        )
    )


def wav2vec2_audio() -> nn.Module:
    """Return a small wav2vec 2.0 of torchaudio."""
    return load("torchaudio.models.wav2vec2_model")(
        extractor_mode="group_norm",
        extractor_conv_layer_config=[(8, 5, 5), (8, 4, 4)],
        extractor_conv_bias=False,
        encoder_embed_dim=16,
        encoder_projection_dropout=0.0,
        encoder_pos_conv_kernel=4,
        encoder_pos_conv_groups=2,
        encoder_num_layers=2,
        encoder_num_heads=2,
        encoder_attention_dropout=0.0,
        encoder_ff_interm_features=16,
        encoder_ff_interm_dropout=0.0,
        encoder_dropout=0.0,
        encoder_layer_norm_first=False,
        encoder_layer_drop=0.0,
        aux_num_out=None,
    )


class Spectrum(nn.Module):
    """Demucs as a function from a sound and its spectrogram to both of its results.

    It is exported in this form, because programs compute the spectrogram and its inverse themselves.
    """

    def __init__(self, demucs: nn.Module):
        super().__init__()
        self.demucs = demucs

    def forward(self, mix, spectrum):
        masks = []
        self.demucs._spec = lambda x: spectrum
        self.demucs._magnitude = lambda z: z
        self.demucs._mask = lambda z, m: masks.append(m)
        self.demucs._ispec = lambda z, length=None, scale=0: torch.zeros(1)
        waves = self.demucs(mix)
        return masks[0], waves


def htdemucs() -> nn.Module:
    """Return a small Hybrid Transformer Demucs."""
    settings = {
        "nfft": 2048,
        "depth": 4,
        "t_layers": 2,
        "t_heads": 2,
        "bottom_channels": 16,
        "use_train_segment": False,
    }
    return Spectrum(load("demucs.htdemucs.HTDemucs")(["drums", "bass"], channels=8, **settings))


def hdemucs() -> nn.Module:
    """Return a small Hybrid Demucs."""
    return Spectrum(load("demucs.hdemucs.HDemucs")(["drums", "bass"], channels=8, nfft=256, depth=4))


SOUND_NETWORKS: dict[str, Network] = {
    "wav2vec2": transformer("wav2vec2", SOUND, **SPEECH),
    "wav2vec2_conformer": transformer("wav2vec2-conformer", SOUND, conv_depthwise_kernel_size=3, **SPEECH),
    "wavlm": transformer("wavlm", SOUND, **SPEECH | {"num_buckets": 8, "max_bucket_distance": 16}),
    "hubert": transformer("hubert", SOUND, **SPEECH),
    "sew": transformer("sew", SOUND, squeeze_factor=2, **SPEECH),
    "ast": transformer(
        "audio-spectrogram-transformer",
        floats(1, 32, 16),
        num_mel_bins=16,
        max_length=32,
        frequency_stride=4,
        time_stride=4,
        **{**VISION, "patch_size": 8},
    ),
    "whisper": transformer(
        "whisper",
        floats(1, 8, 32),
        tokens(8),
        call=whisper,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        vocab_size=32,
        num_mel_bins=8,
        max_source_positions=16,
        max_target_positions=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    ),
    "speecht5_vocoder": network(hifigan, floats(1, 12, 8)),
    "vits": transformer(
        "vits",
        IDS,
        call=vits,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        ffn_dim=16,
        flow_size=16,
        spectrogram_bins=9,
        vocab_size=32,
        upsample_initial_channel=16,
        upsample_rates=[4, 4],
        upsample_kernel_sizes=[8, 8],
        resblock_kernel_sizes=[3],
        resblock_dilation_sizes=[[1, 3]],
        posterior_encoder_num_wavenet_layers=2,
        prior_encoder_num_flows=2,
        prior_encoder_num_wavenet_layers=2,
        wavenet_dilation_rate=1,
        duration_predictor_num_flows=2,
        duration_predictor_filter_channels=16,
        depth_separable_num_layers=2,
        use_stochastic_duration_prediction=False,
        noise_scale=0.0,
        noise_scale_duration=0.0,
    ),
    "encodec": transformer(
        "encodec",
        floats(1, 1, 640),
        call=lambda module, x: module.decoder(module.encoder(x)),
        num_filters=4,
        hidden_size=16,
        upsampling_ratios=[4, 4],
        num_lstm_layers=1,
        codebook_size=16,
        codebook_dim=16,
    ),
    "dac": transformer(
        "dac",
        floats(1, 1, 512),
        call=lambda module, x: module.decoder(module.encoder(x)),
        encoder_hidden_size=8,
        downsampling_ratios=[4, 4],
        upsampling_ratios=[4, 4],
        decoder_hidden_size=32,
        n_codebooks=2,
        codebook_size=16,
        codebook_dim=4,
        hidden_size=32,
    ),
    "moonshine": transformer(
        "moonshine",
        floats(1, 4000),
        tokens(8),
        call=lambda module, sound, ids: module(input_values=sound, decoder_input_ids=ids, use_cache=False)[0],
        hidden_size=16,
        intermediate_size=16,
        encoder_num_hidden_layers=1,
        decoder_num_hidden_layers=1,
        encoder_num_attention_heads=2,
        decoder_num_attention_heads=2,
        vocab_size=32,
        pad_token_id=0,
    ),
    "univnet": transformer(
        "univnet",
        floats(1, 10, 16),
        call=first,
        model_in_channels=16,
        model_hidden_channels=8,
        num_mel_bins=16,
    ),
    "fastspeech2_conformer": transformer(
        "fastspeech2_conformer",
        tokens(8),
        call=lambda module, ids: module(ids, return_dict=True).spectrogram,
        hidden_size=16,
        num_mel_bins=8,
        encoder_num_attention_heads=2,
        decoder_num_attention_heads=2,
        encoder_layers=1,
        decoder_layers=1,
        encoder_linear_units=16,
        decoder_linear_units=16,
        vocab_size=40,
        speech_decoder_postnet_units=16,
        duration_predictor_channels=16,
        energy_predictor_channels=16,
        pitch_predictor_channels=16,
    ),
    "autoformer": transformer(
        "patchtst",
        floats(1, 32, 3),
        context_length=32,
        patch_length=4,
        patch_stride=4,
        d_model=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        ffn_dim=16,
        num_input_channels=3,
    ),
    "perceiver": transformer(
        "perceiver",
        floats(1, 8, 16),
        num_latents=4,
        d_latents=16,
        d_model=16,
        num_blocks=1,
        num_self_attends_per_block=1,
        num_self_attention_heads=2,
        num_cross_attention_heads=2,
    ),
    "ta_conv_tasnet": network(
        build(
            "torchaudio.models.ConvTasNet",
            enc_num_feats=16,
            msk_num_feats=8,
            msk_num_hidden_feats=16,
            msk_num_layers=2,
            msk_num_stacks=2,
        ),
        floats(1, 1, 400),
    ),
    "ta_conformer": network(
        build("torchaudio.models.Conformer", 16, 2, 16, 2, 7), floats(1, 12, 16), torch.tensor([12])
    ),
    "ta_emformer": network(
        build("torchaudio.models.Emformer", 16, 2, 16, 2, 4, right_context_length=1),
        floats(1, 9, 16),
        torch.tensor([8]),
    ),
    "ta_wav2vec2": network(wav2vec2_audio, SOUND, call=first),
    "ta_deepspeech": network(build("torchaudio.models.DeepSpeech", 8, n_hidden=16, n_class=8), floats(1, 1, 12, 8)),
    "ta_wavernn": network(
        build("torchaudio.models.WaveRNN", [4, 4], 16, 16, 1, 8, 16, 5, 8, 16, 16),
        floats(1, 1, 64),
        floats(1, 1, 8, 8)[..., :8],
    ),
    "ta_tacotron2_encoder": network(
        build("torchaudio.models.Tacotron2", n_mels=8, symbol_embedding_dim=16, encoder_embedding_dim=16),
        IDS,
        call=lambda m, ids: m.encoder(m.embedding(ids).transpose(1, 2), torch.tensor([16])),
    ),
    "ta_hdemucs": network(
        build("torchaudio.models.HDemucs", ["drums", "bass"], nfft=256, channels=4, depth=3), floats(1, 2, 2048)
    ),
    "ta_rnnt": network(
        build(
            "torchaudio.models.emformer_rnnt_model",
            input_dim=8,
            encoding_dim=16,
            num_symbols=8,
            segment_length=4,
            right_context_length=4,
            time_reduction_input_dim=16,
            time_reduction_stride=4,
            transformer_num_heads=2,
            transformer_ffn_dim=16,
            transformer_num_layers=2,
            transformer_dropout=0.0,
            transformer_activation="gelu",
            transformer_left_context_length=4,
            transformer_max_memory_size=0,
            transformer_weight_init_scale_strategy=None,
            transformer_tanh_on_mem=False,
            symbol_embedding_dim=8,
            num_lstm_layers=1,
            lstm_layer_norm=True,
            lstm_layer_norm_epsilon=1e-5,
            lstm_dropout=0.0,
        ),
        floats(1, 20, 8),
        torch.tensor([20], dtype=torch.int32),
        call=lambda m, x, n: m.transcribe(x, n)[0],
    ),
    "htdemucs": network(htdemucs, floats(1, 2, 4096), floats(1, 4, 1024, 8)),
    "hdemucs": network(hdemucs, floats(1, 2, 2048), floats(1, 4, 128, 32)),
}
