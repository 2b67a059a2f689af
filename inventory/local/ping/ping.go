package ping

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Argv0 is the name under which the testbed's binary runs this program.
const Argv0 = "ping"

// Main runs the program with its arguments, and returns its exit status: 0 if enough
// answers came (see run), 1 if not, 2 for other errors. It ends on SIGINT and SIGTERM.
func Main(args []string, out, complaints io.Writer) int {
	o, err := parse(args)
	if err != nil {
		fmt.Fprintln(complaints, "ping:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	answered, err := o.run(ctx, out)
	if err != nil {
		fmt.Fprintln(complaints, "ping:", err)
		return 2
	}
	if !answered {
		return 1
	}
	return 0
}

// loginNetwork contains the addresses that a node's /etc/hosts gives to nodes with which it
// shares no link. They are loopback addresses of the node itself. A connection to port 22 of
// such an address is forwarded to the SSH server of the other node; other ports lead nowhere.
var loginNetwork = netip.MustParsePrefix("127.64.0.0/16")

func (o *options) resolve(ctx context.Context) (netip.Addr, error) {
	network := "ip"
	if o.family != 0 {
		network += string(o.family)
	}
	if a, err := netip.ParseAddr(o.host); err == nil {
		if o.family == '4' && !a.Is4() || o.family == '6' && a.Is4() {
			return a, fmt.Errorf("%s: Address family for hostname not supported", o.host)
		}
		return a.Unmap(), nil
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, network, o.host)
	if err != nil || len(all) == 0 {
		return netip.Addr{}, fmt.Errorf("%s: Name or service not known", o.host)
	}
	for _, a := range all {
		if a.Unmap().Is4() {
			return a.Unmap(), nil
		}
	}
	return all[0], nil
}

type pinger struct {
	*options
	out  io.Writer
	s    *socket
	to   netip.Addr
	name string // the host in output lines

	begun    time.Time
	sent     int
	left     map[uint16]time.Time // when each unanswered request left
	done     map[uint16]bool      // recently answered requests
	received int                  // answers, without repeated ones
	twice    int                  // repeated answers
	wrong    int                  // ICMP errors
	trips    []float64            // in ms
}

// run reports whether enough answers came. With both -c and -w, -c is the number of
// answers needed. Otherwise one is enough.
func (o *options) run(ctx context.Context, out io.Writer) (bool, error) {
	to, err := o.resolve(ctx)
	if err != nil {
		return false, err
	}
	if loginNetwork.Contains(to) {
		return false, fmt.Errorf("%s shares no link with this node; only ssh reaches it", o.host)
	}
	s, err := open(to, o)
	if err != nil {
		return false, err
	}
	p := &pinger{options: o, out: out, s: s, to: to, name: to.String(), left: map[uint16]time.Time{}, done: map[uint16]bool{}, begun: time.Now()}
	if o.host != p.name {
		p.name = fmt.Sprintf("%s (%s)", o.host, to)
	}
	if to.Is4() {
		fmt.Fprintf(out, "PING %s (%s) %d(%d) bytes of data.\n", o.host, to, o.size, o.size+headerSize+20)
	} else {
		fmt.Fprintf(out, "PING %s(%s) %d data bytes\n", o.host, p.name, o.size)
	}
	if err := p.loop(ctx); err != nil {
		return false, err
	}
	p.statistics()
	if o.deadline > 0 && o.count > 0 {
		return p.received >= o.count, nil
	}
	return p.received > 0, nil
}

func (p *pinger) loop(ctx context.Context) error {
	payload, buffer := make([]byte, p.size), make([]byte, 64<<10)
	for i := range payload {
		payload[i] = byte(i)
	}
	// receive must return often enough to notice a signal.
	const signalCheck = 100 * time.Millisecond
	next := p.begun
	for ctx.Err() == nil {
		now := time.Now()
		all := p.count > 0 && p.sent >= p.count && p.deadline == 0 // with a deadline, -c counts answers
		switch {
		case p.deadline > 0 && now.Sub(p.begun) >= p.deadline, p.count > 0 && p.received >= p.count:
			return nil
		case all && (len(p.left) == 0 || now.Sub(next.Add(-p.interval)) >= p.lastWait()):
			return nil
		case !all && !now.Before(next):
			if err := p.request(payload); err != nil {
				return err
			}
			next = now.Add(p.interval)
			continue
		}
		until := now.Add(signalCheck)
		if !all && next.Before(until) {
			until = next
		}
		a, err := p.s.receive(until, buffer)
		if err != nil {
			return err
		}
		if a != nil {
			p.handle(a, time.Now())
		}
	}
	return nil
}

// lastWait returns how long to wait for the answer to the last request. As with iputils, it is
// twice the longest round trip so far, and at least a second. The time of -W is the maximum,
// and applies before the first answer.
func (p *pinger) lastWait() time.Duration {
	longest := 0.0
	for _, t := range p.trips {
		longest = max(longest, t)
	}
	if longest == 0 {
		return p.wait
	}
	return min(p.wait, max(time.Duration(2*longest*float64(time.Millisecond)), time.Second))
}

func (p *pinger) request(payload []byte) error {
	number := uint16(p.sent + 1)
	delete(p.done, number)
	p.left[number] = time.Now()
	p.sent++
	err := p.s.send(number, payload)
	switch {
	case errors.Is(err, syscall.EMSGSIZE):
		return errors.New("sendmsg: message too long")
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOBUFS), err == nil:
		return nil // the error is an earlier one of the socket, or a full queue: the request counts as lost
	}
	fmt.Fprintf(p.out, "ping: sendmsg: %v\n", err)
	return nil
}

func (p *pinger) handle(a *answer, arrival time.Time) {
	left, open := p.left[a.number]
	if a.wrong != "" {
		if !open {
			return
		}
		delete(p.left, a.number)
		p.wrong++
		if by := a.from; !p.quiet && by.IsValid() {
			fmt.Fprintf(p.out, "From %s icmp_seq=%d %s\n", by, a.number, a.wrong)
		} else if !p.quiet {
			fmt.Fprintf(p.out, "ping: icmp_seq=%d %s\n", a.number, a.wrong)
		}
		return
	}
	again := p.done[a.number]
	if !open && !again {
		return
	}
	text := ""
	if again {
		p.twice++
		text = " (DUP!)"
	} else {
		delete(p.left, a.number)
		p.done[a.number] = true
		p.received++
		p.trips = append(p.trips, float64(arrival.Sub(left))/float64(time.Millisecond))
	}
	if p.quiet {
		return
	}
	timing := ""
	if !again {
		timing = fmt.Sprintf(" time=%s ms", milliseconds(p.trips[len(p.trips)-1]))
	}
	fmt.Fprintf(p.out, "%d bytes from %s: icmp_seq=%d ttl=%d%s%s\n", a.size, p.name, a.number, a.ttl, timing, text)
}

// milliseconds uses the digits of iputils.
func milliseconds(ms float64) string {
	switch {
	case ms >= 100:
		return fmt.Sprintf("%.0f", ms)
	case ms >= 10:
		return fmt.Sprintf("%.1f", ms)
	case ms >= 1:
		return fmt.Sprintf("%.2f", ms)
	}
	return fmt.Sprintf("%.3f", ms)
}

func (p *pinger) statistics() {
	fmt.Fprintf(p.out, "\n--- %s ping statistics ---\n%d packets transmitted, %d received", p.host, p.sent, p.received)
	if p.twice > 0 {
		fmt.Fprintf(p.out, ", +%d duplicates", p.twice)
	}
	if p.wrong > 0 {
		fmt.Fprintf(p.out, ", +%d errors", p.wrong)
	}
	loss := 0.0
	if p.sent > 0 {
		loss = 100 * float64(p.sent-p.received) / float64(p.sent)
	}
	fmt.Fprintf(p.out, ", %.6g%% packet loss, time %dms\n", loss, time.Since(p.begun).Milliseconds())
	if len(p.trips) == 0 {
		fmt.Fprintln(p.out)
		return
	}
	least, most, sum, squares := math.Inf(1), 0.0, 0.0, 0.0
	for _, t := range p.trips {
		least, most, sum, squares = min(least, t), max(most, t), sum+t, squares+t*t
	}
	mean := sum / float64(len(p.trips))
	deviation := math.Sqrt(max(squares/float64(len(p.trips))-mean*mean, 0))
	fmt.Fprintf(p.out, "rtt min/avg/max/mdev = %.3f/%.3f/%.3f/%.3f ms\n", least, mean, most, deviation)
}
