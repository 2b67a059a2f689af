package site

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/am/api"
	"patchbay/am/authority"
	"patchbay/am/display"
	"patchbay/am/follow/audit"
	"patchbay/am/follow/hook"
	"patchbay/am/server"
	"patchbay/am/server/mtls"
	"patchbay/am/service"
	"patchbay/am/site/clock"
	"patchbay/am/site/operate"
	"patchbay/am/store"
	"patchbay/am/work"
	"patchbay/credentials"
	"patchbay/credentials/cert"
	"patchbay/inventory"
)

// Site is a served site: all its parts, opened and connected.
type Site struct {
	config      *Config
	read        *Config // the configuration without flags of the command line; nil if there is no file
	log         *slog.Logger
	clock       *clock.Clock
	store       *store.Store
	audit       *audit.Log
	runner      *work.Runner
	hooks       *hook.Runner
	working     atomic.Bool // whether the runner runs
	countsCache countsCache
	auth        *credentials.Authorizer
	trusted     *cert.Folder
	trustSeen   string     // state of the trust folder (see trustState) before it was first read
	reading     sync.Mutex // held while the trust folder is read again
	staleLogged time.Time  // when stale CRLs were last logged; guarded by the mutex reading
	anchors     atomic.Pointer[cert.Anchors]
	tls         *mtls.Context
	maintenance *maintenanceFile
	operations  *operate.Operations
	policy      *policyFile
	providers   *ProviderSet
	inventory   atomic.Pointer[inventory.Inventory]
	aggregate   *service.Service
	api         *api.API
	trial       *authority.Service   // nil for none
	trialState  *authority.Authority // of trial; without trial, only for the sessions of operators
	reloading   sync.Mutex           // held during a reload of the inventory
	found       chan struct{}        // has a value while found capabilities may be unused
	server      *server.Server
	listener    net.Listener   // accepts TCP connections; tls adds TLS
	admin       net.Listener   // nil for none
	remote      *remoteMetrics // for monitors on other hosts, nil for none
	pages       *pages         // nil for none
	socket      *adminSocket   // nil for none
	companions  *companions    // the services of providers, which run while the site is served
	closers     []func() error // close what was opened, in this order; Close calls them from the end
	PublicURL   string         // the URL for clients
	LocalURL    string         // the URL of the listener, for this host
}

// Names of a site's files.
const (
	ConfigName    = display.ConfigName
	InventoryName = "inventory.yaml"
	AuthorityDir  = "authority"
	TrustedDir    = "trusted"
	ProvidersDir  = "providers"
	UsersDir      = "users"
	RequestName   = "request.xml"
	PolicyName    = "policy.yaml"
)

// recordAct records the action only in the audit if the journal cannot be written; then it fails.
func (s *Site) recordAct(n operate.Note) error {
	_, err := s.operations.Note(context.Background(), n)
	if err != nil {
		s.log.Error("an operator's action is missing in the journal; it is only in the audit", "what", n.Event, "operator", n.Operator, "error", err)
		s.audit.Act(audit.Act{What: n.Event, Text: n.Text, Operator: n.Operator})
	}
	return err
}
