package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"patchbay/inventory/node/agent"
	"patchbay/inventory/node/setup"
	"patchbay/inventory/provider/fdsocket"
)

// agentRequest and agentAnswer are the messages of package agent.
type agentRequest struct {
	Op, Network   string
	Command       *agent.Command
	Configuration *agent.Configuration
}

type agentAnswer struct {
	Error string       `json:",omitempty"`
	Node  string       `json:",omitempty"`
	Facts *agent.Facts `json:",omitempty"`
}

// Agent connects to a simulated agent.
func (m *doubleRuntime) Agent(_ context.Context, id string) (*fdsocket.Conn, error) {
	if m.isKilled() {
		return nil, errDead
	}
	ours, theirs, err := fdsocket.Pair()
	if err != nil {
		return nil, err
	}
	c, err := fdsocket.FromFile(theirs)
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	go m.serveAgent(c, id)
	return ours, nil
}

// serveAgent carries out the request of a connection.
func (m *doubleRuntime) serveAgent(c *fdsocket.Conn, id string) {
	defer c.Close()
	var q agentRequest
	files, err := c.Receive(&q, 16<<20, 3)
	if err != nil {
		return // the client is gone
	}
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	gone := make(chan struct{}) // closed with the connection
	go func() {
		defer close(gone)
		_, _ = c.Receive(new(agentRequest), 1, 0)
	}()
	var a agentAnswer
	var give []*os.File
	switch q.Op {
	case "hello":
		a.Node, err = id, m.operation("hello "+id)
		_ = m.w.waitWhileSlow("hello "+id, gone)
	case "hold":
		m.w.mu.Lock()
		s := m.w.running[id]
		m.w.mu.Unlock()
		if s != nil {
			select {
			case <-s.dead:
			case <-gone:
			}
			return
		}
		err = errors.New("it does not run")
	case "halt":
		err = m.operation("halt")
	case "configure":
		a.Facts, err = m.configure(id, *q.Configuration, gone)
	case "listen":
		give, err = m.listen(q.Network)
		defer func() {
			for _, f := range give {
				f.Close()
			}
		}()
	case "exec":
		m.exec(c, id, q.Command.Self, files, gone)
		return
	}
	if err != nil {
		a, give = agentAnswer{Error: err.Error()}, nil
	}
	_ = c.Send(a, give...) // the client may be gone
}

func (m *doubleRuntime) configure(id string, c agent.Configuration, gone <-chan struct{}) (*agent.Facts, error) {
	if err := m.w.waitWhileSlow("configure", gone); err != nil {
		m.operation("configure " + id)
		return nil, err
	}
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if err := errors.Join(m.operationLocked("configure"), m.operationLocked("configure "+id)); err != nil {
		return nil, err
	}
	s := m.w.running[id]
	if s == nil {
		return nil, errors.New("it does not run")
	}
	if !m.w.hasLinksLocked(s) {
		m.w.wrong = append(m.w.wrong, id+" was configured before it had its links")
	}
	s.cfg = c
	return new(agent.Facts), nil
}

// listen opens a listener outside of the node.
func (m *doubleRuntime) listen(network string) ([]*os.File, error) {
	if err := m.operation("listen " + network); err != nil {
		return nil, err
	}
	address := "127.0.0.1:0"
	if network == "unix" {
		dir, err := os.MkdirTemp("", "testbed-geni")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		address = filepath.Join(dir, "s")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	f, err := l.(interface{ File() (*os.File, error) }).File()
	return []*os.File{f}, err
}

// exec starts a step or waits for one, as package setup does in a node.
func (m *doubleRuntime) exec(c *fdsocket.Conn, id string, words []string, stdio []*os.File, gone <-chan struct{}) {
	_ = m.w.waitWhileSlow("setup "+words[1], gone)
	if err := m.operation("setup " + words[1]); err != nil {
		_ = c.Send(agentAnswer{Error: err.Error()})
		return
	}
	m.w.mu.Lock()
	s := m.w.running[id]
	m.w.mu.Unlock()
	if s == nil {
		_ = c.Send(agentAnswer{Error: "it does not run"})
		return
	}
	if c.Send(agentAnswer{}) != nil {
		return
	}
	reports := json.NewEncoder(stdio[1]) // errors are ignored: the client may be gone
	if words[1] == "run" {
		input, _ := io.ReadAll(stdio[0])
		if r, err := m.beginStep(s, id, words[2], input); err == nil {
			_ = reports.Encode(r)
		}
		return
	}
	m.w.mu.Lock()
	step := m.w.steps[id+" "+words[2]]
	m.w.mu.Unlock()
	if step == nil {
		_ = reports.Encode(setup.Report{State: setup.Waiting})
		return
	}
	if words[1] == "end" {
		m.w.endStep(id, words[2], setup.Report{State: setup.Failed, Exit: 143, Message: setup.EndedEarly})
	}
	if r := m.w.stepReport(step); !r.Ended() {
		_ = reports.Encode(setup.Report{State: setup.Running, Progress: "45 %", Output: "so far"})
		select {
		case <-step.ended:
		case <-s.dead:
		case <-gone:
			return
		}
	}
	if r := m.w.stepReport(step); r.Ended() {
		_ = reports.Encode(r)
	}
}

func (h *fakeHost) stepReport(step *doubleStep) setup.Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	return step.report
}

// beginStep starts a step unless it was started, and returns its state.
func (m *doubleRuntime) beginStep(s *fakeSystem, id, number string, input []byte) (setup.Report, error) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	key := id + " " + number
	step := &doubleStep{report: setup.Report{State: setup.Running}, ended: make(chan struct{})}
	if err := json.Unmarshal(input, &step.order); err != nil {
		return setup.Report{}, err
	}
	begun := key
	if n := step.order.Attempt; n > 0 {
		begun += fmt.Sprintf(" attempt %d", n)
	}
	if last := m.w.steps[key]; last != nil && last.order.Attempt >= step.order.Attempt {
		return last.report, nil
	} else if last != nil && !last.report.Ended() {
		m.w.wrong = append(m.w.wrong, begun+" begins while an earlier one runs")
	}
	m.w.steps[key] = step
	m.w.begun = append(m.w.begun, begun)
	if r, ok := m.w.results[step.order.URL+step.order.Command]; ok {
		step.report = r
		close(step.ended)
		return setup.Report{State: setup.Running}, nil
	}
	go func() {
		select {
		case <-step.ended:
		case <-s.dead:
			m.w.endStep(id, number, setup.Report{State: setup.Failed, Message: setup.Interrupted})
		}
	}()
	return step.report, nil
}

// doubleStep is a step in a simulated node. Like files on a disk, it outlives the node's runs.
type doubleStep struct {
	order  setup.Assignment
	report setup.Report
	ended  chan struct{} // closed at its end
}

// endStep ends a step that runs or is about to.
func (h *fakeHost) endStep(id, number string, r setup.Report) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for end := time.Now().Add(30 * time.Second); h.steps[id+" "+number] == nil && time.Now().Before(end); {
		h.mu.Unlock()
		time.Sleep(time.Millisecond)
		h.mu.Lock()
	}
	if step := h.steps[id+" "+number]; step != nil && !step.report.Ended() {
		step.report = r
		close(step.ended)
	}
}
