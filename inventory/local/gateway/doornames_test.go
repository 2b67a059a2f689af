package gateway

import "testing"

func TestNamesAndKeysOfADoor(t *testing.T) {
	d := &door{
		node: "n1", names: []string{"Web.example.org"}, inside: [][]byte{[]byte("experiment")},
		accounts: map[string][][]byte{"alice": {[]byte("key")}},
	}
	for _, tt := range []struct {
		name          string
		called, brief bool
	}{{"n1", true, false}, {"web.EXAMPLE.org", true, false}, {"WEB", false, true}, {"example.org", false, false}} {
		if d.called(tt.name) != tt.called || d.calledBriefly(tt.name) != tt.brief {
			t.Errorf("%s: %t, %t", tt.name, d.called(tt.name), d.calledBriefly(tt.name))
		}
	}
	for _, tt := range []struct {
		login, key      string
		outside, inside bool
	}{{"alice", "key", true, true}, {"alice", "experiment", false, true}, {"bob", "experiment", false, false}, {"alice", "other", false, false}} {
		if d.opens(tt.login, []byte(tt.key)) != tt.outside || d.opensInside(tt.login, []byte(tt.key)) != tt.inside {
			t.Errorf("%s with %s: %t, %t", tt.login, tt.key, d.opens(tt.login, []byte(tt.key)), d.opensInside(tt.login, []byte(tt.key)))
		}
	}
	if got := d.title() + " " + (&door{node: "n2"}).title(); got != "Web.example.org n2" {
		t.Error(got)
	}
}
