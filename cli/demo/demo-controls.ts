/** Buttons in the demo client that cause notifications. */
import type { SignInService } from "../../lib/index.ts";
import type { DemoControls } from "../../examples/client/demo-controls.ts";
import { NO_FAULTS, type Faults, type FaultInjector } from "../../examples/receiver/faults.ts";
import type { Seed } from "../server/config-file.ts";

interface ControlledDemo {
  readonly service: SignInService;
  readonly seed: Seed;
  /** Key of the service that the client belongs to. */
  readonly serviceKey: string;
  /** `undefined` without a receiver. */
  readonly faults: FaultInjector | undefined;
}

const FAILING: Faults = { ...NO_FAULTS, status: 503 };

/** Creates the buttons. They call the service like any other program, and the service stores the notifications. */
export function demoControls({ service, seed, serviceKey, faults }: ControlledDemo): DemoControls {
  const { accounts, configuration } = service;
  const { oauth2, openid } = configuration.deployments;
  return {
    console: `${(oauth2 ?? openid)?.url}/account/deliveries`,
    changes: [
      {
        name: "rename",
        label: "Change my name",
        async act(sub) {
          const before = (await accounts.find(sub))?.name;
          const { name } = await accounts.update(sub, { name: before === "Augusta" ? "Ada" : "Augusta" });
          return `Your name is now ${name}.`;
        },
      },
      {
        name: "unassign",
        label: "Leave this service",
        async act(sub) {
          await accounts.unassign(sub, serviceKey);
          return "You have left this service, and its tokens are revoked. Sign in again to come back.";
        },
      },
      {
        name: "delete",
        label: "Delete my account",
        async act(sub) {
          await accounts.delete(sub);
          // The seed itself does not make again who was deleted.
          for (const { sub: _sub, user_id: _number, ...person } of seed?.accounts ?? [])
            if ((await accounts.findByLogin(person.email)) === undefined) await accounts.import(person);
          return "Your account has been deleted. The demo has created a new one from its seed, so you can sign in again.";
        },
      },
    ],
    receivers: faults === undefined ? [] : receiverControls(faults),
  };
}

function receiverControls(injector: FaultInjector): DemoControls["receivers"] {
  const control = (name: string, label: string, faults: Faults, notice: string) => ({
    name,
    label,
    act: () => {
      injector.inject(faults);
      return Promise.resolve(notice);
    },
  });
  return [
    control("fail", "Fail three times", { ...FAILING, times: 3 }, "The next three notifications fail."),
    control("break", "Fail every time", { ...FAILING, times: Infinity }, "All notifications fail now."),
    control("mend", "Work again", NO_FAULTS, "Notifications succeed again."),
  ];
}
