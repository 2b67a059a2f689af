package site

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"patchbay/am"
	"patchbay/am/server"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/credentials/cert"
	"patchbay/inventory/provider"
)

// callFailures counts the calls of providers that failed as a whole. The zero value is ready for
// use.
type callFailures struct {
	mu     sync.Mutex
	counts map[[2]string]int64 // by provider and action
}

// count adds n failures. With n 0 it only creates the metric.
func (f *callFailures) count(provider, action string, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = map[[2]string]int64{}
	}
	f.counts[[2]string{provider, action}] += n
}

func (f *callFailures) numbers(add func(float64, ...string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for by, n := range f.counts {
		add(float64(n), by[0], by[1])
	}
}

// countsMaxAge lets one request of /metrics read the store only once.
const countsMaxAge = time.Second

type storeCounts struct {
	at             time.Time
	slivers        map[[2]string]int // by state and provider
	degraded       map[string]int    // ready slivers with a problem, by provider
	blocked        int               // slivers that have not begun, on components that a slice keeps that was shut down
	waiting, late  int               // slivers that have not begun, and those of them whose start has come
	tasks          map[[2]string]int // by goal and provider
	oldest         time.Duration     // age of the oldest task
	slices         int
	components     map[string]int // by state
	capacity, used operate.Amount
	err            error
}

type countsCache struct {
	mu   sync.Mutex
	last *storeCounts
}

// storeCounts returns counts that are not older than countsMaxAge.
func (s *Site) storeCounts() *storeCounts {
	s.countsCache.mu.Lock()
	defer s.countsCache.mu.Unlock()
	if last := s.countsCache.last; last == nil || time.Since(last.at) >= countsMaxAge {
		s.countsCache.last = s.countStore()
	}
	return s.countsCache.last
}

// goals are all goals of tasks.
var goals = []am.Goal{am.GoalMake, am.GoalStart, am.GoalStop, am.GoalRestart, am.GoalUsers, am.GoalRemove, am.GoalUndo}

// countStore counts the records of the store and the components. A state that does not occur has
// the count 0, so that its metric exists.
func (s *Site) countStore() *storeCounts {
	n := &storeCounts{at: time.Now(), slivers: map[[2]string]int{}, degraded: map[string]int{}, tasks: map[[2]string]int{}, components: map[string]int{}}
	for name := range providersOf(s.inventory.Load()) {
		n.degraded[name] = 0
		for _, state := range operate.SliverStates {
			n.slivers[[2]string{state, name}] = 0
		}
		for _, goal := range goals {
			n.tasks[[2]string{string(goal), name}] = 0
		}
	}
	for _, state := range operate.NodeStates {
		n.components[state] = 0
	}
	n.err = s.store.Read(func(v *store.View) error {
		providers := map[string]string{}                       // by sliver
		frozen, waiting := map[string]bool{}, map[string]int{} // by component
		err := v.Slivers(func(x am.Sliver) bool {
			providers[x.URN.Key()] = x.Provider
			n.slivers[[2]string{operate.StateOf(&x, v.Now()), x.Provider}]++
			if x.Observed.State == provider.StateReady && x.Observed.Message != "" {
				n.degraded[x.Provider]++
			}
			if x.Waits() {
				n.waiting++
				waiting[x.Component.Key()]++
				if !x.Begins.After(v.Now()) {
					n.late++
				}
			}
			if x.Frozen && x.Exclusive {
				frozen[x.Component.Key()] = true
			}
			return true
		})
		for c := range frozen {
			n.blocked += waiting[c]
		}
		if err != nil {
			return err
		}
		if err := v.Tasks(func(t am.Task) bool {
			n.tasks[[2]string{string(t.Goal), providers[t.Sliver.Key()]}]++
			n.oldest = max(n.oldest, v.Now().Sub(t.Since))
			return true
		}); err != nil {
			return err
		}
		return v.Slices(func(am.Slice) bool { n.slices++; return true })
	})
	if n.err == nil {
		n.err = s.operations.Nodes(operate.Filter{}, func(c operate.Node) error {
			n.components[c.State]++
			n.capacity, n.used = n.capacity.Add(c.Capacity), n.used.Add(c.Used)
			return nil
		})
	}
	return n
}

// numbers returns all metrics except those of am/server.
func (s *Site) numbers() []server.Number {
	flag := func(is func() bool) func() float64 { return func() float64 { return number(is()) } }
	return slices.Concat(s.hookNumbers(), s.authorityNumbers(), s.providerNumbers(), s.storeNumbers(), s.fileNumbers(), []server.Number{
		{Name: "tls_connections", Help: "Connections whose TLS state is in memory.", Value: func() float64 { return float64(s.tls.Live()) }},
		{Name: "trust_anchors", Help: "Certificates in the trust folder.", Value: func() float64 { return float64(len(s.anchors.Load().List())) }},
		{Name: "audit_lines_total", Counter: true, Help: "Lines of the audit written since the start.", Value: func() float64 {
			n, _ := s.audit.Lines()
			return float64(n)
		}},
		{Name: "audit_unwritten", Help: "Lines of the audit that could not be written yet, or are lost; anything but 0 needs an operator.", Value: func() float64 {
			_, n := s.audit.Lines()
			return float64(n)
		}},
		{Name: "clock_in_doubt", Help: "1 while the host's clock is not trusted, so that leases follow the monotonic clock; else 0.", Value: flag(func() bool {
			return s.clock.State().Jumped()
		})},
		{Name: "policy_rules", Help: "Rules of the policy that apply.", Value: func() float64 { return float64(s.policy.policy.Rules().Len()) }},
		{Name: "policy_broken", Help: "1 while the policy cannot be read, so that its previous rules still apply; else 0.", Value: flag(s.policy.isBroken)},
		{Name: "lockdown", Help: "1 while an operator has locked the site down, so that it takes no new work; else 0.", Value: flag(s.maintenance.locked.Load)},
		{Name: "maintenance_broken", Help: "1 while the maintenance file cannot be read, so that its last valid content still applies; else 0.", Value: flag(s.maintenance.broken.Load)},
		{Name: "maintenance_unknown", Help: "Entries of the maintenance file that name a component which the inventory does not have. Such an entry has no effect: a component that was renamed is in service again.", Value: func() float64 { return float64(s.maintenance.countUnknown()) }},
		{Name: "store_broken", Help: "1 while the store accepts no changes because of damage or a failed write; else 0.", Value: flag(func() bool {
			return s.store.Err() != nil
		})},
		{Name: "decision_longest_seconds", Help: "Longest time that one change took in the commit since the start. All other changes of the site wait meanwhile.", Value: func() float64 {
			return s.store.LongestDecision().Seconds()
		}},
		{Name: "orphans", Help: "Resources of a provider that belong to no sliver. There is no value for a provider that has not listed its resources yet.", Labels: []string{"provider"}, Values: func(add func(float64, ...string)) {
			for name, n := range s.runner.CountOrphans() {
				add(float64(n), name)
			}
		}},
	})
}

func number(flag bool) float64 {
	if flag {
		return 1
	}
	return 0
}

func (s *Site) hookNumbers() []server.Number {
	count := func(f func() int) func() float64 { return func() float64 { return float64(f()) } }
	return []server.Number{
		{Name: "hook_events", Help: "Events that wait for delivery to a hook.", Value: count(s.hooks.Waiting)},
		{Name: "hook_events_lost_total", Counter: true, Help: "Events dropped since the start because too many waited, or for too long; anything but 0 needs an operator.", Value: count(s.hooks.Lost)},
		{Name: "hooks_failing", Help: "Hooks whose last delivery failed.", Value: count(s.hooks.Failing)},
	}
}

func (s *Site) providerNumbers() []server.Number {
	return []server.Number{
		{Name: "provider_up", Help: "1 while the provider answers, 0 when it has not answered for 45 seconds.", Labels: []string{"provider"}, Values: func(add func(float64, ...string)) {
			for _, p := range s.runner.Polled() {
				add(number(!p.Silent), p.Provider)
			}
		}},
		{Name: "provider_call_failures_total", Counter: true, Help: "Calls of providers that failed as a whole: no usable answer, none in time, or an error about the call.", Labels: []string{"provider", "action"}, Values: s.providers.failed.numbers},
		{Name: "no_shows_total", Counter: true, Help: "Slivers released since the start because they had begun and nobody provisioned them in time.", Value: func() float64 { return float64(s.runner.NoShows()) }},
		{Name: "task_failures_total", Counter: true, Help: "Attempts at tasks that have failed since the start.", Value: func() float64 { return float64(s.runner.TaskFailures()) }},
	}
}

// storeNumbers have no values while the store cannot be read.
func (s *Site) storeNumbers() []server.Number {
	values := func(addFrom func(n *storeCounts, add func(float64, ...string))) func(func(float64, ...string)) {
		return func(add func(float64, ...string)) {
			if n := s.storeCounts(); n.err == nil {
				addFrom(n, add)
			}
		}
	}
	addPairs := func(counts map[[2]string]int, add func(float64, ...string)) {
		for by, count := range counts {
			add(float64(count), by[0], by[1])
		}
	}
	addAmount := func(a operate.Amount, add func(float64, ...string)) {
		add(float64(a.Slots), "slots")
		add(float64(a.Cores), "cores")
		add(float64(a.GPUs), "gpus")
		add(float64(a.Memory<<20), "memory_bytes")
		add(float64(a.Disk<<20), "disk_bytes")
	}
	return []server.Number{
		{Name: "slivers", Help: "Slivers by state and provider, those being removed included.", Labels: []string{"state", "provider"}, Values: values(func(n *storeCounts, add func(float64, ...string)) { addPairs(n.slivers, add) })},
		{Name: "slivers_degraded", Help: "Slivers that are ready although their provider reports a problem: geni_error of Status has it.", Labels: []string{"provider"}, Values: values(func(n *storeCounts, add func(float64, ...string)) {
			for name, count := range n.degraded {
				add(float64(count), name)
			}
		})},
		{Name: "slivers_waiting", Help: "Slivers that were reserved ahead and have not begun.", Values: values(func(n *storeCounts, add func(float64, ...string)) { add(float64(n.waiting)) })},
		{Name: "slivers_late", Help: "Slivers that have not begun although their start has come.", Values: values(func(n *storeCounts, add func(float64, ...string)) { add(float64(n.late)) })},
		{Name: "slivers_blocked", Help: "Slivers that have not begun, on components that a slice keeps which was shut down: thaw or release it before they begin.", Values: values(func(n *storeCounts, add func(float64, ...string)) { add(float64(n.blocked)) })},
		{Name: "tasks", Help: "Work that providers still have to do, by goal and provider.", Labels: []string{"goal", "provider"}, Values: values(func(n *storeCounts, add func(float64, ...string)) { addPairs(n.tasks, add) })},
		{Name: "task_oldest_seconds", Help: "Age of the oldest task; 0 if there is none.", Values: values(func(n *storeCounts, add func(float64, ...string)) { add(n.oldest.Seconds()) })},
		{Name: "slices", Help: "Slices that have slivers here or were shut down.", Values: values(func(n *storeCounts, add func(float64, ...string)) { add(float64(n.slices)) })},
		{Name: "components", Help: "Components by state. A component has the first of these states that applies: missing, drained, maintenance, cleaning, held, full, used, free.", Labels: []string{"state"}, Values: values(func(n *storeCounts, add func(float64, ...string)) {
			for state, count := range n.components {
				add(float64(count), state)
			}
		})},
		{Name: "capacity", Help: "Total capacity of all components, of resources that are limited.", Labels: []string{"resource"}, Values: values(func(n *storeCounts, add func(float64, ...string)) { addAmount(n.capacity, add) })},
		{Name: "capacity_used", Help: "Capacity that slivers use.", Labels: []string{"resource"}, Values: values(func(n *storeCounts, add func(float64, ...string)) { addAmount(n.used, add) })},
	}
}

func (s *Site) fileNumbers() []server.Number {
	return []server.Number{
		{Name: "certificate_expiry_timestamp_seconds", Help: "Earliest expiry of the certificates in a file of the server or of the trust folder.", Labels: []string{"file"}, Values: s.certificateExpiry},
		{Name: "crl_next_update_timestamp_seconds", Help: "When a CRL in the trust folder gets out of date.", Labels: []string{"file"}, Values: func(add func(float64, ...string)) {
			next := map[string]time.Time{}
			for _, l := range s.anchors.Load().RevocationLists() {
				keepEarliest(next, l.File, l.NextUpdate)
			}
			s.addTimes(add, next)
		}},
		{Name: "last_backup_timestamp_seconds", Help: "When patchbay backup last wrote a backup of this site; 0 for never.", Value: func() float64 {
			info, err := os.Lstat(backupMark(s.config))
			if err != nil {
				return 0
			}
			return float64(info.ModTime().Unix())
		}},
		{Name: "build_info", Help: "1; the labels are the versions of Patchbay and of Go.", Labels: []string{"version", "goversion"}, Values: func(add func(float64, ...string)) {
			add(1, SoftwareVersion(), runtime.Version())
		}},
	}
}

// certificateExpiry adds the earliest expiry of the certificates in each file: the server's files
// and those in the trust folder.
func (s *Site) certificateExpiry(add func(float64, ...string)) {
	ends := map[string]time.Time{}
	for _, x := range s.anchors.Load().List() {
		keepEarliest(ends, x.File, x.Certificate.NotAfter)
	}
	for _, k := range s.config.Keys {
		text, _ := os.ReadFile(k.Certificate) // a file that cannot be read has no value
		chain, _ := cert.ParsePEM(text)
		for _, c := range chain {
			keepEarliest(ends, k.Certificate, c.NotAfter)
		}
	}
	s.addTimes(add, ends)
}

// keepEarliest stores t unless the stored time is earlier or t is zero.
func keepEarliest(times map[string]time.Time, file string, t time.Time) {
	if was, ok := times[file]; !t.IsZero() && (!ok || t.Before(was)) {
		times[file] = t
	}
}

// addTimes labels each file with its path, relative to the site's folder if the file is in it.
func (s *Site) addTimes(add func(float64, ...string), times map[string]time.Time) {
	for file, t := range times {
		if name, err := filepath.Rel(filepath.Dir(s.config.Origin.File), file); err == nil && filepath.IsLocal(name) {
			file = name
		}
		add(float64(t.Unix()), file)
	}
}
