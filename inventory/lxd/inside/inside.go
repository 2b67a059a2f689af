package inside

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"patchbay/am/durable"
	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/setup"
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
}

// Report is the result of configure.
type Report struct {
	Problems []string `json:",omitempty"`
	// Addresses are those of the first interface.
	Addresses []string `json:",omitempty"`
}

// sshTime bounds the time until the node's SSH server answers.
const sshTime = 60 * time.Second

// OutputFile returns the path of the output of the program that was called with the words.
func OutputFile(words []string) string {
	return State + "/" + strings.Join(words[:min(2, len(words))], "-") + ".out"
}

// Main runs the words after Verb. It does not return.
func Main(words []string) {
	var err error
	if len(words) > 0 && words[0] != verbBoot {
		err = redirect(OutputFile(words))
	}
	if err == nil {
		err = run(words)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// verbBoot is for the service in the node, whose output the journal has.
const verbBoot = "boot"

// redirect makes the file the standard output and the standard error. An earlier call may still write
// to its own file.
func redirect(path string) error {
	if err := os.MkdirAll(State, 0o755); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(unix.Dup2(int(f.Fd()), 1), unix.Dup2(int(f.Fd()), 2))
}

func run(words []string) error {
	switch {
	case len(words) == 1 && (words[0] == "configure" || words[0] == verbBoot):
		return configure(words[0] == verbBoot)
	case len(words) > 0 && words[0] == "examine":
		return examine(words[1:])
	}
	if len(words) < 2 {
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
		return awaitStep(n, words[2:])
	case "end":
		os.Args = setup.EndArgs(n)
		setup.Main()
	}
	return fmt.Errorf("unknown words %q", words)
}

// StepFile returns the path of the setup.Assignment of step n.
func StepFile(n int) string { return fmt.Sprintf("%s/step-%d.json", State, n) }

// startStep starts the step whose assignment is in StepFile, and prints its first report. The step
// continues after that.
func startStep(n int) error {
	in, err := os.Open(StepFile(n))
	if err != nil {
		return err
	}
	c := &exec.Cmd{Path: "/proc/self/exe", Args: setup.RunArgs(n), Stdin: in, Stderr: os.Stderr, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
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

// awaitStep prints the last report of the step, after the seconds in words if it then still runs.
func awaitStep(n int, words []string) error {
	seconds := 0
	if len(words) == 1 {
		seconds, _ = strconv.Atoi(words[0])
	}
	last, err := setup.Await(n, time.Duration(seconds)*time.Second)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(last)
}

// configure applies File. At boot it only prepares the node; otherwise it also waits for the SSH
// server, and prints a Report.
func configure(boot bool) error {
	text, err := os.ReadFile(File)
	if err != nil {
		return err
	}
	var c Config
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	if err := os.MkdirAll(State, 0o755); err != nil {
		return err
	}
	facts, err := agent.Apply(c.Configuration)
	if err != nil {
		return err
	}
	r := Report{Problems: facts.Problems}
	problem := func(where string, err error) {
		if err != nil {
			r.Problems = append(r.Problems, where+": "+err.Error())
		}
	}
	for _, i := range c.Interfaces {
		problem("the interface "+i.Name, setInterface(i))
	}
	changed, err := setHostKeys(c.HostKeys)
	problem("the host keys", err)
	if boot {
		return nil
	}
	if changed {
		reloadServer()
	}
	if err := awaitServer(sshTime); err != nil {
		return err
	}
	r.Addresses = addresses("eth0")
	return json.NewEncoder(os.Stdout).Encode(r)
}

func setInterface(i Interface) error {
	mac, err := net.ParseMAC(i.MAC)
	if err != nil {
		return err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, link := range links {
		if link.Attrs().HardwareAddr.String() != mac.String() {
			continue
		}
		for _, a := range i.Addresses {
			prefix, err := netip.ParsePrefix(a)
			if err != nil {
				return err
			}
			to := &netlink.Addr{IPNet: &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}}
			if prefix.Addr().Is6() {
				to.Flags = unix.IFA_F_NODAD
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
		return netlink.LinkSetUp(link)
	}
	return fmt.Errorf("the node has no interface with the address %s", i.MAC)
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
		if err := durable.WriteFile(path, []byte(key), 0o600); err != nil {
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
