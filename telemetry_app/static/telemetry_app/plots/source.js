// Reads JSON from the site, and says in a sentence what went wrong.

export class SourceError extends Error {}

const TIMEOUT_SECONDS = 30; // twice what the site gives PostgreSQL: after it a reading is tried again

export async function read(path, signal) {
  const late = AbortSignal.timeout(TIMEOUT_SECONDS * 1000);
  let answer;
  try {
    answer = await fetch(path, { headers: { Accept: "application/json" }, signal: AbortSignal.any([late, signal]) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new SourceError("The site does not answer.");
  }
  if (answer.ok) return answer.json();
  throw new SourceError(await sentence(answer));
}

async function sentence(answer) {
  if (answer.status === 401 || answer.status === 403) return "You are signed out, or may not read this: load the page again.";
  if (answer.status === 429) return "Too many requests were made: it goes on in a minute.";
  try {
    return (await answer.json()).errors.map((error) => error.detail).join(" ");
  } catch {
    return `The site answered with status ${answer.status}.`;
  }
}

// Runs one reading at a time: a newer one ends an older one, whose answer nobody waits for any more.
export class Latest {
  constructor() {
    this.controller = null;
  }

  async run(reading) {
    this.controller?.abort();
    const controller = (this.controller = new AbortController());
    try {
      const answer = await reading(controller.signal);
      return controller.signal.aborted ? null : answer;
    } catch (error) {
      if (error.name === "AbortError") return null;
      throw error;
    }
  }
}
