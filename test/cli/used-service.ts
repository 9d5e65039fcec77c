/** What a service leaves in a storage that is to be checked. */
import type { SignInService } from "../../lib/service.ts";

const receiver = {
  url: "https://media.example/notify",
  client_id: "media",
  client_secret: "of the receiver",
  types: ["PROFILE_CHANGED", "DELETE_ACCOUNT"] as const,
};

/** @returns the `sub` of each account. */
export async function use(service: SignInService): Promise<string[]> {
  const { directory, clients, accounts } = service;
  await directory.portals.put("main", { name: "Main" });
  await directory.groups.put("media", { name: "Media", receiver });
  await directory.services.put("1", { name: "News", group: "media" });
  await directory.services.put("2", { name: "Shop" });
  await clients.register({
    client_id: "news",
    name: "News",
    service: "1",
    redirect_uris: ["https://news.example/"],
  });
  const made: string[] = [];
  for (const name of ["ada", "bob", "eve"]) {
    const services = { "1": 5, "2": null };
    const { sub } = await accounts.import({
      email: `${name}@example.com`,
      username: name,
      portal: "main",
      services,
    });
    await accounts.update(sub, { surname: "One" });
    await accounts.update(sub, { surname: "Two" });
    made.push(sub);
  }
  return made;
}
