package agent

import (
	"slices"
	"strings"
	"testing"
)

func TestParseSudo(t *testing.T) {
	for _, tt := range []struct {
		rule string
		line string
		want sudoOptions // the fields compared below
	}{
		{"CommandAndItsOptions", "ls -u x", sudoOptions{user: "root", command: []string{"ls", "-u", "x"}}},
		{"FlagsTogether", "-nEH id", sudoOptions{user: "root", keepAll: true, setHome: true, command: []string{"id"}}},
		{"ValueInTheSameWord", "-Hualice id", sudoOptions{user: "alice", setHome: true, command: []string{"id"}}},
		{"LongOptions", "--user=alice --set-home --preserve-env=A,B -- id", sudoOptions{user: "alice", setHome: true, keep: []string{"A", "B"}, command: []string{"id"}}},
		{"Variables", "A=1 B= id C=2", sudoOptions{user: "root", set: []string{"A=1", "B="}, command: []string{"id", "C=2"}}},
		{"NoVariable", "1A=1 id", sudoOptions{user: "root", command: []string{"1A=1", "id"}}},
		{"LoginShell", "-i", sudoOptions{user: "root", login: true}},
		{"Passwords", "-S -p prompt -k id", sudoOptions{user: "root", command: []string{"id"}}},
		{"NothingToRun", "-v", sudoOptions{user: "root", isNoop: true}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			o, err := parseSudo(strings.Fields(tt.line))
			if err != nil {
				t.Fatal(err)
			}
			if o.user != tt.want.user || o.keepAll != tt.want.keepAll || o.setHome != tt.want.setHome ||
				o.login != tt.want.login || o.isNoop != tt.want.isNoop || !slices.Equal(o.keep, tt.want.keep) || !slices.Equal(o.set, tt.want.set) || !slices.Equal(o.command, tt.want.command) {
				t.Errorf("%+v\nwant %+v", *o, tt.want)
			}
		})
	}
	for _, line := range []string{"", "-u", "-X id", "--nothing=H id", "-g lab id", "-l", "A=1", "-u alice"} {
		if _, err := parseSudo(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), "usage: sudo") {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestIsSudoer(t *testing.T) {
	carol := account{name: "carol", uid: 2000, gid: 2000, groups: []uint32{2001}}
	for _, tt := range []struct {
		text string
		want bool
	}{
		{"# of the lab\n\ncarol ALL=(ALL) NOPASSWD:ALL # all\n", true},
		{"carol  ALL = (ALL:ALL) NOPASSWD: ALL", true},
		{"carol\tALL=(ALL) NOPASSWD:ALL", true},
		{"%lab ALL=(ALL) NOPASSWD:ALL", true},
		{"%wheel ALL=(ALL) NOPASSWD:ALL", false},
		{"lab ALL=(ALL) NOPASSWD:ALL", false},
		{"carol ALL=(ALL) ALL", false},
		{"carol ALL=(ALL) NOPASSWD:/bin/ls", false},
		{"carol ALL=(bob) NOPASSWD:ALL", false},
		{"#carol ALL=(ALL) NOPASSWD:ALL", false},
		{"caro ALL=(ALL) NOPASSWD:ALL", false},
		{"carol ALL=(ALL) NOPASSWD:ALL\ncarol ALL=(ALL) !ALL", false},
		{"carol ALL=(ALL) NOPASSWD:ALL\ncarol ALL=(bob) /bin/ls\nbob ALL=(ALL) !ALL", true},
	} {
		if got := isSudoer([]byte(tt.text), []byte("lab:x:2001:carol\nwheel:x:2002:\n"), carol); got != tt.want {
			t.Errorf("%q: %v", tt.text, got)
		}
	}
}

func FuzzParseSudo(f *testing.F) {
	f.Add("-u\x00alice\x00A=1\x00id")
	f.Fuzz(func(t *testing.T, text string) {
		o, err := parseSudo(strings.Split(text, "\x00"))
		if err == nil && len(o.command) == 0 && !o.shell && !o.login && !o.isNoop {
			t.Errorf("%q runs nothing", text)
		}
	})
}

// With sudo -i and -s a shell must parse the same arguments again.
func TestEscaped(t *testing.T) {
	n := newNode(t)
	words := []string{"printf", "%s|", "a b", "'", `"`, "~", "*", "\n", "-", "ä", "$((1+1))"}
	if got, want := n.line("root", escaped(words)), "a b|'|\"|~|*|\n|-|ä|$((1+1))|"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
