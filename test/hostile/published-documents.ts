/**
 * The documents that clients of the Model Context Protocol publish, as they were in September 2026, with their own origin in place of
 * `ORIGIN`. Cursor publishes none: it registers with these addresses.
 */
const CODE = ["authorization_code", "refresh_token"];
const PUBLIC = { response_types: ["code"], token_endpoint_auth_method: "none" } as const;

interface Published {
  /** The path of the document. */
  readonly path: string;
  /** Where answers go; of several addresses, each of which works. */
  readonly to: readonly string[];
  readonly document: Readonly<Record<string, unknown>>;
}

export const PUBLISHED: Readonly<Record<string, Published>> = {
  "VS Code": {
    path: "/oauth/client-metadata.json",
    to: ["http://127.0.0.1:33418/", "http://127.0.0.1:33419/", "ORIGIN/redirect"],
    document: {
      ...PUBLIC,
      client_name: "Visual Studio Code",
      logo_uri: "https://code.visualstudio.example/assets/branding/code-stable.png",
      grant_types: [...CODE, "urn:ietf:params:oauth:grant-type:device_code"],
      application_type: "native",
      client_uri: "ORIGIN/product",
      redirect_uris: ["http://127.0.0.1:33418/", "ORIGIN/redirect"],
    },
  },
  Claude: {
    path: "/oauth/mcp-oauth-client-metadata",
    to: ["ORIGIN/api/mcp/auth_callback"],
    document: {
      ...PUBLIC,
      client_name: "Claude",
      client_uri: "ORIGIN",
      redirect_uris: ["ORIGIN/api/mcp/auth_callback"],
      grant_types: [...CODE, "urn:ietf:params:oauth:grant-type:jwt-bearer"],
    },
  },
  "Claude Code": {
    path: "/oauth/claude-code-client-metadata",
    to: ["http://localhost:3118/callback", "http://127.0.0.1:54545/callback"],
    document: {
      ...PUBLIC,
      client_name: "Claude Code",
      client_uri: "ORIGIN",
      redirect_uris: ["http://localhost/callback", "http://127.0.0.1/callback"],
      grant_types: CODE,
    },
  },
  ChatGPT: {
    path: "/oauth/client.json",
    to: ["ORIGIN/connector_platform_oauth_redirect"],
    document: {
      client_name: "ChatGPT",
      client_uri: "ORIGIN/",
      logo_uri: "https://static.example/openai-logo.png",
      redirect_uris: ["ORIGIN/connector_platform_oauth_redirect"],
      grant_types: CODE,
      response_types: ["code"],
      token_endpoint_auth_method: "private_key_jwt",
      token_endpoint_auth_methods_supported: ["none", "private_key_jwt"],
      token_endpoint_auth_signing_alg: "RS256",
      jwks_uri: "ORIGIN/oauth/jwks.json",
    },
  },
  "Cursor's addresses": {
    path: "/cursor.json",
    to: ["cursor://anysphere.cursor-mcp/oauth/callback", "http://localhost:8787/callback"],
    document: {
      ...PUBLIC,
      client_name: "Cursor",
      redirect_uris: [
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "https://www.cursor.example/agents/mcp/oauth/callback",
        "http://localhost:8787/callback",
      ],
      grant_types: CODE,
    },
  },
};
