package agent

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// withoutBlocks removes the testbed's blocks from text in a simple way.
func withoutBlocks(text []byte) string {
	var kept []string
	lines := strings.SplitAfter(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		switch strings.TrimSpace(lines[i]) {
		case beginMark:
			for j := i + 1; j < len(lines); j++ {
				if mark := strings.TrimSpace(lines[j]); mark == endMark {
					i = j
					break
				} else if mark == beginMark {
					break
				}
			}
		case endMark:
		default:
			kept = append(kept, lines[i])
		}
	}
	return strings.Join(kept, "")
}

func FuzzSetBlock(f *testing.F) {
	f.Add([]byte("127.0.0.1 localhost\n"), "1.2.3.4 a\n5.6.7.8 b")
	f.Add([]byte("a\n"+beginMark+"\nold\n"+endMark+"\nb"), "new")
	f.Add([]byte(beginMark+"\n"+beginMark+"\nx\n"+endMark+"\n"+endMark), "")
	f.Add([]byte("no end of line"), "x")
	f.Add([]byte("  "+endMark+"  \r\n"+beginMark), "x")
	f.Fuzz(func(t *testing.T, text []byte, joined string) {
		var lines []string
		if joined != "" {
			lines = strings.Split(joined, "\n")
		}
		if checkLines("line", lines) != nil {
			return
		}
		once := setBlock(slices.Clone(text), lines)
		if again := setBlock(slices.Clone(once), lines); !bytes.Equal(again, once) {
			t.Errorf("not the same again:\n%q\n%q", once, again)
		}
		want := withoutBlocks(text)
		if got := withoutBlocks(once); got != want && got != want+"\n" && strings.ReplaceAll(got, "\n", "") != strings.ReplaceAll(want, "\n", "") {
			t.Errorf("lines of users:\n%q\nbefore\n%q", got, want)
		}
		if len(lines) == 0 && string(once) != want {
			t.Errorf("without lines %q, want %q", once, want)
		}
		block := beginMark + "\n" + strings.Join(lines, "\n") + "\n" + endMark + "\n"
		if n := strings.Count(string(once), beginMark); len(lines) > 0 && (!strings.Contains(string(once), block) || n != 1 && strings.Count(want, beginMark) == 0) {
			t.Errorf("no block, or several:\n%q", once)
		}
	})
}

func FuzzAccounts(f *testing.F) {
	f.Add([]byte(nodeFiles["etc/passwd"]), []byte(nodeFiles["etc/group"]), []byte("alice 10000\nbob 1001 gone\n"), "alice")
	f.Add([]byte("alice:x:10000:10000::/home/alice:"), []byte("alice:x:5:"), []byte("eve 10000"), "alice")
	f.Add([]byte("::::::\nx:x:4294967295:0:::\nx:x:-1:0:::\n"), []byte(":::\n"), []byte("x 1\nX 20000\n"), "x")
	f.Fuzz(func(t *testing.T, passwd, group, records []byte, login string) {
		if !isLogin(login) {
			return
		}
		files := &accountFiles{passwd: slices.Clone(passwd), shadow: nil, group: slices.Clone(group), records: parseRecords(records)}
		if again := parseRecords(printRecords(files.records)); !slices.Equal(again, files.records) {
			t.Errorf("records %v, again %v", files.records, again)
		}
		if files.addAccount(login) != nil {
			return
		}
		a, ok := findAccount(files.passwd, login)
		if !ok || a.uid < firstUserID || a.uid != files.record(login).uid {
			t.Fatalf("added, and found %+v, %v, record %+v", a, ok, files.record(login))
		}
		if !bytes.HasPrefix(files.passwd, passwd) || !bytes.HasPrefix(files.group, group) {
			t.Errorf("lines of others changed: %q", files.passwd)
		}
		before := slices.Clone(files.passwd)
		if err := files.addAccount(login); err != nil || !bytes.Equal(before, files.passwd) {
			t.Errorf("added again: %q, %v", files.passwd, err)
		}
		files.removeAccount(*files.record(login))
		if hasEntry(files.passwd, login) || hasEntry(files.shadow, login) {
			t.Errorf("removed, and still there: %q", files.passwd)
		}
	})
}

// A request is validated before anything is done.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"Op":"exec","Command":{"User":"bob","Line":"ls","Env":["A=b"],"Terminal":{"Name":"xterm","Rows":24,"Cols":80}}}`))
	f.Add([]byte(`{"Op":"configure","Configuration":{"Hostname":"a","Accounts":[{"Login":"alice","Keys":["ssh-rsa A"]}],"Hosts":["1.2.3.4 b"]}}`))
	f.Add([]byte(`{"Op":"exec","Command":{"Argv":["/bin/ls","\u0000"]}}`))
	bob := account{name: "bob", uid: 1001, gid: 1001, home: "/home/bob", shell: "/bin/bash"}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r request
		if json.Unmarshal(text, &r) != nil {
			return
		}
		if r.Command != nil {
			path, argv, env, err := commandLine(*r.Command, bob)
			if err == nil {
				names := make(map[string]bool)
				for _, v := range env {
					name, _, ok := strings.Cut(v, "=")
					if !ok || !isVariable(name) || names[name] {
						t.Errorf("environment %q", env)
					}
					names[name] = true
				}
				if path[0] != '/' || len(argv) == 0 || strings.Contains(strings.Join(append(argv, env...), ""), "\x00") {
					t.Errorf("%q %q", path, argv)
				}
			}
		}
		if c := r.Configuration; c != nil && c.Validate() == nil {
			for _, a := range c.Accounts {
				if strings.ContainsAny(a.Login, ":/\n ,.") || a.Login == "" {
					t.Errorf("login %q", a.Login)
				}
				for _, key := range a.Keys {
					if strings.ContainsAny(key, "\r\n\x00") {
						t.Errorf("key %q", key)
					}
				}
			}
		}
	})
}

func FuzzReadReply(f *testing.F) {
	f.Add([]byte("ok 3\nabc"))
	f.Add([]byte("error 3\nabc"))
	f.Add([]byte("ok 99999999999999999999\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := readReply(bytes.NewReader(text))
		if err == nil && !bytes.HasPrefix(text, []byte("ok ")) {
			t.Errorf("%q from %q", got, text)
		}
		if err != nil && !isLine(err.Error()) {
			t.Errorf("message %q", err)
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte("Name:\tsh\nState:\tT (stopped)\nPPid:\t1\nUid:\t1\t2\t3\t4\n"))
	f.Fuzz(func(t *testing.T, text []byte) { parseStatus(1, text) })
}
