package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local/setup"
	"patchbay/inventory/provider"
)

const servicesFile = "services.json"

// installsTime is how long the installs of a node may take together: none begins
// after that. With the one that runs then, and the executes, a node is ready before
// the manager gives it up, which is after an hour.
const installsTime = 30 * time.Minute

// How often it is tried to begin a step, and to learn what came of one, when the
// node answers and yet cannot.
const (
	maxBegins = 5
	maxLooks  = 20
)

// reportPause is how long a report of a step that goes on is the last one: a node
// may write as many as it likes.
const reportPause = 100 * time.Millisecond

func newServices(l *life, steps []setup.Step) *services {
	s := &services{l: l}
	for _, step := range steps {
		s.journal.Steps = append(s.journal.Steps, service{Kind: step.Kind, Report: setup.Report{State: setup.Waiting}})
	}
	return s
}

// openServices finds what came of the steps of a node that was made before.
func openServices(l *life, rec record) *services {
	if rec.Steps == 0 {
		return nil
	}
	s := &services{l: l}
	err := readJSON(l.dir(), servicesFile, &s.journal)
	if errors.Is(err, fs.ErrNotExist) {
		var steps []setup.Step
		if err = readJSON(l.dir(), stepsFile, &steps); err == nil {
			s = newServices(l, steps)
		}
	}
	if err == nil && len(s.journal.Steps) != rec.Steps {
		err = fmt.Errorf("%d steps are noted, and the node has %d", len(s.journal.Steps), rec.Steps)
	}
	if err != nil { // better none than one twice
		l.t.log.Error("what was noted of the setup of a node is spoilt; nothing more of it is done", "node", l.id, "error", err)
		s.journal = journal{Steps: make([]service, rec.Steps)}
		for i := range s.journal.Steps {
			s.journal.Steps[i] = service{Kind: setup.Execute, Report: lost("what was noted of it is spoilt; nothing more is done")}
		}
	}
	s.over = s.journal.over()
	return s
}

func lost(message string) setup.Report {
	return setup.Report{State: setup.Failed, Exit: 255, Message: message}
}

func (j *journal) over() bool {
	for _, step := range j.Steps {
		if !step.Ended() {
			return false
		}
	}
	return true
}

// runSteps lets the steps of a node go on whose logins are proven. It tells whether
// they keep it from being ready, and if so, how long at most; 0 is not known.
func (l *life) runSteps(rec record) (held bool, wait time.Duration) {
	s := l.services
	if s == nil {
		return false, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false, 0
	}
	if s.stop == nil {
		ctx, cancel := context.WithCancel(l.t.ctx)
		s.stop, s.done = cancel, make(chan struct{})
		done, account := s.done, ""
		if users, err := parseUsers(rec.Asked.Users); err == nil && len(users) > 0 {
			account = users[0].Login
		}
		l.t.work.Go(func() {
			defer close(done)
			s.work(ctx, account)
		})
	}
	for _, step := range s.journal.Steps {
		if step.Kind == setup.Install && !step.Ended() {
			return true, 0
		}
	}
	if s.journal.Executes.IsZero() {
		return true, 0
	}
	since := time.Since(s.journal.Executes)
	wait = l.t.settings.ServicesWait - since
	return since >= 0 && wait > 0, wait // a clock that was set back must not hold it up
}

// pauseServices ends the goroutine: the node stops. The steps in it may go on.
func (l *life) pauseServices() {
	s := l.services
	if s == nil || s.stop == nil {
		return
	}
	s.stop()
	<-s.done
	s.stop, s.done = nil, nil
}

// reportSteps reports how far the steps are, unless more was asked since change.
func (l *life) reportSteps(change uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rec.Change == change {
		l.setState(provider.StateChanging, l.services.doing())
		l.setting = true
	}
}

// doing describes the step that runs.
func (s *services) doing() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	doing := map[string]string{setup.Install: "installing", setup.Execute: "executing"}
	number, of := map[string]int{}, map[string]int{}
	for _, step := range s.journal.Steps {
		of[step.Kind]++
	}
	for _, step := range s.journal.Steps {
		number[step.Kind]++
		if step.Ended() {
			continue
		}
		text := fmt.Sprintf("%s %d of %d", doing[step.Kind], number[step.Kind], of[step.Kind])
		if s.progress != "" {
			text += ": " + s.progress
		}
		return text
	}
	return "being set up"
}

// setProgress notes how far a step is.
func (s *services) setProgress(progress string) {
	s.mu.Lock()
	s.progress = progress
	s.mu.Unlock()
	s.show()
}

func (s *services) show() {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	if s.l.setting {
		s.l.message = s.doing()
	}
}

// note changes the journal, on the disk first. It is tried until ctx ends; then
// it is false.
func (s *services) note(ctx context.Context, f func(j *journal)) bool {
	next := s.journal // which this goroutine alone changes
	next.Steps = append([]service(nil), next.Steps...)
	f(&next)
	next.fit()
	for n := 1; ; n++ {
		err := s.l.t.write(s.l.dir(), servicesFile, next)
		if err == nil {
			break
		}
		s.l.t.log.Error("cannot note what came of the setup of a node; that is tried again", "node", s.l.id, "error", err)
		sleep(ctx, time.Duration(min(n, maxPause))*s.l.t.pause)
		if ctx.Err() != nil {
			return false
		}
	}
	s.mu.Lock()
	s.journal, s.progress, s.over = next, "", next.over()
	s.mu.Unlock()
	s.show()
	return true
}

// end notes what came of a step.
func (s *services) end(ctx context.Context, i int, r setup.Report) bool {
	r = s.journal.Steps[i].outcome(r)
	r.Progress = ""
	begun := s.begun
	s.begun = time.Time{}
	ok := s.note(ctx, func(j *journal) {
		j.Steps[i].Report = r
		if !begun.IsZero() {
			j.Installing += time.Since(begun)
		}
	})
	if ok && r.State == setup.Failed {
		s.l.t.log.Info("a step of the setup of a node has failed", "node", s.l.id, "step", i+1, "status", r.Exit, "message", r.Message)
	}
	s.l.poke()
	return ok
}

// work does the steps that have not ended.
func (s *services) work(ctx context.Context, account string) {
	steps, err := s.l.readSteps()
	for i := range s.journal.Steps {
		switch {
		case s.journal.Steps[i].Ended():
		case err != nil:
			s.l.t.log.Error("the setup of a node cannot be read", "node", s.l.id, "error", err)
			s.end(ctx, i, lost("what is to be done is not known any more; the testbed's operators can see why in the log"))
		case s.tooLong(i):
			s.end(ctx, i, lost(fmt.Sprintf("it was not begun, for the installs before it took %.0f minutes, which is the most; make them smaller, or fetch in an execute, in the background", installsTime.Minutes())))
		default:
			if s.journal.Steps[i].Kind == setup.Install {
				s.begun = time.Now()
			}
			s.step(ctx, i, setup.Order{Step: steps[i], Account: account, Inside: !s.l.t.settings.Outbound})
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// tooLong tells whether a step is an install for which no time is left.
func (s *services) tooLong(i int) bool {
	step := s.journal.Steps[i]
	return step.Kind == setup.Install && step.State == setup.Waiting && s.journal.Installing >= s.l.t.installsTime
}

// step begins a step unless it has begun, and waits for its end.
func (s *services) step(ctx context.Context, i int, o setup.Order) {
	if s.journal.Steps[i].State == setup.Waiting {
		if !s.note(ctx, func(j *journal) {
			j.Steps[i].State = setup.Running
			if o.Kind == setup.Execute && j.Executes.IsZero() {
				j.Executes = time.Now()
			}
		}) {
			return
		}
		s.l.poke() // from now on time counts
	}
	if !s.journal.Steps[i].Begun && !s.begin(ctx, i, o) {
		return
	}
	for n := 1; ctx.Err() == nil; n++ {
		last := setup.Report{State: setup.Running}
		err := s.l.t.runSetup(ctx, s.l.id, setup.WaitWords(i+1), nil, func(r setup.Report) {
			last, n = r, 1
			s.setProgress(r.Progress)
			if !r.Ended() {
				sleep(ctx, reportPause)
			}
		})
		switch {
		case ctx.Err() != nil:
			return
		case last.Ended():
			s.end(ctx, i, last)
			return
		case err == nil && last.State == setup.Waiting:
			s.end(ctx, i, lost("what was known of it in the node is gone"))
			return
		case n >= maxLooks:
			s.end(ctx, i, lost("the node does not tell what came of it"))
			return
		}
		s.l.t.log.Info("a node does not tell of a step of its setup; it is asked again", "node", s.l.id, "step", i+1, "error", err)
		sleep(ctx, time.Duration(min(n, maxPause))*s.l.t.pause)
	}
}

// begin begins a step, and tells whether it is to be waited for.
func (s *services) begin(ctx context.Context, i int, o setup.Order) bool {
	order, err := json.Marshal(o)
	if err != nil {
		s.end(ctx, i, lost(err.Error()))
		return false
	}
	slow := 0
	for n := 1; ctx.Err() == nil; n++ {
		last, late, err := s.order(ctx, i, order, slow > 0)
		switch {
		case ctx.Err() != nil:
			return false
		case last.Ended():
			s.end(ctx, i, last)
			return false
		case last.State == setup.Running:
			return s.note(ctx, func(j *journal) { j.Steps[i].Begun, j.Steps[i].Cut = true, "" })
		case late: // a node is not given up for being slow
			slow++
			n--
		case n >= maxBegins:
			s.end(ctx, i, lost(strings.TrimSpace(fmt.Sprintf("it cannot be begun in the node: %v", err))))
			return false
		}
		s.l.t.log.Info("a step of the setup of a node cannot be begun yet; that is tried again", "node", s.l.id, "step", i+1, "error", err)
		sleep(ctx, time.Duration(min(n+slow, maxPause))*s.l.t.pause)
	}
	return false
}

// order asks the node to begin a step, in its turn, and takes the first report.
// late tells that the node did not answer in time, as it had not before if it is
// slow.
func (s *services) order(ctx context.Context, i int, order []byte, slow bool) (first setup.Report, late bool, err error) {
	t := s.l.t
	turns, within := t.talk, t.quickTime
	if slow {
		turns, within = t.slow, t.talkTime
	}
	if err := t.hello(ctx, s.l.id, within); err != nil {
		return first, true, err
	}
	if err := turns.take(ctx); err != nil {
		return first, false, err
	}
	defer turns.give()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	late = true
	err = t.runSetup(ctx, s.l.id, setup.RunWords(i+1), order, func(r setup.Report) {
		if late {
			first, late = r, false
			cancel() // what else it writes, nobody reads
		}
	})
	return first, late && ctx.Err() != nil, err
}

// keepSteps writes down the steps of a new node, before its record.
func (l *life) keepSteps(steps []setup.Step) error {
	if len(steps) == 0 {
		return nil
	}
	if err := l.t.write(l.dir(), stepsFile, steps); err != nil {
		return err
	}
	l.services = newServices(l, steps)
	return nil
}

// fit cuts the outputs to half, again and again, until they are no more together
// than is ever told of them.
func (j *journal) fit() {
	length := func() (n int) {
		for _, step := range j.Steps {
			b, _ := json.Marshal(step.Output) // a text
			n += len(b)
		}
		return n
	}
	for output := setup.MaxOutput; length() > maxServices; {
		output /= 2
		for i := range j.Steps {
			j.Steps[i].Output = setup.Tail(j.Steps[i].Output, output)
		}
	}
}

// How a node may end while a step runs in it.
const (
	cutRestart = "restarted" // as asked
	cutOff     = "stopped"   // as asked
	cutDeath   = "died"
	cutAway    = "away"
)

// cut notes how the node ends, or has ended, with the step that runs in it. The
// first word stands: what ends later does not end the step. It is not tried
// again, for nodes must stop also on a full disk.
func (s *services) cut(how string) {
	if s == nil {
		return
	}
	for i, step := range s.journal.Steps {
		if step.State == setup.Running && step.Cut == "" {
			once, cancel := context.WithCancel(context.Background())
			cancel()
			s.note(once, func(j *journal) { j.Steps[i].Cut = how })
			return
		}
	}
}

// outcome is what came of the step, by the report of the node. There, all ends of
// nodes look alike.
func (s service) outcome(r setup.Report) setup.Report {
	asked := s.Cut == cutRestart || s.Cut == cutOff
	// Its shell may have been faster than the node.
	halted := asked && (r.Exit == 128+int(unix.SIGTERM) || r.Exit == 128+int(unix.SIGKILL))
	if r.State != setup.Failed || r.Message != setup.Interrupted && !halted {
		return r
	}
	switch {
	case asked && s.Kind == setup.Execute:
		r.State, r.Exit, r.Message = setup.Done, 0, fmt.Sprintf("it ended with the node, which was %s", s.Cut)
	case asked:
		r.Message = fmt.Sprintf("interrupted: the node was %s while it ran", s.Cut)
	case s.Cut == cutDeath:
		r.Message = "interrupted: the system of the node ended while it ran, and nobody had asked the testbed for that"
	case s.Cut == cutAway:
		r.Message = "interrupted: the node ended while the testbed did not look, as when its host boots"
	}
	return r
}

// waiting says what a step waits for, if it waits for one that runs.
func (j *journal) waiting() string {
	for i, step := range j.Steps {
		switch {
		case step.State == setup.Running && step.Cut == "":
			return fmt.Sprintf("waits for step %d, which still runs", i+1)
		case !step.Ended():
			return ""
		}
	}
	return ""
}

// maxServices bounds the report of the steps of a node, in bytes, before it is
// encoded once more.
const maxServices = 32 << 10
