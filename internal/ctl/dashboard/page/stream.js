// The stream of documents. EventSource cannot send a header, so fetch reads the events.

// The link has the token in its fragment, which browsers send to no server. It stays in the tab, and leaves the address.
const key = "token";
if (/^#[A-Z2-7]{20,}$/.test(location.hash)) {
  sessionStorage.setItem(key, location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
}

// silence is the longest time without a byte: the dashboard sends a message every 15 seconds, and a dead connection does not end by itself.
const silence = 45000;

// follow calls take with each message, and tell with the state of the connection, forever.
export async function follow(take, tell) {
  for (let wait = 1000; ; wait = Math.min(2 * wait, 10000)) {
    let problem = "liqoctl dashboard does not answer", timer;
    const request = new AbortController();
    const listen = () => {
      clearTimeout(timer);
      timer = setTimeout(() => { problem = `no message for ${silence / 1000} seconds`; request.abort(); }, silence);
    };
    listen();
    try {
      const answer = await fetch("events", { headers: { Authorization: "Bearer " + sessionStorage.getItem(key) }, signal: request.signal });
      if (answer.status === 401) {
        clearTimeout(timer);
        return tell(false, "this page needs the link that liqoctl dashboard printed");
      }
      if (!answer.ok) {
        const refusal = (await answer.text()).trim().slice(0, 200);
        if (refusal) problem = refusal;
        throw new Error(problem);
      }
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        listen();
        text += value;
        const events = text.split("\n\n");
        text = events.pop();
        for (const event of events) take(JSON.parse(event.replace(/^data: /, "")));
        wait = 1000;
      }
    } catch (error) {
      console.warn(error);
    }
    clearTimeout(timer);
    tell(false, problem);
    await new Promise((again) => setTimeout(again, wait));
  }
}
