package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"patchbay/inventory/node/agent"
)

const (
	maxVariables = 64
	maxValue     = 4 << 10   // bytes of a variable
	maxCommand   = 128 << 10 // bytes; the kernel accepts no longer argument
)

// session is a session channel. It runs at most one command.
type session struct {
	c  *login
	ch ssh.Channel

	// Until the command starts, only the goroutine that serves requests uses the next four
	// fields.
	env     []string
	term    *agent.Terminal
	forward bool // forwarding of the peer's authentication agent is requested
	started bool

	signalling chan struct{} // full while a signal is sent
	known      sync.Once     // for setInput
	ready      chan struct{} // closed when in is set
	in         *os.File      // receives the peer's input; nil: input is discarded

	mu            sync.Mutex // guards the fields below
	cmd           command    // nil before it runs
	closed        bool
	size          *unix.Winsize // requested before the command runs
	files         []*os.File    // our ends of the command's pipes; none if it has a terminal
	agentListener net.Listener  // leads to the peer's authentication agent
	agentDir      string        // folder of agentListener's socket
}

// session serves a channel of type session until the peer has closed it.
func (c *login) session(n ssh.NewChannel) {
	ch, requests, err := n.Accept()
	if err != nil {
		return
	}
	s := &session{c: c, ch: ch, signalling: make(chan struct{}, 1), ready: make(chan struct{})}
	go io.Copy(io.Discard, ch.Stderr())
	c.working.Go(s.copyInput)
	for r := range requests {
		c.transport.charge()
		switch r.Type {
		case "shell", "exec", "subsystem":
			// Replies must have the order of the requests. So the reply comes before the
			// start of the command: replies to later requests do not wait for the start.
			cmd, ok := s.parseCommand(r)
			r.Reply(ok, nil)
			if ok {
				s.started = true
				c.working.Go(func() { s.run(cmd) })
			}
		default:
			r.Reply(s.handleRequest(r), nil)
		}
	}
	s.end()
}

func (s *session) copyInput() {
	s.c.copyIn(s.ch, func() io.Writer {
		if <-s.ready; s.in == nil {
			return nil
		}
		return s.in
	})
	// The input of a terminal cannot be closed.
	if <-s.ready; s.in != nil && s.term == nil {
		s.in.Close()
	}
}

func (s *session) setInput(in *os.File) {
	s.known.Do(func() {
		s.in = in
		close(s.ready)
	})
}

// handleRequest handles requests that do not start the command, and reports success.
func (s *session) handleRequest(r *ssh.Request) bool {
	switch r.Type {
	case "pty-req":
		return s.pty(r.Payload)
	case "window-change":
		return s.resize(r.Payload)
	case "env":
		var e struct{ Name, Value string }
		if ssh.Unmarshal(r.Payload, &e) != nil || s.started || len(s.env) >= maxVariables || !isAllowedVariable(e.Name, e.Value) {
			return false
		}
		s.env = append(s.env, e.Name+"="+e.Value)
		return true
	case "signal":
		var text struct{ Name string }
		return ssh.Unmarshal(r.Payload, &text) == nil && s.signal(text.Name)
	case "break":
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.cmd != nil && s.cmd.terminal() != nil // a terminal accepts a break, but without effect
	case "auth-agent-req@openssh.com":
		if s.started {
			return false
		}
		s.forward = true
		return true
	}
	return false
}

// signal sends a signal to the command, without waiting for delivery. It returns false if the signal or the
// command does not exist, or if an earlier signal is still being sent.
func (s *session) signal(name string) bool {
	number := signalNumber(name)
	s.mu.Lock()
	cmd := s.cmd
	s.mu.Unlock()
	if number == 0 || cmd == nil {
		return false
	}
	select {
	case s.signalling <- struct{}{}:
		go func() {
			cmd.Signal(number)
			<-s.signalling
		}()
		return true
	default:
		return false
	}
}

// isAllowedVariable reports whether a peer may set a variable. The list is OpenSSH's
// default; other variables could change what the account's shell runs.
func isAllowedVariable(name, value string) bool {
	if len(name) > 64 || len(value) > maxValue || strings.ContainsRune(value, 0) {
		return false
	}
	rest, locale := strings.CutPrefix(name, "LC_")
	for _, r := range rest {
		if r != '_' && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return name == "LANG" || locale && rest != ""
}

// parseCommand returns the command of a request that starts one. It returns false if the request is invalid,
// or if a command was started before.
func (s *session) parseCommand(r *ssh.Request) (agent.Command, bool) {
	cmd := agent.Command{User: s.c.user}
	if s.started {
		return cmd, false
	}
	var text struct{ Line string }
	if r.Type != "shell" && (ssh.Unmarshal(r.Payload, &text) != nil || len(text.Line) > maxCommand || strings.ContainsRune(text.Line, 0)) {
		return cmd, false
	}
	switch r.Type {
	case "exec":
		cmd.Line = text.Line // empty starts a shell, as with OpenSSH
	case "subsystem":
		if text.Line != "sftp" {
			return cmd, false
		}
		cmd.SFTP = true
		s.term = nil
	}
	cmd.Terminal = s.term
	return cmd, true
}

// end ends the session, once. A command with a terminal gets SIGHUP. For other commands, end closes the pipes.
func (s *session) end() {
	s.mu.Lock()
	already := s.closed
	s.closed = true
	s.mu.Unlock()
	if already {
		return
	}
	s.setInput(nil)
	if s.cmd != nil {
		s.cmd.Close()
	}
	closeFiles(s.files)
	if s.agentListener != nil {
		s.agentListener.Close()
		s.removeAgentDir()
	}
}

// maxModes is the most bytes of the terminal's name and modes together. All existing modes
// need 300 bytes.
const maxModes = 4 << 10

// pty reports whether the session gets a terminal (RFC 4254, 6.2).
func (s *session) pty(payload []byte) bool {
	var p struct {
		Term                      string
		Cols, Rows, Width, Height uint32
		Modes                     string
	}
	if ssh.Unmarshal(payload, &p) != nil || s.started || s.term != nil || len(p.Term)+len(p.Modes) > maxModes {
		return false
	}
	s.term = &agent.Terminal{Name: p.Term, Rows: clampSize(p.Rows), Cols: clampSize(p.Cols), Modes: []byte(p.Modes)}
	return true
}

// clampSize limits a window's width or height to the 16 bits of the kernel's fields.
func clampSize(n uint32) uint16 { return uint16(min(n, 1<<16-1)) }

// resize changes the window size (RFC 4254, 6.7), and reports success.
func (s *session) resize(payload []byte) bool {
	var w struct{ Cols, Rows, Width, Height uint32 }
	if ssh.Unmarshal(payload, &w) != nil || s.term == nil {
		return false
	}
	window := &unix.Winsize{Row: clampSize(w.Rows), Col: clampSize(w.Cols), Xpixel: clampSize(w.Width), Ypixel: clampSize(w.Height)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.size = window
		return true
	}
	return !s.closed && setSize(s.cmd.terminal(), window)
}

// hasSignalName reports whether RFC 4254, 6.10 has a name for a signal.
func hasSignalName(number int) bool {
	switch unix.Signal(number) {
	case unix.SIGABRT, unix.SIGALRM, unix.SIGFPE, unix.SIGHUP, unix.SIGILL, unix.SIGINT, unix.SIGKILL,
		unix.SIGPIPE, unix.SIGQUIT, unix.SIGSEGV, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2:
		return true
	}
	return false
}

// signalName returns a private name, which ends in "@openssh.com", for a signal that RFC
// 4254 does not name.
func signalName(number int) string {
	name := strings.TrimPrefix(unix.SignalName(unix.Signal(number)), "SIG")
	switch {
	case hasSignalName(number):
		return name
	case name == "":
		return "UNKNOWN@openssh.com"
	}
	return name + "@openssh.com"
}

// signalNumber returns 0 for a name that is not in RFC 4254.
func signalNumber(name string) int {
	if len(name) > 8 {
		return 0
	}
	number := int(unix.SignalNum("SIG" + name))
	if !hasSignalName(number) {
		return 0
	}
	return number
}

// listenAgent returns the path of a socket in the node that leads to the peer's
// authentication agent (ssh -A).
func (s *session) listenAgent() (string, error) {
	nest := "/tmp/ssh-" + rand.Text()
	path := nest + "/agent"
	ctx, cancel := context.WithTimeout(context.Background(), agentTime)
	defer cancel()
	l, err := s.c.listen(ctx, "unix", path)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	over := s.closed
	s.agentListener, s.agentDir = l, nest
	s.mu.Unlock()
	if over {
		l.Close()
		s.removeAgentDir()
		return "", errors.New("the session has ended")
	}
	s.c.working.Go(func() {
		s.c.acceptForward(l, "auth-agent@openssh.com", func(net.Conn) []byte { return nil })
	})
	return path, nil
}

// removeAgentDir removes the folder of the forwarded agent from the node's /tmp. If the testbed has ended, the
// folder is left there.
func (s *session) removeAgentDir() {
	ctx, cancel := context.WithTimeout(context.Background(), agentTime)
	defer cancel()
	a, err := s.c.dialAgent(ctx)
	if err != nil {
		return
	}
	ours, theirs, err := pipes()
	if err != nil {
		a.Close()
		return
	}
	closeFiles(ours)
	rm := agent.Command{User: s.c.user, Argv: []string{"/bin/rm", "-rf", "--", s.agentDir}}
	p, err := s.c.g.agents.exec(ctx, a, rm, theirs)
	closeFiles(theirs)
	if err != nil {
		return
	}
	defer p.Close()
	defer time.AfterFunc(agentTime, func() { p.Close() }).Stop()
	p.Wait()
}
