/** Names that attributes can't have, because they already mean something to this service or to those who read its tokens. */

const words = (...lines: readonly string[]): ReadonlySet<string> =>
  new Set(lines.flatMap((line) => line.split(" ")));

/** Scopes that the service uses itself, or will use. */
export const RESERVED_SCOPES: ReadonlySet<string> = words(
  "openid profile email address phone offline_access roles account",
);

/** OpenID Connect Core 1.0 section 5.1. */
export const STANDARD_CLAIMS: ReadonlySet<string> = words(
  "sub name given_name family_name middle_name nickname preferred_username profile picture website email email_verified",
  "gender birthdate zoneinfo locale phone_number phone_number_verified address updated_at",
);

/** Members of accounts, of the documented profile, and of arguments and forms that have attributes beside them. */
export const ACCOUNT_NAMES: ReadonlySet<string> = words(
  "sub user_id email email_verified username name surname date_of_birth gender locale portal attributes services roles",
  "disabled created_at updated_at password password_hash app terms terms_version action again code csrf xsrf optional",
);

/** Claims that JWTs, tokens and answers of the service have (RFC 7519, 7662, 8693, 9068, 9449, OpenID Connect), in lower case. */
const TAKEN_CLAIMS: ReadonlySet<string> = words(
  "iss sub aud exp nbf iat jti auth_time nonce acr amr azp sid sub_jwk at_hash c_hash s_hash events toe txn typ alg kid",
  "scope client_id roles cnf act may_act active token_type access_token refresh_token id_token expires_in state session_state",
  "optional fullname error error_description authorization_details _claim_names _claim_sources account",
  "name given_name family_name nickname preferred_username website email email_verified gender birthdate zoneinfo locale",
  "phone_number phone_number_verified address updated_at user_id username surname date_of_birth services",
);

/**
 * Claims that relying parties take for a right or for an identity, in lower case. No person may set their own, so an attribute that
 * the person edits has none of them.
 */
const RIGHTS_AND_IDENTITIES: ReadonlySet<string> = words(
  "group groups groupid groupids group_ids role roles role_ids permission permissions privilege privileges right rights",
  "entitlement entitlements authorities authorization authorizations scope scopes scp policy policies acl access",
  "admin is_admin isadmin administrator superuser is_superuser is_staff staff root owner is_owner operator",
  "verified trusted tier plan clearance",
  "tid oid uid uuid guid puid sid hd idp idtyp upn eppn eduperson_principal_name edupersonprincipalname",
  "eduperson_entitlement edupersonentitlement eduperson_affiliation edupersonaffiliation",
  "eduperson_scoped_affiliation edupersonscopedaffiliation eduperson_assurance edupersonassurance",
  "username user_name user userid user_id login login_name loginname logon account account_id accountid principal",
  "unique_name uniquename nameid name_id nameidentifier identifier id subject mail emailaddress email_address",
  "preferred_username verified_primary_email verified_secondary_email samaccountname onprem_sid",
  "memberof member_of ismemberof is_member_of members wids teams team org orgs org_id orgid organization organizations",
  "organization_id tenant tenants tenant_id tenantid tenant_ids realm realm_access resource_access app_metadata claims",
);

/** Whether a JWT, a token or an answer of the service has a claim of this name. Compared without case, to be safe. */
export function isTakenClaim(claim: string): boolean {
  return TAKEN_CLAIMS.has(claim.toLowerCase());
}

/** Whether relying parties take this claim for a right or an identity. A name such as `https://a.example/roles` counts as `roles`. */
export function isRightOrIdentity(claim: string): boolean {
  const name = claim.toLowerCase();
  return [name, name.replace(/^.*[:/.]/u, ""), name.replaceAll("-", "_")].some((each) =>
    RIGHTS_AND_IDENTITIES.has(each),
  );
}
