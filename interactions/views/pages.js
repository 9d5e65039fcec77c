// Makes forms more comfortable. Everything works without it. No page depends on anything here.

// Estimates how many guesses it takes somebody who knows words, years and keyboards.
function strengthOf(text, least) {
  if ([...text].length < least) return 0;
  const kinds = [/\p{Ll}/u, /\p{Lu}/u, /\p{N}/u, /[^\p{L}\p{N}]/u].filter((kind) => kind.test(text)).length;
  const runs = text
    .replace(/(.)\1+/gu, "$1")
    .replace(/abc|123|234|345|456|567|678|789|qwe|asd|(19|20)\d\d/giu, "_");
  const bits = new Set(runs.toLowerCase()).size * 1.5 + [...runs].length * (1.2 + kinds * 0.3);
  return bits < 30 ? 1 : bits < 42 ? 2 : 3;
}
const all = (selector) => document.querySelectorAll(selector);
const append = (element, html) => element?.insertAdjacentHTML("beforeend", html);
// Uses a passkey, or makes one: only the options for a new one have rp. Both functions are from sign-in-service/browser.
async function askPasskey(form, options) {
  const publicKey = JSON.parse(form.dataset.passkey);
  const answer = await (publicKey.rp ? createPasskey : usePasskey)({ ...options, publicKey });
  form.elements.credential.value = JSON.stringify(answer);
  form.requestSubmit();
}
// Timers stand still while a computer sleeps.
const at = (seconds, act) => {
  const end = Date.now() + seconds * 1e3;
  const look = () => (Date.now() < end ? setTimeout(look, Math.min(end - Date.now(), 2e4)) : act());
  look();
};
// A browser that blocks cookies has no storage.
const kept = () => {
  try {
    return sessionStorage;
  } catch {
    return {};
  }
};
(() => {
  // One submission at a time, and a sign that it is under way.
  document.addEventListener("submit", (event) => {
    const sent = event.target;
    if (sent.dataset.sent) return event.preventDefault();
    sent.dataset.sent = "1";
    event.submitter?.setAttribute("aria-busy", "true");
  });
  // The browser may show this page again, as it was left.
  addEventListener("pageshow", () => {
    for (const sent of all("form[data-sent]")) delete sent.dataset.sent;
    for (const busy of all("[aria-busy]")) busy.removeAttribute("aria-busy");
  });

  for (const input of all("input[data-show]")) {
    const box = document.createElement("span");
    const button = document.createElement("button");
    const { show, hide } = input.dataset;
    const [label] = input.labels;
    const set = (isShown) => {
      input.type = isShown ? "text" : "password";
      button.textContent = isShown ? hide : show;
    };
    box.className = "secret";
    button.type = "button";
    button.setAttribute("aria-controls", input.id);
    if (label) button.setAttribute("aria-describedby", (label.id = `${input.id}-label`));
    input.spellcheck = false;
    input.autocapitalize = "none";
    const isFocused = document.activeElement === input;
    input.before(box);
    box.append(input, button);
    if (isFocused) input.focus();
    set(false);
    button.addEventListener("click", () => set(input.type === "password"));
    // A password in clear text would be kept by the browser's history of the field.
    input.form?.addEventListener("submit", () => set(false));
  }

  for (const input of all("input[data-strength]")) {
    const words = input.dataset.strength.split("|");
    const output = document.createElement("p");
    output.className = "strength";
    output.setAttribute("aria-live", "polite");
    (input.closest(".secret") ?? input).after(output);
    input.addEventListener("input", () => {
      const level = strengthOf(input.value, Number(input.dataset.min));
      output.textContent = input.value === "" ? "" : words[level];
      output.dataset.level = level;
    });
  }

  // A code: two groups of four, sent when it is complete and nothing else is to be filled in.
  for (const input of all('input[autocomplete="one-time-code"]')) {
    input.addEventListener("input", (event) => {
      const code = input.value.replace(/[^\p{L}\p{N}]/gu, "").toUpperCase();
      if (input.selectionStart === input.value.length || event.inputType === "insertFromPaste")
        input.value =
          code.length > 4 && !/^\d{5,6}$/.test(code) ? `${code.slice(0, 4)} ${code.slice(4)}` : code;
      const others = [...input.form.elements].filter(
        ({ type, name }) => !/hidden|submit/.test(type) && name !== input.name,
      );
      if (code.length === 8 && others.every(({ name }) => !name)) input.form.requestSubmit();
    });
  }

  const api = window.PublicKeyCredential;

  // The form of a passkey is hidden where the browser has none. With data-autofill, the browser also suggests passkeys in
  // the fields of the page, until the button is pressed.
  for (const form of all("form[data-passkey]")) {
    form.hidden = !api;
    if (form.hidden) continue;
    const { credential } = form.elements;
    const problem = form.querySelector("[data-failed]");
    let waiting;
    const suggest = async () => {
      if (!("autofill" in form.dataset && (await api.isConditionalMediationAvailable?.()))) return;
      waiting = new AbortController();
      askPasskey(form, { mediation: "conditional", signal: waiting.signal }).catch(() => {});
    };
    form.addEventListener("submit", (event) => {
      if (credential.value) return;
      event.preventDefault();
      event.stopPropagation();
      waiting?.abort();
      if (problem) problem.textContent = "";
      askPasskey(form).catch(() => {
        // Cancelled, or there is none: the person may try again, or in another way.
        if (problem) problem.textContent = problem.dataset.failed;
        event.submitter?.focus();
        void suggest();
      });
    });
    // An answer counts once.
    addEventListener("pageshow", () => (credential.value = ""));
    void suggest();
  }

  // Whether this device can make a passkey.
  for (const form of all("[data-can-add]"))
    void api
      ?.isUserVerifyingPlatformAuthenticatorAvailable?.()
      .then((can) => can && append(form, "<input type=hidden name=can_add_passkey value=true>"));

  // A passkey needs a browser that has them.
  for (const each of all("[data-creates]")) each.hidden = !api;

  // Recovery codes: copied, in a file, on paper.
  for (const tools of all("[data-codes]")) {
    const { codes, file, title } = tools.dataset;
    const text = () => [...all(`#${codes} code`)].map((each) => each.textContent).join("\n");
    tools.hidden = false;
    tools.addEventListener("click", ({ target }) => {
      if (target.dataset.do === "print") print();
      if (target.dataset.do === "copy")
        void navigator.clipboard.writeText(text()).then(() => (target.textContent = target.dataset.done));
      if (target.dataset.do === "download") {
        const link = document.createElement("a");
        link.href = URL.createObjectURL(new Blob([`${title}\n\n${text()}\n`], { type: "text/plain" }));
        link.download = file;
        link.click();
        URL.revokeObjectURL(link.href);
      }
    });
  }

  // Until time is short, a form has one button.
  for (const late of all("[data-after]")) {
    const { after, more } = late.dataset;
    at(after, () => {
      late.hidden = false;
      if (!more || late.querySelector("button")) return;
      append(late, "<button class=plain form=step name=action value=more-time>");
      late.lastChild.textContent = more;
    });
  }

  // The sign-in has expired: nothing can be sent, but it can start again. Its request is kept for a page that comes anew.
  for (const over of all("[data-over]")) {
    const { action, label } = over.dataset;
    const again = document.querySelector("[name=again]")?.value;
    if (again) kept().signInAgain = JSON.stringify([action, again]);
    at(over.dataset.over, () => {
      for (const each of all("main button:not([type=button]),[data-after]")) each.hidden = true;
      over.hidden = false;
      if (!label) return;
      append(
        over,
        "<form method=post><input type=hidden name=again><input type=hidden name=username><button name=action value=again>",
      );
      const form = over.lastChild;
      form.setAttribute("action", action);
      form.again.value = again;
      form.lastChild.textContent = label;
      form.addEventListener("submit", () => {
        form.username.value = document.querySelector("[name=username],#email")?.value ?? "";
      });
    });
  }
  for (const form of all("form[data-again][hidden]")) {
    const [path, again] = JSON.parse(kept().signInAgain ?? "[]");
    if (path !== form.getAttribute("action")) continue;
    form.again.value = again;
    form.hidden = false;
    form.nextElementSibling?.firstElementChild.classList.add("second");
  }
})();
