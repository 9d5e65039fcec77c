import { isExportDeclaration, isNamedExports } from "typescript/unstable/ast";
import type { Tree } from "./rule.ts";

/** Every public name is a promise, so there are few. A duplicate counts twice. */
export const MAX_PUBLIC_NAMES = 118;

/** Entry point → name → why it is public. Names of the package's contract say so. */
export const PUBLIC_NAMES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "lib/index.ts": {
    createSignInService: "contract",
    applySeed: "contract",
    createNotificationWorker: "contract",
    SignInService: "contract; the type of what applications pass around",
    SignInServiceConfig: "applications build and check their configuration",
    Seed: "applications read a seed file",
    NotificationWorker: "what `createNotificationWorker` returns",
    Accounts: "contract; modules take one part of the service",
    Account: "what the calls of `accounts` return",
    NewAccount: "forms and scripts that create accounts",
    AccountChanges: "forms that update accounts",
    NewInvitation: "forms and scripts that invite people",
    Invitation: "what the calls of `invitations` return",
    Invitations: "modules take one part of the service",
    ImportedAccount: "import scripts map their rows to it",
    Clients: "contract; modules take one part of the service",
    Client: "what the calls of `clients` return",
    NewClient: "scripts that register clients",
    ClientChanges: "scripts that update clients",
    ClientCredentials: "scripts pass on the secret that is returned only once",
    Directory: "contract; modules take one part of the service",
    Notifications: "contract; modules take one part of the service",
    SigningKey: "scripts that rotate keys read the list",
    Actor: "applications say who asked for a change",
    AuditRecord: "applications show and export the audit log",
    AuditQuery: "applications filter the audit log",
    Health: "contract; what `health()` returns",
    ServiceEvents: "listeners name the argument of an event",
    SignInError: "the base of every error",
    SignInErrorCode: "switches over `code`",
    AlreadyExists: "caught by callers",
    ConditionFailed: "caught by callers",
    ConfigurationError: "caught by callers, who read `problems`",
    InvalidArgument: "caught by callers, who read `problems`",
    InvalidPassword: "caught by callers",
    NameTaken: "caught by callers",
    NotFound: "caught by callers",
    StillReferenced: "caught by callers, who read `references`",
    StorageUnavailable: "caught by callers",
    UnknownReference: "caught by callers",
  },
  "adapters/index.ts": {
    RecordStore: "a backend implements it",
    Clock: "`open` of a backend takes one, and so does the configuration",
    Commit: "argument of `RecordStore.commit`",
    Expectation: "part of a commit",
    Found: "result of `get`, `list` and `scan`",
    IndexEntry: "part of a record",
    JsonObject: "the value of a record",
    Page: "result of `list` and `scan`",
    Query: "argument of `list` and `count`",
    RecordData: "part of a commit",
    Ref: "names a record",
    checkCommit: "a backend checks a commit as the others do",
    ConditionFailed: "a backend throws it",
    StorageUnavailable: "a backend throws it",
  },
  "administration/index.ts": {
    createAdministrationClient: "scripts administer the service from other machines",
    AdministrationClient: "result of `createAdministrationClient`",
    AdministrationError: "caught by scripts, which switch over `code`",
  },
  "interactions/browser.d.ts": {
    createPasskey: "contract",
    usePasskey: "contract",
  },
  "interactions/index.ts": {
    createPages: "applications answer 404 with a page in the service's look",
    Pages: "result of `createPages`",
    PageSettings: "argument of `createPages`",
    StepDescription: "a sign-in page of your own shows it",
    DescribedField: "a sign-in page of your own has a component for it",
    DescribedAction: "a sign-in page of your own has a component for it",
    DescribedProblem: "a sign-in page of your own has a component for it",
    Interactions: "routes of a login page of your own take `service.interactions`",
  },
  "notifier/index.ts": {
    createNotificationWorker: "contract; a worker process imports this entry point alone",
    NotificationWorker: "what `createNotificationWorker` returns",
    NOTIFICATION_TYPES: "receivers and forms list the types",
    NotificationType: "receivers switch over it",
    NotificationBody: "receivers and recorded examples name the body",
    ShownDelivery: "operator tools show what `service.notifications` returns",
    notificationReceiver: "receivers mount it",
    NotificationReceiverOptions: "argument of `notificationReceiver`",
    SeenNotifications: "receivers keep ids in their own database",
    rememberInMemory: "receivers of one process need no database for ids",
    verifyNotification: "receivers without Koa",
    VerifyOptions: "argument of `verifyNotification`",
    ReceivedNotification: "argument of a receiver's handler",
    InvalidNotification: "caught by receivers",
  },
  "testing/index.ts": {
    createTestSignIn: "contract",
    TestSignIn: "what `createTestSignIn` returns",
    TestSignInConfig: "argument of `createTestSignIn`",
    TestNotification: "tests compare notifications",
    TestClient: "helpers of tests take a client",
    TestPerson: "helpers of tests take a person",
    TestReceiver: "helpers of tests take a receiver",
    createTestProvider: "tests of signing in with another provider",
    TestProvider: "helpers of tests take a provider",
    ProviderPerson: "helpers of tests sign somebody in there",
    ProviderAnswer: "helpers of tests take how the browser goes back",
    ProviderRequest: "tests check what the provider was asked",
    ProviderLie: "tables of what a provider does wrong",
    ProviderEndpoint: "tables of what a provider does wrong",
    createAuthenticator: "tests of pages with passkeys",
    TestAuthenticator: "helpers of tests take an authenticator",
    totpCode: "tests of pages with an authenticator app",
    TestClock: "a clock that other parts of a test can use",
    TestTokens: "helpers of tests take tokens",
    TestAnswer: "helpers of tests check answers",
    SignInAnswers: "helpers of tests pass answers on",
    SignInResult: "helpers of tests check where a sign-in led",
    Browser: "tests that go through pages of their own",
    UnexpectedAnswer: "caught by tests of failures",
    Mailbox: "applications without a mail server show mail during development",
    describeStorage: "the test suite for backends",
    StorageBackend: "argument of `describeStorage`",
    TestRunner: "argument of `describeStorage`",
  },
};

/** The names that an entry point exports, sorted. `*` stands for everything of another file. */
export function exportedNames({ sources }: Tree, entry: string): string[] {
  const source = sources.find(({ path }) => path === entry);
  const names = (source?.tree.statements ?? []).flatMap((statement) => {
    if (!isExportDeclaration(statement)) return [];
    const { exportClause } = statement;
    if (exportClause === undefined || !isNamedExports(exportClause)) return ["*"];
    return exportClause.elements.map(({ name }) => name.text);
  });
  return names.toSorted();
}
