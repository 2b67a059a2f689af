package site

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"patchbay/am"
	"patchbay/am/clock"
	"patchbay/am/operate"
	"patchbay/am/server"
	"patchbay/am/store"
	"patchbay/credentials/cert"
	"patchbay/inventory/provider"
)

// callFailures counts the calls of providers that failed as a whole. The zero value is
// ready.
type callFailures struct {
	mu sync.Mutex
	of map[[2]string]int64 // by provider and action
}

// count adds n failures, perhaps 0, so that the number exists before the first one.
func (f *callFailures) count(provider, action string, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[[2]string]int64{}
	}
	f.of[[2]string{provider, action}] += n
}

func (f *callFailures) numbers(add func(float64, ...string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for by, n := range f.of {
		add(float64(n), by[0], by[1])
	}
}

// stockMaxAge is how long the numbers of slivers, tasks and components are kept: one
// answer of /metrics reads the store once.
const stockMaxAge = time.Second

// stock counts what the store holds.
type stock struct {
	at             time.Time
	slivers        map[[2]string]int // by state and provider
	degraded       map[string]int    // by provider: slivers that are ready and have a problem
	tasks          map[[2]string]int // by goal and provider
	oldest         time.Duration     // since the oldest task is to be done
	slices         int
	components     map[string]int // by state
	capacity, used operate.Amount
	err            error
}

// taking has one stock taken at a time.
type taking struct {
	mu   sync.Mutex
	last *stock
}

// stock is that of now, or of a moment ago.
func (s *Site) stock() *stock {
	s.taking.mu.Lock()
	defer s.taking.mu.Unlock()
	if last := s.taking.last; last == nil || time.Since(last.at) >= stockMaxAge {
		s.taking.last = s.takeStock()
	}
	return s.taking.last
}

// goals are all goals of tasks.
var goals = []am.Goal{am.GoalMake, am.GoalStart, am.GoalStop, am.GoalRestart, am.GoalUsers, am.GoalRemove, am.GoalUndo}

func (s *Site) takeStock() *stock {
	n := &stock{at: time.Now(), slivers: map[[2]string]int{}, degraded: map[string]int{}, tasks: map[[2]string]int{}, components: map[string]int{}}
	for name := range providersOf(s.index.Inventory()) {
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
		makers := map[string]string{} // of slivers
		err := v.Slivers(func(x am.Sliver) bool {
			makers[x.URN.Key()] = x.Provider
			n.slivers[[2]string{operate.StateOf(&x, v.Now()), x.Provider}]++
			if x.Observed.State == provider.StateReady && x.Observed.Message != "" {
				n.degraded[x.Provider]++
			}
			return true
		})
		if err != nil {
			return err
		}
		if err := v.Tasks(func(t am.Task) bool {
			n.tasks[[2]string{string(t.Goal), makers[t.Sliver.Key()]}]++
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

// numbers are the metrics beside those of the server.
func (s *Site) numbers() []server.Number {
	flag := func(is func() bool) func() float64 {
		return func() float64 {
			if is() {
				return 1
			}
			return 0
		}
	}
	return slices.Concat(s.hookNumbers(), s.providerNumbers(), s.stockNumbers(), s.fileNumbers(), []server.Number{
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
		{Name: "clock_in_doubt", Help: "1 while the host's clock is not believed, so that leases count by the time that has gone by; else 0.", Value: flag(func() bool {
			return s.clock.State().Doubt != clock.NoDoubt
		})},
		{Name: "policy_rules", Help: "Rules of the policy that are in force.", Value: func() float64 { return float64(s.policy.policy.Rules().Len()) }},
		{Name: "policy_broken", Help: "1 while the policy cannot be read, so that older rules are in force; else 0.", Value: flag(s.policy.broken)},
		{Name: "lockdown", Help: "1 while the site takes no new work by an operator's word; else 0.", Value: flag(s.upkeep.locked.Load)},
		{Name: "maintenance_broken", Help: "1 while the maintenance file cannot be read, so that what it said before is in force; else 0.", Value: flag(s.upkeep.broken.Load)},
		{Name: "maintenance_unknown", Help: "Entries of the maintenance file that name a component which the inventory does not have: one that was renamed is in service; anything but 0 needs an operator.", Value: func() float64 { return float64(s.upkeep.unknown()) }},
		{Name: "store_broken", Help: "1 while the store promises nothing more, for it has met damage or a write in doubt; else 0.", Value: flag(func() bool {
			return s.store.Err() != nil
		})},
		{Name: "decision_longest_seconds", Help: "Time of the longest decision since the start: all other changes of the site wait for it.", Value: func() float64 {
			return s.store.LongestDecision().Seconds()
		}},
		{Name: "unpromised", Help: "Resources that a provider has and that belong to no sliver; a provider that has not listed its resources yet has no number.", Labels: []string{"provider"}, Values: func(add func(float64, ...string)) {
			for name, n := range s.runner.CountUnpromised() {
				add(float64(n), name)
			}
		}},
	})
}

// hookNumbers are the metrics of hooks.
func (s *Site) hookNumbers() []server.Number {
	number := func(f func() int) func() float64 { return func() float64 { return float64(f()) } }
	return []server.Number{
		{Name: "hook_events", Help: "Events that some hook has yet to take.", Value: number(s.hooks.Waiting)},
		{Name: "hook_events_lost_total", Counter: true, Help: "Events dropped since the start because too many waited, or for too long; anything but 0 needs an operator.", Value: number(s.hooks.Lost)},
		{Name: "hooks_failing", Help: "Hooks that did not take the last event that they were told.", Value: number(s.hooks.Failing)},
	}
}

// providerNumbers are the metrics of providers and of their tasks.
func (s *Site) providerNumbers() []server.Number {
	return []server.Number{
		{Name: "provider_up", Help: "1 while the provider answers, 0 when it has not answered for 45 seconds.", Labels: []string{"provider"}, Values: func(add func(float64, ...string)) {
			for _, p := range s.runner.Polled() {
				up := 1.0
				if p.Silent {
					up = 0
				}
				add(up, p.Provider)
			}
		}},
		{Name: "provider_call_failures_total", Counter: true, Help: "Calls of providers that failed as a whole: no usable answer, none in time, or an error about the call.", Labels: []string{"provider", "action"}, Values: s.providers.failed.numbers},
		{Name: "task_failures_total", Counter: true, Help: "Attempts at tasks that have failed since the start.", Value: func() float64 { return float64(s.runner.TaskFailures()) }},
	}
}

// stockNumbers are the metrics of slivers, tasks and components. They are left out while
// the store cannot be read, which store_broken says.
func (s *Site) stockNumbers() []server.Number {
	labelled := func(of func(*stock) map[[2]string]int) func(func(float64, ...string)) {
		return func(add func(float64, ...string)) {
			if n := s.stock(); n.err == nil {
				for by, count := range of(n) {
					add(float64(count), by[0], by[1])
				}
			}
		}
	}
	single := func(of func(*stock) float64) func(func(float64, ...string)) {
		return func(add func(float64, ...string)) {
			if n := s.stock(); n.err == nil {
				add(of(n))
			}
		}
	}
	amount := func(of func(*stock) operate.Amount) func(func(float64, ...string)) {
		return func(add func(float64, ...string)) {
			if n := s.stock(); n.err == nil {
				a := of(n)
				add(float64(a.Slots), "slots")
				add(float64(a.Cores), "cores")
				add(float64(a.Memory<<20), "memory_bytes")
				add(float64(a.Disk<<20), "disk_bytes")
			}
		}
	}
	return []server.Number{
		{Name: "slivers", Help: "Slivers by state and provider, those being removed included.", Labels: []string{"state", "provider"}, Values: labelled(func(n *stock) map[[2]string]int { return n.slivers })},
		{Name: "slivers_degraded", Help: "Slivers that are ready although their provider reports a problem: geni_error of Status has it.", Labels: []string{"provider"}, Values: func(add func(float64, ...string)) {
			if n := s.stock(); n.err == nil {
				for name, count := range n.degraded {
					add(float64(count), name)
				}
			}
		}},
		{Name: "tasks", Help: "Work that providers still have to do, by goal and provider.", Labels: []string{"goal", "provider"}, Values: labelled(func(n *stock) map[[2]string]int { return n.tasks })},
		{Name: "task_oldest_seconds", Help: "Age of the oldest task; 0 if there is none.", Values: single(func(n *stock) float64 { return n.oldest.Seconds() })},
		{Name: "slices", Help: "Slices that have slivers here or were shut down.", Values: single(func(n *stock) float64 { return float64(n.slices) })},
		{Name: "components", Help: "Components by state, the first that holds of: missing, drained, maintenance, cleaning, held, full, used, free.", Labels: []string{"state"}, Values: func(add func(float64, ...string)) {
			if n := s.stock(); n.err == nil {
				for state, count := range n.components {
					add(float64(count), state)
				}
			}
		}},
		{Name: "capacity", Help: "What all components have together, where it is limited.", Labels: []string{"resource"}, Values: amount(func(n *stock) operate.Amount { return n.capacity })},
		{Name: "capacity_used", Help: "What slivers take of it.", Labels: []string{"resource"}, Values: amount(func(n *stock) operate.Amount { return n.used })},
	}
}

// fileNumbers are the metrics of certificates, CRLs, backups and of the program itself.
func (s *Site) fileNumbers() []server.Number {
	return []server.Number{
		{Name: "certificate_expiry_timestamp_seconds", Help: "When the first certificate in a file of the server or of the trust folder expires.", Labels: []string{"file"}, Values: s.certificateExpiry},
		{Name: "crl_next_update_timestamp_seconds", Help: "When a CRL in the trust folder gets out of date.", Labels: []string{"file"}, Values: func(add func(float64, ...string)) {
			next := map[string]time.Time{}
			for _, l := range s.anchors.Load().RevocationLists() {
				if !l.NextUpdate.IsZero() {
					noteFirst(next, l.File, l.NextUpdate)
				}
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
		{Name: "build_info", Help: "1; the labels tell the version of Patchbay, and of Go.", Labels: []string{"version", "goversion"}, Values: func(add func(float64, ...string)) {
			add(1, SoftwareVersion(), runtime.Version())
		}},
	}
}

// certificateExpiry adds when the certificates of the server and of the trust folder end.
func (s *Site) certificateExpiry(add func(float64, ...string)) {
	ends := map[string]time.Time{}
	for _, x := range s.anchors.Load().List() {
		noteFirst(ends, x.File, x.Certificate.NotAfter)
	}
	for _, k := range s.config.Keys {
		text, err := os.ReadFile(k.Certificate)
		if err != nil {
			continue
		}
		chain, err := cert.ParsePEM(text)
		if err != nil {
			continue
		}
		for _, c := range chain {
			noteFirst(ends, k.Certificate, c.NotAfter)
		}
	}
	s.addTimes(add, ends)
}

// noteFirst keeps the first of the times of a file.
func noteFirst(times map[string]time.Time, file string, t time.Time) {
	if was, ok := times[file]; !ok || t.Before(was) {
		times[file] = t
	}
}

// addTimes adds times by file, which is named as seen from the site's folder.
func (s *Site) addTimes(add func(float64, ...string), times map[string]time.Time) {
	for file, t := range times {
		if name, err := filepath.Rel(filepath.Dir(s.config.Origin.File), file); err == nil && filepath.IsLocal(name) {
			file = name
		}
		add(float64(t.Unix()), file)
	}
}
