package server

import "sync"

// smallAnswer is the size in bytes up to which answers are not counted. The connection's own
// buffers take about as much memory.
const smallAnswer = 16 << 10

// answerMemory counts the bytes of answers that are being sent. An answer stays in memory until
// its client has read it. A body that is sent to many clients, such as an advertisement, counts
// once in total and once for each caller.
type answerMemory struct {
	max, perCaller int64

	mu     sync.Mutex
	used   int64
	by     map[string]int64       // bytes of each caller's answers
	bodies map[*byte]*pendingBody // by the address of the body's first byte
}

type pendingBody struct {
	size int64
	to   map[string]int // number of copies being sent, by caller
}

func newAnswerMemory(max, perCaller int64) *answerMemory {
	return &answerMemory{max: max, perCaller: min(max, perCaller), by: make(map[string]int64), bodies: make(map[*byte]*pendingBody)}
}

// hasRoom reports whether the server may accept another call of a caller. The length of the
// answer is known only after the call, and then the answer must be sent. So the answers of
// accepted calls may exceed the limit.
func (a *answerMemory) hasRoom(caller string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used < a.max && a.by[caller] < a.perCaller
}

// add counts a body that is being sent to a caller, unless the body is small. Call sent when the
// body has been sent.
func (a *answerMemory) add(caller string, body []byte) (sent func()) {
	if len(body) <= smallAnswer {
		return func() {}
	}
	key := &body[0]
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.bodies[key]
	if u == nil {
		u = &pendingBody{size: int64(len(body)), to: make(map[string]int)}
		a.bodies[key] = u
		a.used += u.size
	}
	if u.to[caller]++; u.to[caller] == 1 {
		a.by[caller] += u.size
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if u.to[caller]--; u.to[caller] > 0 {
			return
		}
		delete(u.to, caller)
		if a.by[caller] -= u.size; a.by[caller] == 0 {
			delete(a.by, caller)
		}
		if len(u.to) == 0 {
			delete(a.bodies, key)
			a.used -= u.size
		}
	}
}
