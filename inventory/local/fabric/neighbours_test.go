package fabric

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/vishvananda/netlink"

	"patchbay/testdata/need"
)

// fakeTables are settings of the tables of neighbours in a folder.
func fakeTables(t *testing.T, all map[string]thresholds) string {
	dir := t.TempDir()
	for family, values := range all {
		if err := os.MkdirAll(filepath.Join(dir, family, "neigh/default"), 0o700); err != nil {
			t.Fatal(err)
		}
		for i := range values {
			if err := os.WriteFile(thresholdPath(dir, family, i+1), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		setThresholds(t, dir, family, values)
	}
	return dir
}

func setThresholds(t testing.TB, dir, family string, values thresholds) {
	t.Helper()
	for i := range values { // the kernel's need no cutting
		if dir != tables {
			if err := os.Truncate(thresholdPath(dir, family, i+1), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := values.write(dir, family); err != nil {
		t.Fatal(err)
	}
}

func wantThresholds(t *testing.T, when, dir, family string, want thresholds) {
	t.Helper()
	if got, err := readThresholds(dir, family); err != nil || got != want {
		t.Errorf("%s: %s has %v, %v, want %v", when, family, got, err, want)
	}
}

func TestWhatIsRaisedForNeighboursIsSetBack(t *testing.T) {
	usual, log := thresholds{128, 512, 1024}, slog.New(slog.DiscardHandler)
	large := thresholds{1, 2, 1 << 20}
	for _, tt := range []struct {
		name         string
		was          thresholds
		between      thresholds // what somebody else sets; zero: nobody does
		raised, left thresholds
	}{
		{"as usual", usual, thresholds{}, roomy, usual},
		{"larger ones stay", large, thresholds{}, large, large},
		{"each by itself", thresholds{1 << 20, 512, 1024}, thresholds{}, thresholds{1 << 20, roomy[1], roomy[2]}, thresholds{1 << 20, 512, 1024}},
		{"an operator's of later stay", usual, thresholds{1, 2, 3}, roomy, thresholds{1, 2, 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			dir := fakeTables(t, map[string]thresholds{"ipv4": tt.was}) // and no IPv6
			for range 2 {
				if err := raiseNeighbours(dir, folder, log); err != nil {
					t.Fatal(err)
				}
				wantThresholds(t, "raised", dir, "ipv4", tt.raised)
			}
			if tt.between != (thresholds{}) {
				setThresholds(t, dir, "ipv4", tt.between)
			}
			for range 2 {
				if err := restoreNeighbours(dir, folder); err != nil {
					t.Fatal(err)
				}
				wantThresholds(t, "set back", dir, "ipv4", tt.left)
			}
			if list, err := os.ReadDir(folder); err != nil || len(list) > 0 {
				t.Errorf("left are %v, %v", list, err)
			}
		})
	}
}

func TestOfAnotherBootNothingIsSetBack(t *testing.T) {
	folder := t.TempDir()
	dir := fakeTables(t, map[string]thresholds{"ipv4": roomy, "ipv6": roomy})
	for _, text := range []string{
		`{"boot":"another","was":{"ipv4":[1,2,3]}}`, `{"boot":`, "",
		`{"boot":"another","was":{"../../x":[1,2,3]}}`,
	} {
		if err := os.WriteFile(filepath.Join(folder, neighboursFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := restoreNeighbours(dir, folder); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		wantThresholds(t, text, dir, "ipv4", roomy)
		wantThresholds(t, text, dir, "ipv6", roomy)
	}
}

// This is why: the kernel has one table for all namespaces. It is no test, for it
// would take the room of all other packages' tests, and they would take its own;
// benchmarks of packages run one after the other.
func BenchmarkManyNeighboursLeaveRoomForOthers(b *testing.B) {
	for b.Loop() {
		leaveRoom(b)
	}
}

func leaveRoom(t *testing.B) {
	need.NetNS(t)
	before, err := readThresholds(tables, "ipv4")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		t.Skip("the table of neighbours is somebody else's here: run it in the host's own network")
	} else if err != nil {
		t.Fatal(err)
	}
	defer setThresholds(t, tables, "ipv4", before)
	other := withNeighbours(t, "10.1.0.1/16")
	const scanned = 3000
	setThresholds(t, tables, "ipv4", thresholds{128, 512, 1024})
	scan(t, withNeighbours(t, "10.2.0.1/16"), scanned)
	if other.finds(netip.MustParseAddr("10.1.0.2")) {
		t.Error("with 1,024 places a scan leaves others room; then nothing needs to be raised")
	}
	folder := t.TempDir()
	if err := RaiseNeighbours(folder, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := RestoreNeighbours(folder); err != nil {
			t.Error(err)
		}
	}()
	scan(t, withNeighbours(t, "10.3.0.1/16"), scanned)
	if !other.finds(netip.MustParseAddr("10.1.0.3")) {
		t.Error("a scan has left others no room")
	}
}

// withNeighbours is a node that has a device with an address, and nobody there.
func withNeighbours(t testing.TB, address string) *node {
	n := newNode(t)
	n.do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "eth1"
		v := netlink.NewVeth(attrs)
		v.PeerName = "far"
		if err := netlink.LinkAdd(v); err != nil {
			return err
		}
		far, err := netlink.LinkByName("far")
		if err != nil {
			return err
		}
		a, err := netlink.ParseAddr(address)
		if err != nil {
			return err
		}
		return errors.Join(netlink.AddrAdd(v, a), netlink.LinkSetUp(v), netlink.LinkSetUp(far))
	})
	return n
}

// scan speaks to so many neighbours of 10.x.
func scan(t testing.TB, n *node, count int) {
	const each = 200 // one socket may have so many packets waiting
	var sockets []*net.UDPConn
	defer func() {
		for _, c := range sockets {
			c.Close()
		}
	}()
	n.do(func() error {
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return err
		}
		var own netip.Addr
		for _, a := range addrs {
			if p := netip.MustParsePrefix(a.String()); p.Addr().Is4() && !p.Addr().IsLoopback() {
				own = p.Addr()
			}
		}
		for i := range count {
			if i%each == 0 {
				c, err := net.ListenUDP("udp4", nil)
				if err != nil {
					return err
				}
				sockets = append(sockets, c)
			}
			b := own.As4()
			b[2], b[3] = byte(1+i/250), byte(1+i%250)
			// Of what there is no room for the kernel may say so, or not.
			_, _ = sockets[len(sockets)-1].WriteToUDPAddrPort([]byte("x"), netip.AddrPortFrom(netip.AddrFrom4(b), 9))
		}
		return nil
	})
}

// finds tells whether the node begins to look for a neighbour that it speaks to.
func (n *node) finds(addr netip.Addr) (found bool) {
	n.Helper()
	c := n.udp("0.0.0.0:0")
	_, _ = c.WriteToUDPAddrPort([]byte("x"), netip.AddrPortFrom(addr, 9))
	n.do(func() error {
		list, err := netlink.NeighList(0, netlink.FAMILY_V4)
		for _, e := range list {
			found = found || e.IP.Equal(addr.AsSlice())
		}
		return err
	})
	return found
}
