package local

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// DefaultInstance is the name of a testbed whose settings name none.
const DefaultInstance = "local"

const defaultHost = "localhost"

// Publish selects the endpoints that experimenters get.
type Publish string

// Values of Publish.
const (
	Both    Publish = "both"
	Direct  Publish = "direct"
	Gateway Publish = "gateway"
)

// Emulator selects the mechanism for latency and loss of links.
type Emulator string

// Values of Emulator.
const (
	AutoEmulator Emulator = "auto" // netem if the host has it, else vswitch
	Netem        Emulator = "netem"
	VSwitch      Emulator = "vswitch"
)

// Settings are the settings in NAME.yaml, without the metadata.
type Settings struct {
	Instance   string
	Component  string
	PublicHost string
	// Listen is the address of the endpoints; the zero value means all addresses.
	Listen netip.Addr
	// FirstPort to LastPort are the ports of endpoints. A released port is not used
	// again before PortRest has passed, unless no other port is free.
	FirstPort, LastPort int
	PortRest            time.Duration
	Publish             Publish
	// GatewayPort is the port of the gateway account; 0 means any from FirstPort to
	// LastPort.
	GatewayPort int
	// SliverTypes has at least one element; the first is the default.
	SliverTypes []SliverType
	// ManifestSocket is an absolute path.
	ManifestSocket string
	// ServicesWait is how long execute steps may delay the state "ready" of a node.
	ServicesWait time.Duration
	// ForwardTo lists the networks of other providers' nodes to which the gateway may
	// connect. If ForwardTo is empty, the gateway may connect to all global unicast
	// addresses.
	ForwardTo []netip.Prefix
	Emulator  Emulator
	// SharedVLANs are the names of the VLANs that slices may share.
	SharedVLANs []string
	// Outbound means that nodes reach the Internet by IPv4, except the networks in
	// OutboundBlock. DNS lists the name servers of nodes; if DNS is empty, nodes use those of
	// the host.
	Outbound      bool
	OutboundBlock []netip.Prefix
	// OutboundAddresses are the public source addresses of the nodes' connections. They are
	// needed only if a router translates the host's addresses.
	OutboundAddresses []netip.Addr
	DNS               []netip.Addr
}

// LoginPorts returns how many nodes can have their own login port. It returns 0 if Publish is
// Gateway, since nodes then have no ports. One port of the range is kept for the gateway,
// unless GatewayPort is outside the range.
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

// SliverType holds the limits of one kind of node.
type SliverType struct {
	Name   string
	CPUs   float64
	Memory int64 // bytes
	PIDs   int
	Disk   int64 // bytes
}

// MayForward reports whether the gateway may connect to an SSH server at the address a. The
// address must be in ForwardTo. If ForwardTo is empty, every global unicast address is
// allowed.
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

// maxSettings is the maximum size of a settings file in bytes.
const maxSettings = 1 << 20

// maxServicesWait is the maximum of ServicesWait. The manager waits an hour for a node; the
// rest of that hour is for the install steps.
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

func defaultType() SliverType {
	return SliverType{Name: "container", CPUs: 1, Memory: 512 << 20, PIDs: 1000, Disk: 4 << 30}
}

// ReadSettings parses the file at path. A missing key has its default, and a missing file
// counts as an empty file. The error is one line, which names the file without its folder.
func ReadSettings(path string) (Settings, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Settings{}, err
	}
	text, err := readSmallFile(path)
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

// readSmallFile accepts only a regular file of at most maxSettings bytes. It returns nil
// for a missing file.
func readSmallFile(path string) ([]byte, error) {
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
