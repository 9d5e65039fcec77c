/** What the demo lets a person do at its client, so that there is something to be told of. */
import type { SignInService } from "../../lib/index.ts";
import { applySeed } from "../../lib/index.ts";
import type { DemoControls } from "../client/demo-controls.ts";
import { NO_TROUBLE, type Trouble, type TroubleMaker } from "../receiver/trouble.ts";
import type { Seed } from "./config-file.ts";

/** What the controls work on. */
export interface ControlledDemo {
  readonly service: SignInService;
  readonly seed: Seed;
  /** The service of the client. */
  readonly serviceKey: string;
  /** `undefined`: there is no receiver that could fail. */
  readonly trouble: TroubleMaker | undefined;
}

const FAILING: Trouble = { ...NO_TROUBLE, status: 503 };

/** The changes are made as any program makes them: a call of the service, which writes the notifications with them. */
export function demoControls({ service, seed, serviceKey, trouble }: ControlledDemo): DemoControls {
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
          return `Your name is ${name} now.`;
        },
      },
      {
        name: "unassign",
        label: "Leave this service",
        async act(sub) {
          await accounts.unassign(sub, serviceKey);
          return "You have left this service, and its tokens have ended. To come back, sign in again.";
        },
      },
      {
        name: "delete",
        label: "Delete my account",
        async act(sub) {
          await accounts.delete(sub);
          await applySeed(service, seed);
          return "Your account is deleted. The demo has made a new one from its seed: you can sign in again.";
        },
      },
    ],
    receivers: trouble === undefined ? [] : receiverControls(trouble),
  };
}

function receiverControls(maker: TroubleMaker): DemoControls["receivers"] {
  const control = (name: string, label: string, trouble: Trouble, notice: string) => ({
    name,
    label,
    act: () => {
      maker.make(trouble);
      return Promise.resolve(notice);
    },
  });
  return [
    control("fail", "Fail three times", { ...FAILING, times: 3 }, "The next three notifications fail."),
    control("break", "Fail every time", { ...FAILING, times: Infinity }, "Every notification fails now."),
    control("mend", "Work again", NO_TROUBLE, "Notifications are taken again."),
  ];
}
