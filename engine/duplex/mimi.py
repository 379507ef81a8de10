"""Mimi: 80 ms of sound to eight codes and back, streaming, for every slot at once.

Convolutions (SEANet) bring 24 kHz down to 25 Hz, a transformer looks back ten seconds, another
convolution halves the rate, and a residual quantiser names the nearest entry of one codebook after
another, the first apart from the rest; the decoder mirrors that. Numbers and names are those of
moshi 0.2.13 (``models/loaders.py``, ``modules/seanet.py``, ``quantization/``).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.duplex.conv import Conv, ConvTranspose, Turn
from engine.duplex.ring import Ring
from engine.duplex.shapes import CodecTransformer, MimiShape
from engine.duplex.transformer import Function, Layer, Transformer
from engine.duplex.weights import Weights

PAGE = 16


class Mimi:
    """The codec for up to ``slots`` callers, with the first ``codebooks`` books."""

    def __init__(self, shape: MimiShape, weights: Weights, slots: int, codebooks: int = 8) -> None:
        halves = shape.steps
        self._encoder = _encoder(shape, weights.below("encoder.model"), slots)
        self._decoder = _decoder(shape, weights.below("decoder.model"), slots)
        self._listen, self._speak = (
            _Context(shape.transformer, shape.seanet.dimension, halves, below, slots)
            for below in (
                weights.below("encoder_transformer.transformer.layers"),
                weights.below("decoder_transformer.transformer.layers"),
            )
        )
        self._down = Conv(
            weights.below("downsample.conv.conv.conv"), slots, stride=halves, replicate=True
        )
        self._up = ConvTranspose(
            weights.below("upsample.convtr.convtr.convtr"),
            slots,
            stride=halves,
            groups=shape.seanet.dimension,
        )
        quantizer = weights.below("quantizer")
        self._semantic = Quantizer(quantizer.below("rvq_first"), 1)
        self._acoustic = Quantizer(quantizer.below("rvq_rest"), codebooks - 1)
        device = self._semantic.books.device
        self.heard = torch.zeros(slots, dtype=torch.long, device=device)
        """Frames that each slot has encoded."""
        self.spoken = torch.zeros(slots, dtype=torch.long, device=device)
        """Frames that each slot has decoded."""

    def start(self, reset: Tensor) -> None:
        """Starts the slots that ``reset`` names, [slots], anew."""
        for frames in (self.heard, self.spoken):
            frames[: len(reset)].masked_fill_(reset, 0)

    def encode(self, pcm: Tensor, run: Tensor) -> tuple[Tensor, Tensor]:
        """Codes [slots, books] of the next frame of sound, [slots, samples]; whether it was sane.

        What is no number has a nearest entry too: without the second nobody would notice.
        """
        turn = _turn(self.heard, run)
        x = pcm[:, None]
        for layer in self._encoder:
            x = layer(x, turn)
        x = self._down(self._listen(x, self.heard, run), turn)[..., 0]
        self.heard[: len(run)] += run
        codes = torch.cat([self._semantic.encode(x), self._acoustic.encode(x)], 1)
        return codes, x.isfinite().all(-1)

    def decode(self, codes: Tensor, run: Tensor) -> Tensor:
        """The next frame of sound, [slots, samples], of codes [slots, books]."""
        turn = _turn(self.spoken, run)
        x = self._semantic.decode(codes[:, :1]) + self._acoustic.decode(codes[:, 1:])
        x = self._speak(self._up(x[..., None], turn), self.spoken, run)
        for layer in self._decoder:
            x = layer(x, turn)
        self.spoken[: len(run)] += run
        return x[:, 0]


class Quantizer:
    """Codebooks in a row, each naming what the ones before it left over."""

    def __init__(self, weights: Weights, count: int) -> None:
        self._inward = weights.take("input_proj.weight", -1, -1, 1)[..., 0]
        self._outward = weights.take("output_proj.weight", -1, -1, 1)[..., 0]
        self.books = torch.stack(
            [_book(weights.below(f"vq.layers.{i}._codebook")) for i in range(count)]
        )
        """[books, entries, size]."""
        self._norms = self.books.square().sum(-1)
        self._which = torch.arange(count, device=self.books.device)

    def encode(self, x: Tensor) -> Tensor:
        """Codes [slots, books] of ``x`` [slots, channels]."""
        left = F.linear(x, self._inward)
        codes = []
        for book, norm in zip(self.books, self._norms, strict=True):
            code = (norm - 2 * F.linear(left, book)).argmin(-1)
            left = left - F.embedding(code, book)
            codes.append(code)
        return torch.stack(codes, 1)

    def decode(self, codes: Tensor) -> Tensor:
        """[slots, channels] of ``codes`` [slots, books]."""
        return F.linear(self.books[self._which, codes].sum(1), self._outward)


class _Context:
    """One of the codec's transformers.

    In the reference the steps of a frame are written before the first of them looks back, over the
    oldest entries: only a frame's last step sees the whole context.
    """

    def __init__(
        self, shape: CodecTransformer, dim: int, steps: int, weights: Weights, slots: int
    ) -> None:
        layers = [_layer(shape, dim, weights.below(str(i))) for i in range(shape.num_layers)]
        device = layers[0].inward.device
        ring = Ring(
            layers=shape.num_layers,
            heads=shape.num_heads,
            size=dim // shape.num_heads,
            slots=slots,
            window=shape.context,
            chunk=steps,
            page=PAGE,
            entries="float32",
            device=device,
        )
        self._transformer = Transformer(layers, ring, shape.num_heads, shape.max_period)
        self._slot = torch.arange(slots, device=device).repeat_interleave(steps)
        self._offset = torch.arange(steps, device=device)
        self._window = (shape.context + 1 - steps + self._offset).repeat(slots)

    def __call__(self, x: Tensor, frame: Tensor, run: Tensor) -> Tensor:
        """The output for the steps of one frame, [slots, channels, steps]."""
        slots, channels, steps = x.shape
        position = (frame[:slots, None] * steps + self._offset).flatten()
        rows = slots * steps
        places = self._transformer.ring.places(
            self._slot[:rows],
            position,
            run.repeat_interleave(steps, output_size=rows),
            self._window[:rows],
        )
        heard = self._transformer(x.transpose(1, 2).reshape(rows, channels), places)
        return heard.view(slots, steps, channels).transpose(1, 2)


class _Residual:
    """Two convolutions beside a straight way."""

    def __init__(self, weights: Weights, slots: int) -> None:
        self._narrow = Conv(weights.below("block.1.conv.conv"), slots)
        self._wide = Conv(weights.below("block.3.conv.conv"), slots)

    def __call__(self, x: Tensor, turn: Turn) -> Tensor:
        return x + self._wide(F.elu(self._narrow(F.elu(x), turn)), turn)


class _Elu:
    def __call__(self, x: Tensor, turn: Turn) -> Tensor:
        return F.elu(x)


_Stage = Conv | ConvTranspose | _Residual | _Elu


def _encoder(shape: MimiShape, weights: Weights, slots: int) -> Sequence[_Stage]:
    stages: list[_Stage] = [Conv(weights.below("0.conv.conv"), slots)]
    for ratio in reversed(shape.seanet.ratios):
        stages.append(_Residual(weights.below(str(len(stages))), slots))
        stages.append(_Elu())
        stages.append(Conv(weights.below(f"{len(stages)}.conv.conv"), slots, stride=ratio))
    stages.append(_Elu())
    return [*stages, Conv(weights.below(f"{len(stages)}.conv.conv"), slots)]


def _decoder(shape: MimiShape, weights: Weights, slots: int) -> Sequence[_Stage]:
    stages: list[_Stage] = [Conv(weights.below("0.conv.conv"), slots)]
    for ratio in shape.seanet.ratios:
        stages.append(_Elu())
        below = weights.below(f"{len(stages)}.convtr.convtr")
        stages.append(ConvTranspose(below, slots, stride=ratio))
        stages.append(_Residual(weights.below(str(len(stages))), slots))
    stages.append(_Elu())
    return [*stages, Conv(weights.below(f"{len(stages)}.conv.conv"), slots)]


def _layer(shape: CodecTransformer, dim: int, weights: Weights) -> Layer:
    inward, outward = weights.below("self_attn").attention(dim)[0]
    first = weights.take("linear1.weight", shape.dim_feedforward, dim)
    second = weights.take("linear2.weight", dim, shape.dim_feedforward)
    return Layer(
        norm=_layer_norm(weights.below("norm1"), dim),
        inward=inward,
        outward=outward,
        feed_norm=_layer_norm(weights.below("norm2"), dim),
        feed=lambda x: F.linear(F.gelu(F.linear(x, first)), second),
        scale=(
            weights.take("layer_scale_1.scale", dim),
            weights.take("layer_scale_2.scale", dim),
        ),
    )


def _layer_norm(weights: Weights, dim: int) -> Function:
    weight, bias = weights.take("weight", dim), weights.take("bias", dim)
    return lambda x: F.layer_norm(x, (dim,), weight, bias)


def _book(weights: Weights) -> Tensor:
    """The entries: sums over how often each was used. Older files call them otherwise."""
    names = ("embedding_sum", "embed_sum", "embed_avg")
    total = next((name for name in names if name in weights), names[0])
    usage = "cluster_size" if "cluster_size" in weights else "cluster_usage"
    return weights.take(total, -1, -1) / weights.take(usage, -1).clamp_min(1e-5)[:, None]


def _turn(frame: Tensor, run: Tensor) -> Turn:
    return Turn(run[:, None, None], (frame[: len(run)] == 0)[:, None, None])
