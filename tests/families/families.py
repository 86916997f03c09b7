"""Small models of many families, each with inputs and a loss: of transformers, torchvision and timm.

A family is a name and a function that makes a model and its inputs; nothing is downloaded. `all_families()` lists them
in a fixed order. Sizes are cut down by the fields that configurations share; heads give the loss.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

BATCH, LENGTH, VOCABULARY, CLASSES = 4, 16, 128, 10


@dataclass(frozen=True)
class Family:
    name: str
    make: Callable[[], tuple[nn.Module, dict[str, Any]]]


# --- transformers ---

# Fields of configurations, where they have them.
SMALL = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "n_embd": 64, "d_model": 64, "dim": 64, "embedding_size": 64, "emb_dim": 64, "word_embed_proj_dim": 64,
    "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2, "encoder_layers": 2, "decoder_layers": 2, "num_decoder_layers": 2,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "d_kv": 16, "intermediate_size": 128, "n_inner": 128, "d_ff": 128, "ffn_dim": 128,
    "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "hidden_dim": 128, "max_position_embeddings": 64, "n_positions": 64, "max_seq_len": 64,
    "num_labels": CLASSES, "image_size": 32, "patch_size": 8, "num_channels": 3, "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64, "moe_num_experts": 4, "moe_k": 2, "n_group": 1,
    "topk_group": 1, "q_lora_rank": 32, "kv_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16, "first_k_dense_replace": 1,
    "decoder_start_token_id": 0, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "use_cache": False, "state_size": 8,
    "sliding_window": 8, "attention_window": 8, "rotary_dim": 8, "bottleneck_size": 32, "n_shared_experts": 1, "mamba_n_heads": 4, "mamba_d_head": 32,
    "mamba_d_state": 8, "mamba_expand": 2, "time_step_rank": 4, "expand": 2, "lru_width": 64, "type_vocab_size": 2, "window_size": 4,
    "num_global_layers": 1, "layers_block_type": None, "classifier_proj_size": 32, "conv_dim": (32, 32), "conv_stride": (2, 2), "conv_kernel": (3, 3),
    "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4, "num_codevectors_per_group": 8,
}


def shrunk(config: Any, changes: dict[str, Any]) -> Any:
    for key, value in {**SMALL, **changes}.items():
        try:
            if hasattr(config, key) and value is not None:
                setattr(config, key, value)
        except Exception:  # a field that is derived of others
            pass
    try:
        config.layer_types = list(config.layer_types)[: config.num_hidden_layers]
    except Exception:  # it has none, or derives them
        pass
    config.return_dict = True
    return config


TOKENS, CLASSIFIED, MASKED, PAIRED, SEEN, HEARD, TRANSCRIBED = "tokens", "classified", "masked", "paired", "seen", "heard", "transcribed"


def transformers_model(model_type: str, head: str, kind: str, **changes: Any) -> tuple[nn.Module, dict[str, Any]]:
    import transformers

    config = transformers.AutoConfig.for_model(model_type)
    for part, of_part in changes.pop("parts", {}).items():
        shrunk(getattr(config, part), of_part)
    shrunk(config, changes)
    if kind == PAIRED:
        config.decoder_start_token_id = 0
    model = getattr(transformers, f"AutoModelFor{head}").from_config(config)
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, VOCABULARY, (BATCH, LENGTH), generator=generator)
    classes = torch.randint(0, CLASSES, (BATCH,), generator=generator)
    if kind == SEEN:
        size = changes.get("image_size", 32)
        return model, {"pixel_values": torch.randn(BATCH, 3, size, size, generator=generator), "labels": classes}
    if kind == HEARD:
        return model, {"input_values": torch.randn(BATCH, 400, generator=generator), "labels": classes}
    if kind == CLASSIFIED:
        ids[:, -1] = 2  # the end, which some look for
        return model, {"input_ids": ids, "labels": classes}
    if kind == PAIRED:
        return model, {"input_ids": ids, "labels": torch.randint(3, VOCABULARY, (BATCH, LENGTH), generator=generator)}
    return model, {"input_ids": ids, "labels": ids.clone()}


CAUSAL = """gpt2 gpt_neo gpt_neox gptj codegen opt bloom llama mistral mixtral qwen2 qwen2_moe qwen3 qwen3_moe gemma gemma2 gemma3_text phi phi3 phimoe
falcon mpt stablelm olmo olmo2 olmoe starcoder2 gpt_bigcode granite granitemoe cohere cohere2 deepseek_v2 deepseek_v3 glm glm4 helium nemotron
persimmon smollm3 xglm biogpt ctrl openai-gpt mamba mamba2 rwkv jamba bamba falcon_mamba recurrent_gemma gpt_oss dbrx jetmoe arcee exaone4 ernie4_5
hunyuan_v1_dense lfm2 minimax seed_oss apertus bitnet diffllama doge dots1 zamba blenderbot-small fuyu moshi
gpt_neox_japanese xlnet trocr glm4_moe ernie4_5_moe nanochat cwm vaultgemma olmo3 flex_olmo qwen3_next longcat_flash blt ministral""".split()
MASKED_LM = """bert roberta albert distilbert electra deberta deberta-v2 mpnet mobilebert convbert camembert xlm-roberta roformer squeezebert rembert
layoutlm ibert nystromformer big_bird yoso fnet megatron-bert funnel ernie esm data2vec-text xmod modernbert mra luke perceiver reformer
longformer roberta-prelayernorm xlm flaubert eurobert tapas mvp""".split()
CLASSIFIERS = """bert roberta gpt2 llama distilbert electra albert deberta-v2 xlnet mpnet funnel longformer canine biogpt opt t5 bart
modernbert qwen2 gemma mbart plbart umt5""".split()
SEQ2SEQ = """t5 mt5 umt5 bart mbart pegasus marian m2m_100 blenderbot blenderbot-small led longt5 plbart prophetnet fsmt switch_transformers
bigbird_pegasus pegasus_x nllb-moe mvp t5gemma""".split()
IMAGES = """vit deit beit swin swinv2 convnext convnextv2 resnet regnet mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2 efficientnet bit poolformer
segformer pvt pvt_v2 levit cvt focalnet dinat dinov2 dinov2_with_registers data2vec-vision hiera siglip swiftformer vit_msn
ijepa textnet pvt clip siglip2 hgnet_v2 perceiver donut-swin""".split()
AUDIO = "wav2vec2 hubert wavlm unispeech unispeech-sat data2vec-audio sew wav2vec2-conformer".split()

CHANGES: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"head_dim": 8, "num_key_value_heads": 4}, "deepseek_v3": {"head_dim": 8, "num_key_value_heads": 4}, "convnextv2": {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2},
    "t5gemma": {"parts": {"encoder": {}, "decoder": {"cross_attention_hidden_size": 64}}},
    "blt": {"encoder_hash_byte_group_vocab": 64, "parts": {"encoder_config": {"hidden_size_global": 128}, "decoder_config": {"hidden_size_global": 128},
                                                           "global_config": {"hidden_size": 128, "head_dim": 32}, "patcher_config": {}}},
    "clip": {"image_size": 224}, "siglip": {"image_size": 224},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]}, "convnext": {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2},
    "resnet": {"hidden_sizes": [16, 32], "depths": [1, 1], "embedding_size": 16, "layer_type": "basic"}, "swin": {"embed_dim": 16, "depths": [1, 1],
    "num_heads": [2, 2], "patch_size": 4}, "swinv2": {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "patch_size": 4},
}


def transformers_families() -> list[Family]:
    made, seen = [], set()
    for types, head, kind in ((CAUSAL, "CausalLM", TOKENS), (MASKED_LM, "MaskedLM", MASKED), (CLASSIFIERS, "SequenceClassification", CLASSIFIED),
                              (SEQ2SEQ, "Seq2SeqLM", PAIRED), (IMAGES, "ImageClassification", SEEN), (AUDIO, "AudioClassification", HEARD)):
        for model_type in types:
            name = f"transformers/{model_type}/{head}"
            if name not in seen:
                seen.add(name)
                changes = CHANGES.get(model_type, {})
                made.append(Family(name, functools.partial(transformers_model, model_type, head, kind, **changes)))
    return made


# --- torchvision and timm: images and classes ---

class WithLoss(nn.Module):
    """A classifier of images with its loss; of several outputs, the first."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        scores = self.net(images)
        if isinstance(scores, dict):
            scores = next(iter(scores.values()))
        scores = scores[0] if isinstance(scores, (tuple, list)) else scores
        if scores.dim() == 4:
            scores = scores.mean((2, 3))
        return nn.functional.cross_entropy(scores, labels)


def images(size: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {"images": torch.randn(BATCH, 3, size, size, generator=generator), "labels": torch.randint(0, CLASSES, (BATCH,), generator=generator)}


def torchvision_model(name: str, size: int, **arguments: Any) -> tuple[nn.Module, dict[str, Any]]:
    import torchvision

    return WithLoss(torchvision.models.get_model(name, weights=None, **arguments)), images(size)


def timm_model(name: str, size: int) -> tuple[nn.Module, dict[str, Any]]:
    import timm

    try:
        net = timm.create_model(name, num_classes=CLASSES, img_size=size)
    except Exception:  # it takes any size, or its own alone
        net = timm.create_model(name, num_classes=CLASSES)
        wanted = net.default_cfg.get("input_size", (3, size, size))[-1]
        size = wanted if net.default_cfg.get("fixed_input_size") else size
    return WithLoss(net), images(size)


TORCHVISION = {
    "alexnet": 64, "vgg11_bn": 32, "resnet18": 32, "resnext50_32x4d": 32, "wide_resnet50_2": 32, "densenet121": 32, "squeezenet1_1": 64, "mobilenet_v2": 32,
    "mobilenet_v3_small": 32, "mnasnet0_5": 32, "shufflenet_v2_x0_5": 32, "efficientnet_b0": 32, "efficientnet_v2_s": 32, "regnet_y_400mf": 32, "regnet_x_400mf": 32,
    "convnext_tiny": 32, "swin_t": 32, "swin_v2_t": 32, "vit_b_32": 32, "maxvit_t": 224, "googlenet": 64, "inception_v3": 96,
}
TORCHVISION_SEGMENTATION = {"fcn_resnet50": 32, "deeplabv3_resnet50": 64, "lraspp_mobilenet_v3_large": 64, "deeplabv3_mobilenet_v3_large": 64}

TIMM = """resnet18 resnet26d resnext26ts seresnet18 resnest14d res2net50_14w_8s ecaresnet26t cspresnet50 darknet17 dla34 dpn48b densenet121 efficientnet_lite0
efficientnet_b0 mobilenetv2_050 mobilenetv3_small_050 mobilenetv4_conv_small mnasnet_small ghostnet_050 ghostnetv2_100 hardcorenas_a hrnet_w18_small
tinynet_e semnasnet_075 spnasnet_100 lcnet_050 fbnetc_100 regnetx_002 regnety_002 repvgg_a0 mobileone_s0 rexnet_100 selecsls42 skresnet18 tresnet_m vovnet39a
ese_vovnet19b_dw xception41 inception_v4 nasnetalarge pnasnet5large convnext_atto convnextv2_atto convmixer_768_32 vit_tiny_patch16_224 deit_tiny_patch16_224
beit_base_patch16_224 cait_xxs24_224 coat_lite_tiny crossvit_tiny_240 edgenext_xx_small efficientformer_l1 efficientformerv2_s0 efficientvit_b0
efficientvit_m0 eva02_tiny_patch14_224 fastvit_t8 focalnet_tiny_srf gcvit_xxtiny gernet_s gmixer_12_224 gmlp_ti16_224 hiera_tiny_224 inception_next_tiny
levit_128s maxvit_rmlp_pico_rw_256 mixer_s32_224 mobilevit_xxs mobilevitv2_050 mvitv2_tiny nest_tiny nfnet_f0 nf_regnet_b0 pit_ti_224 poolformer_s12
pvt_v2_b0 repghostnet_050 repvit_m0_9 resmlp_12_224 resnetv2_18 rdnet_tiny sequencer2d_s starnet_s1 swin_tiny_patch4_window7_224 swinv2_tiny_window8_256 tiny_vit_5m_224
tnt_s_legacy_patch16_224 twins_svt_small visformer_tiny volo_d1_224 xcit_nano_12_p16_224 caformer_s18 convformer_s18 davit_tiny ghostnetv3_050 hgnet_tiny
hgnetv2_b0 mambaout_femto nextvit_small samvit_base_patch16 shvit_s1 swiftformer_xs test_resnet test_vit test_convnext test_efficientnet test_byobnet
test_nfnet vitamin_small_224 halonet26t lambda_resnet26t botnet26t_256 bat_resnext26ts eca_botnext26ts_256 lamhalobotnet50ts_256 gc_efficientnetv2_rw_t
cs3darknet_s haloregnetz_b legacy_seresnet18 legacy_senet154 gluon_resnet18_v1b mobilenet_edgetpu_v2_xs fasternet_t0 csatv2""".split()


def all_families() -> list[Family]:
    made = transformers_families()
    made += [Family(f"torchvision/{name}", functools.partial(torchvision_model, name, size, num_classes=CLASSES, **({"image_size": 32} if name.startswith("vit") else {})))
             for name, size in TORCHVISION.items()]
    made += [Family(f"torchvision/{name}", functools.partial(torchvision_model, name, size, num_classes=CLASSES, weights_backbone=None))
             for name, size in TORCHVISION_SEGMENTATION.items()]
    made += [Family(f"timm/{name}", functools.partial(timm_model, name, 64)) for name in TIMM]
    return made
