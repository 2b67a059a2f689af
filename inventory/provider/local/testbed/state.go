package testbed

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"patchbay/inventory/node/steprunner"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/fabric"
	"patchbay/inventory/provider/local/node"
	"patchbay/inventory/provider/supervisor"
	"patchbay/rspec/hostname"
)

// This file declares the state of a testbed, its nodes, slices and networks, and the
// locks that guard it.

// Options configure a testbed.
type Options struct {
	Settings local.Settings
	// SettingsOwner is the user, besides root, that may use the socket: the owner of
	// NAME.yaml.
	SettingsOwner int
	// SettingsFile is the path of the settings, see local.SettingsPath. Only the provider beside
	// this file may get and set nodes. "" allows all providers.
	SettingsFile string
	// Facts is the file in which the testbed states what its images are; empty for none.
	Facts string
	// Catalogue is the folder of the site's catalogue.
	Catalogue string
	// State is an absolute path. Default: DefaultState.
	State string
	// Claims is the folder of the numbers that are unique on this host. Default: Root.
	Claims string
	// Socket is the path of the Unix socket. Default: local.Socket of the instance.
	Socket string
	// Program is the path of this executable, which is also started as the gateway.
	Program string
	Log     *slog.Logger
}

// Testbed is one running instance.
type Testbed struct {
	o        Options
	settings local.Settings
	log      *slog.Logger
	locks    []*os.File
	// Folders below State.
	nodesDir, keysDir, foreignDir string

	host        *node.Host // nil in tests without real nodes
	runtime     nodeRuntime
	gateway     sshGateway
	images      images
	fabric      linkFabric
	fabricError error // why this host cannot make links; nil if it can
	userIDs     allocator
	ports       allocator
	uplinks     allocator
	gatewayIDs  gatewayRecord
	egress      egressNetwork // nil when the nodes have no outside network
	times
	write        func(dir, name string, v any) error // writeJSON, replaced in tests
	newKey       func() ([]byte, error)              // newExperimentKey, replaced in tests
	limitWarning string                              // the last warning of raiseLimits
	imageMessage atomic.Pointer[string]              // status of nodes that wait for the host's image; nil if it is not being built

	heavyWork      semaphore       // building and starting nodes
	removals       semaphore       // removing nodes, which mostly waits for the kernel
	agentCalls     semaphore       // calls of agents and the gateway
	slowAgentCalls semaphore       // the same, for agents that did not answer in time
	ctx            context.Context // ends all node controllers
	stop           context.CancelFunc
	work           sync.WaitGroup

	findingImages sync.RWMutex // read-locked from looking up an image until its use is recorded
	keysMu        sync.Mutex   // guards the files in keysDir; locked before mu
	manifestSlots semaphore    // manifests being fetched
	longManifests semaphore    // long manifests being sent

	mu     sync.Mutex // guards the fields below; locked after a nodeController's mu
	nodes  map[string]*nodeController
	slices map[string]*slice
	// networks holds, by id, the networks that have links or are being removed.
	networks    map[string]*network
	egressNodes map[int]*nodeController // by egress number
	closing     bool

	foreignMu        sync.Mutex // guards the fields below
	foreignEndpoints map[string]*foreignEndpoint
}

// times holds the constants of the same names. Tests shorten them.
type times struct {
	peerUpdateDelay, linkDelay, pause, portTime, installsTime, eventTime, agentTime, slowAgentTime, memoryTime time.Duration
	// heartbeat checks agents.
	heartbeat supervisor.Heartbeat
}

func (t *Testbed) node(id string) *nodeController {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.nodes[id]
}

func (t *Testbed) sortedNodes() []*nodeController {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*nodeController, 0, len(t.nodes))
	for _, nc := range t.nodes {
		all = append(all, nc)
	}
	slices.SortFunc(all, func(a, b *nodeController) int { return cmp.Compare(a.id, b.id) })
	return all
}

// nodeController reconciles one node with its desired state. Only the controller's goroutine
// changes the node. Other goroutines save the desired state and wake the controller.
type nodeController struct {
	t  *Testbed
	id string

	// Constant once the controller was created.
	slice    *slice             // nil: the node belongs to none
	steps    *steprunner.Runner // the steps of its setup; nil for a broken node
	stepsRun *stepsRun          // nil: no steps run
	broken   string             // why the node can only be removed, as shown to its user

	// Changed with mu held.
	ifaces       atomic.Pointer[[]iface] // see interfaces
	net          atomic.Pointer[network] // see network
	excessWeight int                     // the weight of interfaces if it exceeds freeInterfaceWeight, else 0

	once     sync.Once      // starts the goroutine
	wakeups  chan struct{}  // capacity 1
	hosts    atomic.Uint64  // the version of the peers in its /etc/hosts; 0 if it does not run
	died     chan *run      // a run whose PID 1 ended unexpectedly
	manifest cachedManifest // of a node without a slice

	mu  sync.Mutex // guards rec and status; held while the record is written
	rec record
	status

	// Used by the goroutine only.
	run       *run // nil: the node does not run
	started   bool // the node has run since this program began
	endpoint  openEndpoint
	slowAgent bool        // its agent did not answer in time
	deaths    []time.Time // when its PID 1 ended unexpectedly
	// The attempts belong to currentChange; the next change resets them.
	currentChange uint64
	attempts      int // failed attempts
	retries       int // attempts that are repeated without limit
	earlier       earlier
	keyReplaced   bool // the slice's key, after the node's users lost access by its removal
}

// status is the part of a node's state that is not in its record. get reports both.
type status struct {
	removed        bool // the node was removed completely
	state, message string
	showsSteps     bool // the message is the progress of its steps
	loginsOpen     bool
	pid            int  // of the node's PID 1; 0: it does not run
	hangs          bool // its agent does not answer
	// userIDs are the ids of its accounts inside the node, by login, as its agent has reported.
	userIDs map[string]uint32
}

// run is one run of a node: from its start, or from its discovery by this program, to
// its end.
type run struct {
	links      *[]iface    // the interfaces that are attached; nil: none
	hasEgress  bool        // it is attached to the outside network
	configured *configured // the last configuration of its agent; nil: none
	proven     bool        // logging in worked for all accounts
	peersUntil time.Time   // the node waits for its peers until then; zero: not yet
	geni       net.Listener
}

// configured is the last configuration that was sent to the agent of a run.
type configured struct {
	users    []user
	hostname string
	peers    uint64 // version of the peers
	key      string // the public key of the experiment
}

// openEndpoint is a node's SSH endpoint at the gateway. The gateway closes the
// listeners.
type openEndpoint struct {
	public, inside net.Listener
	users          []user
	insideKeys     []string
}

// earlier is the state in which an earlier program left the node.
type earlier struct {
	ran    bool // the node was running
	failed bool // the node had failed, and is tried once more
}

// ranWell reports whether the node was running and had not failed. Such a node is
// retried without limit.
func (e earlier) ranWell() bool { return e.ran && !e.failed }

// setState must be called with nc.mu held.
func (nc *nodeController) setState(state, message string) {
	nc.state, nc.message, nc.showsSteps = state, message, false
}

// reportProgress accepts only the constant removing for a node that is being removed.
func (nc *nodeController) reportProgress(message string) {
	nc.mu.Lock()
	defer nc.mu.Unlock()
	if !nc.rec.Desired.Removing || message == removing {
		nc.setState(provider.StateChanging, message)
	}
}

// reportResult does nothing unless change is the number of the current desired state.
func (nc *nodeController) reportResult(change uint64, state, message string) {
	nc.mu.Lock()
	defer nc.mu.Unlock()
	if nc.rec.Change == change {
		nc.setState(state, message)
	}
}

func (nc *nodeController) wake() {
	select {
	case nc.wakeups <- struct{}{}:
	default:
	}
}

func (nc *nodeController) snapshot() record {
	nc.mu.Lock()
	defer nc.mu.Unlock()
	return nc.rec
}

func (nc *nodeController) currentStatus() status {
	nc.mu.Lock()
	defer nc.mu.Unlock()
	return nc.status
}

func (nc *nodeController) updateStatus(change func(*status)) {
	nc.mu.Lock()
	defer nc.mu.Unlock()
	change(&nc.status)
}

func (nc *nodeController) dir() string { return filepath.Join(nc.t.nodesDir, nc.id) }

func (nc *nodeController) holder() string { return nc.t.settings.Instance + "/" + nc.id }

// saveRecord makes rec the current record only after rec is on disk. nc.mu is held.
func (nc *nodeController) saveRecord(rec record) error {
	if err := nc.t.write(nc.dir(), recordFile, rec); err != nil {
		return err
	}
	nc.rec = rec
	return nil
}

func (nc *nodeController) updateRecord(f func(*record)) error {
	nc.mu.Lock()
	defer nc.mu.Unlock()
	rec := nc.rec
	f(&rec)
	return nc.saveRecord(rec)
}

// slice is a set of nodes that know each other by name and share a key.
type slice struct {
	t   *Testbed
	urn string
	// id names the slice's files on this host.
	id string

	peers map[netip.Addr]*nodeController // guarded by t.mu

	keyMu sync.Mutex // guards key and replaced; held while a key is created
	key   experimentKey
	// replacements counts the calls of replaceKey, and replaced those that the key is newer than.
	replacements atomic.Uint64
	replaced     uint64

	dirtyMu sync.Mutex // guards dirty and timer
	dirty   bool
	timer   *time.Timer // nil: no update of the nodes is scheduled

	refreshMu    sync.Mutex // guards files and gatewayPeers
	files        peerFiles
	gatewayPeers map[netip.Addr]string // as last sent to the gateway

	manifest cachedManifest
}

type experimentKey struct{ private, public string }

// peerFiles is the content about peers in the files of all nodes of a slice.
type peerFiles struct {
	version    uint64            // 0: not made yet
	nodes      []*nodeController // the node of each of peers
	peers      []hostname.Peer
	knownHosts []string
}

// network is the set of links of one slice. It is changed by one goroutine at a time; changes
// of other networks can run meanwhile.
type network struct {
	t        *Testbed
	id       string
	changing semaphore // held while the fabric is changed

	mu           sync.Mutex // guards the fields below; no lock is taken while it is held
	nodes        map[*nodeController]bool
	firstJoined  time.Time               // when the first node of the current group joined
	lastJoined   time.Time               // when the last node of the current group joined
	planned      map[string]*link        // planned links, by link id; nil: they must be planned again
	created      map[string]*createdLink // created links, by link id
	timer        *time.Timer
	removed      bool // the network was removed; a new one may exist under the same id
	counterCache counterCache
	// overruns are the interfaces that lost packets because this host was too slow.
	overruns map[string]overrun
}

// createdLink is a link as it was passed to the fabric.
type createdLink struct {
	link     *link // nil: unknown, since a change of the link failed
	emulator string
}

// counterCache holds the counters of a network as they were last read.
type counterCache struct {
	at    time.Time
	byEnd map[string]fabric.Counters
	// lost counts, by interface, the packets dropped by links before they were recreated.
	lost map[string]uint64
	// reading is closed when the running read ends; nil: none is running.
	reading chan struct{}
}

// cachedManifest is the last manifest of a slice that the manager sent; empty if it was
// too long to keep.
type cachedManifest struct {
	slot semaphore  // capacity 1: the manifest being sent
	mu   sync.Mutex // guards text and at; held during a request to the manager
	text string
	at   time.Time
}

// foreignEndpoint is an SSH endpoint for a node of another provider. Its fields with tags
// are stored in endpoints/ID.json.
type foreignEndpoint struct {
	Provider string   `json:"provider"`
	Name     string   `json:"name"`
	Address  string   `json:"address"`
	Hostname string   `json:"hostname,omitempty"`
	Users    []string `json:"users,omitempty"`
	Port     int      `json:"port,omitempty"`

	id     string
	open   bool   // it is open with these fields
	saved  string // the file's content as last written or read
	public net.Listener
}

// gatewayRecord is the part of the gateway's state that survives restarts.
type gatewayRecord struct {
	Port int    `json:"port,omitempty"`
	UID  uint32 `json:"uid,omitempty"` // also the group id
}

const removing = "being removed"

func sliceID(urn string) string {
	sum := sha256.Sum256([]byte(urn))
	return hex.EncodeToString(sum[:16])
}

// saveFailure records reason, a text for experimenters; "" clears the failure. If the disk is
// full, it changes the record only in memory.
func (nc *nodeController) saveFailure(change uint64, reason string) {
	set := func(r *record) { r.Failed, r.FailedAt = reason, change }
	if err := nc.updateRecord(set); err != nil {
		nc.t.log.Error("cannot save the failure of a node", "node", nc.id, "error", err)
		nc.mu.Lock()
		set(&nc.rec)
		nc.mu.Unlock()
	}
}
