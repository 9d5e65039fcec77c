/** A login page of your own: it shows the present step of a sign-in, whichever it is, until the sign-in is over. */
import { type SubmitEvent, useEffect, useRef, useState } from "react";
import { createRoot } from "react-dom/client";
import type { DescribedAction, DescribedField, StepDescription } from "../../../interactions/index.ts";
import { type Answer, askPasskey, canAddPasskey, interactionAddress, request, startAgain } from "./steps.ts";

function Input({ field, isFirst }: { field: DescribedField; isFirst: boolean }) {
  const { name, label, type, options, value } = field;
  // A problem of several fields is shown above them.
  const problems = field.problems.filter(({ fields }) => fields.length === 1);
  const common = {
    name,
    required: field.required,
    readOnly: field.read_only,
    autoFocus: isFirst,
    autoComplete: field.autocomplete,
    "aria-invalid": field.problems.length > 0,
    "aria-describedby": problems.map(({ code }) => `${name}-${code}`).join(" ") || undefined,
  };
  return (
    <label>
      {label}
      {field.hint !== undefined && <small>{field.hint}</small>}
      {problems.map(({ code, text }) => (
        <strong key={code} id={`${name}-${code}`}>
          {text}
        </strong>
      ))}
      {options === undefined && type !== "checkbox" && <input type={type} defaultValue={value} {...common} />}
      {type === "checkbox" && <input type="checkbox" value={value} {...common} />}
      {options !== undefined && (
        <select defaultValue={value} {...common}>
          <option />
          {options.map((option) => (
            <option key={option.value} value={option.value}>
              {option.label}
            </option>
          ))}
        </select>
      )}
    </label>
  );
}

function withEntry(name: string, value: string): FormData {
  const form = new FormData();
  form.set(name, value);
  return form;
}

function StepForm({
  step,
  go,
}: {
  step: StepDescription;
  go: (action: DescribedAction, form?: FormData) => void;
}) {
  const heading = useRef<HTMLHeadingElement>(null);
  const { title } = step;
  const posts = step.actions.filter(({ method }) => method === "POST");
  // One button for each provider, the one that this browser used last first.
  const providers = (step.providers ?? []).toSorted(
    (one, other) => Number(other.last ?? 0) - Number(one.last ?? 0),
  );
  const links = step.actions.filter(({ method }) => method === "GET");
  const general = step.problems.filter(({ fields }) => fields.length !== 1);
  useEffect(() => {
    document.title = title;
    document.documentElement.lang = step.locale;
    if (step.problems.length > 0 || step.fields.length === 0) heading.current?.focus();
  }, [step, title]);

  function submit(event: SubmitEvent<HTMLFormElement>): void {
    event.preventDefault();
    const { submitter } = event.nativeEvent;
    const name = submitter instanceof HTMLButtonElement ? submitter.value : "submit";
    const chosen = posts.find((action) => action.name === name);
    if (chosen !== undefined) go(chosen, new FormData(event.currentTarget));
  }

  return (
    <form onSubmit={submit}>
      {step.client.logo !== undefined && <img src={step.client.logo} alt="" />}
      <h1 ref={heading} tabIndex={-1}>
        {title}
      </h1>
      {step.came_back && (
        <ul>
          <li>
            <b>{step.came_back.name}</b> {step.came_back.email}
          </li>
          {step.step === "provider-link" && (
            <li>
              <b>{step.account_name}</b> {step.account}
            </li>
          )}
        </ul>
      )}
      {step.text.split("\n").map((paragraph) => paragraph !== "" && <p key={paragraph}>{paragraph}</p>)}
      {step.notice !== undefined && <p role="status">{step.notice.text}</p>}
      {general.map(({ code, text }) => (
        <strong key={code} role="alert">
          {text}
        </strong>
      ))}
      {step.shares !== undefined && (
        <ul>
          {step.shares.map(({ name, label }) => (
            <li key={name}>{label}</li>
          ))}
        </ul>
      )}
      {step.app !== undefined && (
        <p>
          {/* A QR code of `step.app.uri` belongs here. */}
          <a href={step.app.uri}>{step.app.secret}</a>
        </p>
      )}
      {step.recovery_codes !== undefined && (
        <ul>
          {step.recovery_codes.map((code) => (
            <li key={code}>
              <code>{code}</code>
            </li>
          ))}
        </ul>
      )}
      {step.terms !== undefined && <a href={step.terms.url}>{step.terms.label}</a>}
      {/* Tells password managers whose password it is. Without a name, it is not sent. */}
      {step.step !== "email-code" && step.username !== undefined && (
        <input value={step.username} autoComplete="username" readOnly hidden />
      )}
      {step.step === "email-code" && step.username !== undefined && <p>{step.username}</p>}
      {step.fields.map((field, index) => (
        <Input key={field.name} field={field} isFirst={index === 0} />
      ))}
      {posts.map((action) =>
        action.name === "provider" && providers.length > 0 ? (
          providers.map(({ key, label }) => (
            <button key={key} type="button" onClick={() => go(action, withEntry("provider", key))}>
              {label}
            </button>
          ))
        ) : (
          <button key={action.name} value={action.name} formNoValidate={action.name !== "submit"}>
            {action.label}
          </button>
        ),
      )}
      <nav>
        {links.map((link) => (
          <button key={link.name} type="button" onClick={() => go(link)}>
            {link.label}
          </button>
        ))}
      </nav>
    </form>
  );
}

function App({ address }: { address: string }) {
  const [answer, setAnswer] = useState<Answer>();
  // What starts the same authorization again after the sign-in has ended.
  const [kept, keep] = useState<Kept>();
  function show(next: Answer): void {
    if ("step" in next && next.again !== undefined) keep({ href: address, again: next.again });
    setAnswer(next);
  }
  useEffect(() => void request({ method: "GET", href: address }).then(show), [address]);
  if (answer === undefined) return <p role="status">One moment …</p>;
  if ("error" in answer) return <Over kept={kept} />;
  if ("done" in answer) {
    location.assign(answer.location);
    return <p role="status">One moment …</p>;
  }
  const { csrf, step, passkey } = answer;
  async function send(action: DescribedAction, form: FormData | undefined): Promise<void> {
    const credential = action.name === "passkey" && passkey && { credential: await askPasskey(passkey) };
    const entered = form && { ...Object.fromEntries(form), ...credential };
    const username = form?.get("username");
    if (typeof username === "string") keep((before) => before && { ...before, username });
    show(await request(action, entered && { ...entered, can_add_passkey: await canAddPasskey(), csrf }));
  }
  // Cancelled, or there is no passkey: the person may try again, or in another way.
  const go = (action: DescribedAction, form?: FormData) => void send(action, form).catch(() => undefined);
  // The key makes a new form for each step: nothing that was typed stays.
  return <StepForm key={step} step={answer} go={go} />;
}

interface Kept {
  readonly href: string;
  readonly again: string;
  readonly username?: string;
}

function Over({ kept }: { kept?: Kept | undefined }) {
  const [isTooLate, setTooLate] = useState(false);
  async function restart({ href, ...sent }: Kept): Promise<void> {
    const next = await startAgain(href, sent);
    if (next === undefined) setTooLate(true);
    else location.assign(next);
  }
  return (
    <>
      <h1>This sign-in is over</h1>
      {kept === undefined || isTooLate ? (
        <p>Go back to where you came from, and sign in again.</p>
      ) : (
        <button type="button" onClick={() => void restart(kept)}>
          Start again
        </button>
      )}
    </>
  );
}

// Somebody comes back from a provider by the button of the browser, which may show the page as it was left.
addEventListener("pageshow", ({ persisted }) => {
  if (persisted) location.reload();
});

const address = interactionAddress();
const app = createRoot(document.getElementById("app") as HTMLElement);
app.render(address === undefined ? <Over /> : <App address={address} />);
