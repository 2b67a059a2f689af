package linktest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestServerRefusesInvalidRequests(t *testing.T) {
	addr := serve(t)
	for _, tt := range []struct{ name, line, want string }{
		{"known", `{"kind":"hello"}`, `"boot"`},
		{"unknown", `{"kind":"reboot"}`, "unknown kind"},
		{"no JSON", `GET / HTTP/1.0`, "cannot read the other side"},
		{"long", strings.Repeat("x", maxLine+1), "longer than"},
		{"no time", `{"kind":"receive"}`, "the time"},
		{"negative time", `{"kind":"send","time":-1}`, "the time"},
		{"for ever", `{"kind":"receive","time":9000000000000000000}`, "the time"},
		{"too many", `{"kind":"count","time":1000,"packets":100000000,"size":100,"rate":1000}`, "the number of packets"},
		{"too big", `{"kind":"datagram","time":1000,"packets":1,"size":100000,"rate":1000,"port":9}`, "the size"},
		{"too small", `{"kind":"datagram","time":1000,"packets":1,"size":1,"rate":1000,"port":9}`, "the size"},
		{"burst", `{"kind":"datagram","time":1000,"packets":1,"size":8000,"burst":60,"rate":1000,"port":9}`, "a burst"},
		{"no rate", `{"kind":"datagram","time":1000,"packets":1,"size":100,"port":9}`, "the rate"},
		{"rate", `{"kind":"datagram","time":1000,"packets":1,"size":100,"rate":1e300,"port":9}`, "the rate"},
		{"port", `{"kind":"datagram","time":1000,"packets":1,"size":100,"rate":1000,"port":70000}`, "the port"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(5 * time.Second))
			if _, err := io.WriteString(c, tt.line+"\n"); err != nil {
				t.Fatal(err)
			}
			got, err := bufio.NewReader(c).ReadString('\n')
			if err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestServerLimitsClients(t *testing.T) {
	addr := serve(t)
	for range maxClients {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	_, err := Measure(t.Context(), addr, Options{})
	if err == nil || !strings.Contains(err.Error(), "other clients are measuring") {
		t.Errorf("the %dth client: %v", maxClients+1, err)
	}
}

func TestEchoIsNotLongerThanRequest(t *testing.T) {
	addr := serve(t)
	c, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	buffer := make([]byte, 100)
	for _, b := range [][]byte{[]byte("pbg1"), make([]byte, 100), append([]byte("pbg1\x02"), buffer...), append([]byte("pbg1\x03"), buffer...), {}} {
		c.Write(b) // none of them is answered
	}
	question := make([]byte, 50)
	header{kind: typeEcho, token: 1, number: 2}.marshal(question)
	c.Write(question)
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	n, err := c.Read(buffer)
	h, ok := parseHeader(buffer[:n])
	if err != nil || n != len(question) || !ok || h.kind != typeAnswer || h.token != 1 || h.number != 2 || h.left < h.arrived {
		t.Errorf("%d bytes, %+v, %v", n, h, err)
	}
}

// lyingServer starts a server that answers each connection with the given lines.
func lyingServer(t *testing.T, lines string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				bufio.NewReader(c).ReadString('\n')
				io.WriteString(c, lines)
				io.Copy(io.Discard, io.LimitReader(c, 1<<20))
			}()
		}
	}()
	return l.Addr().String()
}

func TestClientRejectsInvalidResults(t *testing.T) {
	for _, tt := range []struct{ name, lines, part, want string }{
		{"no answer", "", PartTCP, "the server's answer"},
		{"endless line", strings.Repeat("x", 1<<16), PartTCP, "longer than"},
		{"another protocol", "HTTP/1.0 400\n", PartTCP, "cannot read the other side"},
		{"words for the terminal", `{"error":"\u001b[2Jgone\nok"}` + "\n", PartTCP, `says: \x1b[2Jgone\nok`},
		{"no result", "{}\n{}\n", PartTCP, "lacks the result"},
		{"nonsense", "{}\n" + `{"stream":{"bytes":-5}}` + "\n", PartTCP, "invalid result"},
		{"more than was sent", "{}\n" + `{"tally":{"received":1000000}}` + "\n", PartUDP, "invalid result"},
		{"less than nothing", "{}\n" + `{"tally":{"received":-1}}` + "\n", PartUDP, "invalid result"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr := lyingServer(t, tt.lines)
			if tt.lines == "" {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					if c, err := l.Accept(); err == nil {
						c.Close()
					}
				}()
				defer l.Close()
				addr = l.Addr().String()
			}
			_, err := Measure(t.Context(), addr, Options{Time: 100 * time.Millisecond, Rate: 1e6, Only: []string{tt.part}})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestMeasureEndsWithContext(t *testing.T) {
	addr := serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := Measure(ctx, addr, Options{Time: 30 * time.Second, Only: []string{PartTCP}}); err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

func FuzzLine(f *testing.F) {
	for _, s := range []string{`{"kind":"hello"}`, `{"kind":"count","time":1000,"packets":10,"size":100,"rate":1e6,"burst":3}`, `{"tally":{}}`, "x", "{\"kind\":\"send\",\"time\":1e99}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		read := func(message any) error {
			return readLine(bufio.NewReaderSize(io.MultiReader(bytes.NewReader(line), strings.NewReader("\n")), maxLine), message)
		}
		var r request
		if read(&r) == nil && r.check() == nil && (r.Kind == kindCount || r.Kind == kindDatagram) {
			p := paceOf(r)
			if p.size*p.burst > 65000 || p.packets > maxPackets || p.time > maxTime || p.size < headerSize {
				t.Errorf("%q is accepted: %+v", line, p)
			}
		}
		var a answer
		if read(&a) == nil && a.Stream != nil && a.Stream.check() == nil {
			if g, l := a.Stream.rates(netip.AddrFrom4([4]byte{10})); g < 0 || l < 0 {
				t.Errorf("%q: %v, %v", line, g, l)
			}
		}
		if text := clip(a.Error); strings.ContainsAny(text, "\n\x1b") {
			t.Errorf("%q is printed", text)
		}
	})
}

func FuzzDatagram(f *testing.F) {
	question := make([]byte, headerSize)
	header{kind: typeAnswer, token: 7, number: 1, arrived: 10, left: 20}.marshal(question)
	f.Add(question)
	f.Add(question[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := parseHeader(b)
		if ok {
			again := append([]byte(nil), b...)
			h.marshal(again)
			if got, ok := parseHeader(again); !ok || got != h {
				t.Errorf("%+v is read again as %+v", h, got)
			}
		}
		e := &echoes{token: 7, left: []time.Time{time.Unix(0, 1), time.Unix(0, 2)}, done: make([]bool, 2)}
		at := time.Unix(0, 1000)
		e.add(b, at)
		e.add(b, at)
		if len(e.trip) > 1 {
			t.Error("one number counts twice")
		}
		for _, d := range e.trip {
			if d < 0 || d > time.Microsecond {
				t.Errorf("a trip took %v", d)
			}
		}
	})
}

func TestSpread(t *testing.T) {
	var all []time.Duration
	for i := range 100 {
		all = append(all, time.Duration(100-i)*time.Millisecond)
	}
	if got := fmt.Sprint(spreadOf(all)); got != "51.00 ms (least 1.00, 95% below 96.00)" {
		t.Error(got)
	}
}
