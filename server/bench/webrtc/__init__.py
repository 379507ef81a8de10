"""``parley bench webrtc``: callers of own packets, over real ICE, DTLS and SRTP.

A caller made of a WebRTC library costs more than the server's side of the call. Here a call is a
UDP socket, a handshake and two SRTP sessions; its speech was encoded beforehand, so that a packet
costs a header, its protection and a system call.
"""
