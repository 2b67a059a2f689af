package authority

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/credentials"
	"patchbay/credentials/trial"
)

func change(kind string, members ...xmlrpc.Value) xmlrpc.Struct {
	return xmlrpc.Struct{{Name: kind, Value: members}}
}

func member(who string, role Role) xmlrpc.Value {
	return xmlrpc.Struct{text("SLICE_MEMBER", userURN(who)), text("SLICE_ROLE", string(role))}
}

func modify(f *fixture, who, slice string, o xmlrpc.Struct) answer {
	return f.call(who, "/sa/2", "modify_membership", "SLICE", sliceURN(slice), none, o)
}

func renew(f *fixture, who, slice string, expires time.Time) answer {
	return f.call(who, "/sa/2", "update", "SLICE", sliceURN(slice), none, options("fields", text("SLICE_EXPIRATION", expires.Format(time.RFC3339))))
}

func credentialFor(f *fixture, who, slice string) answer {
	return f.call(who, "/sa/2", "get_credentials", sliceURN(slice), none, xmlrpc.Struct{})
}

func firstKey(f *fixture, who string) string {
	f.t.Helper()
	s := f.must(who, "/ma/2", "lookup", "KEY", none, options("match", text("KEY_MEMBER", userURN(who)))).(xmlrpc.Struct)
	return s[0].Name
}

func create1(f *fixture, who, kind string, members ...xmlrpc.Member) answer {
	path := "/sa/2"
	if kind == "KEY" {
		path = "/ma/2"
	}
	return f.call(who, path, "create", kind, none, options("fields", members...))
}

func sliver(slice, name string) []xmlrpc.Member {
	return []xmlrpc.Member{
		text("SLIVER_INFO_URN", "urn:publicid:IDN+elsewhere.org+sliver+"+name), text("SLIVER_INFO_SLICE_URN", sliceURN(slice)),
		text("SLIVER_INFO_AGGREGATE_URN", "urn:publicid:IDN+elsewhere.org+authority+am"), text("SLIVER_INFO_CREATOR_URN", userURN("alice")),
	}
}

// speak returns the credentials and options of a tool that speaks for a user. The user has signed
// the permission for the tool with the certificate tool.
func speak(f *fixture, signer, user, tool string, until time.Time) ([]xmlrpc.Value, xmlrpc.Struct) {
	f.t.Helper()
	u, err := f.Authority.Authority.User(signer, f.now)
	if err != nil {
		f.t.Fatal(err)
	}
	certificate, err := os.ReadFile(filepath.Join(f.dir, tool))
	if err != nil {
		f.t.Fatal(err)
	}
	doc, err := trial.SpeaksFor(u, certificate, until)
	if err != nil {
		f.t.Fatal(err)
	}
	return []xmlrpc.Value{xmlrpc.Struct{text("geni_type", "geni_abac"), text("geni_version", "1"), text("geni_value", string(doc))}},
		xmlrpc.Struct{text("speaking_for", userURN(user))}
}

// TestAttacks makes each attack, and its neighbour: the nearest call that is allowed. Before both,
// alice is LEAD of the slice lab, bob is ADMIN, and carol has the role of the row.
func TestAttacks(t *testing.T) {
	tool := "example.org/tools/portal.pem"
	for _, x := range []struct {
		name      string
		carol     Role
		attack    func(*fixture) answer
		code      Code
		says      string
		neighbour func(*fixture) answer
	}{
		{"credential of a slice of others", "", func(f *fixture) answer { return credentialFor(f, "carol", "lab") }, Authorization, "allowed: LEAD, ADMIN, MEMBER, AUDITOR",
			func(f *fixture) answer { return credentialFor(f, "bob", "lab") }},
		{"slice of others looked up by members", "", func(f *fixture) answer {
			return f.call("carol", "/sa/2", "lookup_members", "SLICE", sliceURN("lab"), none, xmlrpc.Struct{})
		}, Authorization, "look up members",
			func(f *fixture) answer {
				return f.call("bob", "/sa/2", "lookup_members", "SLICE", sliceURN("lab"), none, xmlrpc.Struct{})
			}},
		{"slices of another member", "", func(f *fixture) answer {
			return f.call("carol", "/sa/2", "lookup_for_member", "SLICE", userURN("bob"), none, xmlrpc.Struct{})
		}, Authorization, "themselves",
			func(f *fixture) answer {
				return f.call("carol", "/sa/2", "lookup_for_member", "SLICE", userURN("carol"), none, xmlrpc.Struct{})
			}},
		{"user credential of another member", "", func(f *fixture) answer {
			return f.call("carol", "/ma/2", "get_credentials", userURN("bob"), none, xmlrpc.Struct{})
		}, Authorization, "themselves",
			func(f *fixture) answer {
				return f.call("carol", "/ma/2", "get_credentials", userURN("CAROL"), none, xmlrpc.Struct{})
			}},
		{"a stranger to the slice adds themselves", "", func(f *fixture) answer {
			return modify(f, "carol", "lab", change("members_to_add", member("carol", PlainMember)))
		}, Authorization, "modify members",
			func(f *fixture) answer {
				return modify(f, "bob", "lab", change("members_to_add", member("carol", PlainMember)))
			}},
		{"a MEMBER promotes themselves", PlainMember, func(f *fixture) answer {
			return modify(f, "carol", "lab", change("members_to_change", member("carol", Admin)))
		}, Authorization, "modify members",
			func(f *fixture) answer {
				return modify(f, "bob", "lab", change("members_to_change", member("carol", Admin)))
			}},
		{"an ADMIN becomes LEAD", "", func(f *fixture) answer {
			return modify(f, "bob", "lab", change("members_to_change", member("bob", Lead)))
		}, Authorization, "LEAD",
			func(f *fixture) answer {
				return modify(f, "alice", "lab", change("members_to_change", member("bob", Lead)))
			}},
		{"an ADMIN adds a LEAD", "", func(f *fixture) answer {
			return modify(f, "bob", "lab", change("members_to_add", member("carol", Lead)))
		}, Authorization, "LEAD",
			func(f *fixture) answer {
				return modify(f, "bob", "lab", change("members_to_add", member("carol", Admin)))
			}},
		{"an ADMIN removes the LEAD", "", func(f *fixture) answer { return modify(f, "bob", "lab", change("members_to_remove", userURN("alice"))) }, Authorization, "LEAD",
			func(f *fixture) answer { return modify(f, "alice", "lab", change("members_to_remove", userURN("bob"))) }},
		{"an ADMIN demotes the LEAD", "", func(f *fixture) answer {
			return modify(f, "bob", "lab", change("members_to_change", member("alice", Auditor)))
		}, Authorization, "LEAD",
			func(f *fixture) answer {
				return modify(f, "alice", "lab", change("members_to_change", member("bob", Auditor)))
			}},
		{"the last LEAD leaves", "", func(f *fixture) answer {
			return modify(f, "alice", "lab", change("members_to_remove", userURN("alice")))
		}, Argument, "needs a member with the role LEAD",
			func(f *fixture) answer { return modify(f, "bob", "lab", change("members_to_remove", userURN("bob"))) }},
		{"a MEMBER removes another while leaving", PlainMember, func(f *fixture) answer {
			return modify(f, "carol", "lab", change("members_to_remove", userURN("carol"), userURN("bob")))
		}, Authorization, "modify members", func(f *fixture) answer {
			return modify(f, "carol", "lab", change("members_to_remove", userURN("carol")))
		}},
		{"an unknown role", "", func(f *fixture) answer {
			return modify(f, "alice", "lab", change("members_to_add", member("carol", "OWNER")))
		}, Argument, "the roles are",
			func(f *fixture) answer {
				return modify(f, "alice", "lab", change("members_to_add", member("carol", "auditor")))
			}},
		{"a member of another authority", "", func(f *fixture) answer {
			return modify(f, "alice", "lab", change("members_to_add", xmlrpc.Struct{text("SLICE_MEMBER", "urn:publicid:IDN+elsewhere.org+user+alice"), text("SLICE_ROLE", "MEMBER")}))
		}, Argument, "Unknown member urn", func(f *fixture) answer {
			return modify(f, "alice", "lab", change("members_to_add", member("carol", PlainMember)))
		}},
		{"an AUDITOR renews", Auditor, func(f *fixture) answer { return renew(f, "carol", "lab", today.Add(8*24*time.Hour)) }, Authorization, "update",
			func(f *fixture) answer { return renew(f, "bob", "lab", today.Add(8*24*time.Hour)) }},
		{"renewal beyond the limit", "", func(f *fixture) answer { return renew(f, "alice", "lab", today.Add(LongestLease+time.Second)) }, Argument, "too late",
			func(f *fixture) answer { return renew(f, "alice", "lab", today.Add(LongestLease)) }},
		{"an earlier end", "", func(f *fixture) answer { return renew(f, "alice", "lab", today.Add(FirstLease-time.Second)) }, Argument, "cannot expire earlier",
			func(f *fixture) answer { return renew(f, "alice", "lab", today.Add(FirstLease)) }},
		{"a key for another member", "", func(f *fixture) answer {
			return create1(f, "carol", "KEY", text("KEY_MEMBER", userURN("bob")), text("KEY_PUBLIC", keyLine))
		}, Authorization, "themselves",
			func(f *fixture) answer {
				return create1(f, "carol", "KEY", text("KEY_MEMBER", userURN("carol")), text("KEY_PUBLIC", keyLine))
			}},
		{"a key with options", "", func(f *fixture) answer {
			return create1(f, "carol", "KEY", text("KEY_MEMBER", userURN("carol")), text("KEY_PUBLIC", `command="x" `+keyLine))
		}, Argument, "one public SSH key",
			func(f *fixture) answer {
				return create1(f, "carol", "KEY", text("KEY_MEMBER", userURN("carol")), text("KEY_PUBLIC", keyLine+" command"))
			}},
		{"two keys in one", "", func(f *fixture) answer {
			return create1(f, "carol", "KEY", text("KEY_MEMBER", userURN("carol")), text("KEY_PUBLIC", keyLine+"\n"+strings.Replace(keyLine, "JGk", "JGl", 1)))
		}, Argument, "one public SSH key", func(f *fixture) answer {
			return create1(f, "carol", "KEY", text("KEY_MEMBER", userURN("carol")), text("KEY_PUBLIC", keyLine+"\n\n"))
		}},
		{"a private key", "", func(f *fixture) answer {
			return create1(f, "carol", "KEY", text("KEY_MEMBER", userURN("carol")), text("KEY_PUBLIC", keyLine), text("KEY_PRIVATE", "x"))
		}, Argument, "KEY_PRIVATE cannot be set",
			func(f *fixture) answer {
				return create1(f, "carol", "KEY", text("KEY_MEMBER", userURN("carol")), text("KEY_PUBLIC", keyLine), text("KEY_TYPE", "x"))
			}},
		{"another member's key deleted", "", func(f *fixture) answer {
			return f.call("carol", "/ma/2", "delete", "KEY", firstKey(f, "bob"), none, xmlrpc.Struct{})
		}, Authorization, "themselves",
			func(f *fixture) answer {
				return f.call("bob", "/ma/2", "delete", "KEY", firstKey(f, "bob"), none, xmlrpc.Struct{})
			}},
		{"another member's record changed", "", func(f *fixture) answer {
			return f.call("carol", "/ma/2", "update", "MEMBER", userURN("bob"), none, options("fields", text("MEMBER_EMAIL", "carol@example.org")))
		}, Authorization, "themselves", func(f *fixture) answer {
			return f.call("carol", "/ma/2", "update", "MEMBER", userURN("carol"), none, options("fields", text("MEMBER_EMAIL", "carol@example.org")))
		}},
		{"a new URN for oneself", "", func(f *fixture) answer {
			return f.call("carol", "/ma/2", "update", "MEMBER", userURN("carol"), none, options("fields", text("MEMBER_URN", userURN("bob"))))
		}, Argument, "MEMBER_URN cannot be set", func(f *fixture) answer {
			return f.call("carol", "/ma/2", "update", "MEMBER", userURN("carol"), none, options("fields", text("MEMBER_LASTNAME", userURN("bob"))))
		}},
		{"an address with a line break", "", func(f *fixture) answer {
			return f.call("carol", "/ma/2", "update", "MEMBER", userURN("carol"), none, options("fields", text("MEMBER_EMAIL", "carol@example.org\nBcc: all@example.org")))
		}, Argument, "MEMBER_EMAIL", func(f *fixture) answer {
			return f.call("carol", "/ma/2", "update", "MEMBER", userURN("carol"), none, options("fields", text("MEMBER_EMAIL", "")))
		}},
		{"a path as the name of a slice", "", func(f *fixture) answer { return create1(f, "carol", "SLICE", text("SLICE_NAME", "../../x")) }, Argument, "cannot name a slice",
			func(f *fixture) answer { return create1(f, "carol", "SLICE", text("SLICE_NAME", "a-b")) }},
		{"a URN as the name of a slice", "", func(f *fixture) answer { return create1(f, "carol", "SLICE", text("SLICE_NAME", "x+slice+y")) }, Argument, "cannot name a slice",
			func(f *fixture) answer { return create1(f, "carol", "SLICE", text("SLICE_NAME", "slice")) }},
		{"a slice name in other letters", "", func(f *fixture) answer { return create1(f, "carol", "SLICE", text("SLICE_NAME", "LAB")) }, Duplicate, "exists until",
			func(f *fixture) answer { return create1(f, "carol", "SLICE", text("SLICE_NAME", "LAB2")) }},
		{"a slice with a URN of one's choice", "", func(f *fixture) answer {
			return create1(f, "carol", "SLICE", text("SLICE_NAME", "x"), text("SLICE_URN", sliceURN("lab")))
		}, Argument, "SLICE_URN cannot be set",
			func(f *fixture) answer {
				return create1(f, "carol", "SLICE", text("SLICE_NAME", "x"), text("SLICE_DESCRIPTION", sliceURN("lab")))
			}},
		{"a slice that has ended", "", func(f *fixture) answer {
			return create1(f, "carol", "SLICE", text("SLICE_NAME", "x"), text("SLICE_EXPIRATION", "2026-11-23T12:00:00Z"))
		}, Argument, "in the past",
			func(f *fixture) answer {
				return create1(f, "carol", "SLICE", text("SLICE_NAME", "x"), text("SLICE_EXPIRATION", "2026-11-23T12:00:01Z"))
			}},
		{"a slice in a project of others", "", func(f *fixture) answer {
			create1(f, "alice", "PROJECT", text("PROJECT_NAME", "course"))
			return create1(f, "carol", "SLICE", text("SLICE_NAME", "x"), text("SLICE_PROJECT_URN", "urn:publicid:IDN+example.org+project+course"))
		}, Authorization, "create slices in it", func(f *fixture) answer {
			create1(f, "carol", "PROJECT", text("PROJECT_NAME", "course"))
			return create1(f, "carol", "SLICE", text("SLICE_NAME", "x"), text("SLICE_PROJECT_URN", "urn:publicid:IDN+example.org+project+course"))
		}},
		{"a project with a colon", "", func(f *fixture) answer { return create1(f, "carol", "PROJECT", text("PROJECT_NAME", "a:b")) }, Argument, "cannot name a project",
			func(f *fixture) answer { return create1(f, "carol", "PROJECT", text("PROJECT_NAME", "a-b")) }},
		{"a project of others deleted", "", func(f *fixture) answer {
			create1(f, "alice", "PROJECT", text("PROJECT_NAME", "course"))
			return f.call("carol", "/sa/2", "delete", "PROJECT", "urn:publicid:IDN+example.org+project+course", none, xmlrpc.Struct{})
		}, Authorization, "delete", func(f *fixture) answer {
			create1(f, "carol", "PROJECT", text("PROJECT_NAME", "course"))
			return f.call("carol", "/sa/2", "delete", "PROJECT", "urn:publicid:IDN+example.org+project+course", none, xmlrpc.Struct{})
		}},
		{"a sliver recorded in a slice of others", "", func(f *fixture) answer { return create1(f, "carol", "SLIVER_INFO", sliver("lab", "1")...) }, Authorization, "SLICE",
			func(f *fixture) answer { return create1(f, "bob", "SLIVER_INFO", sliver("lab", "1")...) }},
		{"an AUDITOR records a sliver", Auditor, func(f *fixture) answer { return create1(f, "carol", "SLIVER_INFO", sliver("lab", "1")...) }, Authorization, "create",
			func(f *fixture) answer { return create1(f, "bob", "SLIVER_INFO", sliver("lab", "1")...) }},
		{"the record of a sliver of others deleted", "", func(f *fixture) answer {
			create1(f, "alice", "SLIVER_INFO", sliver("lab", "1")...)
			return f.call("carol", "/sa/2", "delete", "SLIVER_INFO", "urn:publicid:IDN+elsewhere.org+sliver+1", none, xmlrpc.Struct{})
		}, Argument, "Unknown sliver urn", func(f *fixture) answer {
			create1(f, "alice", "SLIVER_INFO", sliver("lab", "1")...)
			return f.call("bob", "/sa/2", "delete", "SLIVER_INFO", "urn:publicid:IDN+elsewhere.org+sliver+1", none, xmlrpc.Struct{})
		}},
		{"a certificate that another key replaced", "", func(f *fixture) answer {
			old := f.chain("carol")
			f.replaceUser("carol")
			return f.callWith(old, "/ma/2", "lookup", "MEMBER", none, xmlrpc.Struct{})
		}, Authentication, "not the certificate", func(f *fixture) answer {
			f.replaceUser("carol")
			return f.call("carol", "/ma/2", "lookup", "MEMBER", none, xmlrpc.Struct{})
		}},
		{"the same name at another authority", "", func(f *fixture) answer { return f.call("eve", "/ma/2", "lookup", "MEMBER", none, xmlrpc.Struct{}) }, Authentication, "elsewhere.org",
			func(f *fixture) answer { return f.call("alice", "/ma/2", "lookup", "MEMBER", none, xmlrpc.Struct{}) }},
		{"no certificate", "", func(f *fixture) answer { return f.call("nobody", "/ma/2", "lookup", "MEMBER", none, xmlrpc.Struct{}) }, Authentication, "no certificate",
			func(f *fixture) answer { return f.call("nobody", "/ma/2", "get_version") }},
		{"a removed member", "", func(f *fixture) answer {
			if err := f.Remove("carol", f.now); err != nil {
				f.t.Fatal(err)
			}
			return f.call("carol", "/ma/2", "lookup", "MEMBER", none, xmlrpc.Struct{})
		}, Authentication, "any more", func(f *fixture) answer {
			if err := f.Remove("bob", f.now); err != nil {
				f.t.Fatal(err)
			}
			return f.call("carol", "/ma/2", "lookup", "MEMBER", none, xmlrpc.Struct{})
		}},
		{"a tool in its own name", "", func(f *fixture) answer { return f.call("portal", "/ma/2", "lookup", "MEMBER", none, xmlrpc.Struct{}) }, Authentication, "no user",
			func(f *fixture) answer {
				c, o := speak(f, "carol", "carol", tool, f.now.Add(time.Hour))
				return f.call("portal", "/ma/2", "lookup", "MEMBER", c, o)
			}},
		{"a permission of another user", "", func(f *fixture) answer {
			c, o := speak(f, "carol", "alice", tool, f.now.Add(time.Hour))
			return f.call("portal", "/sa/2", "get_credentials", sliceURN("lab"), c, o)
		}, Authentication, "speak for", func(f *fixture) answer {
			c, o := speak(f, "alice", "alice", tool, f.now.Add(time.Hour))
			return f.call("portal", "/sa/2", "get_credentials", sliceURN("lab"), c, o)
		}},
		{"an expired permission", "", func(f *fixture) answer {
			c, o := speak(f, "alice", "alice", tool, f.now.Add(-time.Hour))
			return f.call("portal", "/ma/2", "lookup", "MEMBER", c, o)
		}, Authentication, "expired", func(f *fixture) answer {
			c, o := speak(f, "alice", "alice", tool, f.now.Add(time.Hour))
			o[0].Name = "geni_speaking_for"
			return f.call("portal", "/ma/2", "lookup", "MEMBER", c, o)
		}},
		{"a user speaks for another user", "", func(f *fixture) answer {
			c, o := speak(f, "alice", "alice", "example.org/users/carol.pem", f.now.Add(time.Hour))
			return f.call("carol", "/sa/2", "get_credentials", sliceURN("lab"), c, o)
		}, Authentication, "neither a tool", func(f *fixture) answer { return credentialFor(f, "alice", "lab") }},
		{"a tool of another authority", "", func(f *fixture) answer {
			c, o := speak(f, "alice", "alice", "elsewhere.org/tools/portal.pem", f.now.Add(time.Hour))
			return f.callWith([][]byte{f.read("elsewhere.org", "tools", "portal.pem")[0].Raw, f.read("elsewhere.org", "ma.pem")[0].Raw}, "/ma/2", "lookup", "MEMBER", c, o)
		}, Authentication, "not of the authority", func(f *fixture) answer {
			c, o := speak(f, "alice", "alice", tool, f.now.Add(time.Hour))
			return f.call("portal", "/ma/2", "lookup", "MEMBER", c, o)
		}},
		{"an expired slice", "", func(f *fixture) answer { f.now = today.Add(FirstLease); return credentialFor(f, "alice", "lab") }, Argument, "Unknown slice urn",
			func(f *fixture) answer {
				f.now = today.Add(FirstLease - time.Second)
				return credentialFor(f, "alice", "lab")
			}},
		{"an old member of a slice that was created again", PlainMember, func(f *fixture) answer {
			f.now = today.Add(FirstLease)
			f.createSlice("bob", "lab")
			return credentialFor(f, "carol", "lab")
		}, Authorization, "get a credential", func(f *fixture) answer {
			f.now = today.Add(FirstLease)
			f.createSlice("bob", "lab")
			return credentialFor(f, "bob", "lab")
		}},
		{"an AUDITOR deletes the record of a sliver", Auditor, func(f *fixture) answer {
			create1(f, "alice", "SLIVER_INFO", sliver("lab", "1")...)
			return f.call("carol", "/sa/2", "delete", "SLIVER_INFO", "urn:publicid:IDN+elsewhere.org+sliver+1", none, xmlrpc.Struct{})
		}, Authorization, "delete", func(f *fixture) answer {
			create1(f, "alice", "SLIVER_INFO", sliver("lab", "1")...)
			return f.call("carol", "/sa/2", "lookup", "SLIVER_INFO", none, options("match", text("SLIVER_INFO_SLICE_URN", sliceURN("lab"))))
		}},
		{"too many values in two conditions", "", func(f *fixture) answer {
			return f.call("carol", "/ma/2", "lookup", "MEMBER", none, options("match", text("MEMBER_URN", make1(maxMatched-1)), text("MEMBER_UID", make1(2))))
		}, Argument, "more than 1000", func(f *fixture) answer {
			return f.call("carol", "/ma/2", "lookup", "MEMBER", none, options("match", text("MEMBER_URN", make1(maxMatched-1)), text("MEMBER_UID", make1(1))))
		}},
		{"too many values to match", "", func(f *fixture) answer {
			return f.call("carol", "/ma/2", "lookup", "MEMBER", none, options("match", text("MEMBER_URN", make1(maxMatched+1))))
		}, Argument, "more than 1000", func(f *fixture) answer {
			return f.call("carol", "/ma/2", "lookup", "MEMBER", none, options("match", text("MEMBER_URN", make1(maxMatched))))
		}},
		{"a long description", "", func(f *fixture) answer {
			return create1(f, "carol", "SLICE", text("SLICE_NAME", "x"), text("SLICE_DESCRIPTION", strings.Repeat("x", maxText+1)))
		}, Argument, "at most 1000 bytes", func(f *fixture) answer {
			return create1(f, "carol", "SLICE", text("SLICE_NAME", "x"), text("SLICE_DESCRIPTION", strings.Repeat("x", maxText)))
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			for _, isAttack := range []bool{false, true} {
				f := newFixture(t)
				f.createSlice("alice", "lab")
				f.add("lab", "bob", Admin)
				if x.carol != "" {
					f.add("lab", "carol", x.carol)
				}
				if !isAttack {
					if a := x.neighbour(f); a.code != None {
						t.Errorf("the neighbour is refused: %s", a.output)
					}
					continue
				}
				if a := x.attack(f); a.code != x.code || !strings.Contains(a.output, x.says) {
					t.Errorf("code %d, %q; want %d, %q", a.code, a.output, x.code, x.says)
				}
			}
		})
	}
}

func make1(n int) (list []xmlrpc.Value) {
	for i := range n {
		list = append(list, userURN(fmt.Sprint("u", i)))
	}
	return list
}

// replaceUser gives a user another certificate, as after the loss of the folder users.
func (f *fixture) replaceUser(name string) {
	f.t.Helper()
	for _, extension := range []string{".pem", ".pub"} {
		if err := os.Remove(filepath.Join(f.dir, "example.org", "users", name+extension)); err != nil {
			f.t.Fatal(err)
		}
	}
	if _, err := f.UserWithKeys(name, []byte(keyLine), f.now); err != nil {
		f.t.Fatal(err)
	}
}

// TestCredentialsHaveThePrivilegesOfTheRole asks an authorizer, as an aggregate does.
func TestCredentialsHaveThePrivilegesOfTheRole(t *testing.T) {
	f := newFixture(t)
	f.createSlice("alice", "lab")
	z := f.serviceConfig().Identify
	for _, x := range []struct {
		role    Role
		allowed []credentials.Right
		refused []credentials.Right
	}{
		{Admin, []credentials.Right{credentials.RightAllocate, credentials.RightShutdown, credentials.RightStatus}, nil},
		{PlainMember, []credentials.Right{credentials.RightAllocate, credentials.RightRenew, credentials.RightStatus, credentials.RightDelete}, []credentials.Right{credentials.RightShutdown}},
		{Auditor, []credentials.Right{credentials.RightStatus, credentials.RightDescribe}, []credentials.Right{credentials.RightAllocate, credentials.RightDelete, credentials.RightRenew, credentials.RightShutdown}},
	} {
		f.add("lab", "bob", x.role)
		list := f.must("bob", "/sa/2", "get_credentials", sliceURN("lab"), none, xmlrpc.Struct{}).([]xmlrpc.Value)
		doc, _ := list[0].(xmlrpc.Struct).Get("geni_value")
		p := []credentials.Presented{{Type: "geni_sfa", Version: "3", Text: doc.(string)}}
		caller := z.Identify(f.chain("bob"), f.now)
		for i, right := range append(x.allowed, x.refused...) {
			if _, err := z.Authorize(caller, p, "", right, f.now); (err == nil) != (i < len(x.allowed)) {
				t.Errorf("%s: %s: %v", x.role, right, err)
			}
			if _, err := z.Authorize(caller, p, "", right, today.Add(FirstLease+time.Second)); err == nil {
				t.Errorf("%s: %s after the end of the slice", x.role, right)
			}
		}
		f.must("alice", "/sa/2", "modify_membership", "SLICE", sliceURN("lab"), none, change("members_to_remove", userURN("bob")))
	}
}

// TestLimitsOfMembers reaches each limit of records, and then succeeds again below it.
func TestLimitsOfMembers(t *testing.T) {
	f := newFixture(t)
	for i := range maxSlices {
		f.createSlice("alice", fmt.Sprint("s", i))
	}
	if a := create1(f, "alice", "SLICE", text("SLICE_NAME", "more")); a.code != Argument || !strings.Contains(a.output, "the limit") {
		t.Errorf("slice %d: %v", maxSlices+1, a)
	}
	f.createSlice("bob", "more")
	f.now = today.Add(FirstLease)
	f.createSlice("alice", "more-again")
	for i := range maxProjects {
		f.must("alice", "/sa/2", "create", "PROJECT", none, options("fields", text("PROJECT_NAME", fmt.Sprint("p", i))))
	}
	if a := create1(f, "alice", "PROJECT", text("PROJECT_NAME", "more")); a.code != Argument {
		t.Errorf("project %d: %v", maxProjects+1, a)
	}
	key := func(i int) xmlrpc.Member {
		return text("KEY_PUBLIC", strings.Replace(keyLine, "JGk", fmt.Sprintf("J%02d", i), 1))
	}
	for i := range maxKeys - 1 { // the command has written one
		f.must("alice", "/ma/2", "create", "KEY", none, options("fields", key(i), text("KEY_MEMBER", userURN("alice"))))
	}
	if a := create1(f, "alice", "KEY", key(99), text("KEY_MEMBER", userURN("alice"))); a.code != Argument {
		t.Errorf("key %d: %v", maxKeys+1, a)
	}
}

// TestHostileBodies expects a fault or a refusal, and no work.
func TestHostileBodies(t *testing.T) {
	f := newFixture(t)
	for name, body := range map[string]string{
		"no XML":           "x",
		"a document type":  "<!DOCTYPE x><methodCall/>",
		"deep":             "<methodCall><methodName>lookup</methodName><params><param>" + strings.Repeat("<value><array><data>", 5000),
		"many values":      "<methodCall><methodName>lookup</methodName><params><param><value><array><data>" + strings.Repeat("<value>x</value>", 60_000) + "</data></array></value></param></params></methodCall>",
		"too many params":  "<methodCall><methodName>get_version</methodName><params>" + strings.Repeat("<param><value><int>1</int></value></param>", 9) + "</params></methodCall>",
		"a wrong argument": "<methodCall><methodName>lookup</methodName><params><param><value><int>1</int></value></param><param><value>x</value></param><param><value>x</value></param></params></methodCall>",
	} {
		got := f.send("alice", "/sa/2", []byte(body))
		if !bytes.Contains(got, []byte("<fault>")) && !bytes.Contains(got, []byte("ARGUMENT_ERROR")) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
