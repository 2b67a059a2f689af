package testbed

import (
	"context"
	"fmt"
	"strings"
	"time"

	"patchbay/inventory/node/agent"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/supervisor"
)

// incidents are failures of a ready node. The node's message reports them until the user
// restarts the node or switches it off.
type incidents struct {
	// Deaths counts how often the node's system ended unexpectedly.
	Deaths int       `json:"deaths,omitempty"`
	DiedAt time.Time `json:"died_at,omitzero"`
	// Boots counts the reboots of the host while the node ran.
	Boots    int       `json:"boots,omitempty"`
	BootedAt time.Time `json:"booted_at,omitzero"`
	// OOMKills counts processes that were killed for lack of memory.
	OOMKills int64     `json:"kills,omitempty"`
	KilledAt time.Time `json:"killed_at,omitzero"`
	// CountedKills is the part of OOMKills that the node's current cgroups count.
	CountedKills int64 `json:"counted,omitempty"`
}

// agentHeartbeat notices an agent that hangs within ten seconds.
var agentHeartbeat = supervisor.Heartbeat{Every: 1500 * time.Millisecond, Limit: 5}

// memoryTime is the interval of watchMemory.
const memoryTime = 3 * time.Second

const hangsMessage = "its system does not answer, so no user can log in: it may be stopped or overloaded; restart the node if it does not recover"

// statusMessage returns the progress of a node, why it failed, or the incidents of a ready node.
// nc.mu is held.
func (nc *nodeController) statusMessage() string {
	if words := nc.t.imageMessage.Load(); words != nil && nc.message == findingImage {
		return *words
	}
	if nc.message != "" || nc.state != provider.StateReady {
		return nc.message
	}
	var all []string
	if nc.hangs {
		all = append(all, hangsMessage)
	}
	if n := nc.rec.OOMKills; n > 0 {
		all = append(all, fmt.Sprintf("it ran out of memory: %s ended, last at %s; start less in it, or request a larger sliver type",
			plural(n, "process was", "processes were"), nc.rec.KilledAt.UTC().Format(time.RFC3339)))
	}
	if n := nc.rec.Deaths; n > 0 {
		all = append(all, fmt.Sprintf("its system ended unexpectedly and was restarted %s, last at %s",
			plural(int64(n), "time", "times"), nc.rec.DiedAt.UTC().Format(time.RFC3339)))
	}
	if n := nc.rec.Boots; n > 0 {
		all = append(all, fmt.Sprintf("its host was rebooted, and it was restarted from its disk %s, last at %s",
			plural(int64(n), "time", "times"), nc.rec.BootedAt.UTC().Format(time.RFC3339)))
	}
	if text := nc.overrunMessage(); text != "" {
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func plural(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// watchAgent sets the node's status hangs while its agent does not answer, until the run has ended. A
// hanging node is never killed: processes of its user may be the reason, and the user may still need them.
func (nc *nodeController) watchAgent(ended <-chan struct{}) {
	ctx, cancel := context.WithCancel(nc.t.ctx)
	defer cancel()
	ping := func() {
		if c, err := nc.t.runtime.Agent(ctx, nc.id); err == nil {
			_, _ = agent.Ping(ctx, c) // an error is an answer too
		}
	}
	go func() {
		select {
		case <-ended:
		case <-ctx.Done():
		}
		cancel()
	}()
	nc.t.heartbeat.Watch(ctx.Done(), ping, func(hangs bool) {
		if ctx.Err() != nil {
			return // the run has ended, and its agent with it
		}
		if hangs {
			nc.t.log.Warn("the system of a node hangs: its agent does not answer", "node", nc.id)
		} else {
			nc.t.log.Info("the system of a node that hung answers again", "node", nc.id)
		}
		nc.updateStatus(func(s *status) { s.hangs = hangs && s.pid != 0 })
	})
}

// saveDeath records that the node's system ended unexpectedly, and the processes that were killed for
// lack of memory before.
func (nc *nodeController) saveDeath(now time.Time) {
	nc.saveMemoryKills(0, now)
	nc.saveIncident(func(inc *incidents) {
		inc.Deaths, inc.DiedAt = inc.Deaths+1, now
		inc.CountedKills = 0 // the next run has new cgroups
	})
}

// saveDeathWhileStopped records that the node's system ended while this program did not run.
// The parameter boot means that the host was rebooted meanwhile.
func (nc *nodeController) saveDeathWhileStopped(boot bool) {
	now := time.Now()
	if !boot {
		nc.t.log.Warn("the system of a node ended unexpectedly while this program did not run; restarting it", "node", nc.id)
		nc.saveDeath(now)
		return
	}
	nc.t.log.Info("a node was running when its host was rebooted; restarting it", "node", nc.id)
	nc.saveIncident(func(inc *incidents) { inc.Boots, inc.BootedAt, inc.CountedKills = inc.Boots+1, now, 0 })
}

// saveMemoryKills records how many processes of the node were killed for lack of memory since the last
// call: those that the kernel has counted in the node's cgroups, and those that the testbed has killed.
func (nc *nodeController) saveMemoryKills(byTestbed int64, now time.Time) {
	counts, err := nc.t.runtime.OOMKills(nc.id)
	if err != nil {
		counts = 0 // its cgroups were removed
	}
	rec := nc.snapshot()
	if rec.Desired.Removing {
		return
	}
	was, killed := rec.CountedKills, byTestbed
	if counts > was {
		killed += counts - was
	}
	if killed == 0 && (counts == was || err != nil) {
		return // no new kill, and the same cgroups
	}
	if killed > 0 {
		nc.t.log.Warn("processes of a node were killed for lack of memory", "node", nc.id, "processes", killed)
	}
	nc.saveIncident(func(inc *incidents) {
		if err == nil {
			inc.CountedKills = counts
		}
		if killed > 0 {
			inc.OOMKills, inc.KilledAt = inc.OOMKills+killed, now
		}
	})
}

func (nc *nodeController) clearIncidents() error {
	if nc.snapshot().incidents == (incidents{}) {
		return nil
	}
	return asUserError("its state cannot be saved on the disk of the host", nc.updateRecord(func(r *record) { r.incidents = incidents{} }))
}

// saveIncident changes the incidents only in memory if the disk is full.
func (nc *nodeController) saveIncident(change func(*incidents)) {
	if err := nc.updateRecord(func(r *record) { change(&r.incidents) }); err != nil {
		nc.t.log.Error("cannot save an incident of a node", "node", nc.id, "error", err)
		nc.mu.Lock()
		change(&nc.rec.incidents)
		nc.mu.Unlock()
	}
}

func (t *Testbed) watchMemory() {
	for t.ctx.Err() == nil {
		sleep(t.ctx, t.memoryTime)
		for _, nc := range t.sortedNodes() {
			if nc.currentStatus().pid != 0 && t.ctx.Err() == nil {
				nc.saveMemoryKills(0, time.Now())
			}
		}
	}
}

// saveThrashingKill records that KillThrashing has killed a process of a node.
func (t *Testbed) saveThrashingKill(id string) {
	if nc := t.node(id); nc != nil {
		nc.saveMemoryKills(1, time.Now())
	}
}
