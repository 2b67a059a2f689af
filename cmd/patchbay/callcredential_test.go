package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/am/xmlrpc"
)

// speaksFor has the content of an ABAC credential, unsigned.
const speaksFor = `<?xml version="1.0"?>
<signed-credential><credential xml:id="ref0"><type>abac</type><serial/><owner_gid/><target_gid/><uuid/><expires>2030-01-02T03:04:05Z</expires>
<abac><rt0><version>1.1</version><head><ABACprincipal><keyid>11</keyid></ABACprincipal><role>speaks_for_11</role></head>
<tail><ABACprincipal><keyid>22</keyid></ABACprincipal></tail></rt0></abac></credential></signed-credential>`

// TestToolSpeaksForUser proves that the credentials that a tool sends for a user have the
// right labels in version 3, none in version 2, and name the user in both.
func TestToolSpeaksForUser(t *testing.T) {
	const alice, slice = "urn:publicid:IDN+a.example.org+user+alice", "urn:publicid:IDN+a.example.org+slice+s1"
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	userCred, sliceCred := credentialFor("user", "alice"), credentialFor("slice", "s1")
	files := []string{write("tool-cert.pem", "-----BEGIN CERTIFICATE-----\n"), write("alice.xml", userCred), write("key.pub", "ssh-ed25519 AAAA alice\n")}
	sliceFile, abac := write("s1.xml", sliceCred), write("speaks.xml", speaksFor)
	request := write("request.xml", "<rspec/>")

	array := func(v ...xmlrpc.Value) []xmlrpc.Value { return append([]xmlrpc.Value{}, v...) }
	cred := func(kind, version, text string) xmlrpc.Value {
		return xmlrpc.Struct{{Name: "geni_type", Value: kind}, {Name: "geni_version", Value: version}, {Name: "geni_value", Value: text}}
	}
	speaking := xmlrpc.Member{Name: "geni_speaking_for", Value: alice}
	users := array(xmlrpc.Struct{{Name: "urn", Value: alice}, {Name: "keys", Value: array("ssh-ed25519 AAAA alice")}})
	for _, c := range []struct {
		name string
		api  int
		line string
		want []xmlrpc.Value
	}{
		{"Version3", 3, "Status", array(array(slice), array(cred("geni_sfa", "3", sliceCred), cred("geni_abac", "1", speaksFor)), xmlrpc.Struct{speaking})},
		{"Version2Users", 2, "CreateSliver " + request, array(slice, array(sliceCred, speaksFor), "<rspec/>", users, xmlrpc.Struct{speaking})},
	} {
		t.Run(c.name, func(t *testing.T) {
			for how, add := range map[string]func(*caller) error{
				"--credential": func(me *caller) error { return me.addCredential(abac) },
				"--user":       func(me *caller) error { return me.add(abac) },
			} {
				me, err := readCaller(files, sliceFile)
				if err != nil {
					t.Fatal(err)
				}
				if err := add(me); err != nil {
					t.Fatal(err)
				}
				me.speakingFor = alice
				f := strings.Fields(c.line)
				r := callRequest{api: c.api, method: f[0], args: f[1:], me: me, now: time.Now(), compile: asGiven}
				got, err := r.params()
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(c.want, got); d != "" {
					t.Errorf("%s: -want +got\n%s", how, d)
				}
			}
		})
	}

	me, err := readCaller(nil, sliceFile)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{request: "is no credential", dir + "/nothing": "no such file"} {
		if err := me.addCredential(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--credential %s: %v, want %q", file, err, want)
		}
	}
	if err := me.addCredential(abac); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, strings.Join(me.expired(time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC), false), "\n"), "the ABAC credential in "+abac+" expired on 2030-01-02")
}

func TestSpeakingForMustBeAUser(t *testing.T) {
	for u, want := range map[string]string{
		"alice": "--speaking-for", "urn:publicid:IDN+a.example.org+slice+s1": "not a user", "urn:publicid:IDN+a.example.org+user+alice": "",
	} {
		o := callOptions{SpeakingFor: u}
		err := o.Validate([]string{"Status"})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", u, err, want)
		}
	}
}

// TestVersionOfURL proves that the version is that of --api-version, else of the URL,
// else 3, and that the URL is changed to match.
func TestVersionOfURL(t *testing.T) {
	for _, c := range []struct {
		url     string
		api     int
		want    string
		wantAPI int
	}{
		{"https://am.example.org:1", 0, "https://am.example.org:1/am/3.0", 3},
		{"https://am.example.org:1/", 2, "https://am.example.org:1/am/2.0", 2},
		{"https://am.example.org:1/am/2.0", 0, "https://am.example.org:1/am/2.0", 2},
		{"https://am.example.org:1/xmlrpc/am/2.0/", 0, "https://am.example.org:1/xmlrpc/am/2.0/", 2},
		{"https://am.example.org:1/am/3.0", 2, "https://am.example.org:1/am/2.0", 2},
		{"https://am.example.org:1/am/2.0", 3, "https://am.example.org:1/am/3.0", 3},
		{"https://am.example.org:1/protogeni/xmlrpc", 2, "https://am.example.org:1/protogeni/xmlrpc", 2},
		{"https://am.example.org:1/protogeni/xmlrpc", 0, "https://am.example.org:1/protogeni/xmlrpc", 3},
	} {
		got, api, err := versionedURL(c.url, c.api)
		if err != nil || got != c.want || api != c.wantAPI {
			t.Errorf("%s with --api-version %d: %s, version %d, %v; want %s, version %d", c.url, c.api, got, api, err, c.want, c.wantAPI)
		}
	}
}
