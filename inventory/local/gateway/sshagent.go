package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"time"

	"patchbay/inventory/local/agent"
)

// listenAgent makes a socket in the node that leads to the peer's
// authentication agent (ssh -A), and answers its path.
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
	over := s.over
	s.relay, s.nest = l, nest
	s.mu.Unlock()
	if over {
		l.Close()
		s.clear()
		return "", errors.New("the session is over")
	}
	s.c.working.Go(func() {
		s.c.acceptForward(l, "auth-agent@openssh.com", func(net.Conn) []byte { return nil })
	})
	return path, nil
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
	closeFiles(ours)
	rm := agent.Command{User: s.c.user, Argv: []string{"/bin/rm", "-rf", "--", s.nest}}
	p, err := s.c.g.agents.exec(ctx, a, rm, theirs)
	closeFiles(theirs)
	if err != nil {
		return
	}
	defer p.Close()
	defer time.AfterFunc(agentTime, func() { p.Close() }).Stop()
	p.Wait()
}
