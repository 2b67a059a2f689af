package vswitch

import (
	"encoding/json"
	"testing"
	"time"
)

// Every checked plan can be used.
func FuzzPlan(f *testing.F) {
	f.Add([]byte(`{"Ports":[{"ID":"a","MTU":1500},{"ID":"b","MTU":1400}],"Paths":[{"From":["a"],"To":["b","b"],"Delay":5,"Loss":0.5,"Rate":1000}]}`), []byte(`{}`))
	f.Add([]byte(`{"Ports":[{"ID":"a","MTU":68}],"Paths":[{},{"Rate":100}]}`), []byte(`{"Ports":[{"ID":"b","MTU":68},{"ID":"a","MTU":68}],"Headers":true}`))
	f.Add([]byte(`{"Ports":[{"ID":"a","MTU":1},{"ID":"a","MTU":68}]}`), []byte(`{"Paths":[{"From":["x"]}]}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		b := newBench(plan{}, func() float64 { return 0.3 })
		for _, text := range [][]byte{first, second} {
			var p plan
			if json.Unmarshal(text, &p) != nil || p.check() != nil {
				continue
			}
			b.lan.configure(p, &b.pool)
			if len(b.lan.ports) != len(p.Ports) || len(b.lan.paths) != len(p.Paths) {
				t.Fatalf("%d ports and %d paths of %s", len(b.lan.ports), len(b.lan.paths), text)
			}
			for i, n := range b.lan.ports {
				if int(n.number) != i {
					t.Fatalf("port %d has number %d", i, n.number)
				}
				b.lan.receive(b.now, n, frameOf(mac{255}, address(i), 1, 60))
				b.lan.receive(b.now, n, frameOf(address(0), address(i), 2, 60))
			}
			b.until(b.now + int64(time.Millisecond))
		}
		b.lan.dropAll()
		b.pool.trim()
		if left := b.pool.room.left.Load(); left != maxBytes {
			t.Errorf("%d bytes did not come back", maxBytes-left)
		}
	})
}
