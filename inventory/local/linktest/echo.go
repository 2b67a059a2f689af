package linktest

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"
)

// echoes holds the results of echoes, by number.
type echoes struct {
	token uint64
	left  []time.Time     // when each echo was sent
	done  []bool          // which echoes were answered
	trip  []time.Duration // both ways, without the time that the server took to answer
	out   []time.Duration // to the server: the server's time minus the client's time
	in    []time.Duration // from the server: the client's time minus the server's time

	longest time.Duration // the longest trip, including the server's time to answer
}

// add ignores invalid and repeated answers. arrival is the time when the kernel received
// b.
func (e *echoes) add(b []byte, arrival time.Time) {
	h, ok := parseHeader(b)
	if !ok || h.kind != typeAnswer || h.token != e.token || h.number >= uint64(len(e.left)) || e.done[h.number] {
		return
	}
	left, arrived, back := e.left[h.number], time.Unix(0, h.arrived), time.Unix(0, h.left)
	trip, stay := arrival.Sub(left), back.Sub(arrived)
	if stay < 0 || stay > trip {
		return // the server's clock was set, or the server reported false times
	}
	e.done[h.number] = true
	e.trip = append(e.trip, trip-stay)
	e.longest = max(e.longest, trip)
	e.out = append(e.out, arrived.Sub(left))
	e.in = append(e.in, arrival.Sub(back))
}

const (
	echoSpace  = 10 * time.Millisecond
	leastEchos = 20
	mostEchos  = 1000
	echoSize   = 64 // bytes
)

// echo sends one echo per echoSpace, for about the duration d. It first calls learn,
// because address resolution delays the first datagrams.
func (c *client) echo(ctx context.Context, d time.Duration) (Delay, error) {
	s, err := listenUDP(nil)
	if err != nil {
		return Delay{}, err
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := c.learn(s); err != nil {
		return Delay{}, err
	}
	n := min(max(int(d/echoSpace), leastEchos), mostEchos)
	e := &echoes{left: make([]time.Time, 0, n), done: make([]bool, n)}
	if e.token, err = newToken(); err != nil {
		return Delay{}, err
	}
	question, buffer := make([]byte, echoSize), make([]byte, 64<<10)
	next := time.Now()
	for end := next.Add(time.Duration(n)*echoSpace + patience); len(e.trip) < n; {
		if now := time.Now(); len(e.left) < n && !now.Before(next) {
			header{kind: typeEcho, token: e.token, number: uint64(len(e.left))}.marshal(question)
			e.left = append(e.left, time.Now())
			if err := sendOne(s.UDPConn, question, c.peer); err != nil {
				return Delay{}, err
			}
			next = now.Add(echoSpace)
		} else if now.After(end) || len(e.left) == n && now.Sub(next) > min(quiet+4*e.longest, patience) {
			break
		}
		wait := next
		if len(e.left) == n {
			wait = time.Now().Add(echoSpace)
		}
		if err := s.SetReadDeadline(wait); err != nil {
			return Delay{}, err
		}
		got, from, at, err := s.receive(buffer)
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			continue
		}
		if err != nil {
			return Delay{}, err
		}
		if from.Addr().Unmap() == c.peer.Addr().Unmap() {
			e.add(buffer[:got], at)
		}
	}
	r := Delay{Sent: n, Answered: len(e.trip), Trip: spreadOf(e.trip)}
	if r.Answered == 0 {
		return Delay{}, errors.New("no echo came back")
	}
	if c.boot != "" && c.boot == bootID() {
		out, in := spreadOf(e.out), spreadOf(e.in)
		r.Out, r.In = &out, &in
	}
	return r, nil
}

// learn sends echoes until one is answered. Then both sides have resolved the addresses.
func (c *client) learn(s *socket) error {
	token, err := newToken()
	if err != nil {
		return err
	}
	question, buffer := make([]byte, echoSize), make([]byte, 64<<10)
	header{kind: typeEcho, token: token}.marshal(question)
	for end := time.Now().Add(lineTime); time.Now().Before(end); {
		if err := sendOne(s.UDPConn, question, c.peer); err != nil {
			return err
		}
		if err := s.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			return err
		}
		if n, _, _, err := s.receive(buffer); err == nil {
			if h, ok := parseHeader(buffer[:n]); ok && h.token == token {
				return nil
			}
		}
	}
	return errors.New("TCP goes through, but no UDP echo comes back")
}

func spreadOf(all []time.Duration) Spread {
	if len(all) == 0 {
		return Spread{}
	}
	all = slices.Sorted(slices.Values(all))
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return Spread{Least: ms(all[0]), Median: ms(all[len(all)/2]), P95: ms(all[len(all)*95/100])}
}
