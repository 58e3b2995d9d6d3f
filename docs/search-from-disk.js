/* Search in pages that are opened from the disk, where browsers start no workers: the worker's script
   runs in a hidden frame instead. The theme would fetch such a script from the network. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.frame = frame;
      this.scope = frame.contentWindow;
      this.heard = (event) => {
        if (event.source !== this.scope) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      };
      window.addEventListener("message", this.heard);
      this.ready = new Promise((done) => frame.addEventListener("load", done, { once: true }));
      const page = frame.contentDocument;
      page.open();
      page.write(`<!DOCTYPE html><script>
        var postMessage = (data) => parent.postMessage(data, "*");
        var importScripts = (...urls) => Promise.all(urls.map((url) => new Promise((done, failed) => {
          const script = document.createElement("script");
          Object.assign(script, { src: url, onload: done, onerror: failed });
          document.body.appendChild(script);
        })));
      <\/script><body><script src="${url}"><\/script>`);
      page.close();
    }
    postMessage(data) {
      this.ready.then(() => {
        this.scope.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) }));
      });
    }
    terminate() {
      window.removeEventListener("message", this.heard);
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
