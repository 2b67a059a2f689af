package site

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
)

// listen opens both listeners and finds out the URLs.
func (s *Site) listen(ctx context.Context) (err error) {
	c := s.config
	s.listener, err = listenTCP(c.Listen, "listen")
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && c.served():
		return fmt.Errorf("cannot listen at %s: this very site is served already; stop that server first", c.Listen)
	case err != nil:
		return err
	}
	real := s.listener.Addr().(*net.TCPAddr)
	host, _, _ := net.SplitHostPort(c.Listen)
	s.LocalURL = PublicURLOf(ctx, net.JoinHostPort(host, strconv.Itoa(real.Port)))
	s.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	if s.PublicURL == "" {
		s.PublicURL = s.LocalURL
	}
	admin := c.Admin
	switch {
	case admin == "off":
		return nil
	case admin == "" && strings.HasSuffix(c.Listen, ":0"):
		admin = "127.0.0.1:0"
	case admin == "":
		admin = net.JoinHostPort("127.0.0.1", strconv.Itoa(real.Port%65535+1))
	}
	s.admin, err = listenTCP(admin, "admin")
	return err
}

// listenTCP listens, and says what to do when that is not possible. key is the
// setting that holds addr.
func listenTCP(addr, key string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &takenError{addr, key}
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("cannot listen at %s: ports below 1024 need a right this user has not; choose another with the key %s", addr, key)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("cannot listen at %s: this host has no such address; correct the key %s", addr, key)
	}
	return nil, fmt.Errorf("cannot listen: %w; correct the key %s", err, key)
}

// takenError says that somebody has a port; it is syscall.EADDRINUSE.
type takenError struct{ addr, key string }

func (e *takenError) Error() string {
	return fmt.Sprintf("cannot listen at %s: another program has that port; stop it, or choose another with the key %s", e.addr, e.key)
}

func (*takenError) Unwrap() error { return syscall.EADDRINUSE }

// AdminURL is where health and metrics are; "" for nowhere.
func (s *Site) AdminURL() string {
	if s.admin == nil {
		return ""
	}
	return "http://" + s.admin.Addr().String()
}
