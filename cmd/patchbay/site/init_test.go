package site

import (
	"os"
	"strings"
	"testing"

	"patchbay/am/site"
	"patchbay/am/testkit/program"
)

func TestInitAsksAtATerminalOnly(t *testing.T) {
	master, terminal := program.NewTerminal(t)
	for typed, want := range map[string]string{"y\n": "yes", " YES \n": "yes", "\n": "no", "no\n": "no", "yellow\n": "no", "\x04": "no"} {
		if _, err := master.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		if got := askOutbound(terminal, terminal); got != want {
			t.Errorf("%q means %s, want %s", typed, got, want)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if got := askOutbound(r, terminal); got != "no" {
		t.Errorf("from a pipe: %s", got)
	}
}

func TestInitListensWhereClientsCall(t *testing.T) {
	for _, c := range []struct{ rule, public, listen, want string }{
		{"the port of the public URL", "https://testbed.example.org:28443", "", "listen: \":28443\""},
		{"a public URL without port", "https://testbed.example.org", "", "listen: \":8443\""},
		{"nothing said", "", "", "listen: \":8443\""},
		{"what was asked for, as behind a forwarded port", "https://testbed.example.org:443", ":8443", "listen: \":8443\""},
	} {
		o := initOptions{Provider: "simulated", PublicURL: c.public, Listen: c.listen}
		if err := o.Validate([]string{"dir"}); err != nil {
			t.Fatalf("%s: %v", c.rule, err)
		}
		if text := string(site.ConfigText(o.Authority, o.Listen, o.PublicURL, false)); !strings.Contains(text, c.want) {
			t.Errorf("%s: no %s in\n%s", c.rule, c.want, text)
		}
	}
}
