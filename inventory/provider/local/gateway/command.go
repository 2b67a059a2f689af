package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"patchbay/inventory/node/agent"
)

// errNoAgent is reported to a user when a node's agent cannot be reached.
var errNoAgent = errors.New("the node does not answer: the node or the testbed is stopped")

// run starts the command in the node, copies its input and output, and reports its exit status. It then ends
// the session. If the session ended before the command had started, run only closes what it has opened.
func (s *session) run(cmd agent.Command) {
	cmd.Env = append(s.c.environment(), s.env...)
	if s.forward {
		if path, err := s.listenAgent(); err == nil {
			cmd.Env = append(cmd.Env, "SSH_AUTH_SOCK="+path)
		} else {
			io.WriteString(s.ch.Stderr(), "your authentication agent is not forwarded: "+printable(err.Error())+"\r\n")
		}
	}
	p, files, err := s.exec(cmd)
	if err != nil {
		io.WriteString(s.ch.Stderr(), printable(err.Error())+"\r\n")
		s.sendExit(agent.Exit{Status: noCommand})
		s.end()
		return
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		p.Close()
		closeFiles(files)
		return
	}
	s.cmd, s.files = p, files
	if s.size != nil {
		setSize(p.terminal(), s.size)
	}
	s.mu.Unlock()
	s.transfer(p, files)
	s.end()
}

// environment returns the variables with the addresses of the connection, as sshd sets them. It returns none for a
// login of VerifyLogin, because SSH_CLIENT makes bash read the user's start-up files, which may be broken.
func (c *login) environment() []string {
	remote, ok1 := c.remote.(*net.TCPAddr)
	local, ok2 := c.local.(*net.TCPAddr)
	if !ok1 || !ok2 || c.isVerification {
		return nil
	}
	from := remote.IP.String() + " " + strconv.Itoa(remote.Port)
	return []string{
		"SSH_CLIENT=" + from + " " + strconv.Itoa(local.Port),
		"SSH_CONNECTION=" + from + " " + local.IP.String() + " " + strconv.Itoa(local.Port),
	}
}

// exec starts the command in the node. It returns our ends of stdin, stdout and stderr in files. A command
// with a terminal has none.
func (s *session) exec(cmd agent.Command) (p command, files []*os.File, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), agentTime)
	defer cancel()
	a, err := s.c.dialAgent(ctx)
	if err != nil {
		return nil, nil, errNoAgent
	}
	if cmd.Terminal != nil {
		if p, err = s.c.g.agents.exec(ctx, a, cmd, nil); err == nil && p.terminal() == nil {
			p.Close()
			err = errors.New("the node opened no terminal")
		}
		return p, nil, err
	}
	ours, theirs, err := pipes()
	if err != nil {
		a.Close()
		return nil, nil, err
	}
	p, err = s.c.g.agents.exec(ctx, a, cmd, theirs)
	closeFiles(theirs)
	if err != nil {
		closeFiles(ours)
		return nil, nil, err
	}
	return p, ours, nil
}

// pipes returns both ends of the pipes for stdin, stdout and stderr, in this order.
func pipes() (ours, theirs []*os.File, err error) {
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeFiles(append(ours, theirs...))
			return nil, nil, errors.New("the gateway cannot open more files: try again later")
		}
		if i == 0 {
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
		w.Fd() // makes the file blocking, as programs expect
	}
	return ours, theirs, nil
}

// transfer copies the input and output of a command, and reports its exit after all output is sent. Without a
// terminal, background processes that hold the output open keep the session open, as with OpenSSH.
func (s *session) transfer(p command, files []*os.File) {
	var e agent.Exit
	var err error
	if files == nil {
		s.setInput(p.terminal())
		out := &terminalReader{f: p.terminal()}
		exited := make(chan struct{})
		go func() {
			defer close(exited)
			e, err = p.Wait()
			out.exited()
		}()
		copyGrowing(s.ch, out)
		<-exited
	} else {
		s.setInput(files[0])
		var out sync.WaitGroup
		out.Go(func() { copyGrowing(s.ch, files[1]) })
		out.Go(func() { copyGrowing(s.ch.Stderr(), files[2]) })
		out.Wait()
		e, err = p.Wait()
	}
	if err != nil {
		io.WriteString(s.ch.Stderr(), "the node was stopped\r\n")
		s.ch.Close()
		return
	}
	s.sendExit(e)
}

// After its command has ended, a terminal is read until it is silent for lastTime, and at
// most lastBytes.
const (
	lastTime  = 250 * time.Millisecond
	lastBytes = 1 << 20
)

// terminalReader reads a terminal until some time after its command has ended. The
// terminal itself reports its end only when no process holds it open.
type terminalReader struct {
	f     *os.File
	ended atomic.Bool
	n     int // bytes read since the command ended
}

func (l *terminalReader) exited() {
	l.ended.Store(true)
	l.f.SetReadDeadline(time.Now().Add(lastTime))
}

func (l *terminalReader) Read(b []byte) (int, error) {
	if l.ended.Load() {
		if l.n > lastBytes {
			return 0, io.EOF
		}
		l.f.SetReadDeadline(time.Now().Add(lastTime))
	}
	n, err := l.f.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = l.readRemaining(b)
	}
	if l.ended.Load() {
		l.n += n
	}
	return n, err
}

// readRemaining reads data that is available after the deadline, and returns io.EOF if
// there is none. Such data may have arrived in time, while this process was not running.
func (l *terminalReader) readRemaining(b []byte) (n int, err error) {
	err = withDescriptor(l.f, func(fd int) (err error) { n, err = unix.Read(fd, b); return err })
	if err != nil || n <= 0 {
		return 0, io.EOF
	}
	return n, nil
}

// sendExit reports the command's exit before it closes the channel, which also ends the
// output. If the output ended first, a client without input would close the channel before
// it got the exit status.
func (s *session) sendExit(e agent.Exit) {
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

// setSize reports success. A nil terminal is a failure.
func setSize(terminal *os.File, size *unix.Winsize) bool {
	return terminal != nil && withDescriptor(terminal, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size)
	}) == nil
}

// withDescriptor does not make the file blocking, unlike File.Fd.
func withDescriptor(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}
