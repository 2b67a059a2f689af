package server

import "sync"

// smallAnswer is up to how many bytes an answer is not counted: the buffers of
// its connection cost as much.
const smallAnswer = 16 << 10

// answers counts the bytes of answers that are on their way: whoever does not
// read keeps them in memory. One body that goes to many, as an advertisement
// does, counts once in all and once for each caller.
type answers struct {
	most, perCaller int64

	mu     sync.Mutex
	used   int64
	by     map[string]int64 // by caller
	bodies map[*byte]*underway
}

// underway is a body that is being written.
type underway struct {
	size int64
	to   map[string]int // how many times, by caller
}

func newAnswers(most, perCaller int64) *answers {
	return &answers{most: most, perCaller: min(most, perCaller), by: make(map[string]int64), bodies: make(map[*byte]*underway)}
}

// room tells whether a caller may be answered at all. How long an answer is, is
// known only when the call is done, and then it must be sent.
func (a *answers) room(caller string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used < a.most && a.by[caller] < a.perCaller
}

// put counts a body until sent is called.
func (a *answers) put(caller string, body []byte) (sent func()) {
	if len(body) <= smallAnswer {
		return func() {}
	}
	key := &body[0]
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.bodies[key]
	if u == nil {
		u = &underway{size: int64(len(body)), to: make(map[string]int)}
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
