package operator

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"patchbay/am/follow/audit"
	"patchbay/am/site/operate"
)

func TestPastMoment(t *testing.T) {
	want := time.Date(2026, 11, 20, 13, 5, 0, 0, time.UTC)
	for _, text := range []string{
		"2026-11-20T13:05:00Z", "2026-11-20T14:05:00+01:00", "2026-11-20 14:05 +0100", "2026-11-20 14:05:00 +01:00", "2026-11-20 13:05 UTC",
		"2026-11-20 13:05 GMT", "2026-11-20T13:05Z", "2026-11-20T14:05+0100", "2026-11-20T13:05:00.000Z", " 1795179900 ",
	} {
		if got, err := operate.ParseTime(text); err != nil || !got.Equal(want) {
			t.Errorf("%q is %s, %v", text, got, err)
		}
	}
	for text, word := range map[string]string{
		"2026-11-20 14:05": "zone", "2026-11-20T14:05:00": "zone", "2026-11-20": "zone", "yesterday": "is not a time", "": "is not a time", "-5": "is not a time",
		"0": "is not a time", "2026-13-20T14:05:00Z": "is not a time", "99999999999999999999": "is not a time",
	} {
		_, err := operate.ParseTime(text)
		if err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v, want %q", text, err, word)
		}
	}
}

// TestWhoAnswers compares each kind of answer of who with its text.
func TestWhoAnswers(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	alice := audit.Holder{
		Sliver: "urn:publicid:IDN+example.org+sliver+1", Slice: "urn:publicid:IDN+example.org+slice+s", User: "urn:publicid:IDN+example.org+user+alice",
		Speaker: "urn:publicid:IDN+example.org+tool+portal", Component: "urn:publicid:IDN+example.org+node+pc1",
		As: []string{"198.51.100.7:40000-40127"}, Since: noon, Request: "0011223344556677",
		Call: &audit.Line{At: "2026-11-20T11:59:00.000Z", ID: "0011223344556677", Method: "Allocate", Remote: "192.0.2.9:5000", Caller: "urn:publicid:IDN+example.org+user+alice", Credentials: []string{"f00d"}},
	}
	bob := alice
	bob.User, bob.Speaker, bob.Call = "urn:publicid:IDN+example.org+user+b\x1b[2J", "", nil
	bob.Seen, bob.Until, bob.Maybe = noon.Add(time.Hour), noon.Add(2*time.Hour), true
	for _, c := range []struct {
		rule   string
		answer audit.Answer
		want   string
	}{
		{"two who share an address", audit.Answer{Place: "198.51.100.7", At: noon.Add(90 * time.Minute), Holders: []audit.Holder{alice, bob}, Shared: true, More: 1}, `198.51.100.7 at 2026-11-20T13:30:00Z:

  slice        urn:publicid:IDN+example.org+slice+s
  user         urn:publicid:IDN+example.org+user+alice
  speaker      urn:publicid:IDN+example.org+tool+portal
  sliver       urn:publicid:IDN+example.org+sliver+1
  component    urn:publicid:IDN+example.org+node+pc1
  as           198.51.100.7:40000-40127
  since        2026-11-20T12:00:00Z
  until        now
  reserved by  Allocate, request 0011223344556677, at 2026-11-20T11:59:00.000Z, from 192.0.2.9:5000
  credential   SHA-256 f00d

  slice        urn:publicid:IDN+example.org+slice+s
  user         urn:publicid:IDN+example.org+user+b` + "\uFFFD" + `[2J
  sliver       urn:publicid:IDN+example.org+sliver+1
  component    urn:publicid:IDN+example.org+node+pc1
  as           198.51.100.7:40000-40127
  since        2026-11-20T12:00:00Z
  until        some time between 2026-11-20T13:00:00Z and 2026-11-20T14:00:00Z, when no lines were written
               It may have ended before the given time, or begun after it.
  reserved by  request 0011223344556677, which is not in these files

and 1 sliver more.

They shared 198.51.100.7 with different ports. Ask the person who complained for the source
port, and add it: 198.51.100.7:PORT
`},
		{"nobody", audit.Answer{Place: "198.51.100.7", At: noon, From: noon.Add(time.Hour), To: noon.Add(2 * time.Hour)}, `No sliver had 198.51.100.7 at 2026-11-20T12:00:00Z.
The audit covers 2026-11-20T13:00:00Z to 2026-11-20T14:00:00Z.
The given time is before that; give the archived audit files as arguments.
`},
		{"a name", audit.Answer{Place: "pc1.example.org", At: noon, From: noon, To: noon.Add(time.Hour)}, `No sliver had pc1.example.org at 2026-11-20T12:00:00Z.
The audit covers 2026-11-20T12:00:00Z to 2026-11-20T13:00:00Z.
pc1.example.org is not an IP address; it was compared with the host names of logins.
`},
		{"no audit", audit.Answer{Place: "198.51.100.7", At: noon}, "No user of 198.51.100.7 is known: there is no audit yet.\n"},
	} {
		place, err := audit.ParsePlace(c.answer.Place)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		printAnswer(&out, &c.answer, place)
		if out.String() != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.rule, out.String(), c.want)
		}
	}
}
