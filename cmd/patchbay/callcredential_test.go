package main

import (
	"strings"
	"testing"
)

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
