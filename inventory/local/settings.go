package local

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// DefaultInstance is the name of a testbed that was not given one.
const DefaultInstance = "local"

const defaultHost = "localhost"

// Publish says which endpoints experimenters are told.
type Publish string

// Ways to publish endpoints.
const (
	Both    Publish = "both"
	Direct  Publish = "direct"
	Gateway Publish = "gateway"
)

// Emulator says what makes the latency and the loss of links.
type Emulator string

// Emulators.
const (
	AutoEmulator Emulator = "auto" // whatever this host has
	Netem        Emulator = "netem"
	VSwitch      Emulator = "vswitch"
)

// Settings are NAME.yaml without the metadata.
type Settings struct {
	Instance   string
	Component  string
	PublicHost string
	// Listen is where endpoints listen; the zero address is everywhere.
	Listen netip.Addr
	// FirstPort to LastPort are for endpoints; a released one rests for PortRest.
	FirstPort, LastPort int
	PortRest            time.Duration
	Publish             Publish
	// GatewayPort is 0 for any of the ports.
	GatewayPort int
	// SliverTypes has at least one, the first being the default.
	SliverTypes []SliverType
	// ManifestSocket is absolute.
	ManifestSocket string
	// ServicesWait is how long executes may hold up that a node is ready.
	ServicesWait time.Duration
	// ForwardTo are the networks of other providers' nodes; see MayForward.
	ForwardTo []netip.Prefix
	Emulator  Emulator
	// SharedVLANs are the names by which slices may share a link.
	SharedVLANs []string
	// Outbound tells whether nodes reach the network outside: not OutboundBlock,
	// which are IPv4. There they ask DNS for names; none are the host's.
	Outbound      bool
	OutboundBlock []netip.Prefix
	// OutboundAddresses are those as which nodes are seen outside, where a router
	// gives this host others; none are the host's own.
	OutboundAddresses []netip.Addr
	DNS               []netip.Addr
}

// LoginPorts is how many nodes can have a port of their own for logins; 0 says that
// they need none. The gateway has one of the ports, too, unless gateway_port names
// another.
func (s *Settings) LoginPorts() int {
	if s.Publish == Gateway {
		return 0
	}
	n := s.LastPort - s.FirstPort + 1
	if s.GatewayPort == 0 || s.FirstPort <= s.GatewayPort && s.GatewayPort <= s.LastPort {
		n--
	}
	return n
}

// SliverType is what one kind of node may take.
type SliverType struct {
	Name   string
	CPUs   float64
	Memory int64 // bytes
	PIDs   int
	Disk   int64 // bytes
}

// MayForward tells whether the gateway may lead to an SSH server at a.
func (s *Settings) MayForward(a netip.Addr) bool {
	a = a.Unmap()
	if len(s.ForwardTo) == 0 {
		return a.IsGlobalUnicast() && a.Zone() == "" && !a.IsLoopback()
	}
	for _, p := range s.ForwardTo {
		if p.Contains(a) && !a.IsUnspecified() && !a.IsMulticast() {
			return true
		}
	}
	return false
}

// maxSettings is the largest settings file, in bytes.
const maxSettings = 1 << 20

// maxServicesWait leaves time for the installs, for the manager waits an hour.
const maxServicesWait = 15 * time.Minute

func defaults() Settings {
	return Settings{
		Instance: DefaultInstance, Component: defaultHost, PublicHost: defaultHost,
		FirstPort: 20000, LastPort: 29999, PortRest: 10 * time.Minute,
		Publish:        Both,
		Emulator:       AutoEmulator,
		SliverTypes:    []SliverType{defaultType()},
		ServicesWait:   30 * time.Second,
		ManifestSocket: "../admin.sock",
	}
}

// defaultType has what a sliver type leaves out.
func defaultType() SliverType {
	return SliverType{Name: "container", CPUs: 1, Memory: 512 << 20, PIDs: 1000, Disk: 4 << 30}
}

// ReadSettings reads the file at path over the defaults; no file is all
// defaults. Its error is one line, which names the file without its folder.
func ReadSettings(path string) (Settings, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Settings{}, err
	}
	text, err := readSome(path)
	file := filepath.Base(path)
	if err != nil {
		if e, ok := errors.AsType[*os.PathError](err); ok {
			err = e.Err
		}
		return Settings{}, fmt.Errorf("%s: cannot be read: %w", file, err)
	}
	s, err := parseSettings(text, file)
	if err != nil {
		return Settings{}, err
	}
	if !filepath.IsAbs(s.ManifestSocket) {
		s.ManifestSocket = filepath.Join(filepath.Dir(path), s.ManifestSocket)
	}
	return s, nil
}

func readSome(path string) ([]byte, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case st.Size() > maxSettings:
		return nil, fmt.Errorf("it is larger than %d bytes", maxSettings)
	}
	return os.ReadFile(path)
}
