"""A Moshi-family model in numbers, under the names of its ``config.json``.

The defaults are Moshi 7B and Mimi as Kyutai published them (moshi 0.2.13, ``models/loaders.py``);
PersonaPlex-7B differs only in ``dep_q``. What a shape does not say, the weights' own sizes do.
"""

from __future__ import annotations

from math import prod

from msgspec import Struct


class Shape(Struct, frozen=True, kw_only=True):
    """The two transformers. Widths in channels, ``context`` in frames."""

    dim: int = 4096
    num_heads: int = 32
    num_layers: int = 32
    hidden_scale: float = 4.125
    context: int = 3000
    max_period: float = 10000.0
    text_card: int = 32000
    card: int = 2048
    n_q: int = 16
    """Audio rows that the model hears: its own and the caller's."""
    dep_q: int = 8
    """Audio rows that the depth transformer predicts, the model's own first."""
    delays: tuple[int, ...] = (0, 0, *[1] * 7, 0, *[1] * 7)
    """Frames by which each row lags; text first, then the audio rows."""
    depformer_dim: int = 1024
    depformer_num_heads: int = 16
    depformer_num_layers: int = 6
    depformer_dim_feedforward: int | None = None
    """None: as the temporal transformer's, by ``hidden_scale``."""

    @property
    def rows(self) -> int:
        """Token rows: text and audio."""
        return 1 + self.n_q

    @property
    def hidden(self) -> int:
        """Width of the temporal transformer's gated feed-forward."""
        return _gated(self.dim, int(self.hidden_scale * self.dim))

    @property
    def depth_hidden(self) -> int:
        """Width of the depth transformer's gated feed-forward."""
        wide = self.depformer_dim_feedforward or int(self.hidden_scale * self.depformer_dim)
        return _gated(self.depformer_dim, wide)


class Seanet(Struct, frozen=True, kw_only=True):
    """Mimi's convolutions; ``ratios`` as the decoder takes them."""

    dimension: int = 512
    n_filters: int = 64
    ratios: tuple[int, ...] = (8, 6, 5, 4)
    compress: int = 2
    kernel_size: int = 7
    residual_kernel_size: int = 3
    last_kernel_size: int = 3


class Quantizer(Struct, frozen=True, kw_only=True):
    """Mimi's codebooks."""

    dimension: int = 256
    n_q: int = 32
    bins: int = 2048


class CodecTransformer(Struct, frozen=True, kw_only=True):
    """Mimi's transformers, one behind the encoder and one before the decoder."""

    num_heads: int = 8
    num_layers: int = 8
    context: int = 250
    max_period: float = 10000.0
    dim_feedforward: int = 2048


class MimiShape(Struct, frozen=True, kw_only=True):
    """The codec."""

    sample_rate: int = 24000
    frame_rate: float = 12.5
    seanet: Seanet = Seanet()
    quantizer: Quantizer = Quantizer()
    transformer: CodecTransformer = CodecTransformer()

    @property
    def frame(self) -> int:
        """Samples of a frame."""
        return round(self.sample_rate / self.frame_rate)

    @property
    def steps(self) -> int:
        """Steps that the codec's transformers take for one frame."""
        return self.frame // prod(self.seanet.ratios)


def _gated(dim: int, feedforward: int) -> int:
    """Two thirds, so that a gate costs what a plain layer would; 21/8 at the usual factor 4."""
    return 21 * dim // 8 if feedforward == 4 * dim else 2 * feedforward // 3
