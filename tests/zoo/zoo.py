#!/usr/bin/env python3
"""Export the zoo, plan each model on 8 and on 2x4 devices, and verify its small twin: one line for each.

Full models are on the meta device, so that 47 billion parameters take no memory. A model passes if it exports, if both
plans have no op without a rule, and if a plan of its reduced configuration (tests/models/export.py) computes on
simulated ranks what one device computes. Ends with exit code 1 if any does not.

    make zoo
    python tests/zoo/zoo.py [--more] [-o FOLDER] [--program FILE] [NAME ...]

``--more`` adds models of the same kinds, whose small twins do not exist: these are planned only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torchvision
import transformers as hf

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "models")]

import export as small  # noqa: E402  (found through the path above)
import meshwright  # noqa: E402

TRAINING = ["--set", "train.dtype=bf16"]
# Much memory, so that what is asked is whether ops have rules, and not what fits.
CLUSTER = ROOT / "tests" / "zoo" / "roomy8.toml"
SMALL_CLUSTER = ROOT / "tests" / "e2e" / "slow8.toml"

BATCH = 16


def tokens(length: int) -> torch.Tensor:
    return torch.zeros(BATCH, length, dtype=torch.int64)


def language(model: type, config: hf.PretrainedConfig, length: int = 1024, **more: torch.Tensor):
    config.use_cache = False
    return small.WithLoss(model(config)), {"input_ids": tokens(length), "attention_mask": tokens(length),
                                           "labels": tokens(length), **more}


def pixels(size: int = 224) -> torch.Tensor:
    return torch.zeros(BATCH, 3, size, size)


def classes() -> torch.Tensor:
    return torch.zeros(BATCH, dtype=torch.int64)


def image(model: type, config: hf.PretrainedConfig):
    return small.WithLoss(model(config)), {"pixel_values": pixels(), "labels": classes()}


def vision(name: str, size: int = 224, **options: object):
    model = getattr(torchvision.models, name)(**options)
    return small.Classified(model), {"images": pixels(size), "labels": classes()}


def clip():
    config = hf.CLIPConfig()
    return small.Contrastive(hf.CLIPModel(config)), {"input_ids": tokens(77), "attention_mask": tokens(77),
                                                     "pixel_values": pixels()}


def t5():
    config = hf.T5Config(d_model=1024, d_kv=64, d_ff=4096, num_layers=24, num_heads=16, dropout_rate=0.1)
    config.decoder_start_token_id = 0
    return language(hf.T5ForConditionalGeneration, config, 512)


# Name: how it is made, and its reduced configuration.
ZOO: dict[str, tuple[Callable, str]] = {
    "gpt2": (lambda: language(hf.GPT2LMHeadModel, hf.GPT2Config()), "gpt2_tiny"),
    "bert": (lambda: language(hf.BertForMaskedLM, hf.BertConfig(), 512), "bert_tiny"),
    "vit": (lambda: image(hf.ViTForImageClassification, hf.ViTConfig(num_labels=1000)), "vit_tiny"),
    "vit_torchvision": (lambda: vision("vit_b_16"), "vit_torchvision_tiny"),
    "t5_large": (t5, "t5_tiny"),
    "llama_8b": (lambda: language(hf.LlamaForCausalLM, hf.LlamaConfig(
        hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
        vocab_size=128256, max_position_embeddings=8192), 2048), "llama_tiny"),
    "mixtral_8x7b": (lambda: language(hf.MixtralForCausalLM, hf.MixtralConfig(), 2048), "mixtral_tiny"),
    "qwen_moe": (lambda: language(hf.Qwen2MoeForCausalLM, hf.Qwen2MoeConfig(), 2048), "qwen_moe_tiny"),
    "resnet50": (lambda: vision("resnet50"), "resnet_tiny"),
    "vgg16": (lambda: vision("vgg16"), "vgg_tiny"),
    "swin": (lambda: vision("swin_t"), "swin_tiny"),
    "clip": (clip, "clip_tiny"),
}

VISION = ["alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "googlenet", "maxvit_t", "mnasnet0_5", "mobilenet_v2",
          "mobilenet_v3_small", "resnext50_32x4d", "shufflenet_v2_x1_0", "squeezenet1_0", "swin_v2_t", "vgg16_bn",
          "wide_resnet50_2"]
WIDTHS = {"hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8, "intermediate_size": 1024}
FEWER = {**WIDTHS, "num_key_value_heads": 4}
MORE: dict[str, Callable] = {
    **{name: (lambda name=name: vision(name, **({"aux_logits": False, "init_weights": False} if name == "googlenet" else {})))
       for name in VISION},
    "albert": lambda: language(hf.AlbertForMaskedLM, hf.AlbertConfig(**WIDTHS), 128),
    "bart": lambda: language(hf.BartForConditionalGeneration, hf.BartConfig(encoder_layers=2, decoder_layers=2), 128),
    "beit": lambda: image(hf.BeitForImageClassification, hf.BeitConfig(num_hidden_layers=2, use_relative_position_bias=True)),
    "bloom": lambda: language(hf.BloomForCausalLM, hf.BloomConfig(n_layer=2, hidden_size=512, n_head=8), 128),
    "convnext": lambda: image(hf.ConvNextForImageClassification, hf.ConvNextConfig()),
    "deberta": lambda: language(hf.DebertaV2ForMaskedLM, hf.DebertaV2Config(
        num_hidden_layers=2, relative_attention=True, pos_att_type=["c2p", "p2c"]), 128),
    "deepseek_v3": lambda: language(hf.DeepseekV3ForCausalLM, hf.DeepseekV3Config(
        **{**WIDTHS, "num_key_value_heads": 8}, moe_intermediate_size=256, n_routed_experts=16, first_k_dense_replace=1,
        n_group=4, topk_group=2, q_lora_rank=64, kv_lora_rank=64), 128),
    "distilbert": lambda: language(hf.DistilBertForMaskedLM, hf.DistilBertConfig(n_layers=2), 128),
    "electra": lambda: language(hf.ElectraForMaskedLM, hf.ElectraConfig(num_hidden_layers=2), 128),
    "falcon": lambda: language(hf.FalconForCausalLM, hf.FalconConfig(hidden_size=512, num_hidden_layers=2, num_attention_heads=8), 128),
    "gemma2": lambda: language(hf.Gemma2ForCausalLM, hf.Gemma2Config(**FEWER, head_dim=64), 128),
    "gpt_neox": lambda: language(hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig(**WIDTHS), 128),
    "gptj": lambda: language(hf.GPTJForCausalLM, hf.GPTJConfig(n_layer=2, n_embd=512, n_head=8), 128),
    "mistral": lambda: language(hf.MistralForCausalLM, hf.MistralConfig(**FEWER), 128),
    "olmoe": lambda: language(hf.OlmoeForCausalLM, hf.OlmoeConfig(**{**FEWER, "intermediate_size": 256}, num_experts=16), 128),
    "opt": lambda: language(hf.OPTForCausalLM, hf.OPTConfig(num_hidden_layers=2), 128),
    "phi3": lambda: language(hf.Phi3ForCausalLM, hf.Phi3Config(**FEWER, pad_token_id=0), 128),
    "qwen3": lambda: language(hf.Qwen3ForCausalLM, hf.Qwen3Config(**FEWER), 128),
    "qwen3_moe": lambda: language(hf.Qwen3MoeForCausalLM, hf.Qwen3MoeConfig(**FEWER, moe_intermediate_size=256, num_experts=16), 128),
    "roberta": lambda: language(hf.RobertaForMaskedLM, hf.RobertaConfig(num_hidden_layers=2), 128),
    "segformer": lambda: (small.WithLoss(hf.SegformerForSemanticSegmentation(hf.SegformerConfig(num_labels=10))), {
        "pixel_values": pixels(128), "labels": torch.zeros(BATCH, 128, 128, dtype=torch.int64)}),
    "swin_transformers": lambda: image(hf.SwinForImageClassification, hf.SwinConfig(depths=[2, 2, 2, 2])),
    "whisper": lambda: (small.WithLoss(hf.WhisperForConditionalGeneration(hf.WhisperConfig(
        encoder_layers=1, decoder_layers=1, use_cache=False))), {
            "input_features": torch.zeros(BATCH, 80, 3000), "labels": tokens(64)}),
}


def export(make: Callable, path: Path) -> None:
    if path.exists():
        return
    with torch.device("meta"):
        model, inputs = make()
    meshwright.export(model.train(), inputs, path)


def run(program: Path, *arguments: object) -> dict:
    done = subprocess.run([str(program), *map(str, arguments), "--format", "json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr else f"exit code {done.returncode}")
    return json.loads(done.stdout)


def check(name: str, make: Callable, twin: str | None, folder: Path, program: Path) -> str:
    """One line about a model; raises RuntimeError if it does not pass."""
    model, plan = folder / f"{name}.pt2", folder / "plan.json"
    export(make, model)
    words = [f"{name:<20}"]
    for mesh in ("8", "2x4"):
        made = run(program, "plan", model, "--cluster", CLUSTER, "--mesh", mesh, *TRAINING, "-o", plan)
        if made["unruled_ops"]:
            raise RuntimeError(f"on {mesh}, without a rule: {', '.join(made['unruled_ops'])}")
        words.append(f"{mesh}: {made['objective_seconds'] * 1e3:9.2f} ms {made['status']}")
    if twin:
        path = folder / f"{twin}.pt2"
        export(small.MODELS[twin], path)
        run(program, "plan", path, "--cluster", SMALL_CLUSTER, "--mesh", "2x4", "-o", plan)
        verified = run(program, "verify", plan)
        words.append(f"verified: {verified['max_relative_error']:.1e}")
    return "  ".join(words)


def main() -> int:
    warnings.filterwarnings("ignore")
    hf.logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--more", action="store_true", help="models of the same kinds too")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "zoo", help="the folder for exported models")
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "bin" / "meshwright", help="the planner")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    known = {name: (make, twin) for name, (make, twin) in ZOO.items()}
    if options.more or options.names:
        known |= {name: (make, None) for name, make in MORE.items()}
    for name in options.names:
        if name not in known:
            parser.error(f"no model named {name!r}; known: {', '.join(known)}")
    failed = 0
    for name in options.names or known:
        try:
            print(check(name, *known[name], options.output, options.program), flush=True)
        except Exception as problem:  # noqa: BLE001  (one model's failure must not hide the others)
            print(f"{name:<20}  FAILED: {str(problem).splitlines()[0][:300]}", flush=True)
            failed += 1
    print(f"{len(options.names or known) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
