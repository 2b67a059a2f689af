package gateway

import (
	"sync"
	"time"
)

// What a peer may ask for: burst at once, then rate in a second. It is made to
// wait for more, and with it all else on its connection.
const (
	rate  = 100
	burst = 400
)

// pace slows down one connection. The zero value is ready.
type pace struct {
	mu   sync.Mutex
	free time.Time // when all that was asked for is paid
}

// wait waits until one more thing may be asked for.
func (p *pace) wait() {
	p.mu.Lock()
	now := time.Now()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Second / rate)
	over := p.free.Sub(now) - burst*time.Second/rate
	p.mu.Unlock()
	if over > 0 {
		time.Sleep(over)
	}
}
