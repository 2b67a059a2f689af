package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"patchbay/inventory/local/agent"
)

// errNoAgent is what a user is told when a node's agent cannot be reached.
var errNoAgent = errors.New("the node does not answer: it is stopped, or the testbed is")

// Limits of a session.
const (
	maxEnv   = 64
	maxValue = 4 << 10
	maxLineC = 128 << 10 // of a command; the kernel takes no longer argument
)

// session is a session channel: at most one command.
type session struct {
	c     *login
	ch    ssh.Channel
	env   []string
	term  *agent.Terminal
	relay net.Listener // where the peer's authentication agent is reached
	nest  string       // the folder of that socket

	cmd    command    // nil before it was started
	inputs []*os.File // our ends of its files
	ended  sync.Once
}

// session serves a session channel until the peer has closed it.
func (c *login) session(n ssh.NewChannel) {
	ch, requests, err := n.Accept()
	if err != nil {
		return
	}
	go io.Copy(io.Discard, ch.Stderr())
	s := &session{c: c, ch: ch}
	// Until a command reads it, what the peer sends stays here.
	idle := c.g.stalls.flow(c)
	idle.begin()
	for r := range requests {
		c.pace.wait()
		switch r.Type {
		case "shell", "exec", "subsystem":
			s.start(r, idle.end)
		default:
			r.Reply(s.request(r), nil)
		}
	}
	idle.end()
	s.end()
}

// request serves all requests but those that start the command.
func (s *session) request(r *ssh.Request) bool {
	switch r.Type {
	case "pty-req":
		return s.pty(r.Payload)
	case "window-change":
		return s.resize(r.Payload)
	case "env":
		var e struct{ Name, Value string }
		if ssh.Unmarshal(r.Payload, &e) != nil || !goodEnv(e.Name, e.Value) || len(s.env) >= maxEnv || s.cmd != nil {
			return false
		}
		s.env = append(s.env, e.Name+"="+e.Value)
		return true
	case "signal":
		var name struct{ Name string }
		if ssh.Unmarshal(r.Payload, &name) != nil || s.cmd == nil {
			return false
		}
		number := signalNumber(name.Name)
		return number != 0 && s.cmd.Signal(number) == nil
	case "break":
		return s.cmd != nil && s.cmd.terminal() != nil
	case "auth-agent-req@openssh.com":
		return s.forwardAgent()
	}
	return false
}

// goodEnv tells whether a variable may be set: those that OpenSSH accepts by
// default. Others could change what the account's shell runs.
func goodEnv(name, value string) bool {
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

// start starts the command. read is called when its input is read.
func (s *session) start(r *ssh.Request, read func()) {
	cmd := agent.Command{User: s.c.user}
	var text struct{ Line string }
	switch {
	case s.cmd != nil:
		r.Reply(false, nil)
		return
	case r.Type == "shell":
	case ssh.Unmarshal(r.Payload, &text) != nil, len(text.Line) > maxLineC, strings.ContainsRune(text.Line, 0):
		r.Reply(false, nil)
		return
	case r.Type == "exec": // an empty one is a shell, as with OpenSSH
		cmd.Line = text.Line
	case text.Line == "sftp":
		cmd.SFTP = true
		s.term = nil
	default:
		r.Reply(false, nil)
		return
	}
	cmd.Env = append(s.connection(), s.env...)
	cmd.Terminal = s.term
	files, err := s.exec(cmd)
	if err != nil {
		r.Reply(true, nil)
		io.WriteString(s.ch.Stderr(), plain(err.Error())+"\r\n")
		s.exit(agent.Exit{Status: 255})
		return
	}
	r.Reply(true, nil)
	read()
	s.c.working.Go(func() { s.pump(files) })
}

// connection are the variables that tell who is connected.
func (s *session) connection() []string {
	remote, ok1 := s.c.remote.(*net.TCPAddr)
	local, ok2 := s.c.local.(*net.TCPAddr)
	if !ok1 || !ok2 {
		return nil
	}
	from := remote.IP.String() + " " + strconv.Itoa(remote.Port)
	return []string{
		"SSH_CLIENT=" + from + " " + strconv.Itoa(local.Port),
		"SSH_CONNECTION=" + from + " " + local.IP.String() + " " + strconv.Itoa(local.Port),
	}
}

// streams are our ends of a command's files; of one with a terminal all are it.
type streams struct{ in, out, err *os.File }

// exec starts cmd in the node.
func (s *session) exec(cmd agent.Command) (*streams, error) {
	ctx, cancel := context.WithTimeout(context.Background(), agentTime)
	defer cancel()
	a, err := s.c.agent(ctx)
	if err != nil {
		return nil, errNoAgent
	}
	if cmd.Terminal != nil {
		p, err := s.c.g.agents.exec(ctx, a, cmd, nil)
		if err != nil {
			return nil, err
		}
		master := p.terminal()
		if master == nil {
			p.Close()
			return nil, errors.New("the node gave no terminal")
		}
		s.cmd = p
		return &streams{in: master, out: master}, nil
	}
	ours, theirs, err := pipes()
	if err != nil {
		a.Close()
		return nil, err
	}
	p, err := s.c.g.agents.exec(ctx, a, cmd, theirs[:])
	closeFiles(theirs[:])
	if err != nil {
		closeFiles(ours[:])
		return nil, err
	}
	s.cmd = p
	s.inputs = ours[:]
	return &streams{ours[0], ours[1], ours[2]}, nil
}

// pipes are our ends and a command's ends of its input, output and error output.
func pipes() (ours, theirs [3]*os.File, err error) {
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			closeFiles(ours[:i])
			closeFiles(theirs[:i])
			return ours, theirs, errors.New("the gateway has no files left: try again later")
		}
		if ours[i], theirs[i] = r, w; i == 0 {
			ours[i], theirs[i] = w, r
		}
		theirs[i].Fd() // makes it block, as programs expect
	}
	return ours, theirs, nil
}

// pump carries the command's input and output, and says how it ended when all
// output is sent. What still runs in the background and holds the output open
// keeps the session open, as with OpenSSH.
func (s *session) pump(f *streams) {
	s.c.working.Go(func() {
		s.c.copyIn(f.in, s.ch)
		if f.err != nil { // a terminal has no end of input of its own
			f.in.Close()
		}
	})
	var out sync.WaitGroup
	out.Go(func() { io.Copy(s.ch, f.out) })
	if f.err != nil {
		out.Go(func() { io.Copy(s.ch.Stderr(), f.err) })
	}
	out.Wait()
	e, err := s.cmd.Wait()
	if err != nil {
		io.WriteString(s.ch.Stderr(), "the node was stopped\r\n")
		s.ch.Close()
	} else {
		s.exit(e)
	}
	s.end()
}

// exit says how the command ended, and closes the channel.
func (s *session) exit(e agent.Exit) {
	s.ch.CloseWrite()
	if e.Signal != 0 {
		s.ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Name     string
			Core     bool
			Message  string
			Language string
		}{Name: signalName(e.Signal)}))
	} else {
		s.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(e.Status)}))
	}
	s.ch.Close()
}

// end lets go of the command and all that belongs to the session: one with a
// terminal is hung up, one without finds its files closed.
func (s *session) end() {
	s.ended.Do(func() {
		if s.cmd != nil {
			s.cmd.Close()
		}
		closeFiles(s.inputs)
		if s.relay != nil {
			s.relay.Close()
			s.clear()
		}
	})
}

// clear removes the folder of the authentication agent's socket. When the
// testbed is gone it stays, until the node's /tmp goes.
func (s *session) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), agentTime)
	defer cancel()
	a, err := s.c.agent(ctx)
	if err != nil {
		return
	}
	ours, theirs, err := pipes()
	if err != nil {
		a.Close()
		return
	}
	closeFiles(ours[:])
	rm := agent.Command{User: s.c.user, Argv: []string{"/bin/rm", "-rf", "--", s.nest}}
	p, err := s.c.g.agents.exec(ctx, a, rm, theirs[:])
	closeFiles(theirs[:])
	if err != nil {
		return
	}
	defer time.AfterFunc(agentTime, func() { p.Close() }).Stop()
	p.Wait()
	p.Close()
}

// forwardAgent makes a socket in the node that leads to the peer's
// authentication agent (ssh -A).
func (s *session) forwardAgent() bool {
	if s.cmd != nil || s.relay != nil {
		return false
	}
	nest := "/tmp/ssh-" + rand.Text()
	path := nest + "/agent"
	l, err := s.c.listen("unix", path)
	if err != nil {
		return false
	}
	s.relay, s.nest = l, nest
	s.env = append(s.env, "SSH_AUTH_SOCK="+path)
	s.c.working.Go(func() {
		s.c.acceptForward(l, "auth-agent@openssh.com", func(net.Conn) []byte { return nil })
	})
	return true
}
