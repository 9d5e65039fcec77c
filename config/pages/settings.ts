/** What the keys of `interactions` mean: the pages, registration and passkeys. */

/** The look of the pages. */
export interface Theme {
  /** Name of the service on its pages and in its mail; production requires it. Default: built in. */
  readonly name?: string;
  /** Colour of buttons and links. Default: built in. */
  readonly accent?: string;
  /** Colour of the page. Default: built in. */
  readonly background?: string;
  /** Colour of the text. Default: built in. */
  readonly text?: string;
  /** Radius of corners, in pixels. Default 10. */
  readonly radius?: number;
  /**
   * `compact` makes everything on the pages an eighth smaller, but only with a mouse and on a screen that is not narrow.
   * Default `comfortable`.
   */
  readonly density?: "comfortable" | "compact";
  /** Fonts to use if the person's device has them; none is downloaded. Default `system-ui, sans-serif`. */
  readonly fonts?: string;
  /** Logo, shown instead of the name. Default: the name. */
  readonly logo?: string;
  /** Logo for dark mode; at most 8,000 bytes together with `logo`. Default: `logo`. */
  readonly logoDark?: string;
  /** Icon in the browser's tab. Default: the first letter of the name. */
  readonly favicon?: string;
}

/** Links in the footer of each page; `{locale}` stands for the page's language. */
export interface PageLinks {
  /** Help page, or `mailto:` and an address. */
  readonly help?: string;
  /** Privacy policy. */
  readonly privacy?: string;
  /** Terms of use. */
  readonly terms?: string;
}

/** What the registration form can ask for besides e-mail address and password. */
export const REGISTRATION_FIELDS = ["username", "name", "surname", "date_of_birth", "gender"] as const;

/** What a person entered in the registration form. */
export interface RegistrationRequest {
  readonly email: string;
  readonly username?: string;
  readonly name?: string;
  readonly surname?: string;
  /** `YYYY-MM-DD`. */
  readonly date_of_birth?: string;
  readonly gender?: string;
  /** The language of the page. */
  readonly locale?: string;
  /** The client that the person is signing in to. */
  readonly client_id?: string;
  /** The IP address, as far as proxies are trusted. */
  readonly address: string;
}

/** Registration by people themselves. */
export interface RegistrationSettings {
  /** What the form asks for besides e-mail address and password. Default: nothing. */
  readonly fields?: Readonly<Partial<Record<(typeof REGISTRATION_FIELDS)[number], "required" | "optional">>>;
  /** Terms of use that people have to accept. */
  readonly terms?: {
    /** Address of the terms of use. */
    readonly url: string;
    /** Version of the terms; people who accepted another one are asked again at their next sign-in. */
    readonly version: string;
  };
  /** Only e-mail addresses at these domains can register; subdomains are not included. Default: all. */
  readonly domains?: readonly string[];
  /** Lets people register with a passkey instead of a password; requires passkeys. Default `false`. */
  readonly passwordless?: boolean;
  /**
   * Gets what was entered, without the password; `false` refuses the registration. It runs before anything is stored, also
   * for addresses that have an account. If it rejects, or does not answer within 3 seconds, the person is asked to try again.
   */
  readonly check?: (request: RegistrationRequest) => boolean | Promise<boolean>;
}

/** Passkeys (WebAuthn). */
export interface PasskeySettings {
  /**
   * Whether people can use passkeys. With `false`, existing passkeys don't work, but a password alone still doesn't sign in
   * the people who have one: they also need an app or a recovery code. Default `true`.
   */
  readonly enabled: boolean;
  /**
   * Domain of passkeys (`rpId`): the host of each deployment, or a domain above it, but no public suffix such as `co.uk`.
   * Passkeys work for no other domain. Default: `cookies.domain`, otherwise the one host of the deployments.
   */
  readonly rpId?: string;
  /** Earlier domains, whose passkeys still work. Default `[]`. */
  readonly previousRpIds: readonly string[];
}

/** The pages. */
export interface InteractionSettings {
  /** Whether people can register; production needs `mail` for it. Default `false`. */
  readonly registration: boolean | RegistrationSettings;
  /** Usernames that people can't choose for themselves, regardless of case. Default: `admin`, `root`, `support` and others. */
  readonly reservedUsernames: readonly string[];
  /** Languages of the pages; the first is the default. Default `["en","pl"]`. */
  readonly locales: readonly string[];
  /** Folders of EJS views that replace built-in ones; the first match wins. Default `[]`. */
  readonly views: readonly string[];
  /** Texts that replace the built-in ones: locale → key → text. Default `{}`. */
  readonly copy: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** The look. */
  readonly theme: Theme;
  /** Passkeys. They are off if a host is an IP address. */
  readonly passkeys: PasskeySettings;
  /** Links in the footer of each page; `{locale}` stands for the page's language. */
  readonly links: PageLinks;
  /**
   * Path of a UI of your own on the hosts of the deployments: browsers that come to sign in are sent there, with the
   * address of the JSON interface as `interaction`. Default: the built-in pages.
   */
  readonly ui?: string;
}
