package site

import (
	"context"
	"errors"
	"log/slog"
	"net"
)

// Open opens every room of a site in the order in which they need each
// other. What is wrong is said with the file and the remedy; then nothing is
// left open.
func Open(ctx context.Context, c *Config, log *slog.Logger) (*Site, error) {
	s := &Site{config: c, log: log}
	for _, open := range []func(context.Context) error{
		s.openInventory, // what there is, and who makes slivers of it
		s.openTrust,     // the time, and who may call
		s.listen,        // where they call; a port that is taken is told before anything is changed
		s.openRecords,   // what was promised, and who is told of it
		s.openPolicy,    // who may have what
		s.openRunner,    // who brings what is to what was promised
		s.openAggregate, // who decides what is promised
		s.meetInventory, // what was promised by another one
		s.openUpkeep,    // what is out of service
		s.openServer,    // who answers calls
		s.openSocket,    // where providers and operators ask
	} {
		if err := open(ctx); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Close frees what openSite has opened, in the opposite order.
func (s *Site) Close() error {
	for _, l := range []net.Listener{s.listener, s.admin} {
		if l != nil {
			l.Close()
		}
	}
	if s.socket != nil {
		s.socket.remove()
	}
	var err error
	if s.store != nil {
		err = s.store.Close()
	}
	if s.audit != nil {
		err = errors.Join(err, s.audit.Close())
	}
	if s.tls != nil {
		s.tls.Close()
	}
	if s.testbeds != nil {
		s.testbeds.letGo()
	}
	if s.locked != nil {
		err = errors.Join(err, s.locked.Close())
	}
	return err
}
