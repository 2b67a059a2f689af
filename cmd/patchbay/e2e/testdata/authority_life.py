"""The life of an experiment as omni makes it: credentials from the authority, nodes from the aggregate.

usage: authority_life.py AUTHORITY AGGREGATE FOLDER USER REQUEST
FOLDER has USER-cert.pem and USER-key.pem. AUTHORITY and AGGREGATE are https://HOST:PORT.
"""
import base64
import datetime
import os
import ssl
import sys
import time
import xmlrpc.client

authority, aggregate, folder, user, request = sys.argv[1:]
context = ssl._create_unverified_context()
context.load_cert_chain(f"{folder}/{user}-cert.pem", f"{folder}/{user}-key.pem")


def proxy(url):
    return xmlrpc.client.ServerProxy(url, context=context)


def must(answer, what):
    code = answer["code"]
    if isinstance(code, dict):
        code = code["geni_code"]
    if code != 0:
        sys.exit(f"{what}: {code} {answer['output']}")
    return answer["value"]


registry = proxy(authority + "/ch/2")


def service(kind):
    found = must(registry.lookup("SERVICE", [], {"match": {"SERVICE_TYPE": kind}, "filter": ["SERVICE_URN", "SERVICE_URL"]}), kind)
    return found[0]["SERVICE_URN"], proxy(found[0]["SERVICE_URL"])


sa_urn, sa = service("SLICE_AUTHORITY")
_, ma = service("MEMBER_AUTHORITY")
base = sa_urn[: sa_urn.index("+authority+")]
me = f"{base}+user+{user}"
now = datetime.datetime.utcnow().replace(microsecond=0)


def node_life(slice_urn, credentials):
    """Reserves and starts the nodes of the request, and returns the manifest and the slivers."""
    am = proxy(aggregate + "/am/3.0")
    rspec = {"geni_rspec_version": {"type": "GENI", "version": "3"}}
    must(am.Allocate(slice_urn, credentials, open(request).read(), {}), "Allocate")
    users = [{"urn": me, "keys": [k["KEY_PUBLIC"] for k in keys.values()]}]
    must(am.Provision([slice_urn], credentials, {**rspec, "geni_users": users}), "Provision")
    must(am.PerformOperationalAction([slice_urn], credentials, "geni_start", {}), "geni_start")
    while True:
        slivers = must(am.Status([slice_urn], credentials, {}), "Status")["geni_slivers"]
        if all(s["geni_operational_status"] == "geni_ready" for s in slivers):
            break
        time.sleep(0.1)
    manifest = must(am.Describe([slice_urn], credentials, rspec), "Describe")["geni_rspec"]
    if "<login" not in manifest or f'username="{user}"' not in manifest:
        sys.exit("the manifest has no login of " + user)
    return am, slivers


# Members and keys
must(ma.get_credentials(me, [], {}), "user credential")
blob = b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + os.urandom(32)
public = "ssh-ed25519 " + base64.b64encode(blob).decode() + " life"
must(ma.create("KEY", [], {"fields": {"KEY_MEMBER": me, "KEY_TYPE": "ssh", "KEY_PUBLIC": public}}), "create KEY")
keys = must(ma.lookup("KEY", [], {"match": {"KEY_MEMBER": me}, "filter": ["KEY_PUBLIC"]}), "lookup KEY")

# Project, slice, members
project = must(sa.create("PROJECT", [], {"fields": {"PROJECT_NAME": f"p{now:%H%M%S}"}}), "create PROJECT")
must(sa.create("SLICE", [], {"fields": {"SLICE_NAME": "inproject", "SLICE_PROJECT_URN": project["PROJECT_URN"]}}), "create SLICE")
name = f"life{now:%H%M%S}"
slice_urn = must(sa.create("SLICE", [], {"fields": {"SLICE_NAME": name}}), "create SLICE")["SLICE_URN"]
must(sa.modify_membership("SLICE", slice_urn, [], {"members_to_add": [{"SLICE_MEMBER": f"{base}+user+bob", "SLICE_ROLE": "MEMBER"}]}), "add bob")
roles = {m["SLICE_MEMBER"]: m["SLICE_ROLE"] for m in must(sa.lookup_members("SLICE", slice_urn, [], {}), "members")}
if roles != {me: "LEAD", f"{base}+user+bob": "MEMBER"}:
    sys.exit(f"members {roles}")

# Nodes
credentials = must(sa.get_credentials(slice_urn, [], {}), "slice credential")
am, slivers = node_life(slice_urn, credentials)
expires = now + datetime.timedelta(days=20)
must(sa.update("SLICE", slice_urn, [], {"fields": {"SLICE_EXPIRATION": expires.isoformat()}}), "renew the slice")
found = must(sa.lookup("SLICE", [], {"match": {"SLICE_URN": slice_urn, "SLICE_EXPIRED": "f"}, "filter": ["SLICE_EXPIRATION"]}), "lookup")
if found[slice_urn]["SLICE_EXPIRATION"] != expires.isoformat() + "Z":
    sys.exit(f"renewed until {found}")
credentials = must(sa.get_credentials(slice_urn, [], {}), "slice credential")
must(am.Renew([slice_urn], credentials, (now + datetime.timedelta(days=10)).isoformat() + "Z", {}), "Renew")
for s in slivers:
    must(
        sa.create(
            "SLIVER_INFO",
            [],
            {
                "fields": {
                    "SLIVER_INFO_URN": s["geni_sliver_urn"],
                    "SLIVER_INFO_SLICE_URN": slice_urn,
                    "SLIVER_INFO_AGGREGATE_URN": must(am.GetVersion(), "GetVersion")["urn"],
                    "SLIVER_INFO_CREATOR_URN": me,
                    "SLIVER_INFO_CREATION": datetime.datetime.utcnow().isoformat(),
                    "SLIVER_INFO_EXPIRATION": str(datetime.datetime.utcnow()),
                }
            },
        ),
        "record a sliver",
    )
infos = must(sa.lookup("SLIVER_INFO", [], {"match": {"SLIVER_INFO_SLICE_URN": slice_urn}}), "SLIVER_INFO")
if set(infos) != {s["geni_sliver_urn"] for s in slivers}:
    sys.exit(f"sliver_info {infos}")
must(am.Delete([slice_urn], credentials, {}), "Delete")

# The same by the ProtoGENI slice authority
pg = proxy(authority + "/protogeni/xmlrpc/sa")
mine = must(pg.GetCredential(), "GetCredential")
pg_urn = f"{base}+slice+pg{now:%H%M%S}"
if pg.Resolve({"credential": mine, "type": "Slice", "urn": pg_urn})["code"] == 0:
    sys.exit("an unknown slice was resolved")
must(pg.Register({"credential": mine, "type": "Slice", "urn": pg_urn}), "Register")
credential = must(pg.GetCredential({"credential": mine, "type": "Slice", "urn": pg_urn}), "GetCredential of the slice")
credential = must(pg.RenewSlice({"credential": credential, "expiration": (now + datetime.timedelta(days=9)).strftime("%Y%m%dT%H:%M:%S")}), "RenewSlice")
if not must(pg.GetKeys({"credential": mine}), "GetKeys"):
    sys.exit("no keys")
wrapped = [{"geni_type": "geni_sfa", "geni_version": "3", "geni_value": credential}]
am, _ = node_life(pg_urn, wrapped)
must(am.Delete([pg_urn], wrapped, {}), "Delete")

# The end of a slice
short = f"{base}+slice+short{now:%H%M%S}"
soon = datetime.datetime.utcnow() + datetime.timedelta(seconds=2)
must(sa.create("SLICE", [], {"fields": {"SLICE_NAME": short.split("+")[-1], "SLICE_EXPIRATION": soon.isoformat()}}), "create SLICE")
while sa.get_credentials(short, [], {})["code"] == 0:
    time.sleep(0.1)
ended = must(sa.lookup("SLICE", [], {"match": {"SLICE_URN": short, "SLICE_EXPIRED": "t"}}), "lookup")
if short not in ended or "Unknown slice urn" not in sa.get_credentials(short, [], {})["output"]:
    sys.exit("the slice has not ended")
print("done")
