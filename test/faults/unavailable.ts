/** What every answer must look like that a fault has caused. */
import { expect } from "@jest/globals";

/**
 * @param isPage whether a person's browser asked for a page.
 * @param where for the message of a failed test.
 */
export async function expectUnavailable(response: Response, isPage: boolean, where: string): Promise<void> {
  const text = await response.text();
  expect({
    where,
    status: response.status,
    retryAfter: response.headers.get("retry-after"),
    cache: response.headers.get("cache-control"),
    location: response.headers.get("location"),
    cookies: response.headers.getSetCookie(),
    type: response.headers.get("content-type")?.split(";")[0],
  }).toEqual({
    where,
    status: 503,
    retryAfter: expect.stringMatching(/^[1-9]\d*$/),
    cache: "no-store",
    location: null,
    cookies: [],
    type: isPage ? "text/html" : "application/json",
  });
  if (!isPage)
    expect(JSON.parse(text)).toEqual({
      error: "temporarily_unavailable",
      error_description: expect.any(String),
    });
}
