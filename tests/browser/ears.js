/**
 * A call of a bare page, recorded on one clock: the microphone's track and the reply's, untouched.
 *
 * A function of where to post the offer and how many seconds to record; returns
 * `[first frame, local, remote]`, both sides 16 bit in base64.
 */
async ([calls, seconds]) => {
  const context = new AudioContext({ sampleRate: 48_000 });
  const worklet = await (await fetch("/recorder-worklet.js")).blob(); // no worklet's own request can be routed
  await context.audioWorklet.addModule(URL.createObjectURL(worklet));
  const recorder = new AudioWorkletNode(context, "recorder", { numberOfInputs: 2, numberOfOutputs: 1 });
  const blocks = [];
  recorder.port.onmessage = ({ data }) => blocks.push(...data);
  recorder.connect(context.destination); // silent; it is what makes the worklet run
  await context.resume();

  const untouched = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
  const microphone = await navigator.mediaDevices.getUserMedia({ audio: untouched });
  context.createMediaStreamSource(microphone).connect(recorder, 0, 0);
  const peer = new RTCPeerConnection({ bundlePolicy: "max-bundle" });
  const loudspeaker = new Audio(); // without one a remote track may stay silent
  peer.ontrack = ({ track }) => {
    loudspeaker.srcObject = new MediaStream([track]);
    loudspeaker.play();
    context.createMediaStreamSource(loudspeaker.srcObject).connect(recorder, 0, 1);
  };
  peer.addTrack(microphone.getAudioTracks()[0], microphone);
  await peer.setLocalDescription(await peer.createOffer());
  const headers = { "Content-Type": "application/sdp" };
  const answer = await fetch(calls, { method: "POST", headers, body: peer.localDescription.sdp });
  await peer.setRemoteDescription({ type: "answer", sdp: await answer.text() });
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  peer.close();

  const [first, last] = [blocks[0], blocks[blocks.length - 1]];
  const base64 = (bytes) => {
    let text = "";
    for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
    return btoa(text);
  };
  const sides = [1, 2].map((side) => {
    const whole = new Int16Array(last[0] + last[side].length - first[0]); // a skipped block stays silent
    for (const block of blocks) whole.set(block[side].map((sample) => 32767 * Math.max(-1, Math.min(1, sample))), block[0] - first[0]);
    return base64(new Uint8Array(whole.buffer));
  });
  return [first[0], ...sides];
};
