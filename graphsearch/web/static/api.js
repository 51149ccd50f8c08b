// Requests to the server, and its news.

// `status` is that of the server's answer, 0 without one
export class Refused extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

let onDamage = () => {}; // what is done with the message of an answer that found the file damaged
export const whenDamaged = (act) => { onDamage = act; };

const PATIENCE_MS = 60_000; // the server ends a question sooner
const isAborted = (error) => error.name === "AbortError"; // whoever asked wants no answer any more

async function answered(response) {
  const body = await response.json().catch((error) => {
    if (isAborted(error) || error.name === "TimeoutError") unreachable(error);
    return null;
  });
  if (body?.damaged) onDamage(body.error || body.problem);
  if (!response.ok) throw new Refused(body?.error || `the server answered ${response.status}`, response.status);
  if (body === null) throw new Refused("the answer of the server was cut off");
  return body;
}

function unreachable(error) {
  if (isAborted(error)) throw error;
  if (error.name === "TimeoutError") throw new Refused("the server has not answered for a minute");
  throw new Refused("the server does not answer; is graphsearch serve still running?");
}

const queryOf = (given) => new URLSearchParams(Object.entries(given).filter(([, value]) => value !== null && value !== undefined && value !== ""));

const request = async (path, options) => answered(await fetch(`/api/${path}`, options).catch(unreachable));

// `signal` ends the question
export const ask = (path, given = {}, ...signal) => request(`${path}?${queryOf(given)}`, { signal: AbortSignal.any([AbortSignal.timeout(PATIENCE_MS), ...signal]) });
export const send = (path, body = {}) => request(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, signal: AbortSignal.timeout(PATIENCE_MS) });

// a file goes as it is, and may take its time
export const upload = (path, given, file) => request(`${path}?${queryOf({ name: file.name, ...given })}`, { method: "POST", body: file });

const AGAIN_MS = 3000;

// A browser gives a host six connections in all, so a page that nobody sees gives its one back.
export function follow(handlers, onState) {
  let source = null;
  const start = () => {
    if (source || document.hidden) return;
    source = new EventSource("/api/events");
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => handle(JSON.parse(event.data)));
    }
    source.onopen = () => onState(true);
    source.onerror = () => {
      onState(false);
      if (source?.readyState !== EventSource.CLOSED) return; // else the browser tries again
      source = null;
      setTimeout(start, AGAIN_MS);
    };
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { source?.close(); source = null; } else start();
  });
  window.addEventListener("pagehide", () => { source?.close(); source = null; });
  start();
}

// answers come when they like: only that of the last question counts
export function latest() {
  let asked = 0;
  return async (question, show, fail) => {
    const mine = (asked += 1);
    try {
      const answer = await question;
      if (mine === asked) show(answer);
    } catch (error) {
      if (mine === asked) fail(error);
    }
  };
}
