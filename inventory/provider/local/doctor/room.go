package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/provider/local/node"
)

// The least memory and disk: for the files that all nodes share, and one small node.
const (
	leastMemory = 128 << 20
	leastDisk   = 512 << 20
)

func tryRoom(_ context.Context, b *resources) (string, *trouble) {
	return checkRoom(b.stateDisk(), "/proc/meminfo", leastMemory, leastDisk)
}

// checkRoom checks the available memory in the file meminfo and the free disk of dir,
// in bytes.
func checkRoom(dir, meminfo string, memory, disk int64) (string, *trouble) {
	text, err := os.ReadFile(meminfo)
	if err != nil {
		return "", failedTo("read the free memory", err, "mount -t proc proc /proc")
	}
	free := int64(-1)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemAvailable:" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			free = n << 10
		}
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", failedTo("read the free space of "+dir, err, "choose another folder: patchbay-local up --state DIR SETTINGS")
	}
	space := int64(st.Bavail) * st.Bsize
	words := fmt.Sprintf("%s of memory and, for %s, %s of disk are free", size(free), dir, size(space))
	_, reserve, _ := node.DiskLeft(dir)
	switch {
	case free < memory:
		return "", &trouble{words + "; nodes need at least " + size(memory) + " of memory", "end other programs (ps aux --sort -rss | head), or use a larger host"}
	case space < max(disk, reserve):
		return "", &trouble{words + "; nodes need at least " + size(max(disk, reserve)) + " of disk", "make room (du -xh / | sort -h | tail), or choose another folder: patchbay-local up --state DIR SETTINGS"}
	case st.Files > 0 && st.Ffree < 10000:
		return "", &trouble{fmt.Sprintf("only %d files can be made on the disk of %s", st.Ffree, dir), "remove files there, or choose another folder: patchbay-local up --state DIR SETTINGS"}
	}
	return words + "; no node is created while less than " + size(reserve) + " of the disk is free", nil
}

func size(n int64) string {
	switch {
	case n < 0:
		return "an unknown amount"
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// tryPorts tries to listen on all ports of the range, and on the gateway's port. It succeeds if one of the
// range is free, or the testbed runs.
func tryPorts(ctx context.Context, b *resources) (string, *trouble) {
	p := b.place
	if p.First == 0 {
		return "not tested: no range of ports was given", nil
	}
	if p.First < 1 || p.Last > 65535 || p.First > p.Last {
		return "", &trouble{fmt.Sprintf("%d-%d is no range of ports", p.First, p.Last), "give one within 1-65535, such as 20000-29999"}
	}
	where := p.Address
	if where == "" {
		where = "all addresses"
	}
	free, last := 0, error(nil)
	var l net.ListenConfig
	for port := p.First; port <= p.Last && ctx.Err() == nil; port++ {
		s, err := l.Listen(ctx, "tcp", net.JoinHostPort(p.Address, strconv.Itoa(port)))
		if err == nil {
			free++
			s.Close()
			continue
		}
		last = err
		if !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	switch {
	case errors.Is(last, unix.EADDRNOTAVAIL):
		return "", &trouble{fmt.Sprintf("%s is no address of this host", p.Address), "give one of the addresses that this command prints: ip -brief address"}
	case forbidden(last):
		return "", &trouble{fmt.Sprintf("cannot listen on port %d of %s: %v", p.First, where, last), "give ports above 1023, such as 20000-29999"}
	case last != nil && !errors.Is(last, unix.EADDRINUSE):
		return "", &trouble{fmt.Sprintf("cannot listen on %s: %v", where, last), "give one of the addresses that this command prints: ip -brief address"}
	case p.Running && free == 0:
		return fmt.Sprintf("none of the ports %d-%d is free on %s, but the testbed runs and uses some of them", p.First, p.Last, where), nil
	case free == 0:
		return "", &trouble{fmt.Sprintf("none of the ports %d-%d is free on %s", p.First, p.Last, where), "give another range, or find out which program uses them: ss -tlnp"}
	}
	if p.Gateway != 0 && !p.Running {
		s, err := l.Listen(ctx, "tcp", net.JoinHostPort(p.Address, strconv.Itoa(p.Gateway)))
		if err != nil {
			return "", failedTo(fmt.Sprintf("listen on port %d of the gateway", p.Gateway), err, "set another gateway_port in the settings, or find out which program uses it: ss -tlnp")
		}
		s.Close()
	}
	words := fmt.Sprintf("%d of the %d ports %d-%d are free on %s", free, p.Last-p.First+1, p.First, p.Last, where)
	return words + outgoing(p.First, p.Last), nil
}

// outgoing returns a warning if outgoing connections of this host may use some of the
// ports, and otherwise "".
func outgoing(first, last int) string {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return ""
	}
	f := strings.Fields(string(b))
	if len(f) != 2 {
		return ""
	}
	low, _ := strconv.Atoi(f[0])
	high, _ := strconv.Atoi(f[1])
	if last < low || first > high {
		return ""
	}
	return fmt.Sprintf("; outgoing connections of this host may use some of them, unless reserved: sysctl -w net.ipv4.ip_local_reserved_ports=%d-%d", first, last)
}

func tryClock(context.Context, *resources) (string, *trouble) { return checkClock(time.Now(), built()) }

// built returns the time when this program was written to the disk, which is in the
// past if the clock is right. The zero time means unknown.
func built() time.Time {
	path, err := os.Executable()
	if err != nil {
		return time.Time{}
	}
	i, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return i.ModTime()
}

func checkClock(now, buildTime time.Time) (string, *trouble) {
	// The program may come from a host whose clock is slightly ahead.
	if now.Year() < 2025 || now.Before(buildTime.Add(-48*time.Hour)) {
		return "", &trouble{fmt.Sprintf("the clock says %s, and this program is from %s", now.UTC().Format(time.RFC3339), buildTime.UTC().Format(time.RFC3339)),
			"set it (timedatectl set-ntp true, or date -s): leases, certificates and logs depend on it"}
	}
	return "it is " + now.UTC().Format(time.RFC3339), nil
}

func listUntested(context.Context, *resources) (string, *trouble) {
	return "whether nodes return after a boot of this host, what happens when its memory is full, and whether clients reach its ports through your firewall", nil
}
