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
	nodes, keys, foreign string

	host     *node.Host // nil in tests of which machines are not real
	machines machines
	doors    doorkeeper
	images   images
	fabric   fabrics
	noFabric error // why this host cannot make links; nil: it can
	ids      numbers
	ports    numbers
	uplinks  numbers
	gateway  gatewayRecord
	exit     exit // nil when nodes have no way outside
	times
	write    func(dir, name string, v any) error // writeJSON, but in tests
	newKey   func() ([]byte, error)              // newExperimentKey, but in tests
	unraised string                              // what raiseLimits has logged last
	building atomic.Pointer[string]              // what nodes report that wait for the image of this host; nil: it is not being made

	heavy    turns           // making, starting
	removals turns           // mostly wait for the kernel
	talk     turns           // with agents and the gateway
	slow     turns           // the same, with those that did not answer in time
	ctx      context.Context // ends the lives
	stop     context.CancelFunc
	work     sync.WaitGroup

	finding  sync.RWMutex // read-locked from finding an image to noting that it is used
	keeping  sync.Mutex   // of files in keys; taken before mu
	fetching turns        // of manifests that are in memory

	mu     sync.Mutex // guards what follows; taken after a life's
	lives  map[string]*life
	slices map[string]*slice
	// networks are those that have links, and those that are to be removed.
	networks map[string]*network
	outside  map[int]*life // by their numbers at the exit
	closing  bool

	doorsMu      sync.Mutex // guards what follows
	foreignDoors map[string]*foreignDoor
}

// times are as the constants of their names say, but in tests.
type times struct {
	quiet, gather, pause, portTime, installsTime, quickTime, talkTime, memoryTime time.Duration
	// heartbeat is that of agents.
	heartbeat supervisor.Heartbeat
}

// life is the node of that name, nil when there is none.
func (t *Testbed) life(id string) *life {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lives[id]
}

// all are the nodes, by name.
func (t *Testbed) all() []*life {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*life, 0, len(t.lives))
	for _, l := range t.lives {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *life) int { return cmp.Compare(a.id, b.id) })
	return all
}

// life is one node. Its goroutine alone changes anything about the node; others
// write down what is asked and poke it.
type life struct {
	t  *Testbed
	id string

	// Never changed after the life was made.
	slice    *slice    // nil: the node is in none
	ifaces   []iface   // its interfaces
	network  *network  // its links; nil: it has none
	heavy    int       // the weight of ifaces; 0 if they are light
	services *services // its setup; nil: it has none
	broken   string    // why it can only be removed, for experimenters; set when it is found

	once     sync.Once     // starts the goroutine
	pokes    chan struct{} // has room for one
	died     chan *run     // the run that ended by itself
	fetching turns         // one, of the manifest that is being answered
	manifest manifest      // of a node without slice

	mu  sync.Mutex // guards rec and status; held while the record is written
	rec record
	status

	// The goroutine's own.
	run     *run // nil: the node does not run
	started bool // it has run since this program began
	door    openDoor
	slow    bool        // its agent did not answer in time
	deaths  []time.Time // when its system ended by itself
	// What follows is of one change, and begins anew with the next.
	change   uint64
	attempts int // that failed
	waits    int // that are repeated without end
	earlier  earlier
}

// status is what get reports of a node besides its record.
type status struct {
	gone           bool // nothing is left
	state, message string
	setting        bool // the message is how far the steps are
	open           bool // the doors can be used
	pid            int  // 0: it does not run
	hangs          bool // its agent does not answer
}

// run is one run of a node, from its start, or from when this program found it,
// to its end.
type run struct {
	linked     bool        // it has its interfaces
	outside    bool        // it has its way outside
	configured *configured // what its agent was told last; nil: nothing
	proven     bool        // all accounts can log in
	geni       net.Listener
}

type configured struct {
	users    []user
	hostname string
	peers    uint64 // the version of the peers
}

// openDoor is a node's door at the gateway. The listeners are the gateway's to
// close.
type openDoor struct {
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
func (l *life) setState(state, message string) { l.state, l.message, l.setting = state, message, false }

// doing reports what is being done. Of a node that is being removed it reports only
// that.
func (l *life) doing(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.rec.Asked.Removing || message == removing {
		l.setState(provider.StateChanging, message)
	}
}

// finish reports that the node is as it was asked at change, unless more was asked.
func (l *life) finish(change uint64, state, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rec.Change == change {
		l.setState(state, message)
	}
}

func (l *life) poke() {
	select {
	case l.pokes <- struct{}{}:
	default:
	}
}

// snapshot is the record as it is now.
func (l *life) snapshot() record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rec
}

// reported is the status as it is now.
func (l *life) reported() status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// update sets some of the status.
func (l *life) update(set func(*status)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	set(&l.status)
}

func (l *life) dir() string { return filepath.Join(l.t.nodes, l.id) }

func (l *life) holder() string { return l.t.settings.Instance + "/" + l.id }

// save makes rec the record, with l.mu held.
func (l *life) save(rec record) error {
	if err := l.t.write(l.dir(), recordFile, rec); err != nil {
		return err
	}
	l.rec = rec
	return nil
}

// settle changes the record.
func (l *life) settle(f func(*record)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	rec := l.rec
	f(&rec)
	return l.save(rec)
}

// slice are the nodes that know each other.
type slice struct {
	t   *Testbed
	urn string
	id  string // of the slice on this host

	peers map[netip.Addr]*life // guarded by t.mu

	keyMu sync.Mutex // guards key; held while it is made
	key   experimentKey

	dirtyMu sync.Mutex // guards what follows
	dirty   bool
	timer   *time.Timer // nil: there is no change that the others were not told

	refreshing sync.Mutex // guards what follows
	lines      peerLines
	at         map[netip.Addr]string // as the gateway was told

	manifest manifest
}

type experimentKey struct{ private, public string }

// peerLines are what all nodes of a slice have in their files.
type peerLines struct {
	version uint64
	peers   []peer
	known   []string
}

// peer is a node as its peers know it.
type peer struct {
	life    *life
	address netip.Addr // inside nodes, by way of the gateway
	names   []string
	ends    []peerEnd
}

// peerEnd is an interface of a peer on a link that has a name.
type peerEnd struct {
	link      string
	addresses []netip.Addr // an IPv4 address first
	aliases   []string     // NAME-LINK
}

// network are the links of one slice. One change of it is made at a time, and
// whatever becomes of that, other slices do not wait for it.
type network struct {
	t    *Testbed
	id   string
	turn turns // of who changes the fabric

	mu      sync.Mutex // guards what follows; nothing is taken after it
	nodes   map[*life]bool
	since   time.Time        // of the first and
	latest  time.Time        // the last node that came
	drawn   map[string]*link // nil: to be drawn anew
	made    map[string]*made // by the id of the link
	timer   *time.Timer
	gone    bool // removed: what is made under its name now is another's
	counted counted
	// overruns are the ends that lost packets for want of time.
	overruns map[string]overrun
}

// made is a link as it was given to the fabric.
type made struct {
	link     *link // nil: nobody knows what it is like now
	emulator string
}

// counted are the counters of a network as they were read last.
type counted struct {
	at   time.Time
	ends map[string]fabric.Counters
	// lost is what links that were remade had dropped by then, by end.
	lost map[string]uint64
	// reading is closed when the read that goes on is done; nil: there is none.
	reading chan struct{}
}

// manifest is the last manifest of a slice that the manager sent; empty if that was
// too long to keep.
type manifest struct {
	mu   sync.Mutex // guards what follows; held while the manager is asked
	text string
	at   time.Time
}

// service is a step of a node's setup and what came of it. Begun is noted when
// the node has said so: from then on it is only waited for.
type service struct {
	Kind string `json:"kind"`
	setup.Report
	Begun bool `json:"begun,omitempty"`
	// Cut is how the node ended while the step ran, empty if it did not.
	Cut string `json:"cut,omitempty"`
}

// journal is services.json. A step is noted as running before it is begun, so
// one that waits has never been, and one that has ended never is again.
type journal struct {
	Steps []service `json:"steps"`
	// Installing is how long the installs that have ended took, in ns.
	Installing time.Duration `json:"installing,omitempty"`
	// Executes is when the first execute began.
	Executes time.Time `json:"executes,omitzero"`
}

// services do the steps of a node, one after the other, in a goroutine of their
// own while the node runs.
type services struct {
	l *life
	// The life's: what ends the goroutine, and that it has ended.
	stop context.CancelFunc
	done chan struct{}

	begun time.Time // when the goroutine took up the install that it is at; zero: none

	mu       sync.Mutex // guards what follows; taken after the life's
	journal  journal    // as it is on the disk; changed by the goroutine alone
	progress string     // of the step that runs
	over     bool       // all steps have ended
}

// foreignDoor is a door that leads to a node of another provider; its fields with
// tags are kept in doors/ID.json.
type foreignDoor struct {
	Provider string   `json:"provider"`
	Name     string   `json:"name"`
	Address  string   `json:"address"`
	Hostname string   `json:"hostname,omitempty"`
	Users    []string `json:"users,omitempty"`
	Port     int      `json:"port,omitempty"`

	id     string
	open   bool   // and as the record says
	noted  string // the record, as it was written or read last
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

// note writes down why the node has failed at change; empty: it has not.
func (l *life) note(change uint64, failed string) {
	set := func(r *record) { r.Failed, r.FailedAt = failed, change }
	if err := l.settle(set); err != nil {
		l.t.log.Error("cannot write down whether a node has failed", "node", l.id, "error", err)
		l.mu.Lock()
		set(&l.rec)
		l.mu.Unlock()
	}
}
