"""``parley talk``: a caller in the terminal, with a microphone or with WAV files.

A client like any other: it knows what OpenAI Realtime (GA) says on a WebSocket and nothing of the
server's inside. What decides is pure (:mod:`~server.talk.dialogue`, :mod:`~server.talk.playback`,
:mod:`~server.talk.captions`, :mod:`~server.talk.ending`); :mod:`~server.talk.client` moves the
sound every 20 ms between the socket and a handset, which is a file or the sound devices.
"""
