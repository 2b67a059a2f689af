package work

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/am"
	"patchbay/am/store"
	"patchbay/inventory/provider"
	setup "patchbay/rspec/step"
)

// A crew runs the steps of the double's nodes as described under "Stages" in PROVIDER.md. The
// command of a step is its duration, then "fail" or "fail once".
type crew struct {
	e     *env
	nodes map[string]*crewNode
	began []string // "NODE STEP", in the order in which steps began
	ends  map[string]time.Time
	start map[string]time.Time
}

type crewNode struct {
	steps []setup.Step
	runs  []crewRun
	stage int
	on    bool
	since time.Time // when it was switched on
}

type crewRun struct {
	state    am.StepState
	end      time.Time
	attempts int
}

func newCrew(e *env) *crew {
	c := &crew{e: e, nodes: map[string]*crewNode{}, ends: map[string]time.Time{}, start: map[string]time.Time{}}
	e.d.watch = c.set
	e.d.services = c.services
	return c
}

func (c *crew) set(u provider.Update) {
	n := c.nodes[u.Name]
	if n == nil {
		n = &crewNode{}
		c.nodes[u.Name] = n
	}
	if items, ok := u.Should[provider.AttrSetup]; ok {
		for _, text := range items.([]string) {
			var s setup.Step
			if err := json.Unmarshal([]byte(text), &s); err != nil {
				panic(err)
			}
			n.steps = append(n.steps, s)
			n.runs = append(n.runs, crewRun{state: am.StepWaiting})
		}
	}
	c.advance(u.Name, n)
	if text, ok := u.Should[provider.AttrSetupStage]; ok {
		stage, _ := strconv.Atoi(text.(string))
		for i := range n.steps {
			r := &n.runs[i]
			switch {
			case n.steps[i].Stage > stage && r.state == am.StepRunning:
				r.state = am.StepFailed
			case n.steps[i].Stage > n.stage && n.steps[i].Stage <= stage && r.state == am.StepFailed:
				r.state = am.StepWaiting
			}
		}
		n.stage = stage
	}
	if power, ok := u.Should[provider.AttrPower]; ok {
		n.on, n.since = power == provider.On, time.Now()
		for i := range n.runs {
			if !n.on && n.runs[i].state == am.StepRunning {
				n.runs[i].state = am.StepFailed
			}
		}
	}
	c.advance(u.Name, n)
}

// advance runs the steps that are due now.
func (c *crew) advance(name string, n *crewNode) {
	for stage := range n.stage + 1 {
		at, blocked := time.Time{}, false
		for i := range n.steps {
			r, s := &n.runs[i], &n.steps[i]
			if s.Stage != stage || blocked || !n.on {
				continue
			}
			key := name + " " + s.Name
			if r.state == am.StepWaiting {
				took, _, _ := strings.Cut(s.Command, " ")
				d, _ := time.ParseDuration(took)
				r.state, r.attempts = am.StepRunning, r.attempts+1
				if at.IsZero() {
					at = time.Now()
				}
				r.end = at.Add(d)
				c.began = append(c.began, key)
				c.start[key] = at
			}
			if r.state == am.StepRunning && !time.Now().Before(r.end) {
				r.state = am.StepDone
				if strings.HasSuffix(s.Command, "fail") || strings.HasSuffix(s.Command, "fail once") && r.attempts == 1 {
					r.state = am.StepFailed
				}
				at, c.ends[key] = r.end, r.end
			}
			blocked = r.state == am.StepRunning || r.state == am.StepFailed && stage > 0
		}
	}
}

func (c *crew) services(name string) (items []string, changing bool) {
	n := c.nodes[name]
	if n == nil || len(n.steps) == 0 {
		return nil, false
	}
	c.advance(name, n)
	for i, r := range n.runs {
		items = append(items, fmt.Sprintf(`{"state":%q}`, r.state))
		changing = changing || n.on && n.steps[i].Stage == 0 && r.state == am.StepRunning && time.Since(n.since) < 30*time.Second
	}
	return items, changing
}

// step is an execute of a stage.
func step(stage int, name, command string) setup.Step {
	return setup.Step{Kind: setup.Execute, Name: name, Stage: stage, Shell: "sh", Command: command}
}

// tiers are three nodes of one document, of three stages.
func tiers(e *env, web string) {
	e.t.Helper()
	e.allocate("a-db", "a-web", "a-lb")
	e.asks("a-db", step(0, "db", "2s"))
	e.asks("a-web", step(0, "files", "1s"), step(1, "web", web), step(1, "after", "1s"))
	e.asks("a-lb", step(2, "lb", "1s"))
	e.provision("a-db", "a-web", "a-lb")
	e.becomes(time.Minute, notReady, "a-db", "a-web", "a-lb")
}

// startNew creates allocated slivers and switches them on.
func (e *env) startNew(names ...string) {
	e.t.Helper()
	e.provision(names...)
	e.becomes(time.Minute, notReady, names...)
	e.on(names...)
}

// journalled returns the texts of the journal's entries about plans.
func (e *env) journalled() (all []string) {
	e.t.Helper()
	err := e.st.Read(func(v *store.View) error {
		return v.Journal(func(x am.JournalEntry) bool {
			if x.Event == am.EventStageEnded || x.Event == am.EventStepFailed {
				all = append(all, x.Text)
			}
			return true
		})
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return all
}

func TestPlan(t *testing.T) {
	all := []string{"a-db", "a-web", "a-lb"}
	plan := func(rule string, play func(*testing.T, *env, *crew)) {
		t.Run(rule, func(t *testing.T) {
			bubble(t, 2, func(e *env) {
				c := newCrew(e)
				e.start()
				play(t, e, c)
			})
		})
	}
	plan("stages begin one after the other on all nodes", func(t *testing.T, e *env, c *crew) {
		tiers(e, "3s")
		e.on(all...)
		e.becomes(time.Minute, ready, all...)
		if c.start["a-web web"].Before(c.ends["a-db db"]) || c.start["a-lb lb"].Before(c.ends["a-web after"]) {
			t.Errorf("begun at %v, ended at %v", c.start, c.ends)
		}
		if gap := c.start["a-lb lb"].Sub(c.ends["a-web after"]); gap > time.Second {
			t.Errorf("stage 2 began %v after stage 1 had ended", gap)
		}
		e.within(5*time.Second, "the last stage is journalled", func() bool { return len(e.journalled()) == 3 })
		e.do(am.ActionRestart, am.GoalRestart, func(d *am.Desired) { d.RestartSerial++ }, "a-web")
		e.becomes(time.Minute, ready, all...)
		if err := e.stop(); err != nil {
			t.Fatal(err)
		}
		e.start()
		time.Sleep(time.Minute)
		if got := strings.Join(e.journalled(), ", "); got != "stage 1, stage 2, stage 3" {
			t.Errorf("the journal has %q", got)
		}
	})
	plan("a node that is not started holds up the plan", func(t *testing.T, e *env, c *crew) {
		tiers(e, "3s")
		e.on("a-web", "a-lb")
		time.Sleep(time.Minute)
		if got := strings.Join(c.began, ", "); got != "a-web files" {
			t.Errorf("begun: %s", got)
		}
		p := am.PlanOf([]am.Sliver{e.sliver("a-db"), e.sliver("a-web"), e.sliver("a-lb")})
		if got := p.Text(); got != "stage 1 of 3, 1 of 2 nodes; waits for a-db, not started" {
			t.Errorf("the plan is %q", got)
		}
		e.on("a-db")
		e.becomes(time.Minute, ready, all...)
	})
	plan("a failed step stops the plan, and patchbay_setup continues it", func(t *testing.T, e *env, c *crew) {
		tiers(e, "3s fail once")
		e.on(all...)
		e.becomes(time.Minute, ready, all...)
		if got := strings.Join(c.began, ", "); strings.Contains(got, "lb lb") || strings.Contains(got, "after") {
			t.Errorf("begun: %s", got)
		}
		if got := e.sliver("a-lb").Error; got != "not run: execute 2 of 3 (web) of node a-web failed" {
			t.Errorf("the error of a-lb is %q", got)
		}
		if got := e.sliver("a-web").Error; !strings.HasPrefix(got, "execute 2 of 3, web: ") {
			t.Errorf("the error of a-web is %q", got)
		}
		files := slices.Clone(c.began)
		e.do(am.ActionSetup, am.GoalSetup, func(d *am.Desired) { d.Stage = 0 }, "a-web")
		e.change("a-lb", func(s *am.Sliver) { s.SetupStopped = "" })
		e.do(am.ActionSetup, am.GoalSetup, func(*am.Desired) {}, "a-lb")
		e.becomes(time.Minute, ready, "a-web", "a-lb")
		if got := strings.Join(c.began[len(files):], ", "); got != "a-web web, a-web after, a-lb lb" {
			t.Errorf("then begun: %s", got)
		}
		for _, n := range all {
			if got := e.sliver(n).Error; got != "" {
				t.Errorf("%s has the error %q", n, got)
			}
		}
	})
	plan("a failed step of a plain request runs again", func(t *testing.T, e *env, c *crew) {
		e.allocate("a-1")
		e.asks("a-1", step(0, "one", "1s"), step(0, "two", "1s fail once"))
		e.startNew("a-1")
		e.becomes(time.Minute, ready, "a-1")
		e.do(am.ActionSetup, am.GoalSetup, func(d *am.Desired) { d.Stage = -1 }, "a-1")
		e.becomes(time.Minute, ready, "a-1")
		if got := strings.Join(c.began, ", "); got != "a-1 one, a-1 two, a-1 two" || e.sliver("a-1").Error != "" {
			t.Errorf("begun: %s; error %q", got, e.sliver("a-1").Error)
		}
	})
	plan("a failed step of stage 0 runs again before the other nodes go on", func(t *testing.T, e *env, c *crew) {
		e.allocate("a-db", "a-web")
		e.asks("a-db", step(0, "db", "2s fail once"))
		e.asks("a-web", step(1, "web", "1s"))
		e.startNew("a-db", "a-web")
		e.becomes(time.Minute, ready, "a-db", "a-web")
		e.do(am.ActionSetup, am.GoalSetup, func(d *am.Desired) { d.Stage = -1 }, "a-db")
		e.change("a-web", func(s *am.Sliver) { s.SetupStopped = "" })
		e.do(am.ActionSetup, am.GoalSetup, func(*am.Desired) {}, "a-web")
		e.becomes(time.Minute, ready, "a-db", "a-web")
		if got := strings.Join(c.began, ", "); got != "a-db db, a-db db, a-web web" {
			t.Errorf("begun: %s", got)
		}
	})
	plan("stages may have any numbers", func(t *testing.T, e *env, _ *crew) {
		e.allocate("a-1", "a-2")
		e.asks("a-1", step(10, "one", "5s"))
		e.asks("a-2", step(20, "two", "1s"))
		e.startNew("a-1", "a-2")
		e.within(10*time.Second, "stage 10 runs", func() bool {
			p := am.PlanOf([]am.Sliver{e.sliver("a-1"), e.sliver("a-2")})
			return p.Text() == "stage 1 of 2, 0 of 1 nodes"
		})
		e.becomes(time.Minute, ready, "a-1", "a-2")
		e.within(5*time.Second, "the last stage is journalled", func() bool { return strings.Join(e.journalled(), ", ") == "stage 11, stage 21" })
	})
	plan("a deleted node leaves the plan", func(t *testing.T, e *env, _ *crew) {
		tiers(e, "1h")
		e.on(all...)
		time.Sleep(10 * time.Second)
		e.release("a-web")
		e.becomes(time.Minute, ready, "a-db", "a-lb")
	})
	plan("a failed node stops the plan", func(t *testing.T, e *env, _ *crew) {
		tiers(e, "1h")
		e.on(all...)
		time.Sleep(10 * time.Second)
		e.d.with(func() { e.d.nodes["a-web"].fails = "burnt" })
		e.becomes(time.Minute, ready, "a-db", "a-lb")
		if got := e.sliver("a-lb").Error; got != "not run: node a-web failed" {
			t.Errorf("the error is %q", got)
		}
	})
	plan("after the deadline the running step ends and later ones do not begin", func(t *testing.T, e *env, c *crew) {
		tiers(e, "3h")
		e.change("a-lb", func(s *am.Sliver) { s.SetupLimit = 10 * time.Minute })
		e.on(all...)
		e.becomes(20*time.Minute, ready, all...)
		if got := e.sliver("a-lb").Error; got != "the deadline of 10m0s passed in stage 2 of 3, 0 of 1 nodes" {
			t.Errorf("the error is %q", got)
		}
		if got := c.nodes["a-web"].runs[1].state; got != am.StepFailed {
			t.Errorf("the running step is %s", got)
		}
	})
	t.Run("a provider that reports no services holds it up until the deadline", func(t *testing.T) {
		bubble(t, 2, func(e *env) {
			e.start()
			e.allocate("a-1")
			e.asks("a-1", step(1, "one", "1s"))
			e.startNew("a-1")
			e.becomes(2*time.Hour, ready, "a-1")
			if got := e.sliver("a-1").Error; !strings.Contains(got, "the deadline of 1h0m0s passed") {
				t.Errorf("the error is %q", got)
			}
		})
	})
	plan("a server in the foreground of stage 0 holds up nothing", func(t *testing.T, e *env, _ *crew) {
		e.allocate("a-db", "a-web")
		e.asks("a-db", step(0, "server", "1000h"), step(0, "never", "1s"))
		e.asks("a-web", step(1, "web", "1s"))
		e.startNew("a-db", "a-web")
		e.becomes(time.Minute, ready, "a-db", "a-web")
		if got := e.sliver("a-web").Error; got != "" {
			t.Errorf("the error is %q", got)
		}
	})
	plan("but one for whose end others wait does", func(t *testing.T, e *env, c *crew) {
		no := false
		e.allocate("a-db", "a-web")
		s := step(0, "slow", "5m")
		s.Background = &no
		e.asks("a-db", s)
		e.asks("a-web", step(1, "web", "1s"))
		e.startNew("a-db", "a-web")
		e.becomes(6*time.Minute, ready, "a-db", "a-web")
		if c.start["a-web web"].Before(c.ends["a-db slow"]) {
			t.Error("stage 1 began early")
		}
	})
	plan("a runner that ends at any time continues", func(t *testing.T, e *env, c *crew) {
		tiers(e, "3s")
		e.on(all...)
		for range 100 {
			time.Sleep(130 * time.Millisecond)
			if err := e.stop(); err != nil {
				t.Fatal(err)
			}
			e.start()
		}
		e.becomes(time.Minute, ready, all...)
		if len(c.began) != 5 {
			t.Errorf("begun: %v", c.began)
		}
	})
	plan("version 2 makes nodes that are on at once", func(t *testing.T, e *env, _ *crew) {
		e.allocate("a-db", "a-web")
		e.asks("a-db", step(0, "db", "2s"))
		e.asks("a-web", step(1, "web", "5s"))
		e.do(am.EventProvision, am.GoalMake, func(d *am.Desired) { d.Present, d.On = true, true }, "a-db", "a-web")
		e.within(10*time.Second, "a-web is configuring", func() bool { return e.sliver("a-web").Status.Operational == am.Configuring })
		e.becomes(time.Minute, ready, "a-db", "a-web")
	})
	t.Run("a strict site fails the node whose step failed, and only that", func(t *testing.T) {
		bubble(t, 2, func(e *env) {
			newCrew(e)
			e.strict = true
			e.start()
			tiers(e, "3s fail")
			e.on(all...)
			e.becomes(time.Minute, failed, "a-web")
			e.becomes(time.Minute, ready, "a-db", "a-lb")
		})
	})
	plan("fifty nodes and five stages: no node begins a stage early", func(t *testing.T, e *env, c *crew) {
		var names []string
		for i := range 50 {
			name := fmt.Sprint("a-", i)
			names = append(names, name)
			e.allocate(name)
			var steps []setup.Step
			for stage := range 5 {
				if (i+stage)%3 != 0 {
					steps = append(steps, step(stage, fmt.Sprint(stage), fmt.Sprintf("%dms", 100*(i*7+stage*3)%1700)))
				}
			}
			e.asks(name, steps...)
		}
		e.startNew(names...)
		e.becomes(2*time.Minute, ready, names...)
		last := [5]time.Time{}
		for key, end := range c.ends {
			stage := key[len(key)-1] - '0'
			last[stage] = maxTime(last[stage], end)
		}
		for key, at := range c.start {
			if stage := key[len(key)-1] - '0'; stage > 0 && at.Before(last[stage-1]) {
				t.Errorf("%s began at %v, and stage %d ended at %v", key, at, stage-1, last[stage-1])
			}
		}
	})
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func TestAnUnchangedPlanIsNotReadAgain(t *testing.T) {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	was := planSeen{changes: 3, serial: 7, at: noon, deadline: noon.Add(time.Hour)}
	for _, tt := range []struct {
		rule string
		now  planSeen
		same bool
	}{
		{"nothing has changed", planSeen{changes: 3, serial: 7, at: noon.Add(time.Minute)}, true},
		{"a sliver has changed", planSeen{changes: 4, serial: 7, at: noon}, false},
		{"a sliver has left", planSeen{changes: 3, serial: 8, at: noon}, false},
		{"the deadline is over", planSeen{changes: 3, serial: 7, at: noon.Add(2 * time.Hour)}, false},
	} {
		if got := was.same(tt.now); got != tt.same {
			t.Errorf("%s: same is %v", tt.rule, got)
		}
	}
}
