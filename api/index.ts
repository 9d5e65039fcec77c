/** `sign-in-service/api`: what an API needs to check the access tokens that it receives. It loads nothing of the service. */
export { createApi } from "./api.ts";
export type { Access, Api, ApiOptions, ApiRequest, Needs } from "./api.ts";
export { AccessError } from "./access-error.ts";
