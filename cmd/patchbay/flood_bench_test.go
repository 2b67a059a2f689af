package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am/client"
	"patchbay/am/testkit/need"
	"patchbay/am/testkit/wait"
	"patchbay/am/xmlrpc"
)

// flooders are how many connections a hostile crowd keeps open. They come from
// eight addresses and, where they call, from thirteen users, so that no limit
// but the times ends them.
const (
	flooders       = 1000
	floodAddresses = 8
	floodUsers     = 13
	// floodPace is the time between two that come: more handshakes would measure
	// the hostile clients' own work, for they share the processors.
	floodPace = 10 * time.Millisecond
)

// benchUser is a user who calls by hand-made requests.
type benchUser struct {
	*caller
	tls *tls.Config
}

func readBenchUser(t testing.TB, dir, name string) *benchUser {
	t.Helper()
	me, err := readCaller([]string{filepath.Join(dir, "users", name)}, name+"s")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(me.certFile, me.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return &benchUser{me, &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}}
}

func callBody(b testing.TB, method string, params ...xmlrpc.Value) []byte {
	b.Helper()
	body, err := xmlrpc.AppendCall(nil, xmlrpc.Call{Method: method, Params: params})
	if err != nil {
		b.Fatal(err)
	}
	return body
}

func listBody(b testing.TB, me *benchUser, compressed bool) []byte {
	return callBody(b, "ListResources", client.Credentials(me.forSlice()), xmlrpc.Struct{
		{Name: "geni_rspec_version", Value: xmlrpc.Struct{{Name: "type", Value: "GENI"}, {Name: "version", Value: "3"}}},
		{Name: "geni_compressed", Value: compressed},
	})
}

// crowd is a hostile crowd at work: whenever the server ends one of its
// connections, another comes.
type crowd struct {
	stop chan bool
	all  sync.WaitGroup
	mu   sync.Mutex
	open map[net.Conn]bool
	in   atomic.Int64 // connections that have done their worst once
	pace *time.Ticker
}

// postHead is the beginning of a call.
const postHead = "POST /am/3.0 HTTP/1.1\r\nHost: x\r\nContent-Length: "

// deed is what the i-th connection of a crowd does. It calls ready when it has
// done it for the first time, and returns when the server has ended the connection.
type deed func(w *crowd, i int, c net.Conn, ready func())

// newCrowd has flooders connections do a deed.
func newCrowd(addr string, do deed) *crowd {
	w := &crowd{stop: make(chan bool), open: make(map[net.Conn]bool), pace: time.NewTicker(floodPace)}
	for i := range flooders {
		w.all.Go(func() {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%floodAddresses))}}
			ready := sync.OnceFunc(func() { w.in.Add(1) })
			for {
				select {
				case <-w.stop:
					return
				case <-w.pace.C:
				}
				c, err := d.Dial("tcp", addr)
				if err != nil {
					continue
				}
				if !w.add(c) {
					return
				}
				do(w, i, c, ready)
				w.remove(c)
			}
		})
	}
	return w
}

func (w *crowd) add(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.stop:
		c.Close()
		return false
	default:
	}
	w.open[c] = true
	return true
}

func (w *crowd) remove(c net.Conn) {
	c.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, c)
}

func (w *crowd) end() {
	w.mu.Lock()
	close(w.stop)
	for c := range w.open {
		c.Close()
	}
	w.mu.Unlock()
	w.all.Wait()
	w.pace.Stop()
}

// drip sends text, over and over, a byte each second until the peer ends the connection.
func (w *crowd) drip(c net.Conn, text string) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-w.stop:
			return
		case <-tick.C:
			if _, err := c.Write([]byte{text[i%len(text)]}); err != nil {
				return
			}
		}
	}
}

// deeds are what crowds do, by name.
func deeds(bad []*benchUser, lists [][]byte) map[string]deed {
	overTLS := func(do func(w *crowd, i int, c *tls.Conn)) deed {
		return func(w *crowd, i int, tcp net.Conn, ready func()) {
			c := tls.Client(tcp, bad[i%len(bad)].tls)
			if c.Handshake() == nil {
				ready()
				do(w, i, c)
			}
		}
	}
	wait := func(c net.Conn) { io.Copy(io.Discard, c) }
	return map[string]deed{
		"IdleAfterHandshake": overTLS(func(_ *crowd, _ int, c *tls.Conn) { wait(c) }),
		"Silent":             func(_ *crowd, _ int, c net.Conn, ready func()) { ready(); wait(c) },
		"HalfClientHello": func(_ *crowd, _ int, c net.Conn, ready func()) {
			c.Write([]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"))
			ready()
			wait(c)
		},
		"DripHeader": overTLS(func(w *crowd, _ int, c *tls.Conn) {
			io.WriteString(c, "POST /am/3.0 HTTP/1.1\r\nX: ")
			w.drip(c, "a")
		}),
		"DripBody": overTLS(func(w *crowd, _ int, c *tls.Conn) {
			io.WriteString(c, postHead+"100000\r\n\r\n")
			w.drip(c, "<")
		}),
		"NeverRead": overTLS(func(w *crowd, i int, c *tls.Conn) {
			c.NetConn().(*net.TCPConn).SetReadBuffer(4 << 10)
			list := lists[i%len(lists)]
			fmt.Fprintf(c, "%s%d\r\n\r\n%s", postHead, len(list), list)
			w.drip(c, "\r\n") // it says that it is there, but takes nothing
		}),
	}
}

// What the process of a crowd is told by its environment.
const (
	crowdDeed = "PATCHBAY_CROWD_DEED" // a name of deeds
	crowdSite = "PATCHBAY_CROWD_SITE" // the site's folder
	crowdAddr = "PATCHBAY_CROWD_ADDR" // where it listens
)

// TestCrowd is a hostile crowd when BenchmarkGoodClientAmongHostile runs this
// program again; else it does nothing.
func TestCrowd(t *testing.T) {
	name := os.Getenv(crowdDeed)
	if name == "" {
		return
	}
	var bad []*benchUser
	var lists [][]byte
	for i := range floodUsers {
		m := readBenchUser(t, os.Getenv(crowdSite), badName(i))
		bad, lists = append(bad, m), append(lists, listBody(t, m, false))
	}
	w := newCrowd(os.Getenv(crowdAddr), deeds(bad, lists)[name])
	wait.Until(t, "the crowd has come", func() bool { return w.in.Load() >= flooders*9/10 })
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin) // until the benchmark ends
	w.end()
}

func badName(i int) string { return fmt.Sprint("bad", i) }

// bring runs a crowd in a process of its own that yields to all others, as if it
// were on other hosts. It goes when the benchmark is over.
func bring(b *testing.B, dir, addr, name string) {
	b.Helper()
	cmd := exec.Command("nice", "-n", "19", os.Args[0], "-test.run", "^TestCrowd$")
	cmd.Env = append(os.Environ(), crowdDeed+"="+name, crowdSite+"="+dir, crowdAddr+"="+addr)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stdin.Close()
		io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			b.Errorf("the crowd: %v", err)
		}
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		b.Fatalf("the crowd says %q, %v", line, err)
	}
}

// BenchmarkGoodClientAmongHostile is how long a good client waits for its
// answers while a thousand connections do their worst. All share the machine:
// compare with the figures without a crowd.
func BenchmarkGoodClientAmongHostile(b *testing.B) {
	need.Tool(b, "nice")
	dir := made(b)
	edit(b, filepath.Join(dir, "inventory.yaml"), "- names: pc1..pc12\n", "- names: pc101..pc10000\n") // an advertisement of megabytes
	edit(b, filepath.Join(dir, "patchbay.yaml"), "# log:\n#   format: text          # or json\n#   level: info ", "log:\n  format: text\n  level: error ")
	names := []string{"good"}
	for i := range floodUsers {
		names = append(names, badName(i))
	}
	for _, name := range names {
		for _, args := range [][]string{{"user", name}, {"slice", name + "s", "--owner", name}} {
			if code, out := tell(b, append(args, "--config", dir)...); code != 0 {
				b.Fatal(out)
			}
		}
	}
	good := readBenchUser(b, dir, "good")
	s := serve(b, dir)
	defer s.stop()
	for _, crowd := range []string{"Nobody", "IdleAfterHandshake", "Silent", "HalfClientHello", "DripHeader", "DripBody", "NeverRead"} {
		b.Run(crowd, func(b *testing.B) {
			if crowd != "Nobody" {
				bring(b, dir, strings.TrimPrefix(s.url, "https://"), crowd)
			}
			for _, connections := range []string{"KeepAlive", "New"} {
				transport := &http.Transport{TLSClientConfig: good.tls, DisableKeepAlives: connections == "New"}
				defer transport.CloseIdleConnections()
				benchmarkGood(b, connections, &http.Client{Transport: transport, Timeout: time.Minute}, s.url+"/am/3.0", good)
			}
		})
	}
}

// benchmarkGood measures the calls of a good client.
func benchmarkGood(b *testing.B, connections string, c *http.Client, url string, me *benchUser) {
	urn, creds, none := me.sliceURN, client.Credentials(me.forSlice()), xmlrpc.Struct{}
	version := xmlrpc.Struct{{Name: "geni_rspec_version", Value: xmlrpc.Struct{{Name: "type", Value: "GENI"}, {Name: "version", Value: "3"}}}}
	remove := callBody(b, "Delete", []xmlrpc.Value{urn}, creds, none)
	for _, call := range []struct {
		name        string
		body, after []byte
	}{
		{"GetVersion", callBody(b, "GetVersion"), nil},
		{"ListResources", listBody(b, me, true), nil},
		{"Allocate", callBody(b, "Allocate", urn, creds, soakRequest, version), remove},
	} {
		b.Run(connections+"/"+call.name, func(b *testing.B) {
			ask := func(body []byte) {
				resp, err := c.Post(url, "text/xml", bytes.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				defer resp.Body.Close()
				var begin [600]byte
				n, _ := io.ReadFull(resp.Body, begin[:])
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					b.Fatal(err)
				}
				if !bytes.Contains(begin[:n], []byte("<name>geni_code</name><value><int>0</int>")) {
					b.Fatalf("%s", begin[:n])
				}
			}
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				ask(call.body)
				took = append(took, time.Since(began))
				if call.after != nil {
					b.StopTimer()
					ask(call.after)
					b.StartTimer()
				}
			}
			slices.Sort(took)
			ms := func(part float64) float64 {
				return float64(took[int(part*float64(len(took)-1))].Microseconds()) / 1000
			}
			b.ReportMetric(ms(.5), "p50-ms")
			b.ReportMetric(ms(.99), "p99-ms")
		})
	}
}
