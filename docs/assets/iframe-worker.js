/* Search without a server: browsers start no workers for pages that were opened from the disk (file:), so the search runs in a hidden
   frame instead. The frame has the same global functions as a worker: messages, and importScripts, which here returns a promise. */
(function () {
  if (location.protocol !== "file:") return;

  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);

      const inner = this.frame.contentWindow;
      const page = inner.document;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inner.importScripts = (...urls) =>
        urls.reduce((before, next) => before.then(() => IFrameWorker.load(page, next)), Promise.resolve());
      IFrameWorker.load(page, String(url)).then(
        () => {
          const queued = this.waiting;
          this.waiting = null;
          queued.forEach((data) => this.postMessage(data));
        },
        () => this.dispatchEvent(new Event("error"))
      );
    }

    static load(page, url) {
      return new Promise((resolve, reject) => {
        const script = page.createElement("script");
        script.src = new URL(url, location.href).href;
        script.onload = resolve;
        script.onerror = () => reject(new Error("cannot load " + url));
        page.body.appendChild(script);
      });
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  }

  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
})();
