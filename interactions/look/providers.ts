/** The providers that a person can sign in with, as the pages show them. Their marks are in `views/mark.ejs`. */
import { type Label, labelIn } from "../../config/labels.ts";

/** What the pages know of a configured provider. */
export interface ShownProvider {
  readonly key: string;
  readonly preset: "openid" | "google" | "microsoft" | "apple" | "github";
  readonly name: Label;
  /** Whether it makes accounts. Default: it does. */
  readonly registration?: boolean;
}

/** A provider whose domains count. */
export interface DomainProvider extends ShownProvider {
  /** In lower case, as A-labels. */
  readonly domains: readonly string[];
  /** Whether people with such an address sign in there and with nothing else. */
  readonly only: boolean;
  readonly issuer: string;
}

/** A provider as it is described in one language. */
interface DescribedProvider extends Pick<ShownProvider, "key" | "preset"> {
  readonly label: string;
  readonly last?: true;
}

/** The button of a provider. */
export interface ProviderButton {
  readonly key: string;
  /** Whose mark and colors it has: `openid` is any other provider. */
  readonly look: ShownProvider["preset"];
  readonly label: string;
}

/** The buttons of a page. */
export interface ProviderButtons {
  /** The one that this browser used last, which comes before the form. */
  readonly last: ProviderButton | undefined;
  readonly shown: readonly ProviderButton[];
  /** Behind "more ways to sign in". */
  readonly more: readonly ProviderButton[];
}

/** From five on, some of them are folded: a person finds the right one among a few. */
const MOST_SHOWN = 4;
const SHOWN_OF_MANY = 3;

/** The name of a provider in a language. */
export function providerName({ name }: Pick<ShownProvider, "name">, locale: string): string {
  return labelIn(name, locale);
}

/** The buttons of described providers, in their order. */
export function providerButtons(providers: readonly DescribedProvider[]): ProviderButtons {
  const toButton = ({ key, preset, label }: DescribedProvider): ProviderButton => ({
    key,
    look: preset,
    label,
  });
  const last = providers.find((provider) => provider.last);
  const others = providers.filter((provider) => provider !== last).map(toButton);
  const count = providers.length <= MOST_SHOWN ? others.length : SHOWN_OF_MANY;
  return { last: last && toButton(last), shown: others.slice(0, count), more: others.slice(count) };
}
