package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/client"
	"patchbay/am/xmlrpc"
)

// BenchmarkUserAgainstAll measures how much one user with a full slice can slow down
// others. It reports the server's memory while twelve clients describe the slice, and the
// slowest call of another user during refused calls of ten clients. Sixteen large
// Allocates fill the slice; most are refused.
func BenchmarkUserAgainstAll(b *testing.B) {
	s := newServedSite(b, "testbed.example.org", nil, nil)
	s.appendSettings("timing: {make: 0s, start: 0s, stop: 0s, restart: 0s, users: 0s, remove: 0s}\n")
	for _, name := range []string{"attacker", "alice"} {
		for _, args := range [][]string{{"user", name}, {"slice", name + "s", "--owner", name}} {
			if code, out := runCommand(b, append(args, "--config", s.dir)...); code != 0 {
				b.Fatal(out)
			}
		}
	}
	s.start()
	attacker, alice := readBenchUser(b, s.dir, "attacker"), readBenchUser(b, s.dir, "alice")
	version := xmlrpc.Struct{{Name: "geni_rspec_version", Value: xmlrpc.Struct{{Name: "type", Value: "GENI"}, {Name: "version", Value: "3"}}}}
	body := func(me *benchUser, method string, args ...xmlrpc.Value) []byte {
		return []byte(encoded(b, method, append(append([]xmlrpc.Value{}, args...), client.Credentials(me.forSlice()), version)...))
	}
	// ask makes one call, and returns its code.
	ask := func(me *benchUser, keep bool, body []byte) am.Code {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: me.tls, DisableKeepAlives: !keep}, Timeout: time.Minute}
		defer c.CloseIdleConnections()
		resp, err := c.Post(s.url+"/am/3.0", "text/xml", bytes.NewReader(body))
		if err != nil {
			return am.TimedOut
		}
		defer resp.Body.Close()
		var begin [600]byte
		n, _ := io.ReadFull(resp.Body, begin[:])
		io.Copy(io.Discard, resp.Body)
		_, rest, _ := strings.Cut(string(begin[:n]), "<name>geni_code</name><value><int>")
		number, _, _ := strings.Cut(rest, "<")
		code, err := strconv.Atoi(number)
		if err != nil {
			b.Fatalf("%s", begin[:n])
		}
		return am.Code(code)
	}
	allocate := func(me *benchUser, request string) []byte {
		return []byte(encoded(b, "Allocate", me.sliceURN, client.Credentials(me.forSlice()), request, version))
	}
	var accepted int
	for i := range 16 {
		var in strings.Builder
		for j := range 49_000 {
			fmt.Fprintf(&in, `<interface client_id="n%d:if%d"/>`, i, j)
		}
		if ask(attacker, false, allocate(attacker, strings.Replace(soakRequest, `client_id="n" exclusive="false">`, fmt.Sprintf(`client_id="n%d" exclusive="false">%s`, i, in.String()), 1))) == am.Success {
			accepted++
		}
	}
	describe := body(attacker, "Describe", []xmlrpc.Value{attacker.sliceURN})
	status := body(attacker, "Status", []xmlrpc.Value{attacker.sliceURN})
	refused := allocate(attacker, strings.Replace(soakRequest, `"n"`, `"n0"`, 1))
	remove := body(alice, "Delete", []xmlrpc.Value{alice.sliceURN})
	for b.Loop() {
		var all sync.WaitGroup
		codes := make([]am.Code, 24)
		for i := range codes {
			all.Go(func() { codes[i] = ask(attacker, false, [][]byte{describe, status}[i%2]) })
		}
		all.Wait()
		answered := 0
		for _, code := range codes {
			if code == am.Success {
				answered++
			}
		}
		b.ReportMetric(float64(answered), "answered-of-24")

		var slowest time.Duration
		over := make(chan struct{})
		for range 10 {
			all.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
						ask(attacker, true, refused)
					}
				}
			})
		}
		for range 20 {
			began := time.Now()
			for _, call := range [][]byte{allocate(alice, soakRequest), remove} {
				if code := ask(alice, true, call); code != am.Success {
					b.Errorf("a call of another user: code %d", code)
				}
				slowest = max(slowest, time.Since(began))
				began = time.Now()
			}
		}
		close(over)
		all.Wait()
		b.ReportMetric(float64(slowest.Milliseconds()), "slowest-ms")
	}
	for line := range strings.Lines(readFile(b, fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kB, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			b.ReportMetric(float64(kB>>10), "peak-MB")
		}
	}
	b.ReportMetric(float64(accepted), "accepted-of-16")
	_, metrics := get(b, s.admin+"/metrics")
	for line := range strings.Lines(metrics) {
		if value, ok := strings.CutPrefix(line, "patchbay_decision_longest_seconds "); ok {
			seconds, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			b.ReportMetric(seconds*1000, "longest-decision-ms")
		}
	}
}

// benchUser is a user with prepared requests.
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
