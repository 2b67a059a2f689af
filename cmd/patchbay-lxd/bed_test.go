package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"patchbay/am/testkit/require"
	"patchbay/am/testkit/wait"
)

// built is a folder with the programs, the image and a key, made when a test first needs them.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "patchbay-lxd")
	if err != nil {
		return dir, err
	}
	// The flags are those of the tests of cmd/patchbay, so that go compiles the packages once for both.
	if err := runAll([][]string{
		{"env", "CGO_ENABLED=0", "go", "build", "-ldflags=-s -w", "-o", dir, ".", "../patchbay-local"},
		{"go", "build", "-ldflags=-s -w", "-o", dir + "/patchbay", "../patchbay"},
		{"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "alice", "-f", dir + "/key"},
	}); err != nil {
		return dir, err
	}
	image, err := keptImage()
	if err != nil {
		return dir, err
	}
	return dir, os.Symlink(image, filepath.Join(dir, "image.tar"))
})

// keptImage returns the path of the image. Making it takes a minute of the processor, so it is kept in the
// folder .cache until the commands that make it change; "make clean" removes it.
func keptImage() (string, error) {
	folder, err := filepath.Abs("../../.cache")
	if err == nil {
		err = os.MkdirAll(folder, 0o755)
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", imageCommands("image", "image.tar")))
	image := filepath.Join(folder, fmt.Sprintf("lxd-image-%x.tar", sum[:8]))
	if _, err := os.Stat(image); err == nil {
		return image, nil
	}
	work, err := os.MkdirTemp("", "patchbay-lxd-image")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	unfinished := fmt.Sprintf("%s.%d", image, os.Getpid()) // in the same folder, so that the rename is atomic
	defer os.Remove(unfinished)
	if err := runAll(imageCommands(filepath.Join(work, "image"), unfinished)); err != nil {
		return "", err
	}
	old, err := filepath.Glob(filepath.Join(folder, "lxd-image-*.tar"))
	if err != nil {
		return "", err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return "", err
		}
	}
	return image, os.Rename(unfinished, image)
}

// imageCommands make the image of a small Debian in the file tarball, by way of a folder. The image lacks
// documentation and translations, because LXD hashes, copies and unpacks everything in it.
func imageCommands(folder, tarball string) [][]string {
	root := folder + "/rootfs"
	return [][]string{
		{"mkdir", "-p", folder},
		{"mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--include=systemd-sysv,udev,openssh-server,iproute2,iputils-ping,python3-minimal",
			"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/doc/*",
			`--customize-hook=printf "[Match]\nName=eth0\n[Network]\nDHCP=yes\n" >"$1/etc/systemd/network/eth0.network"`,
			`--customize-hook=chroot "$1" systemctl enable systemd-networkd`, "bookworm", root},
		{"sh", "-c", `rm -f "$0"/etc/ssh/ssh_host_*; printf 'architecture: %s\ncreation_date: 1700000000\n' "$(uname -m)" >"$1"/metadata.yaml`, root, folder},
		{"tar", "-C", folder, "-cf", tarball, "metadata.yaml", "rootfs"},
	}
}

// runAll runs commands one after another until one fails.
func runAll(commands [][]string) error {
	for _, command := range commands {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%q: %w\n%s", command, err, out)
		}
	}
	return nil
}

// TestImage makes the image for the other tests, which make test-host runs later.
func TestImage(t *testing.T) {
	require.Root(t)
	require.Tool(t, "mmdebstrap")
	if _, err := keptImage(); err != nil {
		t.Fatal(err)
	}
}

var isBuilt bool

func TestMain(m *testing.M) {
	code := m.Run()
	if isBuilt {
		if dir, _ := built(); dir != "" {
			os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

// engine are the programs of LXD or, with PATCHBAY_CLUSTER=incus, of Incus.
type engine struct {
	daemon, client, table string // table is the one of nftables
	admin                 []string
}

var cluster = func() engine {
	if os.Getenv("PATCHBAY_CLUSTER") == "incus" {
		return engine{"/usr/libexec/incus/incusd", "incus", "incus", []string{"incus", "admin"}}
	}
	return engine{"lxd", "lxc", "lxd", []string{"lxd"}}
}()

// bed is a cluster of LXD in network namespaces, and a provider that uses it. The namespace
// PREFIX-sw connects the members; the provider runs in that of the first member.
type bed struct {
	t       *testing.T
	dir     string
	prefix  string
	members []*host
	prov    string // the folder of the provider
}

type host struct {
	name, namespace, dir, address string
	daemon                        *exec.Cmd
}

// with returns the command with the environment that leads to the host's daemon.
func (h *host) with(words ...string) []string {
	return append([]string{"env", "LXD_DIR=" + h.dir, "INCUS_DIR=" + h.dir}, words...)
}

// newBed needs root and the packages lxd, lxd-client, mmdebstrap, nftables and btrfs-progs.
func newBed(t *testing.T, members int) *bed {
	t.Helper()
	require.Root(t)
	require.NetNS(t)
	for _, tool := range []string{cluster.daemon, cluster.client, "mmdebstrap", "mkfs.btrfs", "nft", "dnsmasq", "ssh"} {
		require.Tool(t, tool)
	}
	isBuilt = true
	made, err := built()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "pblxd")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil { // the root of a node is an ordinary user here
		t.Fatal(err)
	}
	b := &bed{t: t, dir: dir, prefix: filepath.Base(dir), prov: filepath.Join(dir, "providers")}
	t.Cleanup(b.remove)
	sw := b.prefix + "-sw"
	b.run("ip", "netns", "add", sw)
	b.run("ip", "-n", sw, "link", "add", "br0", "type", "bridge")
	b.run("ip", "-n", sw, "link", "set", "br0", "up")
	b.run("ip", "-n", sw, "addr", "add", "10.98.0.254/24", "dev", "br0")
	for range members {
		b.addHost()
	}
	first := b.members[0]
	preseed := `config: {core.https_address: "10.98.0.1:8444"}
storage_pools: [{name: default, driver: btrfs, config: {size: 6GiB}}]
networks: [{name: lxdbr0, type: bridge, config: {ipv4.address: 10.97.0.1/24, ipv6.address: none}}]
`
	if members > 1 {
		preseed += "cluster: {server_name: m1, enabled: true}\n"
	}
	b.preseed(first, preseed)
	for _, h := range b.members[1:] {
		b.join(h)
	}
	b.lxc(first, "image", "import", made+"/image.tar", "--alias", "debian", "-q")
	if err := os.Mkdir(b.prov, 0o755); err != nil {
		t.Fatal(err)
	}
	b.run(first.with(made+"/patchbay-lxd", "setup", "--links", "6", b.dir)...)
	b.write(filepath.Join(b.prov, "lxd.prov"), fmt.Sprintf("#!/bin/sh\nexec ip netns exec %s %s/patchbay-lxd run --name lxd \"$@\"\n", first.namespace, made), 0o755)
	return b
}

// addHost makes a host that is not yet a member of the cluster, with its daemon.
func (b *bed) addHost() *host {
	b.t.Helper()
	n, sw := len(b.members)+1, b.prefix+"-sw"
	h := &host{name: fmt.Sprintf("m%d", n), address: fmt.Sprintf("10.98.0.%d", n)}
	h.namespace, h.dir = b.prefix+"-"+h.name, filepath.Join(b.dir, h.name)
	b.members = append(b.members, h)
	port := fmt.Sprintf("p%d", n)
	b.run("ip", "netns", "add", h.namespace)
	b.run("ip", "-n", sw, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", h.namespace)
	b.run("ip", "-n", sw, "link", "set", port, "master", "br0", "up")
	b.run("ip", "-n", h.namespace, "addr", "add", h.address+"/24", "dev", "eth0")
	b.run("ip", "-n", h.namespace, "link", "set", "eth0", "up")
	b.run("ip", "-n", h.namespace, "link", "set", "lo", "up")
	b.run("ip", "-n", h.namespace, "route", "add", "default", "via", "10.98.0.254") // for multicast
	b.startDaemon(h)
	return h
}

// join makes the host a member of the cluster.
func (b *bed) join(h *host) {
	b.t.Helper()
	words := strings.Fields(b.lxc(b.members[0], "cluster", "add", h.name))
	b.preseed(h, fmt.Sprintf(`cluster:
  enabled: true
  server_name: %s
  server_address: %s:8444
  cluster_token: %s
  member_config: [{entity: storage-pool, name: default, key: size, value: 6GiB}, {entity: storage-pool, name: default, key: source, value: ""}]
`, h.name, h.address, words[len(words)-1]))
}

func (b *bed) write(path, text string, mode os.FileMode) {
	b.t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		b.t.Fatal(err)
	}
}

// startDaemon starts the member's LXD in a mount namespace of its own, so that its mounts end with
// it.
func (b *bed) startDaemon(h *host) {
	b.t.Helper()
	if err := os.MkdirAll(h.dir, 0o711); err != nil {
		b.t.Fatal(err)
	}
	groups := filepath.Join(b.dir, "cgroup")
	if err := os.MkdirAll(groups, 0o755); err != nil {
		b.t.Fatal(err)
	}
	h.daemon = exec.Command("unshare", "-m", "sh", "-c", `mount --make-rprivate / && mount --rbind /sys/fs/cgroup "$0" &&
		exec ip netns exec "$1" sh -c 'mount --rbind "$0" /sys/fs/cgroup && exec `+cluster.daemon+` --group root --logfile "$1"' "$0" "$2"`, groups, h.namespace, h.dir+".log")
	h.daemon.Env = append(os.Environ(), h.with()[1:]...)
	h.daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := h.daemon.Start(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) preseed(h *host, text string) {
	b.t.Helper()
	b.run(h.with(append(cluster.admin, "waitready", "--timeout", "30")...)...)
	c := exec.Command("ip", append([]string{"netns", "exec", h.namespace}, h.with(append(cluster.admin, "init", "--preseed")...)...)...)
	c.Stdin = strings.NewReader(text)
	if out, err := c.CombinedOutput(); err != nil {
		b.t.Fatalf("%s: %v\n%s", h.name, err, out)
	}
}

func (b *bed) run(words ...string) string {
	b.t.Helper()
	out, err := b.try(words...)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *bed) try(words ...string) (string, error) {
	var stderr bytes.Buffer
	c := exec.Command(words[0], words[1:]...)
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("%q: %w\n%s%s", words, err, out, stderr.Bytes())
	}
	return string(out), err
}

func (b *bed) lxc(h *host, words ...string) string {
	b.t.Helper()
	return b.run(h.with(append([]string{cluster.client}, words...)...)...)
}

// remove also works after a failure: it removes what exists.
func (b *bed) remove() {
	if b.t.Failed() {
		log, _ := os.ReadFile(filepath.Join(b.prov, "lxd.log"))
		b.t.Logf("the worker's log:\n%s", log)
		logs, _ := filepath.Glob(b.dir + "/*/logs/*/lxc.log")
		for _, path := range logs {
			if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
				b.t.Logf("%s:\n%s", path, text[:min(len(text), 1500)])
			}
		}
	}
	b.killWorkers()
	for _, h := range b.members {
		out, _ := b.try(h.with("timeout", "20", cluster.client, "list", "--all-projects", "-f", "csv", "-c", "en")...)
		for line := range strings.Lines(out) {
			project, name, _ := strings.Cut(strings.TrimSpace(line), ",")
			_, _ = b.try(h.with("timeout", "30", cluster.client, "delete", "-f", "--project", project, name)...)
		}
	}
	for _, h := range b.members {
		if h.daemon != nil && h.daemon.Process != nil {
			_ = h.daemon.Process.Kill()
			_ = h.daemon.Wait()
		}
	}
	for _, pid := range b.processes(b.dir) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, name := range append([]string{b.prefix + "-sw"}, b.namespaces()...) {
		out, _ := exec.Command("ip", "netns", "pids", name).Output()
		for _, word := range strings.Fields(string(out)) {
			if pid, err := strconv.Atoi(word); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		_ = exec.Command("ip", "netns", "del", name).Run()
	}
	wait.Success(b.t, "the folder of the cluster is not removed", func() error { return os.RemoveAll(b.dir) })
}

func (b *bed) namespaces() (all []string) {
	for _, h := range b.members {
		all = append(all, h.namespace)
	}
	return all
}

// processes returns the ids of processes whose command line has the text.
func (b *bed) processes(text string) (all []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if strings.Contains(string(line), text) {
			all = append(all, pid)
		}
	}
	return all
}

// killWorkers kills the worker and all calls of this bed's provider, and returns how many these were.
func (b *bed) killWorkers() (killed int) {
	for _, pid := range b.processes("--name\x00lxd") {
		if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil && dir == b.prov {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
	}
	return killed
}

// call runs the provider; it returns nil if the provider was killed.
func (b *bed) call(action string, input any) []byte {
	b.t.Helper()
	text, err := json.Marshal(input)
	if err != nil {
		b.t.Fatal(err)
	}
	c := exec.Command("./lxd.prov", "ral_action="+action)
	c.Dir, c.Stdin = b.prov, bytes.NewReader(text)
	out, err := c.Output()
	if err != nil {
		return nil
	}
	return out
}

// resource is a node as get reports it.
type resource struct {
	Name, Ensure, State, Message, Component, Power, Proxy string
	Login, Services, Interfaces                           []string
	HostKeys                                              []string `json:"host_keys"`
}

func (b *bed) get(names ...string) []resource {
	b.t.Helper()
	var answer struct {
		Error     any
		Resources []resource
	}
	out := b.call("get", map[string]any{"names": append([]string{}, names...)})
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(out, &answer); err != nil || answer.Error != nil {
		b.t.Logf("get: %v %v", err, answer.Error)
		return nil
	}
	return answer.Resources
}

// set fails the test if the provider refuses an update.
func (b *bed) set(updates ...map[string]any) {
	b.t.Helper()
	var answer struct {
		Error   any
		Changes []map[string]any
	}
	out := b.call("set", map[string]any{"updates": updates, "ral": map[string]bool{"noop": false}})
	if err := json.Unmarshal(out, &answer); err != nil || answer.Error != nil || len(answer.Changes) > 0 {
		b.t.Fatalf("set: %v %s", err, out)
	}
}

func update(name string, should map[string]any) map[string]any {
	return map[string]any{"name": name, "is": map[string]any{"name": name}, "should": should}
}

// absent is an update that removes a node.
func absent(name string) map[string]any { return update(name, map[string]any{"ensure": "absent"}) }

// node is an update that makes a node with alice's account, and with one interface for each link.
// A link is its name, its slice, the node's address and a capacity in kbit/s.
func (b *bed) node(name, member string, links ...link) map[string]any {
	made, _ := built()
	key, err := os.ReadFile(made + "/key.pub")
	if err != nil {
		b.t.Fatal(err)
	}
	user, _ := json.Marshal(map[string]any{"login": "alice", "keys": []string{strings.TrimSpace(string(key))}})
	items := []string{}
	for k, l := range links {
		i := map[string]any{"client_id": fmt.Sprintf("%s:%d", name, k), "link": l.name, "slice": "urn:publicid:IDN+example.org+slice+" + l.slice, "addresses": []string{l.address}}
		if l.capacity > 0 {
			i["properties"] = []map[string]any{{"capacity": l.capacity}}
		}
		text, _ := json.Marshal(i)
		items = append(items, string(text))
	}
	return update(name, map[string]any{"ensure": "present", "component": member, "power": "on", "hostname": "node", "users": []string{string(user)}, "interfaces": items})
}

type link struct {
	name, slice, address string
	capacity             int
}

// id returns the name of the node with this number.
func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// await waits until all nodes are ready, and returns them. As the server does, it asks for those that are
// not ready, more and more seldom: each call is a process, and work for the cluster.
func (b *bed) await(names ...string) (all []resource) {
	b.t.Helper()
	ready := map[string]resource{}
	interval, next := 100*time.Millisecond, time.Time{}
	wait.Until(b.t, "the nodes are not ready", func() bool {
		if time.Now().Before(next) {
			return false
		}
		for _, r := range b.get(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return ready[name].Name != "" })...) {
			if r.State == "failed" {
				b.t.Fatalf("%s has failed: %s", r.Name, r.Message)
			}
			if r.State == "ready" {
				ready[r.Name] = r
			}
		}
		interval = min(2*interval, 2*time.Second)
		next = time.Now().Add(interval)
		return len(ready) == len(names)
	})
	for _, name := range names {
		all = append(all, ready[name])
	}
	return all
}

// doctor returns the output of patchbay-lxd doctor.
func (b *bed) doctor() string {
	b.t.Helper()
	made, _ := built()
	out, err := exec.Command("ip", "netns", "exec", b.members[0].namespace, made+"/patchbay-lxd", "doctor", b.dir).CombinedOutput()
	b.t.Logf("doctor: %v\n%s", err, out)
	return string(out)
}

// awaitBack waits until all nodes are ready, which may have failed, and returns them.
func (b *bed) awaitBack(names ...string) (all []resource) {
	b.t.Helper()
	wait.Until(b.t, "the nodes are not back", func() bool {
		all = b.get(names...)
		return len(all) == len(names) && !slices.ContainsFunc(all, func(r resource) bool { return r.State != "ready" })
	})
	return all
}

// awaitGone waits until nothing is left of the nodes, here and in the cluster.
func (b *bed) awaitGone(names ...string) {
	b.t.Helper()
	wait.Until(b.t, "the nodes are not gone", func() bool {
		all := b.get(names...)
		for _, r := range all {
			if r.Ensure != "absent" {
				return false
			}
		}
		return len(all) == len(names)
	})
}

// ssh runs a command in a node as alice or root, with the host keys that the provider reports.
func (b *bed) ssh(account string, r resource, command string) string {
	b.t.Helper()
	out, err := b.trySSH(account, r, command)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *bed) trySSH(account string, r resource, command string) (string, error) {
	b.t.Helper()
	if len(r.Login) != 1 {
		b.t.Fatalf("%s has no login: %+v", r.Name, r)
	}
	host, port, _ := strings.Cut(r.Login[0], ":")
	known := ""
	for _, key := range r.HostKeys {
		known += fmt.Sprintf("[%s]:%s,%s %s\n", host, port, host, key) // ssh leaves out port 22
	}
	file := filepath.Join(b.dir, "known-"+r.Name)
	b.write(file, known, 0o600)
	made, _ := built()
	return b.try("ip", "netns", "exec", b.prefix+"-sw", "ssh", "-F", "/dev/null", "-i", made+"/key", "-o", "UserKnownHostsFile="+file,
		"-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-p", port, account+"@"+host, command)
}

// hostname is the name of a server that is not in a cluster.
func (b *bed) hostname() string { return strings.TrimSpace(b.run("hostname")) }

// sub runs a subtest.
func (b *bed) sub(name string, f func(t *testing.T)) {
	whole := b.t
	whole.Run(name, func(t *testing.T) {
		b.t = t
		defer func() { b.t = whole }()
		f(t)
	})
}

// instances returns the names of the instances in the project, without templates.
func (b *bed) instances(h *host) []string {
	b.t.Helper()
	return slices.DeleteFunc(strings.Fields(b.lxc(h, "list", "--project", "patchbay", "-f", "csv", "-c", "n")), func(name string) bool {
		return strings.HasPrefix(name, "pb-template-")
	})
}

// awaitEmpty waits until the project has no nodes.
func (b *bed) awaitEmpty() {
	b.t.Helper()
	wait.Until(b.t, "instances are left", func() bool {
		return len(b.instances(b.members[0])) == 0
	})
}

// importImage imports the image with more files, which the shell script makes in its working
// directory.
func (b *bed) importImage(alias, script string) {
	b.t.Helper()
	made, _ := built()
	b.run("sh", "-ec", `mkdir -p "$0/rootfs"; cp "$1/image.tar" "$0.tar"; cd "$0/rootfs"; eval "$2"
		tar -C "$0" --owner=0 --group=0 -rf "$0.tar" rootfs`, filepath.Join(b.dir, alias), made, script)
	b.lxc(b.members[0], "image", "import", filepath.Join(b.dir, alias+".tar"), "--alias", alias, "-q")
}
