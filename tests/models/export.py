#!/usr/bin/env python3
"""Write the models for tests: the .pt2 files beside this script.

They are the examples' architectures made so small that a test can run them. The vocabulary of 50 is no multiple of 4 or
8, so that padding happens. All but those named *_weights are built on the meta device and hold no weights. Needs the
packages of examples/requirements.txt, and torchvision 0.29.2 for the image models.

    python tests/models/export.py [NAME ...]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torchvision
import transformers

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT.parents[1] / "python"))

import meshwright  # noqa: E402  (found through the path above)
from encoder import encoder, open_dimensions  # noqa: E402

LARGE = 200_000  # bytes, without weights
BATCH, LENGTH, WIDTH, HEADS, LAYERS, VOCABULARY, CLASSES = 8, 8, 32, 4, 2, 50, 10


class WithLoss(torch.nn.Module):
    """A model of ``transformers`` that returns its loss alone."""

    def __init__(self, inner: torch.nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        return self.inner(**inputs).loss


class Mlp(torch.nn.Module):
    """Linear layers, two activations, a norm, and a mean squared error made of parts."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(16, 64)
        self.second = torch.nn.Linear(64, 64)
        self.norm = torch.nn.LayerNorm(64)
        self.last = torch.nn.Linear(64, 8)

    def forward(self, features: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        hidden = torch.nn.functional.gelu(self.first(features))
        hidden = self.norm(hidden + torch.relu(self.second(hidden)))
        return (self.last(hidden) - targets).pow(2).mean()


class Regularized(torch.nn.Module):
    """A head of attention that drops some of its weights, as training does, and labels that are smoothed."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.mixed = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.last = torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        mixed = self.mixed(self.words(input_ids)).view(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS)
        query, key, value = mixed.permute(2, 0, 3, 1, 4).unbind()
        attended = torch.nn.functional.scaled_dot_product_attention(query, key, value, dropout_p=0.25, is_causal=True)
        logits = self.last(attended.transpose(1, 2).reshape(BATCH * LENGTH, WIDTH))
        return torch.nn.functional.cross_entropy(logits, labels.view(-1), label_smoothing=0.1)


class Recurrent(torch.nn.Module):
    """Tags words by what stands before and behind them, and by a summary of the sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.both_ways = torch.nn.LSTM(WIDTH, WIDTH // 2, num_layers=2, bidirectional=True, batch_first=True)
        self.forward_only = torch.nn.GRU(WIDTH, WIDTH // 2)
        self.tags = torch.nn.Linear(WIDTH // 2, CLASSES)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        read, (state, _) = self.both_ways(self.words(input_ids))
        tagged, _ = self.forward_only(read.transpose(0, 1), state[:1])
        return torch.nn.functional.cross_entropy(self.tags(tagged).flatten(0, 1), labels.transpose(0, 1).flatten())


class Outside(torch.nn.Module):
    """Looks words up behind the last one: a mistake, of which a run has to speak."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(VOCABULARY, WIDTH)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.words(input_ids * 0 + VOCABULARY).pow(2).mean()


def tokens() -> torch.Tensor:
    return torch.zeros(BATCH, LENGTH, dtype=torch.int64)


def gpt2(layers: int = LAYERS):
    config = transformers.GPT2Config(n_layer=layers, n_embd=WIDTH, n_head=HEADS, n_positions=LENGTH,
                                     vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=0, resid_pdrop=0.0,
                                     embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    return WithLoss(transformers.GPT2LMHeadModel(config)), {"input_ids": tokens(), "labels": tokens()}


def gpt2_long():
    config = transformers.GPT2Config(n_layer=LAYERS, n_embd=4096, n_head=32, n_positions=8192, use_cache=False)
    text = torch.zeros(1, 8192, dtype=torch.int64)
    return WithLoss(transformers.GPT2LMHeadModel(config)), {"input_ids": text, "labels": text}


def bert():
    config = transformers.BertConfig(num_hidden_layers=LAYERS, hidden_size=WIDTH, num_attention_heads=HEADS,
                                     intermediate_size=2 * WIDTH, vocab_size=VOCABULARY,
                                     max_position_embeddings=LENGTH, hidden_dropout_prob=0.0,
                                     attention_probs_dropout_prob=0.0)
    return WithLoss(transformers.BertForMaskedLM(config)), {"input_ids": tokens(), "attention_mask": tokens(),
                                                            "labels": tokens()}


def vit():
    config = transformers.ViTConfig(num_hidden_layers=LAYERS, hidden_size=WIDTH, num_attention_heads=HEADS,
                                    intermediate_size=2 * WIDTH, image_size=16, patch_size=8, num_labels=CLASSES,
                                    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return WithLoss(transformers.ViTForImageClassification(config)), {
        "pixel_values": torch.zeros(BATCH, 3, 16, 16), "labels": torch.zeros(BATCH, dtype=torch.int64)}


class Classified(torch.nn.Module):
    """An image classifier that returns its cross entropy."""

    def __init__(self, inner: torch.nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.inner(images), labels)


class Vgg(torch.nn.Module):
    """torchvision's VGG with a head for images of 16x16."""

    def __init__(self):
        super().__init__()
        layers = torchvision.models.vgg.make_layers([8, "M", 16, 16, "M"], batch_norm=False)
        self.inner = torchvision.models.VGG(layers, num_classes=CLASSES, init_weights=False, dropout=0.5)
        self.inner.avgpool = torch.nn.AdaptiveAvgPool2d(2)
        self.inner.classifier[0] = torch.nn.Linear(16 * 2 * 2, WIDTH)
        self.inner.classifier[3] = torch.nn.Linear(WIDTH, WIDTH)
        self.inner.classifier[6] = torch.nn.Linear(WIDTH, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.inner(images)


class Contrastive(torch.nn.Module):
    """CLIP, with the loss that pairs texts and images."""

    def __init__(self, inner: torch.nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        return self.inner(**inputs, return_loss=True).loss


class UNet(torch.nn.Module):
    """An encoder and a decoder of as many levels; each level of the one is read by that of the other (Ronneberger 2015)."""

    def __init__(self, widths: tuple[int, ...]):
        super().__init__()

        def block(inner: int, outer: int) -> torch.nn.Module:
            return torch.nn.Sequential(torch.nn.Conv2d(inner, outer, 3, padding=1, bias=False), torch.nn.GroupNorm(2, outer),
                                       torch.nn.ReLU())

        pairs = list(zip(widths, widths[1:]))[::-1]
        self.down = torch.nn.ModuleList(block(inner, outer) for inner, outer in zip((3, *widths), widths))
        self.rise = torch.nn.ModuleList(torch.nn.ConvTranspose2d(outer, inner, 2, stride=2) for inner, outer in pairs)
        self.up = torch.nn.ModuleList(block(2 * inner, inner) for inner, _ in pairs)
        self.last = torch.nn.Conv2d(widths[0], CLASSES, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden, skips = images, []
        for level, block in enumerate(self.down):
            hidden = block(torch.nn.functional.max_pool2d(hidden, 2) if level else hidden)
            skips.append(hidden)
        for rise, block, skip in zip(self.rise, self.up, reversed(skips[:-1])):
            hidden = block(torch.cat([rise(hidden), skip], dim=1))
        return self.last(hidden)


class DenseNet(torch.nn.Module):
    """Two blocks in which every layer reads all before it in the block (Huang et al. 2017). The norms stand behind the
    convolutions: before them, as in torchvision's, they leave the first scale with a gradient of rounding errors."""

    def __init__(self, width: int, growth: int, layers: int):
        super().__init__()

        def layer(inner: int, outer: int, size: int) -> torch.nn.Module:
            return torch.nn.Sequential(torch.nn.Conv2d(inner, outer, size, padding=size // 2, bias=False), torch.nn.BatchNorm2d(outer),
                                       torch.nn.ReLU())

        self.stem = torch.nn.Conv2d(3, width, 3, padding=1)
        self.blocks = torch.nn.ModuleList(
            torch.nn.ModuleList(layer(width + i * growth, growth, 3) for i in range(layers)) for _ in range(2))
        self.transition = layer(width + layers * growth, width, 1)
        self.classifier = torch.nn.Linear(width + layers * growth, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.stem(images)
        for block in self.blocks:
            if block is not self.blocks[0]:
                hidden = torch.nn.functional.avg_pool2d(self.transition(hidden), 2)
            features = [hidden]
            for layer in block:
                features.append(layer(torch.cat(features, dim=1)))
            hidden = torch.cat(features, dim=1)
        return self.classifier(hidden.mean(dim=(2, 3)))


class Spectral(torch.nn.Module):
    """Mixes by FFTs and complex products, which no op family serves; a teacher without gradients; an input that has one."""

    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, WIDTH)
        self.teacher, self.norm = torch.nn.Linear(WIDTH, WIDTH), torch.nn.LayerNorm(WIDTH)
        self.filter = torch.nn.Parameter(torch.randn(LENGTH, WIDTH, 2))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        x = hidden + self.down(torch.nn.functional.gelu(self.up(self.norm(hidden))))
        mixed = torch.fft.ifft(torch.fft.fft(x, dim=1) * torch.view_as_complex(self.filter), dim=1).real
        with torch.no_grad():
            wanted = self.teacher(x)
        return (mixed + x - wanted).square().mean()


def spectral():
    return Spectral(), {"hidden": torch.randn(BATCH, LENGTH, WIDTH, requires_grad=True)}


def images(size: int) -> dict[str, torch.Tensor]:
    return {"images": torch.zeros(BATCH, 3, size, size), "labels": torch.zeros(BATCH, dtype=torch.int64)}


def resnet():
    block = torchvision.models.resnet.Bottleneck
    model = torchvision.models.ResNet(block, [1, 1, 1, 1], num_classes=CLASSES, width_per_group=4)
    return Classified(model), images(32)


def resnet50():
    """As it is, for its twin in ONNX."""
    return Classified(torchvision.models.resnet50()), {
        "images": torch.zeros(32, 3, 224, 224), "labels": torch.zeros(32, dtype=torch.int64)}


def vgg():
    return Classified(Vgg()), images(16)


def clip():
    text = {"num_hidden_layers": 1, "hidden_size": WIDTH, "num_attention_heads": HEADS, "intermediate_size": 2 * WIDTH,
            "vocab_size": VOCABULARY, "max_position_embeddings": LENGTH, "bos_token_id": 0, "eos_token_id": 1,
            "pad_token_id": 1}
    vision = {"num_hidden_layers": 1, "hidden_size": WIDTH, "num_attention_heads": HEADS, "intermediate_size": 2 * WIDTH,
              "image_size": 16, "patch_size": 8}
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=WIDTH)
    return Contrastive(transformers.CLIPModel(config)), {
        "input_ids": tokens(), "attention_mask": tokens(), "pixel_values": torch.zeros(BATCH, 3, 16, 16)}


def llama():
    config = transformers.LlamaConfig(num_hidden_layers=LAYERS, hidden_size=WIDTH, num_attention_heads=HEADS,
                                      num_key_value_heads=HEADS // 2, intermediate_size=2 * WIDTH,
                                      vocab_size=VOCABULARY, max_position_embeddings=LENGTH, use_cache=False)
    return WithLoss(transformers.LlamaForCausalLM(config)), {"input_ids": tokens(), "attention_mask": tokens(),
                                                             "labels": tokens()}


def t5(head: int = WIDTH // HEADS, inner: int = 2 * WIDTH):
    config = transformers.T5Config(num_layers=1, num_decoder_layers=1, d_model=WIDTH, d_kv=head,
                                   num_heads=HEADS, d_ff=inner, vocab_size=VOCABULARY, dropout_rate=0.0,
                                   decoder_start_token_id=0, use_cache=False)
    return WithLoss(transformers.T5ForConditionalGeneration(config)), {
        "input_ids": tokens(), "attention_mask": tokens(), "labels": tokens()}


def t5_attentive():
    """Most of its weights are the attention's."""
    return t5(WIDTH, WIDTH)


def experts(config: type, model: type, **more: object):
    configured = config(num_hidden_layers=LAYERS, hidden_size=WIDTH, num_attention_heads=HEADS,
                        num_key_value_heads=HEADS // 2, vocab_size=VOCABULARY, max_position_embeddings=LENGTH,
                        num_experts_per_tok=2, use_cache=False, bos_token_id=0, eos_token_id=0, **more)
    return WithLoss(model(configured)), {"input_ids": tokens(), "attention_mask": tokens(), "labels": tokens()}


def mixtral():
    return experts(transformers.MixtralConfig, transformers.MixtralForCausalLM, intermediate_size=8 * WIDTH,
                   num_local_experts=8, router_jitter_noise=0.0)


def mixtral_short():
    """Mixtral 8x7B with two of its 32 layers."""
    text = torch.zeros(16, 2048, dtype=torch.int64)
    config = transformers.MixtralConfig(num_hidden_layers=2, use_cache=False)
    return WithLoss(transformers.MixtralForCausalLM(config)), {"input_ids": text, "labels": text}


def qwen_moe():
    return experts(transformers.Qwen2MoeConfig, transformers.Qwen2MoeForCausalLM, intermediate_size=2 * WIDTH,
                   moe_intermediate_size=WIDTH // 2, shared_expert_intermediate_size=WIDTH, num_experts=8)


def densenet():
    return Classified(DenseNet(8, 4, 3)), images(16)


def unet():
    """With a class for each pixel."""
    return Classified(UNet((4, 8, 16))), {**images(16), "labels": torch.zeros(BATCH, 16, 16, dtype=torch.int64)}


def vit_torchvision():
    model = torchvision.models.VisionTransformer(image_size=16, patch_size=8, num_layers=LAYERS, num_heads=HEADS,
                                                 hidden_dim=WIDTH, mlp_dim=2 * WIDTH, num_classes=CLASSES)
    return Classified(model), images(16)


def swin():
    model = torchvision.models.SwinTransformer(patch_size=[2, 2], embed_dim=16, depths=[2, 2], num_heads=[2, 4],
                                               window_size=[4, 4], mlp_ratio=2.0, stochastic_depth_prob=0.0,
                                               num_classes=CLASSES)
    return Classified(model), images(16)


def mlp():
    return Mlp(), {"features": torch.zeros(2 * BATCH, 16), "targets": torch.zeros(2 * BATCH, 8)}


def mlp_bf16():
    model, inputs = mlp()
    return model.to(torch.bfloat16), {name: value.to(torch.bfloat16) for name, value in inputs.items()}


def regularized():
    return Regularized(), {"input_ids": tokens(), "labels": tokens()}


def recurrent():
    return Recurrent(), {"input_ids": tokens(), "labels": torch.zeros(BATCH, LENGTH, dtype=torch.int64)}


def outside():
    return Outside(), {"input_ids": tokens()}


def shrink(path: Path) -> None:
    """Keep of where a node comes from the innermost module: what the planner reads. The rest is a third of the file."""
    program = torch.export.load(path)
    for node in program.graph_module.graph.nodes:
        stack = node.meta.get("nn_module_stack") or {}
        if len(stack) > 1:
            node.meta["nn_module_stack"] = dict(list(stack.items())[-1:])
        node.meta.pop("torch_fn", None)
    torch.export.save(program, path)


def fill(model: torch.nn.Module) -> None:
    """Weights that leave no bias at zero and no scale at one; uniform, because such bits are the same on any CPU."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_scale = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_((torch.rand(parameter.shape, generator=generator) - 0.5) * 0.5 + is_scale)


MODELS: dict[str, Callable] = {"spectral_tiny": spectral, "gpt2_tiny": gpt2, "gpt2_deep_tiny": lambda: gpt2(5), "gpt2_tiny_weights": gpt2, "bert_tiny": bert, "vit_tiny": vit,
                               "mlp_tiny": mlp, "mlp_bf16_weights": mlp_bf16, "llama_tiny": llama, "resnet_tiny": resnet, "t5_tiny": t5, "t5_attentive_tiny": t5_attentive,
                               "vgg_tiny": vgg, "clip_tiny": clip, "swin_tiny": swin, "densenet_tiny": densenet, "unet_tiny": unet, "vit_torchvision_tiny": vit_torchvision, "mixtral_tiny": mixtral,
                               "mixtral_short": mixtral_short, "regularized_tiny": regularized, "outside_tiny": outside, "recurrent_tiny": recurrent,
                               "qwen_moe_tiny": qwen_moe, "gpt2_long": gpt2_long, "encoder_open": lambda: encoder(8, 16),
                               "encoder_12x10": lambda: encoder(12, 10), "resnet50": resnet50}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(MODELS)}; all by default")
    parser.add_argument("-o", "--output", type=Path, default=ROOT, help="the folder to write to")
    parser.add_argument("--batch", type=int, default=BATCH, help="samples; `batch_12` holds twins with 12")
    options = parser.parse_args()
    globals()["BATCH"] = options.batch
    for name in options.names or MODELS:
        if name not in MODELS:
            parser.error(f"no model named {name!r}; known: {', '.join(MODELS)}")
        has_weights = name.endswith("_weights")
        with torch.device("cpu" if has_weights else "meta"):
            model, inputs = MODELS[name]()
        if has_weights:
            fill(model)
        path = meshwright.export(model.train(), inputs, options.output / f"{name}.pt2",
                                 dynamic_shapes=open_dimensions(inputs) if name.endswith("_open") else None)
        if path.stat().st_size > LARGE and not has_weights:
            shrink(path)
        print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
