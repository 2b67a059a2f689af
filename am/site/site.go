package site

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/am/api"
	"patchbay/am/audit"
	"patchbay/am/binder"
	"patchbay/am/clock"
	"patchbay/am/hook"
	"patchbay/am/mtls"
	"patchbay/am/operate"
	"patchbay/am/server"
	"patchbay/am/service"
	"patchbay/am/store"
	"patchbay/am/work"
	"patchbay/credentials"
	"patchbay/credentials/cert"
)

// Site is a running site: all rooms, opened and put together.
type Site struct {
	config    *Config
	log       *slog.Logger
	clock     *clock.Clock
	store     *store.Store
	audit     *audit.Log
	runner    *work.Runner
	hooks     *hook.Runner
	working   atomic.Bool // the runner runs
	auth      *credentials.Authorizer
	trusted   *cert.Folder
	reading   sync.Mutex // of the trust folder: one at a time
	staleTold time.Time  // when stale CRLs were last looked for; guarded by reading
	anchors   atomic.Pointer[cert.Anchors]
	tls       *mtls.Context
	upkeep    *upkeep
	desk      *operate.Desk
	policy    *policyFile
	providers *ProviderSet
	index     *binder.Index // and the inventory in force
	aggregate *service.Service
	api       *api.API
	reloading sync.Mutex // one who takes over an inventory
	server    *server.Server
	listener  net.Listener // before TLS
	admin     net.Listener // nil for none
	socket    *adminSocket // nil for none
	Testbeds  *testbeds    // the local ones, which live as long as the site is served
	locked    io.Closer    // the lock of the providers, nil for none
	PublicURL string       // as clients are told
	LocalURL  string       // of the address that is really listened at
}

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
	if s.Testbeds != nil {
		s.Testbeds.letGo()
	}
	if s.locked != nil {
		err = errors.Join(err, s.locked.Close())
	}
	return err
}

// ready tells what is missing to serve calls.
func (s *Site) ready() error {
	if len(s.anchors.Load().List()) == 0 {
		return errors.New("the trust folder holds no certificate, so nobody may call")
	}
	if !s.working.Load() {
		return errors.New("the runner does not run")
	}
	if err := s.audit.Err(); err != nil {
		return err
	}
	if err := s.store.Err(); err != nil {
		return err
	}
	return s.store.Read(func(*store.View) error { return nil })
}
