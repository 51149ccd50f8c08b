// Requests to the server, and its news.

export class Refused extends Error {}

async function answered(response) {
  let body = null;
  try { body = await response.json(); } catch { /* it was cut off */ }
  if (!response.ok) throw new Refused(body?.error || `the server answered ${response.status}`);
  return body;
}

function unreachable() {
  throw new Refused("the server does not answer; is graphsearch serve still running?");
}

export async function ask(path, given = {}, signal = undefined) {
  const query = new URLSearchParams(Object.entries(given).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  const response = await fetch(`/api/${path}?${query}`, { signal })
    .catch((error) => (error.name === "AbortError" ? Promise.reject(error) : unreachable()));
  return answered(response);
}

export async function send(path, body = {}) {
  const response = await fetch(`/api/${path}`, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } })
    .catch(unreachable);
  return answered(response);
}

// a file goes as it is, piece by piece; XMLHttpRequest alone tells how far it is
export function upload(path, file, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/api/${path}`);
    request.upload.onprogress = (event) => onProgress(event.loaded, event.total);
    request.onerror = () => reject(new Refused("the file could not be sent"));
    request.onload = () => {
      let body = null;
      try { body = JSON.parse(request.responseText); } catch { /* as above */ }
      if (request.status === 200) resolve(body);
      else reject(new Refused(body?.error || `the server answered ${request.status}`));
    };
    request.send(file);
  });
}

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
    source.onerror = () => onState(false);
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
