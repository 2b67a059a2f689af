package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"patchbay/am/api"
	"patchbay/am/server"
)

// dialNarrow connects with a small receive buffer.
func (p *party) dialNarrow(from string) net.Conn {
	p.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) {
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 2<<10)
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 536)
		})
	}}
	c, err := d.Dial("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	return c
}

// A small answer counts as a call of its caller until the kernel has its last byte. So the
// connections of a caller who sends calls and reads nothing can be closed.
func TestUnreadSmallAnswersCountAsCalls(t *testing.T) {
	const connections, most = 40, 10
	var served atomic.Int64
	small := bytes.Repeat([]byte("x"), 2<<10) // net/http's buffer takes it whole
	p := newParty(t, server.Config{MaxConnections: connections, MaxCallsPerCaller: most}, double{func(context.Context, int, api.Request) api.Response {
		served.Add(1)
		return api.Response{Body: small}
	}})
	calls := strings.Repeat(head+"Content-Length: 4\r\n\r\ncall", 4000)
	for range connections {
		c := p.dialNarrow("127.0.0.2")
		go io.WriteString(c, calls)
	}
	// The limit is checked when no call makes progress.
	for before, same := "", 0; same < 10; time.Sleep(50 * time.Millisecond) {
		now := fmt.Sprint(served.Load(), p.metric(`patchbay_limited_total{limit="max_calls_per_caller"}`))
		if same++; now != before {
			before, same = now, 0
		}
	}
	if waiting, err := strconv.Atoi(p.metric("patchbay_connections_waiting")); err != nil || waiting < connections-most {
		t.Errorf("%d of %d connections can give way, want all but %d", waiting, connections, most)
	}
	if got := ask(t, p.dial("127.0.0.3"), "call"); got != string(small) {
		t.Errorf("another caller got %.80q", got)
	}
}

// A connection ends after a call with a chunked body, because net/http does not report whether
// the call had a conflicting Content-Length, too.
func TestChunkedCallEndsItsConnection(t *testing.T) {
	p := newParty(t, server.Config{}, double{})
	for name, length := range map[string]string{"Chunks": "", "ChunksAndLength": "Content-Length: 5\r\n"} {
		t.Run(name, func(t *testing.T) {
			c := p.dial("127.0.0.2")
			fmt.Fprint(c, head+length+"Transfer-Encoding: chunked\r\n\r\n4\r\ncall\r\n0\r\n\r\n"+head+"Content-Length: 4\r\n\r\nnext")
			in := bufio.NewReader(c)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || string(body) != "v3 call" || !resp.Close {
				t.Errorf("answered %q (%v), to be closed: %t", body, err, resp.Close)
			}
			if more, _ := io.ReadAll(in); len(more) > 0 {
				t.Errorf("and then %.200q", more)
			}
		})
	}
}
