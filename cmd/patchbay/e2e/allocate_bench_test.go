package e2e

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/client"
	"patchbay/am/testkit/program"
)

// benchProgram names a folder whose program patchbay is measured instead of this one.
const benchProgram = "PATCHBAY_BENCH_PROGRAM"

// BenchmarkAllocateDelete measures pairs of calls over kept connections, from clients
// with a slice each, at a site of 1,000 nodes. It counts calls and reports the time of
// one; the memory is the server's anonymous memory afterwards.
func BenchmarkAllocateDelete(b *testing.B) {
	for _, clients := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) { benchmarkPairs(b, clients) })
	}
}

func benchmarkPairs(b *testing.B, clients int) {
	s := newServedSite(b, "testbed.example.org", nil, nil)
	program.Edit(b, filepath.Join(s.dir, "inventory.yaml"), "- names: pc1..pc12\n", "- names: pc101..pc1100\n")
	if dir := os.Getenv(benchProgram); dir != "" {
		s.bin = dir
	}
	for i := range clients {
		s.createUser(fmt.Sprint("u", i))
	}
	s.start()
	var mu sync.Mutex
	var took []time.Duration
	var n atomic.Int64
	ask := func(c *http.Client, body string) {
		began := time.Now()
		resp, err := c.Post(s.url+"/am/3.0", "text/xml", strings.NewReader(body))
		if err != nil {
			b.Error(err)
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || !bytes.Contains(text, []byte("<name>geni_code</name><value><int>0</int>")) {
			b.Errorf("%v %s", err, text)
		}
		mu.Lock()
		defer mu.Unlock()
		took = append(took, time.Since(began))
	}
	request := strings.Replace(program.SmallRequest, `exclusive="false"><sliver_type name="vm"/>`, `exclusive="true"><sliver_type name="raw-pc"/>`, 1)
	var all, ready sync.WaitGroup
	begin := make(chan bool)
	for i := range clients {
		me := s.newAuditUser(fmt.Sprint("u", i))
		pair, err := tls.LoadX509KeyPair(me.CertFile, me.KeyFile)
		if err != nil {
			b.Fatal(err)
		}
		ready.Add(1)
		all.Go(func() {
			c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}}, Timeout: time.Minute}
			defer c.CloseIdleConnections()
			creds := client.Credentials(me.ForSlice())
			allocate := encoded(b, "Allocate", me.SliceURN, creds, request, rspec3("GENI"))
			remove := encoded(b, "Delete", []xmlrpc.Value{me.SliceURN}, creds, xmlrpc.Struct{})
			ask(c, allocate)
			ask(c, remove)
			ready.Done()
			<-begin
			for n.Add(1) <= int64(b.N) && !b.Failed() {
				ask(c, allocate)
				ask(c, remove)
			}
		})
	}
	ready.Wait()
	took = nil
	b.ResetTimer()
	close(begin)
	all.Wait()
	b.StopTimer()
	status := program.ReadFile(b, fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	_, anonymous, _ := strings.Cut(status, "RssAnon:")
	var kB, sum float64
	fmt.Sscan(anonymous, &kB)
	slices.Sort(took)
	for _, d := range took {
		sum += float64(d.Microseconds()) / 1000
	}
	ms := func(part float64) float64 {
		return float64(took[int(part*float64(len(took)-1))].Microseconds()) / 1000
	}
	var ticks [2]float64
	stat := strings.Fields(program.ReadFile(b, fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid)))
	fmt.Sscan(stat[13]+" "+stat[14], &ticks[0], &ticks[1])
	b.ReportMetric((ticks[0]+ticks[1])*10000/float64(len(took)), "cpu-µs/call")
	b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(sum/float64(len(took)), "mean-ms")
	b.ReportMetric(ms(.5), "p50-ms")
	b.ReportMetric(ms(.99), "p99-ms")
	b.ReportMetric(ms(1), "max-ms")
	b.ReportMetric(kB/1024, "anon-MiB")
}
