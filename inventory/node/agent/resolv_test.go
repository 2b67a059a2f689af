package agent

import "testing"

func TestConfigurePutsTheNameServerFirst(t *testing.T) {
	n := newNode(t)
	n.line("root", "rm -f /etc/resolv.conf")
	with, without := someKeys, someKeys
	with.NameServer = "100.64.0.1"
	block := beginMark + "\nnameserver 100.64.0.1\n" + endMark + "\n"
	for _, step := range []struct {
		rule, do string
		cfg      Configuration
		want     string
	}{
		{"none, and none is made", "true", without, ""},
		{"one where there was no file", "true", with, block},
		{"what users write stays, after ours", "echo 'search example.org' >> /etc/resolv.conf", with, block + "search example.org\n"},
		{"it goes when there is none any more", "true", without, "search example.org\n"},
		{"it comes before the image's", "true", with, block + "search example.org\n"},
		{"a link to nowhere is left alone", "ln -sf /run/nowhere /etc/resolv.conf", without, ""},
		{"and replaced where it must be", "true", with, block},
	} {
		n.line("root", step.do)
		if facts := n.configure(step.cfg); len(facts.Problems) > 0 {
			t.Errorf("%s: %q", step.rule, facts.Problems)
		}
		if got := n.file("etc/resolv.conf"); got != step.want {
			t.Errorf("%s:\n%s\nwant\n%s", step.rule, got, step.want)
		}
	}
	n.line("root", "rm /etc/resolv.conf; mkdir /etc/resolv.conf")
	if facts := n.configure(with); len(facts.Problems) != 1 {
		t.Errorf("a folder in its place: %q", facts.Problems)
	}
	with.NameServer = "localhost"
	if err := with.Validate(); err == nil {
		t.Error("a name was taken for an address")
	}
}
