"""A checkpoint of random numbers under the published names and sizes.

It costs a device exactly what a real one would, and its tokens are as varied as noise: made for
measuring, and in small sizes for comparing with the references.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from engine.duplex.shapes import MimiShape, Shape

Sizes = Iterator[tuple[str, tuple[int, ...]]]


def language_model(
    shape: Shape, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """The language model in the layout of the published files."""
    return {name: _fill(name, size, device, dtype) for name, size in _language_model(shape)}


def codec(shape: MimiShape, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Mimi."""
    return {name: _fill(name, size, device, torch.float32) for name, size in _codec(shape)}


def _fill(
    name: str, size: tuple[int, ...], device: torch.device | str, dtype: torch.dtype
) -> Tensor:
    """Normal, scaled so that what goes through keeps its size."""
    tensor = torch.empty(size, device=device, dtype=dtype)
    if name.endswith("_initialized"):
        return tensor.fill_(1)
    if name.endswith(("alpha", "cluster_usage")) or ("norm" in name and name.endswith("weight")):
        return tensor.uniform_(0.8, 1.2)
    if "emb" in name:
        return tensor.normal_()
    if name.endswith("scale"):
        return tensor.uniform_(0.1, 0.3)
    if name.endswith("bias"):
        return tensor.normal_(std=0.02)
    fan = size[0] * size[2] if "convtr" in name else tensor[0].numel()
    return tensor.normal_(std=1.3 * fan**-0.5)


def _language_model(shape: Shape) -> Sizes:
    dim, small = shape.dim, shape.depformer_dim
    yield "text_emb.weight", (shape.text_card + 1, dim)
    yield "text_linear.weight", (shape.text_card, dim)
    yield "out_norm.alpha", (1, 1, dim)
    for i in range(shape.n_q):
        yield f"emb.{i}.weight", (shape.card + 1, dim)
    for i in range(shape.num_layers):
        below = f"transformer.layers.{i}"
        yield from _layer(below, dim, 1)
        yield from _gate(f"{below}.gating", dim, shape.hidden)
    yield "depformer_text_emb.weight", (shape.text_card + 1, small)
    for i in range(shape.dep_q):
        yield f"depformer_in.{i}.weight", (small, dim)
        yield f"linears.{i}.weight", (shape.card, small)
        if i < shape.dep_q - 1:
            yield f"depformer_emb.{i}.weight", (shape.card + 1, small)
    for i in range(shape.depformer_num_layers):
        below = f"depformer.layers.{i}"
        yield from _layer(below, small, shape.dep_q)
        for step in range(shape.dep_q):
            yield from _gate(f"{below}.gating.{step}", small, shape.depth_hidden)


def _layer(below: str, dim: int, steps: int) -> Sizes:
    yield f"{below}.norm1.alpha", (1, 1, dim)
    yield f"{below}.norm2.alpha", (1, 1, dim)
    yield f"{below}.self_attn.in_proj_weight", (steps * 3 * dim, dim)
    yield f"{below}.self_attn.out_proj.weight", (steps * dim, dim)


def _gate(below: str, dim: int, hidden: int) -> Sizes:
    yield f"{below}.linear_in.weight", (2 * hidden, dim)
    yield f"{below}.linear_out.weight", (dim, hidden)


def _codec(shape: MimiShape) -> Sizes:
    dim, steps = shape.seanet.dimension, shape.steps
    yield from _encoder(shape)
    yield from _decoder(shape)
    for half in ("encoder_transformer", "decoder_transformer"):
        for i in range(shape.transformer.num_layers):
            yield from _codec_layer(f"{half}.transformer.layers.{i}", dim, shape)
    yield "downsample.conv.conv.conv.weight", (dim, dim, 2 * steps)
    yield "upsample.convtr.convtr.convtr.weight", (dim, 1, 2 * steps)
    books = shape.quantizer
    for half, count in (("rvq_first", 1), ("rvq_rest", books.n_q - 1)):
        yield f"quantizer.{half}.input_proj.weight", (books.dimension, dim, 1)
        yield f"quantizer.{half}.output_proj.weight", (dim, books.dimension, 1)
        for i in range(count):
            below = f"quantizer.{half}.vq.layers.{i}._codebook"
            yield f"{below}._initialized", (1,)
            yield f"{below}.cluster_usage", (books.bins,)
            yield f"{below}.embedding_sum", (books.bins, books.dimension)


def _codec_layer(below: str, dim: int, shape: MimiShape) -> Sizes:
    hidden = shape.transformer.dim_feedforward
    for norm in ("norm1", "norm2"):
        yield f"{below}.{norm}.weight", (dim,)
        yield f"{below}.{norm}.bias", (dim,)
    yield f"{below}.self_attn.in_proj_weight", (3 * dim, dim)
    yield f"{below}.self_attn.out_proj.weight", (dim, dim)
    yield f"{below}.linear1.weight", (hidden, dim)
    yield f"{below}.linear2.weight", (dim, hidden)
    yield f"{below}.layer_scale_1.scale", (dim,)
    yield f"{below}.layer_scale_2.scale", (dim,)


def _encoder(shape: MimiShape) -> Sizes:
    net, width, stage = shape.seanet, shape.seanet.n_filters, 1
    yield from _conv("encoder.model.0.conv.conv", width, 1, net.kernel_size)
    for ratio in reversed(net.ratios):
        yield from _residual(f"encoder.model.{stage}", width, shape)
        below = f"encoder.model.{stage + 2}.conv.conv"
        yield from _conv(below, 2 * width, width, 2 * ratio)
        width, stage = 2 * width, stage + 3
    below = f"encoder.model.{stage + 1}.conv.conv"
    yield from _conv(below, net.dimension, width, net.last_kernel_size)


def _decoder(shape: MimiShape) -> Sizes:
    net, stage = shape.seanet, 1
    width = net.n_filters * 2 ** len(net.ratios)
    yield from _conv("decoder.model.0.conv.conv", width, net.dimension, net.kernel_size)
    for ratio in net.ratios:
        below = f"decoder.model.{stage + 1}.convtr.convtr"
        yield f"{below}.weight", (width, width // 2, 2 * ratio)
        yield f"{below}.bias", (width // 2,)
        width, stage = width // 2, stage + 3
        yield from _residual(f"decoder.model.{stage - 1}", width, shape)
    below = f"decoder.model.{stage + 1}.conv.conv"
    yield from _conv(below, 1, width, net.last_kernel_size)


def _residual(below: str, width: int, shape: MimiShape) -> Sizes:
    hidden = width // shape.seanet.compress
    yield from _conv(f"{below}.block.1.conv.conv", hidden, width, shape.seanet.residual_kernel_size)
    yield from _conv(f"{below}.block.3.conv.conv", width, hidden, 1)


def _conv(below: str, out: int, into: int, kernel: int) -> Sizes:
    yield f"{below}.weight", (out, into, kernel)
    yield f"{below}.bias", (out,)
