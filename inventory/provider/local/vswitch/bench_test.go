package vswitch

import (
	"fmt"
	"testing"
	"time"
)

// The switch alone, without devices.
func BenchmarkSwitch(b *testing.B) {
	for _, bytes := range []int{60, 1514} {
		b.Run(fmt.Sprint(bytes), func(b *testing.B) {
			l := newBench(plan{Ports: plannedPorts(2), Paths: []Path{{Delay: time.Microsecond, Loss: 0.01, Rate: 1e10}}}, func() float64 { return 0.5 })
			l.lan.send = func(*port, []byte) bool { return true }
			f, from := frameOf(address(1), address(2), 1, bytes), l.lan.ports[0]
			b.SetBytes(int64(bytes))
			b.ReportAllocs()
			for b.Loop() {
				l.lan.receive(l.now, from, f)
				l.until(l.now + 2000)
			}
		})
	}
}
