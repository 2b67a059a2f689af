package agent

import (
	"os"
	"strings"
	"testing"
)

func TestExec(t *testing.T) {
	n := newNode(t)
	for _, c := range []struct {
		rule string
		cmd  Command
		want string
		exit Exit
	}{
		{"LineGoesToTheShell", Command{User: "bob", Line: "echo $0 one  two"}, "bash one two\n", Exit{}},
		{"StatusIsTold", Command{User: "bob", Line: "exit 7"}, "", Exit{Status: 7}},
		{"SignalIsTold", Command{User: "bob", Line: "kill -USR1 $$"}, "", Exit{138, 10}},
		{"UserGroupsOfTheNode", Command{User: "bob", Line: "id"}, "uid=1001(bob) gid=1001(bob) groups=1001(bob),700(lab)\n", Exit{}},
		{"RootIsRoot", Command{User: "root", Line: "id -u; pwd; echo $PATH"}, "0\n/root\n" + rootPath + "\n", Exit{}},
		{"Environment", Command{User: "bob", Line: "echo $HOME $USER $LOGNAME $SHELL $PATH $LANG $MAIL"},
			"/home/bob bob bob /bin/bash " + userPath + " C.UTF-8\n", Exit{}},
		{"EnvironmentIsAdded", Command{User: "bob", Line: "echo $A $LANG", Env: []string{"A=1=2", "LANG=de"}}, "1=2 de\n", Exit{}},
		{"StartsInTheHome", Command{User: "bob", Line: "pwd"}, "/home/bob\n", Exit{}},
		{"WithoutHomeInTheRoot", Command{User: "sh", Line: "pwd"}, "/\n", Exit{}},
		{"ProgramWithoutShell", Command{User: "bob", Argv: []string{"/bin/echo", "$HOME", "a b"}}, "$HOME a b\n", Exit{}},
		{"OwnProgramUnderAnotherName", Command{User: "bob", Self: []string{selfName, "a", "b"}, Env: []string{"GOCOVERDIR=/tmp"}}, selfName + " a b 1001\n", Exit{}},
		{"LeadsItsSession", Command{User: "bob", Argv: []string{"/usr/bin/perl", "-e", `open F, "/proc/$$/stat"; @f = split " ", <F>; print "leads\n" if $f[4] == $$ && $f[5] == $$`}}, "leads\n", Exit{}},
		{"OomScoreIsReset", Command{User: "bob", Line: "cat /proc/self/oom_score_adj"}, "0\n", Exit{}},
		{"NoDescriptorsOfTheAgent", Command{User: "root", Argv: []string{"/bin/ls", "/proc/self/fd"}}, "0\n1\n2\n3\n", Exit{}},
		{"NoSignalsIgnored", Command{User: "bob", Line: "grep -E 'Sig(Ign|Blk)' /proc/self/status"},
			"SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n", Exit{}},
		{"NotTraced", Command{User: "bob", Line: "grep TracerPid /proc/self/status"}, "TracerPid:\t0\n", Exit{}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			text, exit := (&node{t: t, path: n.path}).run(c.cmd)
			if text != c.want || exit != c.exit {
				t.Errorf("got %q, %+v; want %q, %+v", text, exit, c.want, c.exit)
			}
		})
	}
}

func TestTerminal(t *testing.T) {
	n := newNode(t)
	p, err := Exec(t.Context(), n.dial(), Command{User: "bob", Line: "tty; stty size; echo $TERM $SSH_TTY; stat -c '%u %g %a' $(tty)",
		Terminal: &Terminal{Name: "xterm", Rows: 33, Cols: 101}}, nil)
	check(t, err)
	defer p.Close()
	text, err := readAll(p.Terminal)
	check(t, err)
	if want := "/dev/pts/0\r\n33 101\r\nxterm /dev/pts/0\r\n1001 5 620\r\n"; text != want {
		t.Errorf("got %q, want %q", text, want)
	}
	if exit, err := p.Wait(); err != nil || exit != (Exit{}) {
		t.Error(exit, err)
	}
}

func TestExecRefuses(t *testing.T) {
	n := newNode(t)
	for _, c := range []struct {
		rule string
		cmd  Command
		want string
	}{
		{"UnknownAccount", Command{User: "nobody-here", Line: "true"}, "no account"},
		{"EmptyAccount", Command{Line: "true"}, "no account"},
		{"RelativeProgram", Command{User: "bob", Argv: []string{"ls"}}, "absolute path"},
		{"MissingProgram", Command{User: "bob", Argv: []string{"/bin/no-such-program"}}, "no such file"},
		{"ZeroByte", Command{User: "bob", Line: "echo \x00"}, "zero byte"},
		{"Variable", Command{User: "bob", Line: "true", Env: []string{"A B=1"}}, "not an environment variable"},
		{"VariableWithoutValue", Command{User: "bob", Line: "true", Env: []string{"A"}}, "not an environment variable"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			n := &node{t: t, path: n.path}
			r, w := n.pipe()
			_, err := Exec(t.Context(), n.dial(), c.cmd, []*os.File{r, w, w})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
