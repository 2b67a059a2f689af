package inside

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"patchbay/am/file"
	"patchbay/inventory/node/agent"
	"patchbay/inventory/node/setup"
)

// Files of the provider in the node. The folder of File exists in each image, so a new node needs one
// call less.
const (
	Program = "/usr/local/lib/patchbay-lxd"
	File    = "/etc/patchbay-node.json" // a Config
	State   = "/var/lib/patchbay"       // for steps
)

// Verb is the first argument with which the provider runs Program in a node.
const Verb = "inside"

// Config is the requested configuration of the node.
type Config struct {
	agent.Configuration
	// HostKeys are private keys in OpenSSH's format, by their names, such as ssh_host_ed25519_key.
	HostKeys   map[string]string
	Interfaces []Interface
}

// Interface is an interface of the experiment's network.
type Interface struct {
	Name, MAC string
	MTU       int
	Addresses []string // with the length of the network
	Delay     time.Duration
	Loss      float64 // of a hundred frames that leave the interface
}

// Report is the result of configure.
type Report struct {
	Problems []string `json:",omitempty"`
	// Addresses are those of the first interface.
	Addresses []string `json:",omitempty"`
}

// sshTime bounds the time until the node's SSH server answers.
const sshTime = 60 * time.Second

// Main runs the words after Verb. It does not return.
func Main(words []string) {
	if err := run(words); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run carries out the words after Verb. The words about steps become arguments of setup.Main, which reads
// os.Args and does not return.
func run(words []string) error {
	switch {
	case len(words) == 1 && words[0] == "boot":
		return boot()
	case len(words) == 1 && words[0] == "configure":
		return configure(os.Stdin)
	case len(words) > 0 && words[0] == "examine":
		return examine(words[1:])
	case len(words) != 2:
		return fmt.Errorf("unknown words %q", words)
	}
	n, err := strconv.Atoi(words[1])
	if err != nil {
		return err
	}
	switch words[0] {
	case "run":
		return startStep(n)
	case "wait":
		os.Args = setup.WaitArgs(n)
	case "end":
		os.Args = setup.EndArgs(n)
	case "deliver":
		os.Args = setup.DeliverArgs(n)
	default:
		return fmt.Errorf("unknown words %q", words)
	}
	setup.Main()
	return nil // not reached
}

// startStep starts the step whose assignment is the input, and prints its first report. The step
// continues after that.
func startStep(n int) error {
	c := &exec.Cmd{Path: "/proc/self/exe", Args: setup.RunArgs(n), Stdin: os.Stdin, Stderr: os.Stderr, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return errors.Join(err, c.Wait())
	}
	_, err = os.Stdout.Write(line)
	return err
}

// maxConfig bounds a Config in JSON, in bytes.
const maxConfig = 8 << 20

// configTime bounds the time in which a new node waits for its Config, and bootTime the time in which
// boot must have applied one.
const (
	configTime = 5 * time.Minute
	bootTime   = time.Minute
)

// applied is the content of appliedFile, which is gone after a reboot.
type applied struct {
	Hash     string // of the Config
	Problems []string

	newKeys bool
}

const appliedFile = "/run/patchbay-node.json"

func hashOf(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }

// boot applies the Config before the SSH server starts. A new node waits for it.
func boot() error {
	for until := time.Now().Add(configTime); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(File)
		if err == nil {
			_, err = apply(text, nil)
			return err
		}
		if time.Now().After(until) {
			return err
		}
	}
}

// configure saves the Config in the input if it is complete, and applies it unless the boot of the node does.
// It waits for the SSH server, and prints a Report.
func configure(in io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(in, maxConfig))
	if err != nil {
		return err
	}
	if _, err := parse(text); err != nil {
		return err
	}
	earlier, _ := os.ReadFile(File)
	if err := file.Write(File, text, 0o600); err != nil {
		return err
	}
	done := readApplied()
	isRunning := done.Hash != ""
	for until := time.Now().Add(bootTime); done.Hash == "" && isBooting() && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		done = readApplied()
	}
	if isRunning || done.Hash != hashOf(text) {
		if done, err = apply(text, earlier); err != nil {
			return err
		}
	}
	if done.newKeys {
		reloadServer()
	}
	if err := awaitServer(sshTime); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(Report{Problems: done.Problems, Addresses: addresses("eth0")})
}

// isBooting reports whether the service in the node will write appliedFile, or has written it.
func isBooting() bool {
	name, _ := os.ReadFile("/proc/1/comm")
	_, err := os.Stat(ServiceLink)
	return strings.TrimSpace(string(name)) == "systemd" && err == nil
}

func readApplied() (a applied) {
	text, err := os.ReadFile(appliedFile)
	if err == nil {
		_ = json.Unmarshal(text, &a) // it may be half written
	}
	return a
}

// parse fails for a Config that was cut off.
func parse(text []byte) (c Config, err error) {
	if err = json.Unmarshal(text, &c); err == nil {
		err = c.Validate()
	}
	if err != nil {
		err = fmt.Errorf("the configuration of the node is broken: %w", err)
	}
	return c, err
}

// apply configures the node as the Config in text says, and records the result. It also removes what only
// the earlier Config had; nil for none. It fails if the node would be unusable, or a link better than
// requested; other errors are problems in the result.
func apply(text, earlier []byte) (done applied, err error) {
	c, err := parse(text)
	if err != nil {
		return done, err
	}
	before := map[string]Interface{}
	if old, err := parse(earlier); err == nil {
		for _, i := range old.Interfaces {
			before[i.MAC] = i
		}
	}
	if err := os.MkdirAll(State, 0o755); err != nil {
		return done, err
	}
	facts, err := agent.Apply(c.Configuration)
	if err != nil {
		return done, err
	}
	done = applied{Hash: hashOf(text), Problems: facts.Problems}
	problem := func(where string, err error) {
		if err != nil {
			done.Problems = append(done.Problems, where+": "+err.Error())
		}
	}
	for _, i := range c.Interfaces {
		err := setInterface(i, before[i.MAC])
		if err != nil && (i.Delay > 0 || i.Loss > 0) { // an experiment on a link that is too good is worthless
			return done, fmt.Errorf("the interface %s: %w", i.Name, err)
		}
		problem("the interface "+i.Name, err)
	}
	done.newKeys, err = setHostKeys(c.HostKeys)
	problem("the host keys", err)
	out, err := json.Marshal(done)
	if err != nil {
		return done, err
	}
	return done, os.WriteFile(appliedFile, out, 0o600)
}

// setInterface gives the interface with the MAC of i its addresses, MTU, delay and loss, and switches it on.
// before is the interface in the earlier Config: only its addresses and delay are removed, so those of users
// stay.
func setInterface(i, before Interface) error {
	mac, err := net.ParseMAC(i.MAC)
	if err != nil {
		return err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	n := slices.IndexFunc(links, func(l netlink.Link) bool { return l.Attrs().HardwareAddr.String() == mac.String() })
	if n < 0 {
		return fmt.Errorf("the node has no interface with the address %s", i.MAC)
	}
	link := links[n]
	for _, a := range before.Addresses {
		if slices.Contains(i.Addresses, a) {
			continue
		}
		from, err := addressOf(a)
		if err == nil {
			err = netlink.AddrDel(link, from)
		}
		if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return err
		}
	}
	for _, a := range i.Addresses {
		to, err := addressOf(a)
		if err != nil {
			return err
		}
		if err := netlink.AddrReplace(link, to); err != nil {
			return err
		}
	}
	if i.MTU > 0 && link.Attrs().MTU != i.MTU {
		if err := netlink.LinkSetMTU(link, i.MTU); err != nil {
			return err
		}
	}
	switch {
	case i.Delay > 0 || i.Loss > 0:
		err = delayFrames(link, i.Delay, i.Loss)
	case before.Delay > 0 || before.Loss > 0:
		err = stopDelay(link)
	}
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

func addressOf(text string) (*netlink.Addr, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return nil, err
	}
	a := &netlink.Addr{IPNet: &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}}
	if prefix.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return a, nil
}

// netemFrames bounds the frames that wait in an interface: 64 MB of the largest ones.
const netemFrames = 44_000

// delayFrames delays and loses frames that leave the interface.
func delayFrames(link netlink.Link, delay time.Duration, loss float64) error {
	if err := netlink.LinkSetGSOMaxSegs(link, 1); err != nil { // else up to 44 frames are lost together
		return err
	}
	q := netlink.NewNetem(netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		netlink.NetemQdiscAttrs{Latency: uint32(delay.Microseconds()), Loss: float32(loss), Limit: netemFrames})
	if err := netlink.QdiscReplace(q); err != nil {
		return fmt.Errorf("netem: %w", err)
	}
	return nil
}

// stopDelay removes what delayFrames has made.
func stopDelay(link netlink.Link) error {
	all, err := netlink.QdiscList(link)
	if err != nil {
		return err
	}
	for _, q := range all {
		if q.Type() == "netem" && q.Attrs().Parent == netlink.HANDLE_ROOT && q.Attrs().Handle == netlink.MakeHandle(1, 0) {
			if err := netlink.QdiscDel(q); err != nil {
				return fmt.Errorf("netem: %w", err)
			}
		}
	}
	return netlink.LinkSetGSOMaxSegs(link, 65535)
}

const sshFolder = "/etc/ssh"

// setHostKeys writes the keys, and removes others: those of the image would be the same in all
// nodes.
func setHostKeys(keys map[string]string) (changed bool, err error) {
	if err := os.MkdirAll(sshFolder, 0o755); err != nil {
		return false, err
	}
	for name, key := range keys {
		path := filepath.Join(sshFolder, filepath.Base(name))
		if old, err := os.ReadFile(path); err == nil && isSameKey(old, []byte(key)) {
			continue
		}
		if err := file.Write(path, []byte(key), 0o600); err != nil {
			return changed, err
		}
		_ = os.Remove(path + ".pub") // of another key
		changed = true
	}
	others, err := filepath.Glob(sshFolder + "/ssh_host_*_key")
	for _, path := range others {
		if _, wanted := keys[filepath.Base(path)]; !wanted {
			changed = true
			err = errors.Join(err, os.Remove(path))
			_ = os.Remove(path + ".pub")
		}
	}
	return changed, err
}

// isSameKey reports whether two private keys are equal. Their files have random check bytes.
func isSameKey(a, b []byte) bool {
	x, err1 := ssh.ParsePrivateKey(a)
	y, err2 := ssh.ParsePrivateKey(b)
	return err1 == nil && err2 == nil && bytes.Equal(x.PublicKey().Marshal(), y.PublicKey().Marshal())
}

// Paths of Service. The second one is a link to the first.
const (
	ServiceFile = "/etc/systemd/system/patchbay-node.service"
	ServiceLink = "/etc/systemd/system/multi-user.target.wants/patchbay-node.service"
)

// Service applies the configuration at each boot: before the SSH server, which does not start
// without host keys, and before the provider looks at the node.
const Service = `[Unit]
Description=Patchbay node
DefaultDependencies=no
After=local-fs.target systemd-sysusers.service
Before=ssh.service sshd.service network.target
[Service]
Type=oneshot
ExecStart=` + Program + ` ` + Verb + ` boot
[Install]
WantedBy=multi-user.target
`

// DropIn is for all services of the node. AppArmor refuses the mounts that these settings need in a container
// without nesting, and the services would not start: systemd-networkd, for example.
const (
	DropInFile = "/etc/systemd/system/service.d/zz-patchbay.conf"
	DropIn     = `[Service]
ProcSubset=all
ProtectProc=default
ProtectControlGroups=no
ProtectKernelTunables=no
NoNewPrivileges=no
LoadCredential=
`
)

// reloadServer makes a running SSH server read its keys again.
func reloadServer() {
	text, err := os.ReadFile("/run/sshd.pid")
	if err != nil {
		return
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid > 1 {
		_ = unix.Kill(pid, unix.SIGHUP)
	}
}

func awaitServer(limit time.Duration) error {
	for until := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		err := tryServer()
		if err == nil {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("no SSH server answers in the node: %w", err)
		}
	}
}

// tryServer fails unless an SSH server answers at port 22 of the node.
func tryServer() error {
	c, err := net.DialTimeout("tcp", "127.0.0.1:22", time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	banner := make([]byte, 4)
	if _, err := c.Read(banner); err != nil {
		return err
	}
	if string(banner) != "SSH-" {
		return errors.New("the server at port 22 is no SSH server")
	}
	return nil
}

// addresses returns the addresses of an interface, without link-local ones.
func addresses(name string) (all []string) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil
	}
	list, _ := i.Addrs()
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() && !p.Addr().IsLinkLocalUnicast() {
			all = append(all, p.Addr().String())
		}
	}
	return all
}
