"""Authlib as a machine and as a device. Prints one line of JSON at the end.

    CREDENTIAL=… python3 authlib-client.py machine|signed|device ISSUER CLIENT_ID RESOURCE

A device prints its codes and waits for a line on standard input before it polls.
"""

import json
import os
import sys
import time

# The services of the tests are on loopback, without TLS.
os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"

from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oauth2.rfc7523 import PrivateKeyJWT, private_key_jwt_sign
from authlib.oauth2.rfc8414 import get_well_known_url
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

PATIENCE_SECONDS = 5
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class ShortAssertion(PrivateKeyJWT):
    """An assertion that lives a minute; Authlib's own lives an hour, which the service refuses."""

    def sign(self, auth, token_endpoint):
        key = ECKey.import_key(json.loads(auth.client_secret))
        return private_key_jwt_sign(key, auth.client_id, token_endpoint, alg="ES256", expires_in=60)


def discovered(session, issuer):
    url = get_well_known_url(issuer, external=True, suffix="openid-configuration")
    # OpenID Connect appends the suffix to the path of the issuer, RFC 8414 puts it in front.
    response = session.get(url, withhold_token=True, timeout=PATIENCE_SECONDS)
    if response.status_code == 404:
        url = f"{issuer}/.well-known/openid-configuration"
        response = session.get(url, withhold_token=True, timeout=PATIENCE_SECONDS)
    response.raise_for_status()
    return response.json()


def machine(session, server, resource):
    tokens = session.fetch_token(
        server["token_endpoint"], grant_type="client_credentials", resource=resource, scope="articles:read"
    )
    seen = session.introspect_token(server["introspection_endpoint"], token=tokens["access_token"]).json()
    session.revoke_token(server["revocation_endpoint"], token=tokens["access_token"])
    ended = session.introspect_token(server["introspection_endpoint"], token=tokens["access_token"]).json()
    return {"tokens": tokens, "seen": seen, "ended": ended}


def device(session, server, _resource):
    codes = session.post(
        server["device_authorization_endpoint"],
        data={"client_id": session.client_id, "scope": "openid email"},
        withhold_token=True,
        timeout=PATIENCE_SECONDS,
    ).json()
    print(json.dumps(codes), flush=True)
    sys.stdin.readline()
    interval, pending = codes["interval"], 0
    while True:
        try:
            tokens = session.fetch_token(
                server["token_endpoint"], grant_type=DEVICE_GRANT, device_code=codes["device_code"]
            )
            break
        except OAuthError as error:
            if error.error not in ("authorization_pending", "slow_down"):
                return {"refused": error.error}
            pending += 1
            # After the first answer, the test lets a person connect the device.
            print(json.dumps({"polled": error.error}), flush=True)
            time.sleep(interval)
    keys = KeySet.import_key_set(session.get(server["jwks_uri"], withhold_token=True).json())
    claims = jwt.decode(tokens["id_token"], keys, algorithms=["RS256"]).claims
    userinfo = session.get(server["userinfo_endpoint"]).json()
    first = dict(tokens)
    refreshed = session.refresh_token(server["token_endpoint"], refresh_token=tokens["refresh_token"])
    again = session.get(server["userinfo_endpoint"]).json()
    session.revoke_token(
        server["revocation_endpoint"], token=refreshed["refresh_token"], token_type_hint="refresh_token"
    )
    ended = session.get(server["userinfo_endpoint"]).status_code
    return {
        "claims": claims,
        "userinfo": userinfo,
        "again": again,
        "rotated": first["refresh_token"] != refreshed["refresh_token"],
        "pending": pending,
        "ended": ended,
    }


def main():
    how, issuer, client_id, resource = sys.argv[1:]
    session = OAuth2Session(client_id, os.environ["CREDENTIAL"] or None)
    server = discovered(session, issuer)
    if how == "signed":
        session.register_client_auth_method(ShortAssertion(server["token_endpoint"]))
        session.token_endpoint_auth_method = session.revocation_endpoint_auth_method = "private_key_jwt"
    try:
        result = device(session, server, resource) if how == "device" else machine(session, server, resource)
    except OAuthError as error:
        result = {"refused": error.error}
    print(json.dumps(result))


main()
