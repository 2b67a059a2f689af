package fdsocket_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/fdsocket"
)

const limit = 1000

// pair returns a Conn, and the peer's raw socket.
func pair(t testing.TB) (*fdsocket.Conn, *net.UnixConn) {
	t.Helper()
	ours, file, err := fdsocket.Pair()
	check(t, err)
	c, err := net.FileConn(file)
	check(t, err)
	file.Close()
	t.Cleanup(func() {
		ours.Close()
		c.Close()
	})
	check(t, ours.SetDeadline(time.Now().Add(5*time.Second)))
	return ours, c.(*net.UnixConn)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// frame returns a message with its length.
func frame(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

// send sends bytes with descriptors.
func send(t testing.TB, c *net.UnixConn, text string, fds ...int) {
	t.Helper()
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err := c.WriteMsgUnix([]byte(text), rights, nil)
	check(t, err)
}

// openDescriptors returns the number of open descriptors of this process.
func openDescriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(list)
}

func TestMessagesArriveWithFiles(t *testing.T) {
	a, file, err := fdsocket.Pair()
	check(t, err)
	defer a.Close()
	b, err := fdsocket.FromFile(file)
	check(t, err)
	defer b.Close()
	r, w, err := os.Pipe()
	check(t, err)
	defer r.Close()
	defer w.Close()
	go func() {
		a.Send("one", r, w)
		a.Send(strings.Repeat("long", 1<<20))
		a.Send("three", w)
		a.Close()
	}()
	var text string
	got, err := b.Receive(&text, limit, 2)
	check(t, err)
	if text != "one" || len(got) != 2 {
		t.Fatal(text, got)
	}
	if _, err := b.Receive(&text, 1<<23, 0); err != nil || len(text) != 4<<20 {
		t.Fatal(len(text), err)
	}
	last, err := b.Receive(&text, limit, 1)
	check(t, err)
	if _, err := last[0].WriteString("through"); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 7)
	if _, err := io.ReadFull(got[0], buffer); err != nil || string(buffer) != "through" {
		t.Fatalf("%q, %v", buffer, err)
	}
	if _, err := b.Receive(&text, limit, 1); err != io.EOF {
		t.Errorf("at the end: %v, not io.EOF itself", err)
	}
	for _, f := range append(got, last...) {
		if n, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || n&unix.FD_CLOEXEC == 0 {
			t.Error("a received file would leak into programs", err)
		}
		f.Close()
	}
}

func TestHostilePeers(t *testing.T) {
	null, err := os.Open(os.DevNull)
	check(t, err)
	defer null.Close()
	fd := int(null.Fd())
	for _, c := range []struct {
		rule  string
		files int // allowed
		send  func(t testing.TB, c *net.UnixConn)
		want  string // in the error; empty: no error
	}{
		{"Message", 0, func(t testing.TB, c *net.UnixConn) { send(t, c, frame(`"x"`)) }, ""},
		{"ByteByByte", 0, func(t testing.TB, c *net.UnixConn) {
			for _, b := range []byte(frame(`"x"`)) {
				send(t, c, string(b))
			}
		}, ""},
		{"TooBig", 0, func(t testing.TB, c *net.UnixConn) { send(t, c, frame(strings.Repeat(" ", limit+1))) }, "too big"},
		{"LargestLength", 0, func(t testing.TB, c *net.UnixConn) { send(t, c, "\xff\xff\xff\xff") }, "too big"},
		{"NothingAtAll", 0, func(t testing.TB, c *net.UnixConn) {}, "EOF"},
		{"HalfALength", 0, func(t testing.TB, c *net.UnixConn) { send(t, c, "\x00\x00") }, "unexpected EOF"},
		{"HalfAMessage", 0, func(t testing.TB, c *net.UnixConn) { send(t, c, frame(`"x"`)[:5]) }, "unexpected EOF"},
		{"EmptyMessage", 0, func(t testing.TB, c *net.UnixConn) { send(t, c, frame("")) }, "cannot be read"},
		{"NoJSON", 0, func(t testing.TB, c *net.UnixConn) { send(t, c, frame("{")) }, "cannot be read"},
		{"TwoValues", 0, func(t testing.TB, c *net.UnixConn) { send(t, c, frame(`"x""y"`)) }, "cannot be read"},
		{"AnotherType", 0, func(t testing.TB, c *net.UnixConn) { send(t, c, frame(`{"x":1}`)) }, "cannot be read"},
		{"DeepJSON", 0, func(t testing.TB, c *net.UnixConn) { send(t, c, frame(strings.Repeat("[", limit))) }, "cannot be read"},
		{"FileNotAskedFor", 0, func(t testing.TB, c *net.UnixConn) { send(t, c, frame(`"x"`), fd) }, "more than 0 files"},
		{"OneFileMoreThanAllowed", 1, func(t testing.TB, c *net.UnixConn) { send(t, c, frame(`"x"`), fd, fd) }, "more than 1 files"},
		{"ManyMoreFiles", 3, func(t testing.TB, c *net.UnixConn) {
			send(t, c, frame(`"x"`), fd, fd, fd, fd, fd, fd, fd, fd, fd)
		}, "more than 3 files"},
		{"FileWithTheSecondByte", 1, func(t testing.TB, c *net.UnixConn) {
			send(t, c, frame(`"x"`)[:1])
			send(t, c, frame(`"x"`)[1:], fd)
		}, ""},
		{"FilesWithEachPiece", 1, func(t testing.TB, c *net.UnixConn) {
			for _, b := range []byte(frame(`"x"`)) {
				send(t, c, string(b), fd)
			}
		}, ""},
		{"FilesThenTooBig", 1, func(t testing.TB, c *net.UnixConn) { send(t, c, "\xff\xff\xff\xff", fd) }, "too big"},
		{"FilesThenHalf", 1, func(t testing.TB, c *net.UnixConn) { send(t, c, frame(`"x"`)[:4], fd) }, "unexpected EOF"},
		{"FilesThenNoJSON", 1, func(t testing.TB, c *net.UnixConn) { send(t, c, frame(`{`), fd) }, "cannot be read"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			before := openDescriptors(t)
			ours, theirs := pair(t)
			c.send(t, theirs)
			theirs.Close()
			var text string
			got, err := ours.Receive(&text, limit, c.files)
			switch {
			case c.want == "" && (err != nil || text != "x"):
				t.Errorf("got %q, %v", text, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			case err != nil && got != nil:
				t.Error("files beside an error")
			}
			if c.want == "too big" && !errors.Is(err, fdsocket.ErrTooBig) {
				t.Errorf("%v is not ErrTooBig", err)
			}
			for _, f := range got {
				f.Close()
			}
			ours.Close()
			if after := openDescriptors(t); after != before {
				t.Errorf("%d descriptors before, %d after", before, after)
			}
		})
	}
}

func TestReceiveDeadline(t *testing.T) {
	ours, theirs := pair(t)
	send(t, theirs, frame(`"x"`)[:6])
	check(t, ours.SetDeadline(time.Now().Add(20*time.Millisecond)))
	var text string
	if _, err := ours.Receive(&text, limit, 0); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

func TestSendDeadline(t *testing.T) {
	ours, _ := pair(t)
	check(t, ours.SetDeadline(time.Now().Add(20*time.Millisecond)))
	if err := ours.Send(strings.Repeat("x", 1<<22)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

func TestReceiveAfterPeerClosed(t *testing.T) {
	ours, theirs := pair(t)
	send(t, theirs, frame(`"no"`))
	theirs.CloseRead()
	var text string
	if err := ours.Send("question"); !errors.Is(err, unix.EPIPE) {
		t.Errorf("send: %v", err)
	}
	if _, err := ours.Receive(&text, limit, 0); err != nil || text != "no" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestSendRefusesTooManyFiles(t *testing.T) {
	ours, _ := pair(t)
	files := make([]*os.File, fdsocket.MaxFiles+1)
	if err := ours.Send("x", files...); err == nil {
		t.Error("sent")
	}
}

// A file that is sent is shared with the receiver: it must not become non-blocking.
func TestSendKeepsFilesBlocking(t *testing.T) {
	ours, theirs := pair(t)
	defer theirs.Close()
	r, w, err := os.Pipe()
	check(t, err)
	defer r.Close()
	defer w.Close()
	blocks := func() bool {
		raw, err := r.SyscallConn()
		check(t, err)
		var flags int
		check(t, raw.Control(func(fd uintptr) { flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0) }))
		check(t, err)
		return flags&unix.O_NONBLOCK == 0
	}
	before := blocks()
	check(t, ours.Send("x", r))
	if before || blocks() {
		t.Errorf("blocked before: %v, after: %v", before, blocks())
	}
}

func TestPeerCredentials(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("long", 40)) // longer than the kernel's limit for a socket's path
	check(t, os.Mkdir(path, 0o755))
	path = filepath.Join(path, "sock")
	for range 2 { // the second replaces the first
		l, err := fdsocket.Listen(path, 0o640)
		check(t, err)
		defer l.Close()
		stat, err := os.Stat(path)
		check(t, err)
		if stat.Mode().Perm() != 0o640 || stat.Mode()&os.ModeSocket == 0 {
			t.Error(stat.Mode())
		}
		c, err := fdsocket.Dial(t.Context(), path)
		check(t, err)
		defer c.Close()
		k, err := l.AcceptUnix()
		check(t, err)
		other := fdsocket.New(k)
		defer other.Close()
		cred, err := other.Peer()
		if err != nil || int(cred.Uid) != os.Getuid() || int(cred.Pid) != os.Getpid() {
			t.Error(cred, err)
		}
		check(t, c.Send("hello"))
		var text string
		if _, err := other.Receive(&text, limit, 0); err != nil || text != "hello" {
			t.Error(text, err)
		}
	}
}

func TestFromFileRefusesOtherSockets(t *testing.T) {
	f, err := os.Open(os.DevNull)
	check(t, err)
	if _, err := fdsocket.FromFile(f); err == nil {
		t.Error("taken")
	}
	if f.Close() == nil {
		t.Error("the file was not closed")
	}
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte(frame(`"x"`)), 0, 0)
	f.Add([]byte(frame(`{"a":[1,2,3]}`)), 2, 1)
	f.Add([]byte("\xff\xff\xff\xff"), 1, 1)
	f.Add([]byte("\x00\x00"), 1, 2)
	null, err := os.Open(os.DevNull)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte, sent, allowed int) {
		sent, allowed = sent&7, allowed&7
		if len(text) == 0 {
			return
		}
		before := openDescriptors(t)
		ours, theirs := pair(t)
		fds := make([]int, sent)
		for i := range fds {
			fds[i] = int(null.Fd())
		}
		send(t, theirs, string(text[:min(len(text), 8<<10)]), fds...)
		theirs.Close()
		var v any
		got, err := ours.Receive(&v, limit, allowed)
		if len(got) > allowed || err != nil && len(got) > 0 {
			t.Errorf("%d files, %d allowed, %v", len(got), allowed, err)
		}
		if err == nil {
			size := binary.BigEndian.Uint32(text)
			var again any
			if size > limit || len(got) != sent || json.Unmarshal(text[4:4+size], &again) != nil {
				t.Errorf("taken: %q", text)
			}
		}
		for _, f := range got {
			f.Close()
		}
		ours.Close()
		if after := openDescriptors(t); after != before {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
	})
}
