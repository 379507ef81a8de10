"""Models that listen and speak at once, in plain PyTorch, many callers to one device.

One path, to be read in this order: ``shapes`` (a model in numbers), ``weights`` (tensors by their
on-disk names), ``pages`` and ``ring`` (what attention remembers), ``kernel`` (how a GPU reads it),
``transformer``, ``temporal`` and ``depth`` (the two transformers of the Moshi family), ``sample``
and ``step`` (one step in tokens), ``conv`` and ``mimi`` (the codec), ``prompt`` (how PersonaPlex
is primed), ``device`` (a whole tick in static buffers), ``slots`` (callers in them), ``load``,
``text``, ``build`` and ``model``. ``bench`` measures it.

Around it, without PyTorch: ``options``, ``facts``, ``buffer`` (a caller's sound), ``sounds``
(everyone's, into a batch and out of it), ``segments`` (replies out of a stream), ``loop`` (the
clock and the thread), ``seat``, ``session`` and ``engine`` (the contract). ``bench_loop`` measures
that. PyTorch is imported when such an engine starts, and not before: a simulated model is served
the same way.
"""
