package local

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"patchbay/inventory/provider"
	"patchbay/inventory/provider/fdsocket"
)

// double answers at a socket with the result of f, once for each connection.
func double(t *testing.T, f func(c *fdsocket.Conn, r Request)) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "x.sock")
	l, err := fdsocket.Listen(socket, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conn := fdsocket.New(c.(*net.UnixConn))
			var r Request
			if _, err := conn.Receive(&r, MaxRequest, 0); err == nil {
				f(conn, r)
			}
			conn.Close()
		}
	}()
	return socket
}

func TestCallsOfTheProvider(t *testing.T) {
	echo := func(c *fdsocket.Conn, r Request) {
		_ = c.Send(Answer{Output: json.RawMessage(`{"did":"` + r.Action + `","with":` + string(r.Input) + `}`)})
	}
	for _, tt := range []struct {
		rule, argument, input, settings string
		answer                          func(c *fdsocket.Conn, r Request)
		out, stderr, err                string
	}{
		{rule: "get passes through", argument: "ral_action=get", input: `{"names": []}`, answer: echo, out: `{"did":"get","with":{"names":[]}}`},
		{rule: "set passes through", argument: "ral_action=set", input: `{"updates":[]}`, answer: echo, out: `{"did":"set","with":{"updates":[]}}`},
		{
			rule: "nobody there", argument: "ral_action=get", input: "{}",
			out:    `{"error":{"kind":"failed","message":"the local testbed of this site does not run; the log of the site says how operators start it"}}`,
			stderr: "start it as root: ",
		},
		{
			rule: "it dies", argument: "ral_action=get", input: "{}", answer: func(*fdsocket.Conn, Request) {},
			out:    `{"error":{"kind":"failed","message":"the local testbed of this site does not run; the log of the site says how operators start it"}}`,
			stderr: "error: the testbed does not run: it ended before it answered at ",
		},
		{
			rule: "it says no", argument: "ral_action=get", input: "{}",
			answer: func(c *fdsocket.Conn, r Request) { _ = c.Send(Answer{Error: "no room in /var"}) },
			out:    `{"error":{"kind":"failed","message":"the local testbed of this site could not answer; ask its operators to look into the log"}}`,
			stderr: "error: the testbed local: no room in /var\n",
		},
		{
			rule: "wrong settings", argument: "ral_action=get", input: "{}", settings: "publish: all",
			out:    `{"error":{"kind":"failed","message":"the local testbed of this site is not set up; ask its operators to look into the log"}}`,
			stderr: "error: local.yaml:1: publish is \"all\"; there are both, direct, gateway\n",
		},
		{rule: "not JSON", argument: "ral_action=get", input: "x", err: "standard input: it is not JSON"},
		{rule: "no such action", argument: "ral_action=list", err: `there is no action "list"`},
		{rule: "no action", argument: "get", err: `the argument "get" is not ral_action=describe, get or set`},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "none.sock")
			if tt.answer != nil {
				socket = double(t, tt.answer)
			}
			var out, stderr strings.Builder
			c := client{dir: t.TempDir(), name: "local", socket: func(string) string { return socket }, stderr: &stderr}
			if err := os.WriteFile(filepath.Join(c.dir, "local.yaml"), []byte(tt.settings), 0o600); err != nil {
				t.Fatal(err)
			}
			err := c.run(tt.argument, strings.NewReader(tt.input), &out)
			if got := strings.TrimSuffix(out.String(), "\n"); got != tt.out {
				t.Errorf("answer\n%s\nwant\n%s", got, tt.out)
			}
			if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if !strings.Contains(stderr.String(), tt.stderr) || tt.stderr == "" && stderr.Len() > 0 {
				t.Errorf("standard error %q, want %q", stderr.String(), tt.stderr)
			}
			for _, text := range []string{out.String()} {
				if strings.Contains(text, socket) || strings.Contains(text, c.dir) {
					t.Errorf("experimenters read a path: %s", text)
				}
			}
		})
	}
	for _, name := range []string{"", "../x", ".x"} {
		if err := Run(t.TempDir(), name, "ral_action=describe", nil, io.Discard); err == nil {
			t.Errorf("a provider called %q", name)
		}
	}
}

// TestDescribeReportsSettings checks what the site reads of the settings, and that mistakes are
// reported with their lines.
func TestDescribeReportsSettings(t *testing.T) {
	socket := double(t, func(c *fdsocket.Conn, r Request) {
		_ = c.Send(Answer{Output: json.RawMessage(`{"Images":["host","big"]}`)})
	})
	dir := t.TempDir()
	path := filepath.Join(dir, "local.yaml")
	describe := func(text string) (all string, d provider.Settings) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		c := client{dir: dir, name: "local", socket: func(string) string { return socket }, stderr: io.Discard}
		if err := c.run("ral_action=describe", nil, &out); err != nil {
			t.Fatal(err)
		}
		var answer struct{ Settings provider.Settings }
		if err := yaml.Unmarshal([]byte(out.String()), &answer); err != nil {
			t.Fatal(err)
		}
		return out.String(), answer.Settings
	}
	text, d := describe("instance: a\noutbound: yes\nports: 20000-20009\nshared_vlans: [campus]\n")
	want := provider.Settings{Instance: "a", Outbound: d.Outbound, SharedVLANs: []string{"campus"}, LoginPorts: 9, Images: []string{"host", "big"}, HostImage: "host", Outdated: true, Help: d.Help}
	if !reflect.DeepEqual(d, want) || d.Outbound == nil || !*d.Outbound || !strings.HasSuffix(d.Help, " doctor says whether this host can run nodes") {
		t.Errorf("%+v", d)
	}
	if !strings.Contains(text, `, up, "local.yaml"]`) {
		t.Errorf("no service: %s", text)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(socket, later, later); err != nil {
		t.Fatal(err)
	}
	if _, d = describe("instance: a\n"); d.Outdated {
		t.Error("it was started after the change")
	}
	if _, d = describe("instance: a\npublish: all\n"); len(d.Problems) != 1 || d.Problems[0].Line != 2 || !strings.Contains(d.Problems[0].Message, "publish is") {
		t.Errorf("%+v", d)
	}
}

func TestCallEndsInTime(t *testing.T) {
	hold := make(chan struct{})
	socket := double(t, func(*fdsocket.Conn, Request) { <-hold })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := Call(ctx, socket, Request{Action: ActionGet})
	close(hold)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestFilesComeWithAnswers(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, err := Call(t.Context(), double(t, func(c *fdsocket.Conn, _ Request) { _ = c.Send(Answer{}, f) }), Request{Action: ActionAgent})
	if err != nil || len(a.Files) != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	a.Files[0].Close()
	if _, err := Call(t.Context(), double(t, func(c *fdsocket.Conn, _ Request) { _ = c.Send(Answer{}, f, f) }), Request{}); err == nil {
		t.Error("two files were taken")
	}
}

// TestInputArrivesAsItIs checks that any input of the manager arrives unchanged, also if each
// character is written as six, and that larger input is refused with a message.
func TestInputArrivesAsItIs(t *testing.T) {
	dir := t.TempDir()
	got := make(chan int, 1)
	socket := double(t, func(c *fdsocket.Conn, r Request) {
		got <- len(r.Input)
		_ = c.Send(Answer{Output: json.RawMessage("{}")})
	})
	for _, tt := range []struct {
		rule string
		size int
		want string
	}{
		{"as much as can be", maxInput, "{}\n"},
		{"more", maxInput + 1, `{"error":{"kind":"failed","message":"the request has more than 16776192 bytes, the most that this testbed reads; request less for one node"}}` + "\n"},
	} {
		var out strings.Builder
		c := client{dir: dir, name: "local", socket: func(string) string { return socket }, stderr: io.Discard}
		input := `{"x":"` + strings.Repeat("<", tt.size-8) + `"}`
		if err := c.run("ral_action=set", strings.NewReader(input), &out); err != nil || out.String() != tt.want {
			t.Errorf("%s: %.200q, %v", tt.rule, out.String(), err)
		}
		if tt.want == "{}\n" {
			if n := <-got; n != tt.size {
				t.Errorf("%s: %d bytes arrived of %d", tt.rule, n, tt.size)
			}
		}
	}
}
