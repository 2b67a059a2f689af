package agent

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// geniServer serves one connection of geni-get and returns the path of its socket.
func geniServer(t testing.TB, serve func(c net.Conn)) string {
	t.Helper()
	path := t.TempDir() + "/geni"
	l, err := net.Listen("unix", path)
	check(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := l.Accept(); err == nil {
			serve(c)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return path
}

func TestGeniGet(t *testing.T) {
	for _, c := range []struct {
		rule  string
		args  []string
		give  func(words []string, uid int) ([]byte, error)
		want  string
		error string
	}{
		{"AnswerEndsTheLine", []string{"client_id"}, func([]string, int) ([]byte, error) { return []byte("node-1"), nil }, "node-1\n", ""},
		{"AnswerWithItsLines", []string{"key"}, func([]string, int) ([]byte, error) { return []byte("A\nB\n"), nil }, "A\nB\n", ""},
		{"EmptyAnswer", []string{"x"}, func([]string, int) ([]byte, error) { return nil, nil }, "", ""},
		{"Words", []string{"-a", "b"}, func(w []string, _ int) ([]byte, error) { return []byte(strings.Join(w, "|")), nil }, "-a|b\n", ""},
		{"NoWords", nil, func(w []string, _ int) ([]byte, error) { return []byte{'0' + byte(len(w))}, nil }, "0\n", ""},
		{"UserIsTold", nil, func(_ []string, uid int) ([]byte, error) {
			return nil, map[bool]error{false: errors.New("wrong user")}[uid == os.Getuid()]
		}, "", ""},
		{"LargeAnswer", nil, func([]string, int) ([]byte, error) { return bytes.Repeat([]byte("x"), replyLimit), nil }, strings.Repeat("x", replyLimit) + "\n", ""},
		{"TooLargeAnswer", nil, func([]string, int) ([]byte, error) { return make([]byte, replyLimit+1), nil }, "", "too large"},
		{"Error", nil, func([]string, int) ([]byte, error) { return nil, errors.New("there is no such thing") }, "", "there is no such thing"},
		{"ErrorIsShort", nil, func([]string, int) ([]byte, error) { return nil, errors.New(strings.Repeat("x", 1<<20)) }, "", "xxx"},
		{"NoLineInAWord", []string{"a\nb"}, nil, "", "single line"},
		{"NoLongWords", []string{strings.Repeat("a", questionLimit+1)}, nil, "", "single line"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			path := geniServer(t, func(k net.Conn) {
				if err := ServeGeni(k, c.give); err != nil {
					t.Errorf("the server: %v", err)
				}
			})
			var out bytes.Buffer
			err := askGeni(path, c.args, &out, replyTime)
			if out.String() != c.want || (err == nil) != (c.error == "") || err != nil && !strings.Contains(err.Error(), c.error) {
				t.Errorf("got %.100q, %v", out.String(), err)
			}
		})
	}
}

func TestGeniGetOfABrokenServer(t *testing.T) {
	for _, c := range []struct {
		rule, reply, want string
	}{
		{"Nothing", "", "did not answer"},
		{"NoLine", "ok 5", "did not answer"},
		{"NoEnd", strings.Repeat("x", 10000), "did not answer"},
		{"AnotherWord", "yes 1\nx", "not understood"},
		{"NoNumber", "ok x\nx", "not understood"},
		{"NegativeNumber", "ok -1\nx", "not understood"},
		{"TooLarge", "ok 4000000000\n", "not understood"},
		{"CutOff", "ok 10\nx", "incomplete"},
		{"ErrorWithControls", "error 3\n\x1b[2", "?[2"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			path := geniServer(t, func(k net.Conn) {
				io.WriteString(k, c.reply)
				k.(*net.UnixConn).CloseWrite()
				io.Copy(io.Discard, k)
				k.Close()
			})
			var out bytes.Buffer
			if err := askGeni(path, nil, &out, replyTime); err == nil || !strings.Contains(err.Error(), c.want) || out.Len() > 0 {
				t.Errorf("got %q, %v, want %q", out.String(), err, c.want)
			}
		})
	}
	t.Run("NobodyThere", func(t *testing.T) {
		err := askGeni(t.TempDir()+"/geni", nil, io.Discard, replyTime)
		if err == nil || !strings.Contains(err.Error(), "does not answer") {
			t.Error(err)
		}
	})
}

func TestServeGeniInAHostileNode(t *testing.T) {
	for _, c := range []struct {
		rule, question, reply, want string
	}{
		{"Nothing", "", "", "cannot read the request"},
		{"NoLine", "client_id", "", "cannot read the request"},
		{"TooLong", strings.Repeat("x", 3*questionLimit), "", "cannot read the request"},
		{"ZeroByte", "a\x00b\n", "error ", ""},
		{"Controls", "a\x1bb\n", "error ", ""},
		{"ManyBlanks", "  a   b  \n", "ok 3\na|b", ""},
		{"MoreThanALine", "a\nb\nc\n", "ok 1\na", ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			failed := make(chan error, 1)
			path := geniServer(t, func(k net.Conn) {
				failed <- ServeGeni(k, func(w []string, _ int) ([]byte, error) { return []byte(strings.Join(w, "|")), nil })
			})
			k, err := net.Dial("unix", path)
			check(t, err)
			defer k.Close()
			check(t, k.SetDeadline(time.Now().Add(30*time.Second)))
			io.WriteString(k, c.question)
			k.(*net.UnixConn).CloseWrite()
			got, _ := io.ReadAll(k)
			err = <-failed
			if !strings.HasPrefix(string(got), c.reply) || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("reply %q, error %v", got, err)
			}
		})
	}
	t.Run("NoUnixSocket", func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		if err := ServeGeni(a, nil); err == nil {
			t.Error("served")
		}
	})
}
