/**
 * A session of `@openai/agents-realtime`, the same in Node and in a page, of which everything is
 * kept: the server's events, which of them the client's own schema did not take, what happened.
 */

const WEATHER = {
  name: "get_weather",
  description: "The weather in a city.",
  strict: true,
  parameters: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  },
  execute: async ({ city }) => `It rains in ${city}.`,
};

/**
 * @param {typeof import("@openai/agents-realtime")} sdk
 * @param {import("@openai/agents-realtime").OpenAIRealtimeBase} transport
 */
export function kept({ RealtimeAgent, RealtimeSession, tool }, transport) {
  const agent = new RealtimeAgent({
    name: "Test",
    instructions: "Answer briefly.",
    tools: [tool(WEATHER)],
  });
  const session = new RealtimeSession(agent, { transport });
  const log = {
    session,
    /** The server's events, as they came. */ events: [],
    /** The session's own, as `[name, what it says]`. */ happened: [],
    /** Types that the schema did not take. */ untaken: new Set(),
    /** How often `name` happened. @param {string} name */
    count: (name) => log.happened.filter(([happened]) => happened === name).length,
    /** How many events of that type came. @param {string} type */
    came: (type) => log.events.filter((event) => event.type === type).length,
    /** The words of the history, a message each: `[role, text]`. */
    said: () => session.history.filter(({ type }) => type === "message").map(words),
  };
  transport.on("*", (event) => {
    log.events.push(event);
    log.untaken.add(event.type);
    transport.once(event.type, () => log.untaken.delete(event.type));
  });
  session.on("agent_start", () => log.happened.push(["agent_start"]));
  session.on("agent_end", (_context, _agent, text) => log.happened.push(["agent_end", text]));
  session.on("agent_tool_end", (_context, _agent, _tool, result) => {
    log.happened.push(["agent_tool_end", result]);
  });
  session.on("audio", ({ data }) => log.happened.push(["audio", data.byteLength]));
  session.on("audio_interrupted", () => log.happened.push(["audio_interrupted"]));
  session.on("error", ({ error }) => log.happened.push(["error", String(error?.message ?? JSON.stringify(error))]));
  return log;
}

/** @param {import("@openai/agents-realtime").RealtimeMessageItem} message */
function words({ role, content }) {
  return [role, content.map((part) => part.text ?? part.transcript ?? "").join("")];
}
