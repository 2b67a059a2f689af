package testbed

import (
	"context"
	"fmt"
	"strings"
	"time"

	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/supervisor"
	"patchbay/inventory/provider"
)

// mishaps are failures of a node that is ready. They are kept until its user restarts it,
// and are part of its message.
type mishaps struct {
	// Deaths counts how often its system ended unexpectedly.
	Deaths int       `json:"deaths,omitempty"`
	DiedAt time.Time `json:"died_at,omitzero"`
	// Boots counts the boots of the host that have ended it.
	Boots    int       `json:"boots,omitempty"`
	BootedAt time.Time `json:"booted_at,omitzero"`
	// Kills counts processes that were killed for lack of memory.
	Kills    int64     `json:"kills,omitempty"`
	KilledAt time.Time `json:"killed_at,omitzero"`
	// Counted are those of them that the node's groups count.
	Counted int64 `json:"counted,omitempty"`
}

// agentHeartbeat notices an agent that hangs within ten seconds.
var agentHeartbeat = supervisor.Heartbeat{Every: 1500 * time.Millisecond, Limit: 5}

// memoryTime is how often nodes are checked for processes killed for lack of memory.
const memoryTime = 3 * time.Second

const hangsText = "its system does not answer, so nobody can log in: it may be stopped or overloaded; restart the node if it does not go on by itself"

// text returns the message of a node: its progress, why it failed, or what is wrong with
// it although it is ready. l.mu is held.
func (l *life) text() string {
	if words := l.t.building.Load(); words != nil && l.message == findingImage {
		return *words
	}
	if l.message != "" || l.state != provider.StateReady {
		return l.message
	}
	var all []string
	if l.hangs {
		all = append(all, hangsText)
	}
	if n := l.rec.Kills; n > 0 {
		all = append(all, fmt.Sprintf("it ran out of memory: %s ended, last at %s; start less in it, or ask for a larger sliver type",
			plural(n, "process was", "processes were"), l.rec.KilledAt.UTC().Format(time.RFC3339)))
	}
	if n := l.rec.Deaths; n > 0 {
		all = append(all, fmt.Sprintf("its system ended by itself and was started again %s, last at %s",
			plural(int64(n), "time", "times"), l.rec.DiedAt.UTC().Format(time.RFC3339)))
	}
	if n := l.rec.Boots; n > 0 {
		all = append(all, fmt.Sprintf("its host was booted, and it was started again from its disk, %s, last at %s",
			plural(int64(n), "time", "times"), l.rec.BootedAt.UTC().Format(time.RFC3339)))
	}
	if text := l.overrunsOf(); text != "" {
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// plural is a number with the word for one or for more.
func plural(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// watchAgent reports when the agent of a run hangs and when it goes on, until the
// run has ended. A node is never killed for it: what its user does in it may be the
// reason, and may still be wanted.
func (l *life) watchAgent(ended <-chan struct{}) {
	ctx, cancel := context.WithCancel(l.t.ctx)
	defer cancel()
	ping := func() {
		if c, err := l.t.machines.Agent(ctx, l.id); err == nil {
			_, _ = agent.Hello(ctx, c) // an error is an answer, too
		}
	}
	go func() {
		select {
		case <-ended:
		case <-ctx.Done():
		}
		cancel()
	}()
	l.t.heartbeat.Watch(ctx.Done(), ping, func(hangs bool) {
		if ctx.Err() != nil {
			return // the run has ended, and with it the ping
		}
		if hangs {
			l.t.log.Warn("the system of a node hangs: its agent does not answer", "node", l.id)
		} else {
			l.t.log.Info("the system of a node that hung answers again", "node", l.id)
		}
		l.update(func(s *status) { s.hangs = hangs && s.pid != 0 })
	})
}

// noteDeath records that the node's system has ended unexpectedly.
func (l *life) noteDeath(now time.Time) {
	l.noteKills(0, now)
	l.noteMishap(func(m *mishaps) {
		m.Deaths, m.DiedAt = m.Deaths+1, now
		m.Counted = 0 // the next run has groups of its own
	})
}

// diedMeanwhile notes that the node's system has ended while this program did not run.
func (l *life) diedMeanwhile(boot bool) {
	now := time.Now()
	if !boot {
		l.t.log.Warn("the system of a node has ended by itself while this program did not run; it is started again", "node", l.id)
		l.noteDeath(now)
		return
	}
	l.t.log.Info("a node was running when its host was booted; it is started again", "node", l.id)
	l.noteMishap(func(m *mishaps) { m.Boots, m.BootedAt, m.Counted = m.Boots+1, now, 0 })
}

// noteKills records processes that were killed for lack of memory: more, and those that
// the cgroups of the node have counted since the last call.
func (l *life) noteKills(more int64, now time.Time) {
	counts, err := l.t.machines.OOMKills(l.id)
	if err != nil {
		counts = 0 // its groups are gone
	}
	rec := l.snapshot()
	if rec.Asked.Removing {
		return
	}
	was := rec.Counted
	if counts > was {
		more += counts - was
	}
	if more == 0 && (counts == was || err != nil) {
		return
	}
	if more > 0 {
		l.t.log.Warn("processes of a node were ended for want of memory", "node", l.id, "processes", more)
	}
	l.noteMishap(func(m *mishaps) {
		if err == nil {
			m.Counted = counts
		}
		if more > 0 {
			m.Kills, m.KilledAt = m.Kills+more, now
		}
	})
}

// forgetMishaps clears the failures from before the user switched the node off.
func (l *life) forgetMishaps() error {
	if l.snapshot().mishaps == (mishaps{}) {
		return nil
	}
	return inWords("it cannot be noted on the disk of the host", l.settle(func(r *record) { r.mishaps = mishaps{} }))
}

// noteMishap records a failure on disk, or in memory alone if that cannot be written.
func (l *life) noteMishap(set func(*mishaps)) {
	if err := l.settle(func(r *record) { set(&r.mishaps) }); err != nil {
		l.t.log.Error("cannot write down what went wrong in a node", "node", l.id, "error", err)
		l.mu.Lock()
		set(&l.rec.mishaps)
		l.mu.Unlock()
	}
}

// watchMemory checks every memoryTime whether processes of nodes were killed for lack of
// memory.
func (t *Testbed) watchMemory() {
	for t.ctx.Err() == nil {
		sleep(t.ctx, t.memoryTime)
		for _, l := range t.all() {
			if l.reported().pid != 0 && t.ctx.Err() == nil {
				l.noteKills(0, time.Now())
			}
		}
	}
}

// relieved records that the testbed killed a process of a node that had no memory left.
func (t *Testbed) relieved(id string) {
	if l := t.life(id); l != nil {
		l.noteKills(1, time.Now())
	}
}
