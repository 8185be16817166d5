"""Models of transformers, torchvision and timm with random weights, small: what `tools/torch_models.py` runs.

    subject = model("transformers", "bert")
    subject.module(**subject.inputs(0))

A `Subject` makes inputs of three sizes, and says which axes of them change. Families of transformers have a
configuration of a few thousand weights; architectures of torchvision and timm have their own, and small images.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

BATCHES = (2, 3, 5)
LENGTHS = (7, 12, 17)
SIZES = range(3)
"""Each input is made in three sizes."""
VOCABULARY = 99

Inputs = Callable[[int], dict[str, Any]]


@dataclass
class Subject:
    """A module, its inputs of three sizes, and their open axes by name."""

    module: Any
    inputs: Inputs
    axes: Mapping[str, tuple[int, ...]]
    generates: bool = False
    """Whether its module has `generate` for these inputs."""


@dataclass(frozen=True)
class Family:
    """A family of transformers: its configuration, a class of models, and the kind of their inputs."""

    config: str
    model: str
    kind: str = "text"
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    generates: bool = False


_TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
_GROUPED = {"num_key_value_heads": 2}
_SEQUENCES: dict[str, Any] = {
    "vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "decoder_start_token_id": 1, "forced_eos_token_id": None,
}  # fmt: skip
_IMAGE: dict[str, Any] = {
    "image_size": 32, "patch_size": 8, "num_channels": 3, "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 48,
}  # fmt: skip
_PYRAMID: dict[str, Any] = {
    "image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4,
}  # fmt: skip
_STAGES = {"hidden_sizes": [16, 24, 32, 48], "depths": [1, 1, 1, 1]}
_WAVES: dict[str, Any] = {
    "vocab_size": 32, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "conv_dim": [16, 16, 16], "conv_stride": [4, 2, 2], "conv_kernel": [8, 3, 3], "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4,
}  # fmt: skip
_RESNET = {"embedding_size": 8, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "layer_type": "basic"}


def _decoder(name: str, **settings: Any) -> Family:
    return Family(f"{name}Config", f"{name}ForCausalLM", "text", _TEXT | settings, True)


def _encoder(name: str, model: str = "", **settings: Any) -> Family:
    return Family(f"{name}Config", model or f"{name}Model", "text", _TEXT | settings)


def _translator(name: str, model: str = "", **settings: Any) -> Family:
    return Family(f"{name}Config", model or f"{name}ForConditionalGeneration", "pair", _SEQUENCES | settings, True)


def _viewer(name: str, model: str, kind: str = "image", **settings: Any) -> Family:
    return Family(f"{name}Config", model, kind, settings)


FAMILIES: dict[str, Family] = {
    # decoders
    "gpt2": Family("GPT2Config", "GPT2LMHeadModel", "text", _TEXT, True),
    "gpt_neo": _decoder("GPTNeo", num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]]),
    "gpt_neox": _decoder("GPTNeoX"),
    "gptj": _decoder("GPTJ", rotary_dim=4),
    "codegen": _decoder("CodeGen", rotary_dim=4),
    "opt": _decoder("OPT", ffn_dim=48, word_embed_proj_dim=32),
    "bloom": _decoder("Bloom"),
    "falcon": _decoder("Falcon"),
    "llama": _decoder("Llama", **_GROUPED),
    "mistral": _decoder("Mistral", **_GROUPED, sliding_window=8),
    "mixtral": _decoder("Mixtral", **_GROUPED, num_local_experts=4),
    "qwen2": _decoder("Qwen2", **_GROUPED),
    "qwen3": _decoder("Qwen3", **_GROUPED, head_dim=8),
    "qwen3_moe": _decoder("Qwen3Moe", **_GROUPED, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16),
    "gemma": _decoder("Gemma", **_GROUPED, head_dim=8),
    "gemma2": _decoder("Gemma2", **_GROUPED, head_dim=8, sliding_window=8),
    "phi": _decoder("Phi"),
    "phi3": _decoder("Phi3", **_GROUPED),
    "stablelm": _decoder("StableLm", **_GROUPED),
    "olmo2": _decoder("Olmo2", **_GROUPED),
    "cohere": _decoder("Cohere", **_GROUPED),
    "starcoder2": _decoder("Starcoder2", **_GROUPED),
    "mamba": _decoder("Mamba", state_size=8),
    # encoders
    "bert": _encoder("Bert"),
    "roberta": _encoder("Roberta", max_position_embeddings=66),
    "distilbert": _encoder("DistilBert", dim=32, hidden_dim=48, n_layers=2, n_heads=4),
    "albert": _encoder("Albert", embedding_size=16),
    "electra": _encoder("Electra", embedding_size=16),
    "mpnet": _encoder("MPNet"),
    "deberta": _encoder("Deberta", relative_attention=True, pos_att_type=["p2c", "c2p"], type_vocab_size=0),
    "deberta-v2": _encoder("DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"], type_vocab_size=0),
    "modernbert": _encoder("ModernBert", local_attention=8, cls_token_id=1, sep_token_id=2),
    "xlnet": Family("XLNetConfig", "XLNetModel", "text", {
        "vocab_size": VOCABULARY, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}),
    # encoders with decoders
    "t5": Family("T5Config", "T5ForConditionalGeneration", "pair", {
        "vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
        "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 2}, True),
    "bart": _translator("Bart"),
    "mbart": _translator("MBart"),
    "marian": _translator("Marian", "MarianMTModel"),
    "pegasus": _translator("Pegasus"),
    "m2m_100": _translator("M2M100"),
    # images
    "vit": _viewer("ViT", "ViTModel", **_IMAGE),
    "deit": _viewer("DeiT", "DeiTModel", **_IMAGE),
    "beit": _viewer("Beit", "BeitModel", **_IMAGE, use_relative_position_bias=True),
    "dinov2": _viewer("Dinov2", "Dinov2Model", **_IMAGE),
    "swin": _viewer("Swin", "SwinModel", **_PYRAMID),
    "swinv2": _viewer("Swinv2", "Swinv2Model", **_PYRAMID),
    "convnext": _viewer("ConvNext", "ConvNextModel", "any image", **_STAGES),
    "convnextv2": _viewer("ConvNextV2", "ConvNextV2Model", "any image", **_STAGES),
    "resnet": _viewer("ResNet", "ResNetModel", "any image", **_RESNET),
    "segformer": _viewer("Segformer", "SegformerForSemanticSegmentation", "any image", hidden_sizes=[8, 16, 16, 32],
                         depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=16),
    "mobilevit": _viewer("MobileViT", "MobileViTModel", "image", image_size=64, hidden_sizes=[16, 24, 32],
                         neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 48]),
    "yolos": _viewer("Yolos", "YolosForObjectDetection", **(_IMAGE | {"image_size": [32, 32]}),
                     num_detection_tokens=5),
    "detr": _viewer("Detr", "DetrForObjectDetection", "any image", d_model=32, encoder_layers=1, decoder_layers=1,
                    encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48,
                    num_queries=5, use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
                    backbone_config={"model_type": "resnet", "out_features": ["stage4"], **_RESNET}),
    # images and texts
    "clip": _viewer("CLIP", "CLIPModel", "image and text", projection_dim=16,
                    text_config=_TEXT, vision_config=_IMAGE),
    "siglip": _viewer("Siglip", "SiglipModel", "image and text", text_config=_TEXT, vision_config=_IMAGE),
    # speech
    "whisper": Family("WhisperConfig", "WhisperForConditionalGeneration", "speech", _SEQUENCES | {
        "num_mel_bins": 16, "max_source_positions": 30, "max_target_positions": 64, "suppress_tokens": None,
        "begin_suppress_tokens": None}, True),
    "wav2vec2": _viewer("Wav2Vec2", "Wav2Vec2Model", "waves", **_WAVES),
    "hubert": _viewer("Hubert", "HubertModel", "waves", **_WAVES),
}  # fmt: skip

VISION: dict[str, tuple[str, ...]] = {
    "classification": (
        "alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet", "inception_v3",
        "maxvit_t", "mnasnet0_5", "mobilenet_v2", "mobilenet_v3_small", "regnet_x_400mf", "regnet_y_400mf", "resnet18",
        "resnet50", "resnext50_32x4d", "shufflenet_v2_x1_0", "squeezenet1_1", "swin_t", "swin_v2_t", "vgg11",
        "vgg11_bn", "vit_b_16", "wide_resnet50_2",
    ),
    "segmentation": ("deeplabv3_mobilenet_v3_large", "deeplabv3_resnet50", "fcn_resnet50", "lraspp_mobilenet_v3_large"),
    "detection": (
        "fasterrcnn_mobilenet_v3_large_320_fpn", "fcos_resnet50_fpn", "keypointrcnn_resnet50_fpn",
        "maskrcnn_resnet50_fpn", "retinanet_resnet50_fpn", "ssdlite320_mobilenet_v3_large",
    ),
}  # fmt: skip
"""Models of torchvision by task, one or two of each architecture."""

TIMM: tuple[str, ...] = (
    "resnet18", "resnet50d", "resnext50_32x4d", "seresnet50", "ecaresnet26t", "res2net50_26w_4s", "resnest14d",
    "skresnet18", "regnetx_002", "regnety_002", "densenet121", "dla34", "dpn48b", "hrnet_w18_small", "vgg11_bn",
    "inception_v3", "inception_v4", "xception41", "selecsls42b", "mobilenetv2_050", "mobilenetv3_small_050",
    "mobilenetv4_conv_small", "mnasnet_small", "efficientnet_b0", "tf_efficientnetv2_b0", "efficientnet_lite0",
    "fbnetc_100", "spnasnet_100", "ghostnet_100", "ghostnetv2_100", "rexnet_100", "lcnet_050", "tinynet_e",
    "mixnet_s", "hardcorenas_a", "repvgg_a0", "mobileone_s0", "cspresnet50", "cspdarknet53", "darknet53",
    "convnext_atto", "convnextv2_atto", "nfnet_f0", "nf_resnet50", "vit_tiny_patch16_224", "deit_tiny_patch16_224",
    "swin_tiny_patch4_window7_224", "beit_base_patch16_224", "cait_xxs24_224", "xcit_nano_12_p16_224",
    "mixer_s32_224", "resmlp_12_224", "gmlp_ti16_224", "pvt_v2_b0", "twins_svt_small", "poolformer_s12",
    "caformer_s18", "levit_128s", "efficientformer_l1", "efficientvit_b0", "mobilevit_xxs", "mobilevitv2_050",
    "edgenext_xx_small", "coat_lite_tiny", "crossvit_tiny_240", "maxvit_rmlp_pico_rw_256", "coatnet_pico_rw_224",
    "volo_d1_224", "tnt_s_patch16_224", "fastvit_t8", "inception_next_tiny", "focalnet_tiny_srf", "davit_tiny",
    "hiera_tiny_224", "eva02_tiny_patch14_224", "repghostnet_050", "starnet_s1", "visformer_tiny", "convit_tiny",
    "sequencer2d_s",
)  # fmt: skip
"""Architectures of timm."""


def names(library: str) -> list[str]:
    """Names of the models of a library: transformers, torchvision or timm."""
    return {"transformers": list(FAMILIES), "torchvision": [n for task in VISION.values() for n in task],
            "timm": list(TIMM)}[library]  # fmt: skip


def model(library: str, name: str) -> Subject:
    """A model in the mode `eval`, its weights drawn by torch's generator after a seed of 0."""
    import torch

    torch.manual_seed(0)
    return {"transformers": _transformers, "torchvision": _torchvision, "timm": _timm}[library](name)


# ------------------------------------------------------------------------------------------------ transformers


def _transformers(name: str) -> Subject:
    transformers = importlib.import_module("transformers")
    family = FAMILIES[name]
    config = getattr(transformers, family.config)(**family.settings)
    module = getattr(transformers, family.model)(config).eval()
    inputs, axes = _KINDS[family.kind](config)
    return Subject(module, inputs, axes, family.generates)


def _generator(index: int) -> Any:
    import torch

    return torch.Generator().manual_seed(index)


def _tokens(index: int, length: int | None = None) -> Any:
    """Tokens of one of the three sizes, none of them special."""
    import torch

    length = LENGTHS[index] if length is None else length
    return torch.randint(3, VOCABULARY, (BATCHES[index], length), generator=_generator(index))


def _mask(index: int) -> Any:
    """A mask that leaves out the first two tokens of the first text."""
    import torch

    mask = torch.ones(BATCHES[index], LENGTHS[index], dtype=torch.int64)
    mask[0, :2] = 0
    return mask


def _picture(index: int, height: int, width: int, channels: int = 3) -> Any:
    import torch

    return torch.randn(BATCHES[index], channels, height, width, generator=_generator(index))


def _text_inputs(_: Any) -> tuple[Inputs, dict[str, tuple[int, ...]]]:
    def inputs(index: int) -> dict[str, Any]:
        return {"input_ids": _tokens(index), "attention_mask": _mask(index)}

    return inputs, {"input_ids": (0, 1), "attention_mask": (0, 1)}


def _pair_inputs(_: Any) -> tuple[Inputs, dict[str, tuple[int, ...]]]:
    def inputs(index: int) -> dict[str, Any]:
        return {"input_ids": _tokens(index), "attention_mask": _mask(index),
                "decoder_input_ids": _tokens(index, 4 + 2 * index)}  # fmt: skip

    return inputs, dict.fromkeys(("input_ids", "attention_mask", "decoder_input_ids"), (0, 1))


def _image_inputs(config: Any) -> tuple[Inputs, dict[str, tuple[int, ...]]]:
    side = config.image_size if isinstance(config.image_size, int) else config.image_size[0]
    return lambda index: {"pixel_values": _picture(index, side, side)}, {"pixel_values": (0,)}


def _any_image_inputs(_: Any) -> tuple[Inputs, dict[str, tuple[int, ...]]]:
    def inputs(index: int) -> dict[str, Any]:
        return {"pixel_values": _picture(index, 64 + 32 * index, 96 + 32 * index)}

    return inputs, {"pixel_values": (0, 2, 3)}


def _image_and_text_inputs(config: Any) -> tuple[Inputs, dict[str, tuple[int, ...]]]:
    texts, text_axes = _text_inputs(config)
    images, image_axes = _image_inputs(config.vision_config)
    return lambda index: texts(index) | images(index), text_axes | image_axes


def _speech_inputs(config: Any) -> tuple[Inputs, dict[str, tuple[int, ...]]]:
    import torch

    shape = config.num_mel_bins, 2 * config.max_source_positions

    def inputs(index: int) -> dict[str, Any]:
        return {"input_features": torch.randn(BATCHES[index], *shape, generator=_generator(index)),
                "decoder_input_ids": _tokens(index, 4 + 2 * index)}  # fmt: skip

    return inputs, {"input_features": (0,), "decoder_input_ids": (0, 1)}


def _wave_inputs(_: Any) -> tuple[Inputs, dict[str, tuple[int, ...]]]:
    import torch

    def inputs(index: int) -> dict[str, Any]:
        return {"input_values": torch.randn(BATCHES[index], 400 + 150 * index, generator=_generator(index))}

    return inputs, {"input_values": (0, 1)}


_KINDS: dict[str, Callable[[Any], tuple[Inputs, dict[str, tuple[int, ...]]]]] = {
    "text": _text_inputs, "pair": _pair_inputs, "image": _image_inputs, "any image": _any_image_inputs,
    "image and text": _image_and_text_inputs, "speech": _speech_inputs, "waves": _wave_inputs,
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ torchvision, timm

_LARGE = {"maxvit_t": 224, "vit_b_16": 224}
"""Smallest side of the images of architectures that fix it."""
_FIXED = ("maxvit_t", "vit_b_16")


def _torchvision(name: str) -> Subject:
    import torch

    models = importlib.import_module("torchvision.models")
    settings: dict[str, Any] = {"weights": None}
    if name in VISION["segmentation"] or name in VISION["detection"]:
        settings["weights_backbone"] = None
    if name in ("googlenet", "inception_v3"):
        settings |= {"init_weights": False, "aux_logits": False}
    module = models.get_model(name, **settings).eval()
    if name in VISION["detection"]:
        return Subject(module, lambda index: {"images": list(_picture(index, 96 + 32 * index, 128))}, {})
    _settle(module, torch)
    side, step = _LARGE.get(name, 96), 0 if name in _FIXED else 32
    axes = (0,) if name in _FIXED else (0, 2, 3)

    def inputs(index: int) -> dict[str, Any]:
        return {"x": _picture(index, side + step * index, side + step * (index + 1))}

    return Subject(module, inputs, {"x": axes})


def _timm(name: str) -> Subject:
    import torch

    timm = importlib.import_module("timm")
    module = timm.create_model(name, pretrained=False, num_classes=10).eval()
    _settle(module, torch)
    _, height, width = module.default_cfg["input_size"]
    fixed = module.default_cfg.get("fixed_input_size", False)
    if not fixed:
        height, width = 96, 96

    def inputs(index: int) -> dict[str, Any]:
        return {"x": _picture(index, height, width)}

    return Subject(module, inputs, {"x": (0,)})


def _settle(module: Any, torch: Any) -> None:
    """Draw the statistics of batch norms, and scales that begin as 0, so that no branch of a model is without effect."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.running_var is not None:
                part.running_mean.uniform_(-0.1, 0.1, generator=generator)
                part.running_var.uniform_(0.8, 1.2, generator=generator)
        for parameter in module.parameters():
            if not parameter.any():
                parameter.uniform_(-0.1, 0.1, generator=generator)
