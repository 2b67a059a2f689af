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

	"patchbay/inventory/local"
	"patchbay/inventory/local/fabric"
	"patchbay/inventory/local/node"
	"patchbay/inventory/local/setup"
	"patchbay/inventory/local/supervisor"
	"patchbay/inventory/provider"
)

// This file has the state of a testbed, its nodes, slices and networks, and what
// locks guard it.

// Options say what to run.
type Options struct {
	Settings local.Settings
	// SettingsOwner is the user who may ask at the socket beside root: whose
	// NAME.yaml is.
	SettingsOwner int
	// State is absolute; empty is DefaultState.
	State string
	// Claims is the folder of the host's numbers; empty is Root.
	Claims string
	// Socket is where it answers; empty is local.Socket of the instance.
	Socket string
	// Program is the path of this program, which runs again as the gateway.
	Program string
	Log     *slog.Logger
}

// Testbed is one instance.
type Testbed struct {
	o        Options
	settings local.Settings
	log      *slog.Logger
	locks    []*os.File
	// Folders of the state.
	nodesDir, keysDir, foreignDir string

	host        *node.Host // nil in tests of which machines are not real
	runtime     nodeRuntime
	gateway     sshGateway
	images      images
	fabric      linkFabric
	fabricError error // why this host cannot make links; nil: it can
	userIDs     allocator
	ports       allocator
	uplinks     allocator
	gatewayIDs  gatewayRecord
	egress      egressNetwork // nil when nodes have no way outside
	times
	write        func(dir, name string, v any) error // writeJSON, but in tests
	newKey       func() ([]byte, error)              // newExperimentKey, but in tests
	limitWarning string                              // what raiseLimits has logged last
	imageMessage atomic.Pointer[string]              // what nodes report that wait for the image of this host; nil: it is not being made

	heavyWork      semaphore       // making, starting
	removals       semaphore       // mostly wait for the kernel
	agentCalls     semaphore       // with agents and the gateway
	slowAgentCalls semaphore       // the same, with those that did not answer in time
	ctx            context.Context // ends the lives
	stop           context.CancelFunc
	work           sync.WaitGroup

	findingImages sync.RWMutex // read-locked from finding an image to noting that it is used
	keysMu        sync.Mutex   // of files in keys; taken before mu
	manifestSlots semaphore    // of manifests that are in memory

	mu     sync.Mutex // guards what follows; taken after a life's
	nodes  map[string]*nodeController
	slices map[string]*slice
	// networks are those that have links, and those that are to be removed.
	networks    map[string]*network
	egressNodes map[int]*nodeController // by their numbers at the exit
	closing     bool

	foreignMu        sync.Mutex // guards what follows
	foreignEndpoints map[string]*foreignEndpoint
}

// times are as the constants of their names say, but in tests.
type times struct {
	peerUpdateDelay, linkDelay, pause, portTime, installsTime, agentTime, slowAgentTime, memoryTime time.Duration
	// heartbeat is that of agents.
	heartbeat supervisor.Heartbeat
}

// node is the node of that name, nil when there is none.
func (t *Testbed) node(id string) *nodeController {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.nodes[id]
}

// sortedNodes are the nodes, by name.
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

// nodeController is one node. Its goroutine alone changes anything about the node; others
// write down what is asked and poke it.
type nodeController struct {
	t  *Testbed
	id string

	// Never changed after the life was made.
	slice        *slice      // nil: the node is in none
	interfaces   []iface     // its interfaces
	network      *network    // its links; nil: it has none
	excessWeight int         // the weight of ifaces; 0 if they are light
	steps        *stepRunner // its setup; nil: it has none
	broken       string      // why it can only be removed, for experimenters; set when it is found

	once         sync.Once      // starts the goroutine
	wakeups      chan struct{}  // has room for one
	died         chan *run      // the run that ended by itself
	manifestSlot semaphore      // one, of the manifest that is being answered
	manifest     cachedManifest // of a node without slice

	mu  sync.Mutex // guards rec and status; held while the record is written
	rec record
	status

	// The goroutine's own.
	run       *run // nil: the node does not run
	started   bool // it has run since this program began
	endpoint  openEndpoint
	slowAgent bool        // its agent did not answer in time
	deaths    []time.Time // when its system ended by itself
	// What follows is of one change, and begins anew with the next.
	currentChange uint64
	attempts      int // that failed
	retries       int // that are repeated without end
	earlier       earlier
}

// status is what get reports of a node besides its record.
type status struct {
	removed        bool // nothing is left
	state, message string
	showsSteps     bool // the message is how far the steps are
	loginsOpen     bool // the doors can be used
	pid            int  // 0: it does not run
	hangs          bool // its agent does not answer
}

// run is one run of a node, from its start, or from when this program found it,
// to its end.
type run struct {
	hasLinks   bool        // it has its interfaces
	hasEgress  bool        // it has its way outside
	configured *configured // what its agent was told last; nil: nothing
	proven     bool        // all accounts can log in
	geni       net.Listener
}

type configured struct {
	users    []user
	hostname string
	peers    uint64 // the version of the peers
}

// openEndpoint is a node's door at the gateway. The listeners are the gateway's to
// close.
type openEndpoint struct {
	public, inside net.Listener
	users          []user // those that may come in
}

// earlier is how an earlier program left the node.
type earlier struct {
	ran    bool // it was running
	failed bool // it had failed, and is tried once more
}

// ranWell is about a node that is never given up.
func (e earlier) ranWell() bool { return e.ran && !e.failed }

// setState sets what get reports, with l.mu held.
func (nc *nodeController) setState(state, message string) {
	nc.state, nc.message, nc.showsSteps = state, message, false
}

// reportProgress reports what is being done. Of a node that is being removed it reports only
// that.
func (nc *nodeController) reportProgress(message string) {
	nc.mu.Lock()
	defer nc.mu.Unlock()
	if !nc.rec.Desired.Removing || message == removing {
		nc.setState(provider.StateChanging, message)
	}
}

// reportResult reports that the node is as it was asked at change, unless more was asked.
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

// snapshot is the record as it is now.
func (nc *nodeController) snapshot() record {
	nc.mu.Lock()
	defer nc.mu.Unlock()
	return nc.rec
}

// currentStatus is the status as it is now.
func (nc *nodeController) currentStatus() status {
	nc.mu.Lock()
	defer nc.mu.Unlock()
	return nc.status
}

// updateStatus sets some of the status.
func (nc *nodeController) updateStatus(set func(*status)) {
	nc.mu.Lock()
	defer nc.mu.Unlock()
	set(&nc.status)
}

func (nc *nodeController) dir() string { return filepath.Join(nc.t.nodesDir, nc.id) }

func (nc *nodeController) holder() string { return nc.t.settings.Instance + "/" + nc.id }

// saveRecord makes rec the record, with l.mu held.
func (nc *nodeController) saveRecord(rec record) error {
	if err := nc.t.write(nc.dir(), recordFile, rec); err != nil {
		return err
	}
	nc.rec = rec
	return nil
}

// updateRecord changes the record.
func (nc *nodeController) updateRecord(f func(*record)) error {
	nc.mu.Lock()
	defer nc.mu.Unlock()
	rec := nc.rec
	f(&rec)
	return nc.saveRecord(rec)
}

// slice are the nodes that know each other.
type slice struct {
	t   *Testbed
	urn string
	id  string // of the slice on this host

	peers map[netip.Addr]*nodeController // guarded by t.mu

	keyMu sync.Mutex // guards key; held while it is made
	key   experimentKey

	dirtyMu sync.Mutex // guards what follows
	dirty   bool
	timer   *time.Timer // nil: there is no change that the others were not told

	refreshMu    sync.Mutex // guards what follows
	files        peerFiles
	gatewayPeers map[netip.Addr]string // as the gateway was told

	manifest cachedManifest
}

type experimentKey struct{ private, public string }

// peerFiles are what all nodes of a slice have in their files.
type peerFiles struct {
	version    uint64
	peers      []peer
	knownHosts []string
}

// peer is a node as its peers know it.
type peer struct {
	node       *nodeController
	address    netip.Addr // inside nodes, by way of the gateway
	names      []string
	interfaces []peerInterface
}

// peerInterface is an interface of a peer on a link that has a name.
type peerInterface struct {
	link      string
	addresses []netip.Addr // an IPv4 address first
	aliases   []string     // NAME-LINK
}

// network are the links of one slice. One change of it is made at a time, and
// whatever becomes of that, other slices do not wait for it.
type network struct {
	t        *Testbed
	id       string
	changing semaphore // of who changes the fabric

	mu           sync.Mutex // guards what follows; nothing is taken after it
	nodes        map[*nodeController]bool
	firstJoined  time.Time               // of the first and
	lastJoined   time.Time               // the last node that came
	planned      map[string]*link        // nil: to be drawn anew
	created      map[string]*createdLink // by the id of the link
	timer        *time.Timer
	removed      bool // removed: what is made under its name now is another's
	counterCache counterCache
	// overruns are the ends that lost packets for want of time.
	overruns map[string]overrun
}

// createdLink is a link as it was given to the fabric.
type createdLink struct {
	link     *link // nil: nobody knows what it is like now
	emulator string
}

// counterCache are the counters of a network as they were read last.
type counterCache struct {
	at    time.Time
	byEnd map[string]fabric.Counters
	// lost is what links that were remade had dropped by then, by end.
	lost map[string]uint64
	// reading is closed when the read that goes on is done; nil: there is none.
	reading chan struct{}
}

// cachedManifest is the last manifest of a slice that the manager sent; empty if that was
// too long to keep.
type cachedManifest struct {
	mu   sync.Mutex // guards what follows; held while the manager is asked
	text string
	at   time.Time
}

// stepState is a step of a node's setup and what came of it. Begun is noted when
// the node has said so: from then on it is only waited for.
type stepState struct {
	Kind string `json:"kind"`
	setup.Report
	Begun bool `json:"begun,omitempty"`
	// Interruption is how the node ended while the step ran, empty if it did not.
	Interruption string `json:"cut,omitempty"`
}

// stepJournal is services.json. A step is noted as running before it is begun, so
// one that waits has never been, and one that has ended never is again.
type stepJournal struct {
	Steps []stepState `json:"steps"`
	// Installing is how long the installs that have ended took, in ns.
	Installing time.Duration `json:"installing,omitempty"`
	// Executes is when the first execute began.
	Executes time.Time `json:"executes,omitzero"`
}

// stepRunner do the steps of a node, one after the other, in a goroutine of their
// own while the node runs.
type stepRunner struct {
	nc *nodeController
	// The life's: what ends the goroutine, and that it has ended.
	stop context.CancelFunc
	done chan struct{}

	installStarted time.Time // when the goroutine took up the install that it is at; zero: none

	mu       sync.Mutex  // guards what follows; taken after the life's
	journal  stepJournal // as it is on the disk; changed by the goroutine alone
	progress string      // of the step that runs
	allEnded bool        // all steps have ended
}

// foreignEndpoint is a door that leads to a node of another provider; its fields with
// tags are kept in doors/ID.json.
type foreignEndpoint struct {
	Provider string   `json:"provider"`
	Name     string   `json:"name"`
	Address  string   `json:"address"`
	Hostname string   `json:"hostname,omitempty"`
	Users    []string `json:"users,omitempty"`
	Port     int      `json:"port,omitempty"`

	id     string
	open   bool   // and as the record says
	saved  string // the record, as it was written or read last
	public net.Listener
}

// gatewayRecord is what the gateway keeps over restarts.
type gatewayRecord struct {
	Port int    `json:"port,omitempty"`
	UID  uint32 `json:"uid,omitempty"` // and group id
}

const removing = "being removed"

func sliceID(urn string) string {
	sum := sha256.Sum256([]byte(urn))
	return hex.EncodeToString(sum[:16])
}

// saveFailure writes down why the node has failed at change; empty: it has not.
func (nc *nodeController) saveFailure(change uint64, failed string) {
	set := func(r *record) { r.Failed, r.FailedAt = failed, change }
	if err := nc.updateRecord(set); err != nil {
		nc.t.log.Error("cannot write down whether a node has failed", "node", nc.id, "error", err)
		nc.mu.Lock()
		set(&nc.rec)
		nc.mu.Unlock()
	}
}
