package vswitch

// lan is the switch of one link. It reads no clock, since its callers pass the time. Only one
// goroutine uses it.
type lan struct {
	ports    []*port
	pathOf   [][]*path // by source and destination; nil: no path, frames leave at once
	paths    []*path
	table    *table
	schedule *schedule
	header   int                      // size of the header before each frame, or 0
	draw     func() float64           // returns a random number from 0 to 1
	send     func(*port, []byte) bool // reports false if the device did not accept the frame
	round    uint64                   // number of the current call of flood
	touched  []*path                  // paths that the current call of flood uses
}

// port is a Port of a running link.
type port struct {
	id     string
	number uint16
	mtu    int
	counts Counters
	device *device
}

// receive forwards the frame b, which begins with its header. It changes b, but does not use b
// after it has returned.
func (l *lan) receive(now int64, from *port, b []byte) {
	to, source, ok := l.inspect(from, b)
	if !ok {
		from.counts.Bad++
		return
	}
	from.counts.InPackets += uint64(pieces(b, l.header))
	from.counts.InBytes += uint64(len(b) - l.header)
	l.table.learn(source, from.number, now)
	if !to.group() {
		if at, known := l.table.find(to, now); known {
			if at != from.number {
				l.sendTo(now, from, l.ports[at], b)
			}
			return
		}
	}
	l.flood(now, from, b)
}

// inspect returns the addresses in a frame. ok is false if the frame may not be forwarded.
func (l *lan) inspect(from *port, b []byte) (to, source mac, ok bool) {
	if len(b) < l.header {
		return to, source, false
	}
	frame := b[l.header:]
	if l.header > 0 {
		ok = normalize(b, frame, from.mtu)
	} else {
		ok = fitsMTU(frame, from.mtu)
	}
	if !ok {
		return to, source, false
	}
	return addresses(frame)
}

// sendTo sends a frame to one port, by the path between the ports if there is one.
func (l *lan) sendTo(now int64, from, to *port, b []byte) {
	p := l.pathOf[from.number][to.number]
	if p == nil {
		l.transmit(to, b)
		return
	}
	if l.isLost(p, to) {
		return
	}
	if p.isImmediate() {
		l.transmit(to, b)
		return
	}
	if !p.enqueue(now, entry{from: from.number, to: to.number, frame: b}, len(b)-l.header) {
		to.counts.Full++
		return
	}
	l.schedule.update(p)
}

// flood sends the frame once on each path, even if the path leads to several ports.
func (l *lan) flood(now int64, from *port, b []byte) {
	l.round++
	l.touched = l.touched[:0]
	for _, to := range l.ports {
		if to == from {
			continue
		}
		p := l.pathOf[from.number][to.number]
		switch {
		case p == nil:
			l.transmit(to, b)
		case p.round != l.round:
			p.round, p.receivers, p.one = l.round, 1, to.number
			l.touched = append(l.touched, p)
		default:
			p.receivers++
		}
	}
	for _, p := range l.touched {
		if p.receivers == 1 {
			l.sendTo(now, from, l.ports[p.one], b)
			continue
		}
		if p.isImmediate() {
			l.floodPath(p, from.number, b)
			continue
		}
		if !p.enqueue(now, entry{from: from.number, to: everyone, frame: b}, len(b)-l.header) {
			l.eachOn(p, from.number, func(to *port) { to.counts.Full++ })
			continue
		}
		l.schedule.update(p)
	}
}

// eachOn calls f for each port to which the path p leads from the port with the number
// source.
func (l *lan) eachOn(p *path, source uint16, f func(*port)) {
	for i, way := range l.pathOf[source] {
		if way == p && i != int(source) {
			f(l.ports[i])
		}
	}
}

// floodPath decides for each port separately whether the frame is lost.
func (l *lan) floodPath(p *path, from uint16, b []byte) {
	l.eachOn(p, from, func(to *port) {
		if !l.isLost(p, to) {
			l.transmit(to, b)
		}
	})
}

// isLost is true with the probability p.loss. It counts a lost frame.
func (l *lan) isLost(p *path, to *port) bool {
	if p.loss == 0 || l.draw() >= p.loss {
		return false
	}
	to.counts.Lost++
	return true
}

func (l *lan) sendFirst(p *path) {
	e := p.queue.peek()
	if e.to == everyone {
		l.floodPath(p, e.from, e.frame)
	} else {
		l.transmit(l.ports[e.to], e.frame)
	}
	p.queue.drop()
	l.schedule.update(p)
}

func (l *lan) transmit(to *port, b []byte) {
	if !l.send(to, b) {
		to.counts.Bad++
		return
	}
	to.counts.OutPackets += uint64(pieces(b, l.header))
	to.counts.OutBytes += uint64(len(b) - l.header)
}

func (l *lan) dropAll() {
	for _, p := range l.paths {
		l.schedule.remove(p)
		p.queue.empty()
	}
}
